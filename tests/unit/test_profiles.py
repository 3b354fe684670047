"""Engine profiles: strict files, and which variant explains a version or a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kvcache.engines import builtin_profiles, load_profile
from pytest_kvcache.errors import ConfigurationError

VLLM = builtin_profiles()["vllm"]


@pytest.mark.parametrize(
    ("version", "variant"),
    [
        ("0.33.0", "v1-admission"),
        ("0.32.0+cpu", "v1-admission"),
        ("0.27.0rc1", "v1-admission"),  # a pre-release has its release's code
        ("0.11.1.dev3+g1a2b", "v1-lookup"),
        ("0.27.0", "v1-admission"),
        ("0.26.0", "v1-lookup"),
        ("0.11.1", "v1-lookup"),
        ("0.11.0", "v1-lookup-preempted"),
        ("0.9.2", "v1-lookup-preempted"),
        ("0.9.1", None),
        ("0.8.5", None),
    ],
)
def test_variant_by_version(version: str, variant: str | None) -> None:
    found = VLLM.variant(version, VLLM.samples())
    assert (found.id if found else None) == variant


@pytest.mark.parametrize(
    ("present", "variant"),
    [
        ({"vllm:prefix_cache_hits_total"}, "v1-lookup-preempted"),
        ({"vllm:prefix_cache_hits_total", "vllm:external_prefix_cache_hits_total"}, "v1-lookup"),
        ({"vllm:prefix_cache_hits_total", "vllm:prompt_tokens_cached_by_source_total"}, "v1-admission"),
        ({"vllm:gpu_prefix_cache_hits_total"}, None),
    ],
)
@pytest.mark.parametrize("version", [None, "dev", "nightly-abc", "0.1.dev5"])
def test_variant_by_page_when_the_version_is_unknown(
    version: str | None, present: set[str], variant: str | None
) -> None:
    found = VLLM.variant(version, present)
    assert (found.id if found else None) == variant


def test_shipped_profiles() -> None:
    assert sorted(builtin_profiles()) == ["sim", "usage", "vllm"]
    assert [p.id for p in builtin_profiles().values() if p.simulated] == ["sim"]
    assert not builtin_profiles()["usage"].variants


GOOD = """
id = "x"
title = "X"
[[variants]]
id = "a"
versions = ">=1"
hit = "h"
query = "q"
counted = "admission"
preempted = "excluded"
grade = "S"
source = "s"
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD + "colour = 1\n", "variants.0.colour"),
        (GOOD.replace('">=1"', '"newest"'), "versions"),
        (GOOD.replace('"admission"', '"sometimes"'), "counted"),
        (GOOD.replace('hit = "h"\n', ""), "variants.0.hit"),
        ("id = ", "not TOML"),
    ],
)
def test_a_wrong_profile_names_file_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_profile(path)
    assert complaint in str(caught.value)
    assert "mine.toml" in str(caught.value)


def test_a_missing_profile_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        load_profile(tmp_path / "none.toml")


def test_a_good_profile_loads(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(GOOD)
    assert load_profile(path).samples() == {"h", "q", "q_created", "process_start_time_seconds"}
