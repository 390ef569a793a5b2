"""Board data, one TOML file a board, read by everything that needs it; what a family of chips shares lies beside."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from labctl.errors import ConfigError


@cache
def names() -> tuple[str, ...]:
    """List the boards that labctl knows."""
    folder = resources.files(__name__)
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


@cache
def load(name: str) -> dict[str, Any]:
    """Load one board's data, laid over that of its family. Raises ConfigError for a board that is not known."""
    if name not in names():
        raise ConfigError(f"no board is called {name!r}; known boards: {', '.join(names())}")
    folder = resources.files(__name__)
    board = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    family = tomllib.loads((folder / "families" / f"{board['family']}.toml").read_text(encoding="utf-8"))
    return _laid_over(family, board)


def _laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge tables key by key; where both have a value that is no table, `above` holds."""
    merged = below | above
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _laid_over(below[key], above[key])
    return merged
