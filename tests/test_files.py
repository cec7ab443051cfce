"""Files stay short, names and docstrings are there, and nothing swallows an error."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 300


def faults(folder: Path, *, docstrings: bool) -> list[str]:
    """One line for each fault of each Python file under a folder."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        text = path.read_text(encoding="utf-8")
        if (lines := len(text.splitlines())) > LONGEST:
            found.append(f"{name}: {lines} lines, allowed are {LONGEST}: it is two things")
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler) and swallows(node):
                found.append(f"{name}:{node.lineno}: swallows every error")
        if docstrings:
            found += [f"{name}:{node.lineno}: {node.name} has no docstring" for node in undocumented(tree)]
    return found


def swallows(handler: ast.ExceptHandler) -> bool:
    """Whether it catches everything and does nothing with it."""
    broad = handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in ("Exception", "BaseException")
    )
    idle = (ast.Pass, ast.Continue, ast.Break)
    return broad and all(
        isinstance(line, idle) or (isinstance(line, ast.Return) and not isinstance(line.value, ast.Call))
        for line in handler.body
    )


def undocumented(tree: ast.Module) -> list[ast.FunctionDef | ast.ClassDef]:
    """Public classes and functions at the top level, and public methods of those classes, without a docstring."""
    found: list[ast.FunctionDef | ast.ClassDef] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            inside = [n for n in node.body if isinstance(n, ast.FunctionDef)] if isinstance(node, ast.ClassDef) else []
            for one in (node, *inside):
                if not one.name.startswith("_") and ast.get_docstring(one) is None:
                    found.append(one)
    return found


def test_a_source_file_is_too_long_or_says_too_little() -> None:
    assert faults(ROOT / "src", docstrings=True) == []


@pytest.mark.parametrize("folder", ["tests", "experiments"])
def test_a_file_beside_the_source_is_too_long(folder: str) -> None:
    assert faults(ROOT / folder, docstrings=False) == []


def test_planted_faults_are_not_seen(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * 301)
    (tmp_path / "bare.py").write_text(
        "def f():\n    try:\n        pass\n    except Exception:\n        pass\n\n\nclass A:\n    '''A.'''\n\n"
        "    def m(self): ...\n\n    def _m(self): ...\n"
    )
    (tmp_path / "fine.py").write_text("def _f(): ...\n\n\ntry:\n    pass\nexcept OSError:\n    pass\n")
    assert faults(tmp_path, docstrings=True) == [
        "bare.py:4: swallows every error",
        "bare.py:1: f has no docstring",
        "bare.py:11: m has no docstring",
        "long.py: 301 lines, allowed are 300: it is two things",
    ]


def test_the_list_of_faults_names_a_test_that_is_gone() -> None:
    written = {
        name for path in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "tests" / "README.md").read_text()))
    assert len(named) > 40
    assert named - written == set()
