"""The strict model of an engine profile, and which profile a page belongs to."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Detect(_Strict):
    """What gives an engine away: any of these samples on its metrics page."""

    any: tuple[str, ...] = ()


class Variant(_Strict):
    """How a range of versions counts.

    Attributes:
        id: named in reports.
        versions: PEP 440 specifier of the engine versions it holds for.
        present: samples that only pages of this variant or a later one carry; decides when the version is unknown.
        hit / query: counters of tokens found and tokens looked up, by full sample name.
        counted: ``admission`` = once a request; ``lookup`` = again whenever a waiting request is looked up again.
        preempted: what a resumed request adds to both counters.
        grade: evidence, ``S`` = read in the release's source.
        source: where the facts were read.
    """

    id: str
    versions: str
    present: tuple[str, ...] = ()
    hit: str
    query: str
    counted: Literal["admission", "lookup"]
    preempted: Literal["excluded", "counted_again"]
    grade: Literal["S", "R", "D", "I", "T", "N"]
    source: str

    @field_validator("versions")
    @classmethod
    def _is_specifier(cls, value: str) -> str:
        try:
            SpecifierSet(value)
        except InvalidSpecifier as error:
            raise ValueError(str(error)) from None
        return value

    def covers(self, version: str) -> bool:
        """Tell whether an engine version is in range; False when it is no version at all."""
        try:
            return SpecifierSet(self.versions).contains(Version(version).base_version)  # 0.27.0rc1 counts as 0.27.0
        except InvalidVersion:
            return False


class External(_Strict):
    """Counters of a connector or offload tier behind the device cache."""

    hit: str
    query: str


class Gauges(_Strict):
    """Samples that tell whether the engine is at rest and how full its cache is."""

    running: str
    waiting: str
    kv_usage: str


class LabelSource(_Strict):
    """A fact that an info sample carries in a label."""

    sample: str
    label: str
    off: str = "False"


class Reset(_Strict):
    """How the cache is emptied.

    Attributes:
        path: POSTed beside ``/v1``.
        success_field: boolean in the answer's body that tells whether anything was reset; the status does not.
        needs: what the operator must set for the route to exist.
    """

    path: str
    success_field: str | None = None
    needs: str = ""


class Profile(_Strict):
    """One engine or provider.

    Attributes:
        id: as ``--kv-engine`` takes it.
        title: for people.
        simulated: True for the built-in engine.
        prompt_ids: ``/v1/completions`` takes token ids.
        tokenize: route that tokenises a text beside ``/v1``; None without.
        request: fields added to every generation request, such as ``ignore_eos``.
        detect / variants / external / prompt / gauges / block_size / caching / reset: see their types; ``variants``
            is empty for an engine without usable counters.
        engine_label: label that tells several engines on one page apart.
        version_route: route beside ``/v1`` whose JSON has a ``version``.
        usage_flag: what the operator must set for ``cached_tokens`` to be reported.
        caching_flag: what the operator must set for the cache to work.
    """

    id: str
    title: str
    simulated: bool = False
    prompt_ids: bool = False
    tokenize: str | None = None
    tokenizer: str | None = None
    request: dict[str, Any] = Field(default_factory=dict)
    detect: Detect = Detect()
    variants: tuple[Variant, ...] = ()
    external: External | None = None
    prompt: str | None = None
    gauges: Gauges | None = None
    block_size: LabelSource | None = None
    caching: LabelSource | None = None
    reset: Reset | None = None
    engine_label: str | None = None
    version_route: str | None = None
    usage_flag: str = ""
    caching_flag: str = ""

    def samples(self) -> frozenset[str]:
        """Return every sample name that the profile reads."""
        names = {name for v in self.variants for name in (v.hit, v.query, *v.present)} | set(self.detect.any)
        if self.external:
            names |= {self.external.hit, self.external.query}
        if self.gauges:
            names |= {self.gauges.running, self.gauges.waiting, self.gauges.kv_usage}
        names |= {source.sample for source in (self.block_size, self.caching) if source}
        return frozenset(names | set(self.births()) | ({self.prompt} if self.prompt else set()))

    def births(self) -> tuple[str, ...]:
        """Return samples that hold the time at which the engine's counters began, where its page has them."""
        created = dict.fromkeys(v.query.removesuffix("_total") + "_created" for v in self.variants)
        return ("process_start_time_seconds", *created)

    def variant(self, version: str | None, present: Iterable[str]) -> Variant | None:
        """Return how this engine counts: by its version, else by what stands on its page.

        Args:
            version: as the server reports it; None or an unreadable one: unknown.
            present: sample names on the page.

        Returns:
            None when no variant holds: the engine cannot be measured by counters.
        """
        if version is not None:
            for variant in self.variants:
                if variant.covers(version):
                    return variant
            if _is_numbered(version):
                return None
        names = set(present)
        return next((v for v in self.variants if v.present and names.issuperset(v.present)), None)


def _is_numbered(version: str) -> bool:
    """False for a build from a checkout without tags (such as 0.1.dev5) and for what is no version."""
    try:
        return not Version(version).is_devrelease
    except InvalidVersion:
        return False


def load_profile(path: Path) -> Profile:
    """Return the profile in a TOML file.

    Raises:
        ConfigurationError: unreadable, not TOML, an unknown key or a wrong value; names the file and the key.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return Profile.model_validate(data)
    except OSError as error:
        raise ConfigurationError(f"engine profile {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"engine profile {path}: not TOML ({error})") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"engine profile {path}: {where}: {first['msg']}, got {first['input']!r}") from None


@cache
def builtin_profiles() -> dict[str, Profile]:
    """Return the profiles that ship with the package, by id."""
    folder = Path(str(files(__package__)))
    found = (load_profile(path) for path in sorted(folder.glob("*.toml")))
    return {profile.id: profile for profile in found}


def detect(names: Iterable[str]) -> Profile | None:
    """Return the profile whose samples are among ``names``, None when no known engine wrote the page."""
    present = set(names)
    for profile in builtin_profiles().values():
        if present.intersection(profile.detect.any):
            return profile
    return None
