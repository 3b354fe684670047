"""How are days and months called? As regular expressions, in the languages in which clocks write most prompts."""

from __future__ import annotations

_WEEKDAYS = (
    r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs?)?|Fri|Satur|Sat|Sun)(?:day)?",
    r"(?:Mon|Diens|Donners|Frei|Sams|Sonn)tag|Mittwoch|Sonnabend",
    r"lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche",
    r"lunes|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo",
    r"(?:luned|marted|mercoled|gioved|venerd)[iì]|sabato|domenica",
    r"(?:segunda|terça|quarta|quinta|sexta)-feira",
)
_MONTHS = (
    r"Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?",
    r"Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember",
    r"janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre",
    r"enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre",
    r"gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre",
    r"janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro",
)
WEEKDAY = rf"(?:{'|'.join(_WEEKDAYS)})"
MONTH = rf"(?:{'|'.join(_MONTHS)})\.?"

# Chinese, Japanese and Korean write no space around a date, so that no word ends there.
EASTERN = (
    r"(?:(?:19|20)\d\d[年년] ?)?\d{1,2}[月월] ?\d{1,2}[日일]"
    r"(?: ?(?:[(（][月火水木金土日월화수목금토일][)）]|(?:星期|周)[一二三四五六日天]))?"
    r"(?: ?(?:\d{1,2}[時时点시](?: ?\d{1,2}[分분](?: ?\d{1,2}[秒초])?)?|\d{1,2}:[0-5]\d(?::[0-5]\d)?))?"
)
