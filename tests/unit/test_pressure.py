"""Gauges sampled during a load, and counters of pressure over a window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_kvcache.answers import Page
from pytest_kvcache.client import Client
from pytest_kvcache.endpoint import Endpoint, MetricsSource
from pytest_kvcache.engines.profile import Profile
from pytest_kvcache.engines.reader import Reader
from pytest_kvcache.errors import CounterReset, EndpointError
from pytest_kvcache.model import Pressure
from pytest_kvcache.pressure import Sampler, pressure
from pytest_kvcache.scrape import Snapshot
from pytest_kvcache.scrape.page import parse
from pytest_kvcache.scrape.snapshot import spellings

DATA = Path(__file__).parent.parent / "data" / "vllm-0.32.0"
OFTEN, NEVER = 0.001, 3600.0  # an interval that passes at once, one that never does
GAUGES = {"running": "running", "waiting": "waiting", "kv_usage": "usage"}
EVENTS = {"preemptions": "preempted_total", "evictions": "evicted_total"}


def reader(name: str = "", **more: object) -> Reader:
    described = {"id": "x", "title": "X", "gauges": GAUGES, "events": EVENTS, "engine_labels": ["engine"], **more}
    return Reader(MetricsSource(f"http://{name or 'h'}/metrics", name), Profile.model_validate(described))


def gauges(running: float, waiting: float, usage: float | str, engine: int = 0) -> str:
    own = f'{{engine="{engine}"}}'
    return f"running{own} {running}\nwaiting{own} {waiting}\nusage{own} {usage}\n"


class Pages:
    """Stands in for a client: answers of each URL in order, the last one for ever; counts what was asked."""

    def __init__(self, *answers: str | Exception, **by_host: list[str | Exception]) -> None:
        self.answers = {f"http://{host}/metrics": rest for host, rest in {"h": list(answers), **by_host}.items()}
        self.asked = 0
        self.pending = 0
        self.silent = asyncio.Event()

    async def get(self, url: str) -> Page:
        rest = self.answers[url]
        answer = rest.pop(0) if len(rest) > 1 else rest[0]
        self.asked += 1
        self.pending += 1
        try:
            if answer == "never":
                await self.silent.wait()
            await asyncio.sleep(0)
        finally:
            self.pending -= 1
        if isinstance(answer, Exception):
            raise answer
        return Page(url, 200, "text/plain", str(answer))


async def until(holds: Callable[[], bool]) -> None:
    async def poll() -> None:
        while not holds():  # noqa: ASYNC110 - the sampler tells nobody
            await asyncio.sleep(0)

    await asyncio.wait_for(poll(), 30)


def sampler(pages: Pages, *readers: Reader, interval: float | None = OFTEN) -> Sampler:
    return Sampler(pages, readers or (reader(),), interval)  # type: ignore[arg-type]


def peaks(of: Sampler) -> tuple[object, ...]:
    return of.running_peak, of.waiting_peak, of.kv_usage_peak, of.missed


def others() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_peaks_are_the_highest_of_all_samples_each_by_itself() -> None:
    pages = Pages(gauges(1, 0, 0.25), gauges(8, 3, 0.5), gauges(2, 12, 0.93), gauges(0, 0, 0.0))
    async with sampler(pages) as seen:
        await until(lambda: seen.samples >= 4)
    assert peaks(seen) == (8, 12, 0.93, 0)
    assert seen.samples >= 4
    assert not others()


@pytest.mark.asyncio
async def test_requests_add_up_over_engines_and_pages_usage_does_not() -> None:
    pages = Pages(a=[gauges(3, 1, 0.4, 0) + gauges(5, 0, 0.7, 1)], b=[gauges(2, 4, 0.6)])
    async with sampler(pages, reader("a"), reader("b"), interval=NEVER) as seen:
        pass
    assert peaks(seen) == (10, 5, 0.7, 0)


@pytest.mark.asyncio
async def test_one_sample_at_the_start_and_one_at_the_end_however_short_the_load() -> None:
    pages = Pages(gauges(1, 0, 0.1), gauges(7, 0, 0.2))
    async with sampler(pages, interval=NEVER) as seen:
        pass
    assert (seen.samples, seen.running_peak, pages.asked) == (2, 7, 2)


@pytest.mark.parametrize(
    "broken",
    [
        EndpointError("refused"),
        RuntimeError("whatever it is"),
        "<html>\n",
        gauges(0, 0, "NaN"),
        "running NaN\n",
        "running 1",
    ],
    ids=["refused", "unforeseen", "no metrics page", "NaN usage", "NaN running", "cut"],
)
@pytest.mark.asyncio
async def test_failed_scrape_is_missed_and_is_no_zero(broken: str | Exception) -> None:
    pages = Pages(broken, gauges(2, 1, 0.5), broken)
    async with sampler(pages) as seen:
        await until(lambda: seen.samples + seen.missed >= 2)
    assert (seen.samples, peaks(seen)[:3]) == (1, (2, 1, 0.5))
    assert seen.missed == pages.asked - 1 >= 2


@pytest.mark.asyncio
async def test_all_scrapes_missed_is_no_number() -> None:
    async with sampler(Pages(EndpointError("down")), interval=NEVER) as seen:
        pass
    assert (seen.samples, peaks(seen)) == (0, (None, None, None, 2))


@pytest.mark.asyncio
async def test_sample_without_one_of_the_pages_is_missed_whole() -> None:
    pages = Pages(a=[gauges(3, 1, 0.4)], b=[EndpointError("down"), gauges(1, 0, 0.2)])
    async with sampler(pages, reader("a"), reader("b"), interval=NEVER) as seen:
        pass
    assert (seen.samples, peaks(seen)) == (1, (4, 1, 0.4, 1))
    assert not others()


@pytest.mark.asyncio
async def test_gauge_that_the_page_lacks_is_not_told() -> None:
    async with sampler(Pages("running 3\n"), interval=NEVER) as seen:
        pass
    assert (seen.samples, peaks(seen)) == (2, (3, None, None, 0))


@pytest.mark.parametrize("interval", [None, 0, 0.0])
@pytest.mark.asyncio
async def test_off_asks_for_nothing(interval: float | None) -> None:
    pages = Pages(gauges(1, 1, 1))
    async with sampler(pages, interval=interval) as seen:
        assert not others()
    assert (pages.asked, seen.samples, peaks(seen)) == (0, 0, (None, None, None, 0))


@pytest.mark.parametrize(
    "left_alone",
    [
        reader("decode-1"),
        reader("t", kind="tier"),
        reader("g", gauges={}),
        reader("j", json_page={"running": "stats.running"}),  # reading drains the list that the counters come from
    ],
    ids=["decode", "tier", "no gauges", "drained by reading"],
)
@pytest.mark.asyncio
async def test_some_sources_are_left_alone(left_alone: Reader) -> None:
    pages = Pages(gauges(1, 0, 0.5))
    async with sampler(pages, reader(), left_alone, interval=NEVER) as seen:
        pass
    assert (pages.asked, seen.running_peak, seen.missed) == (2, 1, 0)


def leave_by_error() -> None:
    raise ZeroDivisionError


def leave_by_cancellation() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("leave", [leave_by_error, leave_by_cancellation])
@pytest.mark.parametrize("page", [gauges(1, 0, 0.5), "never"], ids=["between scrapes", "in a scrape"])
@pytest.mark.asyncio
async def test_load_that_breaks_off_leaves_no_task_and_no_last_sample(
    leave: Callable[[], None], page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_kvcache.pressure.SCRAPE_SECONDS", NEVER)
    pages = Pages(page)
    seen = sampler(pages, interval=NEVER)

    async def load() -> None:
        async with seen:
            await until(lambda: pages.asked == 1 and (page == "never" or seen.samples == 1))
            leave()

    with pytest.raises((ZeroDivisionError, asyncio.CancelledError)):
        await asyncio.wait_for(load(), 30)
    assert (pages.asked, pages.pending) == (1, 0)
    assert not others()


@pytest.mark.asyncio
async def test_cancelled_while_the_last_sample_is_taken() -> None:
    pages = Pages(gauges(1, 0, 0.5), "never")

    async def load() -> None:
        async with sampler(pages, interval=NEVER):
            pass

    task = asyncio.ensure_future(load())
    await until(lambda: pages.asked == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pages.pending == 0
    assert not others()


@pytest.mark.asyncio
async def test_page_that_does_not_answer_holds_the_end_up_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_kvcache.pressure.SCRAPE_SECONDS", 0.01)
    pages = Pages("never")
    async with sampler(pages, interval=NEVER) as seen:
        pass
    assert (seen.samples, seen.missed, pages.pending) == (0, 2, 0)


@pytest.mark.asyncio
async def test_page_that_fails_does_not_leave_the_scrape_of_another_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_kvcache.pressure.SCRAPE_SECONDS", 0.01)
    pages = Pages(a=["never"], b=[EndpointError("down")])
    async with sampler(pages, reader("a"), reader("b"), interval=NEVER) as seen:
        pass
    assert (seen.samples, seen.missed, pages.pending) == (0, 2, 0)
    assert not others()


@pytest.mark.asyncio
async def test_a_served_page(sim: str) -> None:
    names = {
        "running": "sim:num_requests_running",
        "waiting": "sim:num_requests_waiting",
        "kv_usage": "sim:kv_cache_usage_perc",
    }
    served = Reader(
        MetricsSource(f"{sim}/metrics"),
        Profile.model_validate({"id": "s", "title": "S", "gauges": names, "engine_labels": ["engine"]}),
    )
    async with Client(Endpoint(sim)) as client, Sampler(client, [served], NEVER) as seen:
        pass
    assert (seen.samples, peaks(seen)) == (2, (0, 0, 0.0, 0))


# --- counters over the window ----------------------------------------------------------------------------------------


def snapshot(text: str, of: Reader) -> Snapshot:
    samples, kinds = parse(text, spellings(of.profile.samples()), "the page")
    return Snapshot(0.0, samples, "the page", kinds=kinds)


def grown(before: str, after: str, *readers: Reader) -> Pressure:
    several = readers or (reader(),)
    return pressure(several, [snapshot(before, r) for r in several], [snapshot(after, r) for r in several])


def test_recorded_preemptions() -> None:
    vllm = reader(
        events={"preemptions": "vllm:num_preemptions_total"},
        gauges={"kv_usage": "vllm:kv_cache_usage_perc"},
    )
    names = ("20_small_kv_before.prom", "21_small_kv_after_eviction_and_preemption.prom")
    pages = [(DATA / name).read_text() for name in names]
    assert grown(pages[0], pages[1], vllm) == Pressure(preemptions=8)


def test_growth_of_all_engines_and_pages() -> None:
    before = 'preempted_total{engine="0"} 5\npreempted_total{engine="1"} 1\n'
    after = 'preempted_total{engine="0"} 6\npreempted_total{engine="1"} 4\nevicted_total{engine="1"} 40\n'
    assert grown(before, after) == Pressure(preemptions=1 + 3, evictions=40)
    assert grown(before, after, reader("a"), reader("b")) == Pressure(preemptions=8, evictions=80)
    assert grown(before, after, reader("a"), reader("decode")) == Pressure(preemptions=4, evictions=40)


def test_counter_that_no_page_has_is_not_told() -> None:
    assert grown("preempted_total 3\n", "preempted_total 3\n") == Pressure(preemptions=0, evictions=None)
    assert grown("other 1\n", "other 1\n") == Pressure()
    gauge = "# TYPE preempted_total gauge\npreempted_total {}\n"
    assert grown(gauge.format(1), gauge.format(5)) == Pressure()
    assert grown("preempted_total 1\n", "preempted_total NaN\n") == Pressure()


def test_counter_that_falls_is_a_restart() -> None:
    with pytest.raises(CounterReset, match="fell from 9 to 2"):
        grown("preempted_total 9\n", "preempted_total 2\n")


@pytest.mark.asyncio
async def test_samples_and_counters_together() -> None:
    pages = Pages(gauges(8, 12, 0.93), EndpointError("down"))
    async with sampler(pages, interval=NEVER) as seen:
        pass
    one = reader()
    ends = [[snapshot(f"preempted_total {n}\n", one)] for n in (0, 8)]
    assert pressure([one], *ends, seen) == Pressure(8, None, 0.93, 8, 12, samples=1, missed=1)
