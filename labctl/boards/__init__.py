"""Board data, one TOML file a board, read by everything that needs it."""

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
    """Load one board's data. Raises ConfigError for a board that is not known."""
    if name not in names():
        raise ConfigError(f"no board is called {name!r}; known boards: {', '.join(names())}")
    return tomllib.loads((resources.files(__name__) / f"{name}.toml").read_text(encoding="utf-8"))
