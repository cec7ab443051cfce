"""Which package may import which, and what a laptop without torch can import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "specq"
# A package may import itself and whatever stands before it; those on one line may not import each other.
ORDER = (
    ("core",),
    ("stats",),
    ("models",),
    ("prompts",),
    ("decoding",),
    ("quantize",),
    ("engines",),
    ("evals",),
    ("experiment",),
    ("workloads",),
    ("run",),
    ("report",),
    ("lab", "forecast", "imports", "distill"),
    ("load",),
    ("api", "cli", "__main__", "__init__"),
)
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
ENTRY = ORDER[-1]
# Modules of these names import without a model library: a laptop reads results and plans runs.
LIGHT = (
    *("core", "stats", "experiment", "report", "engines/base.py", "models/facts.py", "models/refs.py"),
    *("quantize/recipes.py", "quantize/audited.py", "imports", "workloads", "load", "prompts", "distill/__init__.py"),
    *("api.py", "models/light_tokenizer.py", "lab/prefix.py", "lab/prefix_points.py", "lab/prefix_tokens.py"),
)
HEAVY = ("torch", "transformers", "accelerate", "llmcompressor", "lm_eval", "mlx")


def package(path: Path, source: Path) -> str:
    """The package of a file, or the file's own name at the top level."""
    inside = path.relative_to(source).parts
    return inside[0] if len(inside) > 1 else path.stem


def imported(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """Line and first name after `specq.` of each import, wherever in the file it stands."""
    here = ["specq", *path.relative_to(source).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "specq" else [module]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "specq":
            # `import specq` is open to all, but only for what stands in specq/__init__.py itself.
            names = [f"specq.{node.attr}"]
        for name in names:
            parts = name.split(".")
            if parts[0] == "specq" and len(parts) > 1:
                yield node.lineno, parts[1]


def wrong_ways(source: Path) -> list[str]:
    """One line for each import that goes to the left, and for each package that has no place."""
    found = []
    for path in sorted(source.rglob("*.py")):
        mine = package(path, source)
        if mine not in RANK:
            found.append(f"{path.relative_to(source)}: {mine} has no place in the order")
            continue
        for line, other in imported(path, source):
            if other == "__version__":
                continue
            allowed = other == mine or RANK.get(other, 99) < RANK[mine] or (mine in ENTRY and other not in RANK)
            if not (allowed or (mine in ENTRY and other in ENTRY)):
                found.append(f"{path.relative_to(source)}:{line}: {mine} imports {other}")
    return found


def test_an_import_goes_against_the_order() -> None:
    assert wrong_ways(SOURCE) == []


PLANTED = {
    "from specq.run import store": "core imports run",
    "import specq.engines.hf": "core imports engines",
    "from specq import api": "core imports api",
    "from specq import report": "core imports report",
    "from ..models import refs": "core imports models",
    "from .. import decoding": "core imports decoding",
    "def f():\n    from specq.cli import main": "core imports cli",
    "if TYPE_CHECKING:\n    from specq.stats import intervals": "core imports stats",
    "import specq\nspecq.run_experiment('x')": "core imports run_experiment",
}


@pytest.mark.parametrize("code", PLANTED)
def test_a_planted_import_is_not_seen(tmp_path: Path, code: str) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "bad.py").write_text(code)
    (line,) = wrong_ways(tmp_path)
    assert line.startswith("core/bad.py:")
    assert line.endswith(PLANTED[code])


def test_siblings_or_strangers_are_let_in(tmp_path: Path) -> None:
    for name, code in {
        "lab": "from specq.forecast import replay",
        "extra": "import json",
        "report": "from specq.run.store import read\nimport specq\nspecq.__version__\nimport numpy",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text(code)
    assert wrong_ways(tmp_path) == ["extra/a.py: extra has no place in the order", "lab/a.py:1: lab imports forecast"]


def light_modules() -> list[str]:
    found = []
    for name in LIGHT:
        path = SOURCE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            parts = ("specq", *file.relative_to(SOURCE).with_suffix("").parts)
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def heavy_after(modules: list[str]) -> list[str]:
    """Which module loads which heavy library, in one fresh process."""
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        f"    loaded = [h for h in {HEAVY!r} if h in sys.modules]\n"
        "    if loaded: print(name, *loaded); break\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_reading_results_needs_torch() -> None:
    modules = light_modules()
    assert len(modules) > 20
    assert heavy_after(modules) == []


def test_a_planted_heavy_import_is_not_seen() -> None:
    (line,) = heavy_after(["specq.core.types", "specq.decoding.rules", "specq.decoding.session"])
    assert line.split() == ["specq.decoding.rules", "torch", "transformers"]
