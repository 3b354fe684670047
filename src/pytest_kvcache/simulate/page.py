"""The engines' counters as a metrics page: vLLM's names under a prefix of our own, in the format that is asked for.

One engine alone tells when each counter and its process began; several tell neither, as a vLLM 0.32 with data
parallelism (prometheus-client's multiprocess mode): there a restart shows only in counters that fall.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .counts import Counts
from .engine import Engine
from .faults import Faults
from .samples import Sample, configuration, samples


def render(engines: Sequence[Engine], counts: Sequence[Counts], model: str, prefix: str, faults: Faults) -> str:
    """Return the page.

    Args:
        engines: whose gauges and configuration, by number.
        counts: what is to be seen of the counters of each.
        model: the label ``model_name``.
        prefix: in front of every sample name, such as ``sim:``.
        faults: that damage the page.
    """
    page = _Page(prefix, faults, engines[0].started if len(engines) == 1 else None)
    for number, (engine, counted) in enumerate(zip(engines, counts, strict=True)):
        if number == faults.dropped_engine:
            continue
        labels = {"engine": str(number), "model_name": model}
        for sample in samples(engine, counted, stuck_running=faults.stuck_running):
            page.add(sample, {**labels, **sample.labels})
        page.add(Sample("cache_config_info", "gauge", 1), configuration(engine, number))
    return page.text()


def content_type(faults: Faults) -> str:
    """Return the page's ``Content-Type``."""
    if faults.metrics_body == "html":
        kind = "text/html"
    else:
        kind = f"{'application/openmetrics-text' if faults.metrics_openmetrics else 'text/plain'}; version=1.0.0"
    return f"{kind}; charset=utf-8"


class _Page:
    """Lines, family by family: the formats want all samples of a family together."""

    def __init__(self, prefix: str, faults: Faults, started: float | None) -> None:
        self._prefix, self._faults, self._started = prefix, faults, started
        self._groups: dict[str, list[str]] = {}

    def add(self, sample: Sample, labels: dict[str, str]) -> None:
        """Add a sample, unless it is to be absent, with what belongs to it."""
        full = self._prefix + sample.name
        if full == self._faults.metrics_drop:
            return
        name, family = self._spelled(sample.name), self._spelled(sample.family)
        opened = self._faults.metrics_openmetrics
        if opened and sample.kind == "counter":
            family = family.removesuffix("_total")
        group = self._groups.setdefault(
            family, [f"# HELP {family} Simulated engine.", f"# TYPE {family} {sample.kind}"]
        )
        value = "NaN" if full == self._faults.metrics_nan else float(sample.value)
        for shown in self._repeated(sample, labels):
            group.append(f"{name}{shown} {value}{_exemplar(sample) if opened else ''}")
            if sample.kind == "counter" and self._started is not None:
                created = name.removesuffix("_total") + "_created"
                beside = group if opened else self._groups.setdefault(created, [f"# TYPE {created} gauge"])
                beside.append(f"{created}{shown} {self._started}")

    def text(self) -> str:
        """Return the page, damaged as the faults say."""
        damage = self._faults.metrics_body
        if damage == "html":
            return "<!doctype html>\n<html><head><title>Gateway</title></head><body>Sign in</body></html>\n"
        if damage == "empty":
            return ""
        lines = [line for group in self._groups.values() for line in group]
        if self._started is not None:
            lines += ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {self._started}"]
        if self._faults.metrics_openmetrics:
            lines.append("# EOF")
        page = "\n".join(lines) + "\n"
        needed = f"\n{self._spelled('prefix_cache_hits_total')}{{"
        return page[: page.find(needed) + 41] if damage == "truncated" else page

    def _spelled(self, name: str) -> str:
        full = self._prefix + name
        if self._faults.names_without_total:
            full = full.removesuffix("_total")
        return full.replace(":", "_") if self._faults.names_underscore else full

    def _repeated(self, sample: Sample, labels: dict[str, str]) -> Iterator[str]:
        ranks = self._faults.duplicate_ranks
        if not ranks or sample.kind != "counter":
            yield _written(labels)
            return
        for rank in range(ranks):
            yield _written({**labels, "tp_rank": str(rank)})


def _exemplar(sample: Sample) -> str:
    bound = sample.labels.get("le")
    if bound is None and sample.kind != "counter":
        return ""
    return f' # {{trace_id="{0:032x}"}} {1.0 if bound in (None, "+Inf") else bound}'


def _written(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
