"""Engine profiles: strict files, the user's own, and which variant explains a version or a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import pytest_kvcache.engines
from pytest_kvcache.engines import Catalogue, Profile, shipped
from pytest_kvcache.errors import ConfigurationError

FILES = sorted(Path(pytest_kvcache.engines.__file__).parent.glob("*.toml"))
DOCS = Path(__file__).parents[2] / "docs" / "engines.md"
VLLM, SGLANG, LLAMACPP = (shipped().get(name) for name in ("vllm", "sglang", "llamacpp"))


# --- the shipped files -----------------------------------------------------------------------------------------------


def test_the_shipped_profiles_are_the_files() -> None:
    assert [profile.id for profile in Catalogue()] == [path.stem for path in FILES]
    assert [profile.id for profile in shipped() if profile.simulated] == ["sim"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_begins_with_where_its_facts_are_from(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("profile", list(shipped()), ids=lambda profile: profile.id)
def test_a_profile_is_complete(profile: Profile) -> None:
    if not profile.variants or profile.kind in ("gateway", "provider"):
        assert profile.instead, "says what to do, where there are no counters"
        assert not profile.variants
    for variant in profile.variants:
        assert variant.hits
        assert variant.query
        assert variant.source
    kinds = {"engine": "local", "tier": "external"}
    assert all(kinds[profile.kind] in variant.hits for variant in profile.variants)
    gauges = {"cache_hit_rate", "kv_cache_hit_rate", "prefix_cache_hit_rate", "lookup_hit_rate"}
    counted = {selector.sample for variant in profile.variants for selector in variant.selectors()}
    assert not {name for name in counted if re.split("[:]", name)[-1] in gauges}


def test_only_histogram_sums_and_totals_are_counted() -> None:
    for profile in shipped():
        for variant in profile.variants:
            assert {s.sample for s in variant.selectors() if not s.sample.endswith(("_total", "_sum"))} == set()


@pytest.mark.parametrize(
    ("profile", "never"),
    [
        ("vllm", "vllm:mm_cache_hits_total"),
        ("vllm", "vllm:hisparse_cache_hits_total"),
        ("lmcache", "lmcache:num_hit_tokens_total"),
        ("litellm", "litellm_cache_hits_metric_total"),
        ("dynamo", "dynamo_component_router_kv_hit_rate_sum"),
        ("dynamo", "dynamo_frontend_tokenizer_cache_cached_tokens_total"),
        ("llm-d-epp", "llm_d_epp_prefix_indexer_hit_ratio_sum"),
    ],
)
def test_look_alikes_are_not_read(profile: str, never: str) -> None:
    assert never not in shipped().get(profile).samples()


def test_the_documentation_lists_exactly_the_shipped_profiles() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("## Shipped profiles")[2]
    rows = re.findall(r"^\| `([a-z-]+)` \|", table, flags=re.MULTILINE)
    assert sorted(rows) == sorted(path.stem for path in FILES)


def test_the_documentation_names_every_key_of_a_profile() -> None:
    text = DOCS.read_text(encoding="utf-8")
    missing = [name for name in Profile.model_fields if f"`{name}`" not in text and f"[{name}]" not in text]
    assert missing == []


# --- wrong files, and the user's own ---------------------------------------------------------------------------------

GOOD = """
id = "x"
title = "X"
[[variants]]
id = "a"
versions = ">=1"
hits = { local = "h" }
query = "q"
counted = "admission"
grade = "S"
source = "s"
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD + "colour = 1\n", "variants.0.colour"),
        ("colour = 1\n" + GOOD, "colour"),
        (GOOD.replace('">=1"', '"newest"'), "variants.0.versions"),
        (GOOD.replace('"admission"', '"sometimes"'), "variants.0.counted"),
        (GOOD.replace('hits = { local = "h" }\n', ""), "variants.0.hits"),
        (GOOD.replace('"q"', '{ sample = "q", were = { mode = ["a"] } }'), "variants.0.query.0.were"),
        (GOOD.replace('grade = "S"', 'grade = "A"'), "variants.0.grade"),
        (GOOD.replace('id = "x"', ""), "id"),
        (GOOD + '[[usage]]\napi = "chat"\nprompt = "p"\nprompt_is = "whole"\n', "usage.0.prompt_is"),
        (GOOD + '[[usage]]\napi = "chats"\nprompt = "p"\n', "usage.0.api"),
        (GOOD + '[gauges]\nruning = "r"\n', "gauges.runing"),
        ('inherits = "nobody"\n' + GOOD, "inherits"),
        ('inherits = "vllm-ascend"\n' + GOOD, "inherits"),  # which inherits itself
        ("id = ", "not TOML"),
    ],
)
def test_a_wrong_profile_names_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        Catalogue([path])
    assert f"mine.toml: {complaint}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_a_typo_in_any_shipped_file_is_found(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    text = next(file for file in FILES if file.name == name).read_text(encoding="utf-8")
    path.write_text(re.sub('(?m)^id = ".*"$', 'id = "mine"', text, count=1).replace("\ntitle = ", "\ntitel = ", 1))
    with pytest.raises(ConfigurationError, match=rf"{re.escape(name)}: tit(le|el)") as caught:
        Catalogue([path])
    assert str(path) in str(caught.value)


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        Catalogue([tmp_path / "none.toml"])


def test_an_unknown_engine_is_told_which_are_known() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown engine 'vlm'; known are .*sglang.*vllm"):
        shipped().get("vlm")


def test_an_own_profile_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(GOOD)
    mine = Catalogue([path]).get("x")
    assert mine.samples() == {"h", "q", "q_created", "process_start_time_seconds"}
    assert mine.variants[0].hits["local"][0].sample == "h"


def test_an_own_profile_as_a_table_takes_what_it_does_not_say_from_its_parent() -> None:
    table: dict[str, Any] = {"id": "fork", "title": "our vLLM", "inherits": "vllm", "detect": {"any": ["fork:x"]}}
    known = Catalogue([{**table, "version_route": "/fork/version"}])
    fork = known.get("fork")
    assert (fork.title, fork.version_route) == ("our vLLM", "/fork/version")
    assert (fork.variants, fork.reset, fork.usage, fork.lookups) == (
        VLLM.variants,
        VLLM.reset,
        VLLM.usage,
        VLLM.lookups,
    )
    found = known.detect({"fork:x": frozenset()})
    assert found is not None
    assert found.id == "fork"


def test_an_own_profile_takes_the_place_of_a_shipped_one() -> None:
    table = {"id": "nim", "title": "our NIM", "inherits": "vllm", "detect": {"any": ["num_request_max"]}}
    known = Catalogue([table])
    assert known.get("nim").title == "our NIM"
    assert shipped().get("nim").title == "NVIDIA NIM"


def test_ascend_is_vllm_with_defects_of_its_own() -> None:
    ascend = shipped().get("vllm-ascend")
    assert ascend.variants == VLLM.variants
    assert ascend.detect.any == ()  # a page does not tell it from vLLM
    assert any("15744" in defect.why for defect in ascend.distrust)


# --- variants --------------------------------------------------------------------------------------------------------

HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
EXTERNAL = "vllm:external_prefix_cache_hits_total"
BY_SOURCE = "vllm:prompt_tokens_by_source_total"
GPU = {"vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total"}


def id_of(profile: Profile, version: str | None, present: set[str] | frozenset[str]) -> str | None:
    found = profile.variant(version, present)
    return found.id if found else None


@pytest.mark.parametrize(
    ("version", "variant"),
    [
        ("0.33.0", "v1-admission"),
        ("0.32.0+cpu", "v1-admission"),
        ("0.27.0rc1", "v1-admission"),  # a pre-release has its release's code
        ("0.27.0", "v1-admission"),
        ("0.26.0", "v1-lookup-by-source"),
        ("0.20.2", "v1-lookup-by-source"),
        ("0.19.1", "v1-lookup-recomputed"),
        ("0.16.0", "v1-lookup-recomputed"),
        ("0.14.1", "v1-lookup"),
        ("0.11.1.dev3+g1a2b", "v1-lookup"),
        ("0.11.1", "v1-lookup"),
        ("0.11.0", "v1-lookup-preempted"),
        ("0.9.2", "v1-lookup-preempted"),
        ("0.9.1", "v1-gpu-tokens"),
        ("0.9.0.1", "v1-gpu-tokens"),
        ("0.8.5.post1", "v1-gpu-blocks"),
        ("0.7.3", "v1-gpu-blocks"),
        ("0.6.6", None),
    ],
)
def test_vllm_by_version(version: str, variant: str | None) -> None:
    assert id_of(VLLM, version, VLLM.samples()) == variant


@pytest.mark.parametrize(
    ("present", "variant"),
    [
        ({HITS, QUERIES, EXTERNAL, BY_SOURCE, "vllm:prompt_tokens_cached_by_source_total"}, "v1-admission"),
        ({HITS, QUERIES, EXTERNAL, BY_SOURCE, "vllm:prompt_tokens_recomputed_total"}, "v1-lookup-recomputed"),
        ({HITS, QUERIES, EXTERNAL, BY_SOURCE}, "v1-lookup-by-source"),  # 0.20 to 0.31: the more careful reading
        ({HITS, QUERIES, EXTERNAL}, "v1-lookup"),
        ({HITS, QUERIES}, "v1-lookup-preempted"),
        ({HITS, QUERIES} | GPU, "v1-lookup-preempted"),  # 0.9.2 has both names
        (GPU, None),  # blocks or tokens: only the version tells
        ({"vllm:gpu_prefix_cache_hit_rate"}, None),
    ],
)
@pytest.mark.parametrize("version", [None, "dev", "nightly-abc", "0.1.dev5"])
def test_vllm_by_page_when_the_version_is_unknown(version: str | None, present: set[str], variant: str | None) -> None:
    assert id_of(VLLM, version, present) == variant


@pytest.mark.parametrize(
    ("variant", "unit", "counted", "preempted", "tiers"),
    [
        ("v1-admission", "tokens", "admission", "excluded", {"local", "external"}),
        ("v1-lookup-by-source", "tokens", "lookup", "excluded", {"local", "external"}),
        ("v1-lookup", "tokens", "lookup", "excluded", {"local", "external"}),
        ("v1-lookup-preempted", "tokens", "lookup", "counted_again", {"local"}),
        ("v1-gpu-tokens", "tokens", "lookup", "counted_again", {"local"}),
        ("v1-gpu-blocks", "blocks", "lookup", "counted_again", {"local"}),
    ],
)
def test_vllm_counts(variant: str, unit: str, counted: str, preempted: str, tiers: set[str]) -> None:
    found = next(v for v in VLLM.variants if v.id == variant)
    assert (found.unit, found.counted, found.preempted, set(found.hits)) == (unit, counted, preempted, tiers)


def test_vllm_gauges_of_engine_v0_are_named_unmeasurable() -> None:
    present = {"vllm:gpu_prefix_cache_hit_rate", "vllm:cpu_prefix_cache_hit_rate"}
    assert any(present.issuperset(page.present) for page in VLLM.unmeasurable)


EFFECTIVE = "sglang:prefill_effective_tokens_total"
FRESH = {"sglang:num_running_reqs", "sglang:cache_hit_rate"}  # nothing asked yet: the counters are not there


@pytest.mark.parametrize(
    ("version", "present", "variant"),
    [
        ("0.5.23", {EFFECTIVE, "sglang:prompt_tokens_total", *FRESH}, "effective"),
        ("0.5.20", {EFFECTIVE, *FRESH}, "effective"),
        ("0.5.23", {"sglang:prompt_tokens_total", *FRESH}, "finish"),
        ("0.5.17", FRESH, "finish"),
        ("0.5.6", FRESH, "finish"),
        ("0.5.5", FRESH, "finish-retracted"),
        ("0.4.4.post1", FRESH, "finish-retracted"),
        ("0.4.1", {"sglang:prompt_tokens_total", *FRESH}, None),
        (None, {EFFECTIVE, *FRESH}, "effective"),
        (None, {"sglang:cached_tokens_total", "sglang:prompt_tokens_total", *FRESH}, "finish"),
        (None, {"sglang:prompt_tokens_total", *FRESH}, None),  # 0.4.1, or no hit yet
        (None, FRESH, None),
    ],
)
def test_sglang(version: str | None, present: set[str], variant: str | None) -> None:
    assert id_of(SGLANG, version, present) == variant


def test_an_sglang_page_with_only_the_gauge_is_unmeasurable() -> None:
    (page,) = SGLANG.unmeasurable
    assert page.present == ("sglang:cache_hit_rate",)
    assert "gauge of the last batch" in page.why


@pytest.mark.parametrize(
    ("present", "variant"),
    [
        ({"llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"}, "cached"),
        ({"llamacpp:prompt_tokens_total", "llamacpp:requests_processing"}, None),
    ],
)
def test_llamacpp(present: set[str], variant: str | None) -> None:
    assert id_of(LLAMACPP, None, present) == variant
    assert "usage" in LLAMACPP.instead
