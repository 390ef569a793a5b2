"""Rules of the house that a reader cannot check by eye: units in names, docstrings of what is public."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(p for package in ("labctl", "instruments") for p in (ROOT / package).rglob("*.py"))
# A prefixed unit as the last word of a name: SI base units only, prefixes exist in text.
PREFIXED = re.compile(r"_(ms|us|ns|ps|mv|uv|ma|ua|na|mw|uw|nw|mj|uj|nj|khz|mhz|ghz|kohm|mohm|uf|nf|pf)$", re.IGNORECASE)


def names_of(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_the_pattern_finds_what_it_should():
    tree = ast.parse("def f(delay_ms): self.level_mV = 1; power_uw = 2; rate_hz = 3; n_runs = 4")
    assert {n for n in names_of(tree) if PREFIXED.search(n)} == {"delay_ms", "level_mV", "power_uw"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_name_ends_in_a_prefixed_unit(path):
    found = {name for name in names_of(ast.parse(path.read_text(encoding="utf-8"))) if PREFIXED.search(name)}
    assert found == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_is_public_has_a_docstring(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) is not None
    lacking = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        inside = node.body if isinstance(node, ast.ClassDef) else []
        members = [node, *(m for m in inside if isinstance(m, ast.FunctionDef))]
        public = [m for m in members if not m.name.startswith("_") and ast.unparse(m.body[-1]) != "..."]
        lacking += [m.name for m in public if ast.get_docstring(m) is None]
    assert lacking == []
