"""How a range of an engine's versions counts: which series, of what, when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Grade = Literal["S", "R", "D", "I", "T", "N"]
LOCAL = "local"


def _specifier(value: str) -> str:
    try:
        SpecifierSet(value)
    except InvalidSpecifier as error:
        raise ValueError(str(error)) from None
    return value


def several(value: object) -> object:
    """Return a list; where one of several is allowed, one needs no brackets."""
    return value if isinstance(value, (list, tuple)) else [value]


Versions = Annotated[str, AfterValidator(_specifier)]


class Strict(BaseModel):
    """Whatever stands in a file and is not known here is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())  # before pydantic 2.10: model_label


class Selector(Strict):
    """Series of one sample: ``"name"``, or ``{sample = "name", where = {label = ["one", "of"]}}``.

    A label that a series lacks counts as ``""``, as in PromQL.
    """

    sample: str
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return {"sample": value} if isinstance(value, str) else value

    def matches(self, labels: Iterable[tuple[str, str]]) -> bool:
        """Tell whether a series with these labels is meant."""
        if not self.where:
            return True
        known = dict(labels)
        return all(known.get(label, "") in allowed for label, allowed in self.where.items())


Selectors = Annotated[tuple[Selector, ...], BeforeValidator(several)]


class Recount(Strict):
    """A second pair of counters that counts each prompt once, where the main pair repeats itself under pressure.

    Attributes:
        hits / query: as in a variant.
        less: counters to subtract from the hits.
    """

    hits: dict[str, Selectors]
    query: Selectors
    less: Selectors = ()


class Variant(Strict):
    """How a range of versions counts.

    Attributes:
        id: named in reports.
        versions: PEP 440 specifier of the engine versions it holds for; empty: every version.
        present: samples that only pages of this variant or a later one carry; decides when the version is unknown.
        by_version: True when no sample tells it from another variant: it never holds for an unknown version.
        hits: counters of tokens found, by tier; ``local`` is the device cache. Together they are all hits.
        query: counters of tokens looked up; their sum is the denominator.
        query_instead: the denominator when the device cache is off and only another tier looks prompts up.
        unit: what is counted. Blocks become tokens with the server's block size.
        counted: when. ``admission`` and ``finish`` count a request once; ``lookup`` counts again whenever a waiting
            request is looked up again.
        preempted: what a resumed request adds to both counters.
        lazy: series appear with their first increment, so absent means zero on both pages.
        digits: significant digits that the page prints; None: all of them.
        recount: see there.
        grade: evidence. ``S`` = read in the release's source, ``R`` = in a snapshot of the repository, ``D`` = in the
            vendor's documentation, ``I`` = stated in a public thread, ``T`` = by third parties, ``N`` = concluded.
        source: where the facts were read.
        note: what a reader of the report should know.
    """

    id: str
    versions: Versions = ""
    present: tuple[str, ...] = ()
    by_version: bool = False
    hits: dict[str, Selectors]
    query: Selectors
    query_instead: Selectors = ()
    unit: Literal["tokens", "blocks"] = "tokens"
    counted: Literal["admission", "lookup", "first_token", "prefill", "finish"]
    preempted: Literal["excluded", "counted_again"] = "excluded"
    lazy: bool = False
    digits: int | None = None
    recount: Recount | None = None
    grade: Grade
    source: str
    note: str = ""

    def covers(self, version: str) -> bool:
        """Tell whether an engine version is in range; False when it is no version at all."""
        return in_range(version, self.versions)

    def needed(self) -> frozenset[str]:
        """Return the samples without which a page cannot be counted."""
        if self.lazy:
            return frozenset()
        return frozenset(s.sample for selectors in (*self.hits.values(), self.query) for s in selectors)

    def selectors(self) -> Iterator[Selector]:
        """Return every selector of the variant."""
        for tier in self.hits.values():
            yield from tier
        yield from self.query
        yield from self.query_instead
        if self.recount is not None:
            for tier in self.recount.hits.values():
                yield from tier
            yield from (*self.recount.query, *self.recount.less)


def in_range(version: str, specifier: str) -> bool:
    """Tell whether an engine's version is within a specifier; release candidates count as their release."""
    try:
        return SpecifierSet(specifier).contains(Version(version).base_version)
    except ValueError:  # InvalidVersion, or a number too long for Python
        return False
