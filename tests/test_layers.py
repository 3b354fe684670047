"""The walls of the house: who may import whom, and what loading the plugin costs a project that does not use it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_kvcache

PACKAGE = Path(pytest_kvcache.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


TOUCHES_FILES = ("documents", "files", "history")  # of regression/

PURE = {
    *(
        f"{name}.py"
        for name in (
            "bottleneck",
            "checks",
            "conclude",
            "counts",
            "distribution",
            "figures",
            "ledger",
            "production",
            "errors",
            "expected",
            "hidden",
            "judge",
            "rate",
            "diagnose",
            "reconcile",
            "spread",
            "stretch",
            "latency",
            "histogram",
            "lookups",
            "overview",
            "pace",
            "prefix",
            "rows",
            "sse",
            "trend",
            "turns",
            "unquoted",
        )
    ),
    *(f"simulate/{name}.py" for name in ("blocks", "bounded", "policies", "replay", "tree", "turns_forecast")),
    *(
        name_of(path)
        for path in FILES
        if path.parent.name in ("model", "divergence", "waterfall", "capacity", "policies", "slo")
    ),
    *(
        f"regression/{path.name}"
        for path in FILES
        if path.parent.name == "regression" and path.stem not in TOUCHES_FILES
    ),
    *(
        f"limits/{name}.py"
        for name in (
            "__init__",
            "asked",
            "blame",
            "breach",
            "confidence",
            "controller",
            "headroom",
            "ladder",
            "repeats",
            "search",
            "steering",
            "tried",
            "wording",
        )
    ),
    *(f"savings/{name}.py" for name in ("__init__", "prices", "saving")),
    "encoded.py",
    "endpoint.py",
    "probes/answered.py",
}
SPEAKS_PYTEST = ("plugin", "suite")
HEAVY = ("aiohttp", "pydantic", "tokenizers", "prometheus_client", "numpy", "asyncio", "filelock", "pytest_asyncio")
UNUSED = (*HEAVY, "pytest_kvcache.model", "pytest_kvcache.report.record", "pytest_kvcache.judge")


def imports(path: Path) -> Iterator[str]:
    """Every imported module, absolute, wherever in the file the import stands."""
    package = ["pytest_kvcache", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ([f"{module}.{alias.name}" for alias in node.names] if node.level else [module])


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_the_plugin_speaks_pytest_and_nobody_its_private_names(path: Path) -> None:
    found = set(imports(path))
    assert not {name for name in found if name.split(".")[0] == "_pytest"}
    if path.relative_to(PACKAGE).parts[0] not in SPEAKS_PYTEST:
        assert not {name for name in found if name.split(".")[0] in ("pytest", "pytest_asyncio")}


@pytest.mark.parametrize("path", [p for p in FILES if name_of(p).split("/")[0] not in SPEAKS_PYTEST], ids=name_of)
def test_nobody_imports_the_plugin(path: Path) -> None:
    public = {f"pytest_kvcache.plugin.{name}" for name in ("observing", "replaying", "runner", "settings")}
    allowed = public if name_of(path) == "__init__.py" else set()
    used = {".".join(name.split(".")[:3]) for name in imports(path) if name.startswith("pytest_kvcache.plugin")}
    assert used <= allowed


@pytest.mark.parametrize("name", sorted(PURE))
def test_the_pure_core_imports_the_standard_library_and_itself(name: str) -> None:
    for module in imports(PACKAGE / name):
        root = module.split(".")[0]
        if root == "pytest_kvcache":
            inner = module.removeprefix("pytest_kvcache.").replace(".", "/")
            outer = inner.rpartition("/")[0]
            candidates = {f"{inner}.py", f"{outer}.py", f"{outer}/__init__.py"}
            assert candidates & PURE, f"{name} imports {module}"
        else:
            assert root in sys.stdlib_module_names, f"{name} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    code = f"import sys, pytest, pytest_kvcache.plugin; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run(code) == "[]"


def test_a_session_that_does_not_use_the_plugin_imports_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("def test_other(): pass\n")
    code = (
        "import os, sys, pytest\n"
        "os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'\n"
        f"code = pytest.main(['-q', '-p', 'kvcache', '-p', 'no:cacheprovider', {str(tmp_path)!r}])\n"
        f"assert code == 0, code\nprint('LOADED', [m for m in {UNUSED!r} if m in sys.modules])"
    )
    assert "LOADED []" in run(code)


def test_the_package_root_imports_nothing_of_ours_or_others() -> None:
    code = "import sys; before = set(sys.modules); import pytest_kvcache; print(sorted(set(sys.modules) - before))"
    roots = {name.split(".")[0] for name in ast.literal_eval(run(code))}
    assert roots - set(sys.stdlib_module_names) == {"pytest_kvcache"}
    assert not roots & set(HEAVY)


def test_every_public_name_resolves() -> None:
    for name in pytest_kvcache.__all__:
        assert getattr(pytest_kvcache, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pytest_kvcache.nothing
