"""Board data, one TOML file a board, read by everything that needs it; what a family of chips shares lies beside."""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from importlib import resources
from typing import Any

from labctl.errors import ConfigError, Unsupported

# Where none is named.
DEFAULT = "stm32vldiscovery"


@cache
def names() -> tuple[str, ...]:
    """List the boards that labctl knows."""
    folder = resources.files(__name__)
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


@cache
def load(name: str) -> dict[str, Any]:
    """Load one board's data, laid over that of its family, for its first clock.

    `current_typical_a` in `supply` is that of the clock. Raises ConfigError for a board that is not known.
    """
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"no board is called {name!r}; {hint}known boards: {', '.join(names())}")
    folder = resources.files(__name__)
    board = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    family = tomllib.loads((folder / "families" / f"{board['family']}.toml").read_text(encoding="utf-8"))
    found = _laid_over(family, board)
    return _for_clock(found, found["clock_hz"])


def at_clock(name: str, clock_hz: float | None) -> dict[str, Any]:
    """Load a board's data for one of its clocks, as `clock_hz` then says; None for its first.

    Raises Unsupported for a clock that the board has not.
    """
    board = load(name)
    if clock_hz is None:
        return board
    if clock_hz not in board["clocks_hz"]:
        known = ", ".join(map(clock_text, board["clocks_hz"]))
        raise Unsupported(f"{name} runs at {known}, not at {clock_text(clock_hz)}")
    return _for_clock(board, int(clock_hz))


def clock_text(clock_hz: float) -> str:
    """Print a clock with all its digits: "24 MHz"."""
    return f"{clock_hz / 1e6:.9g} MHz"


def _for_clock(board: dict[str, Any], clock_hz: int) -> dict[str, Any]:
    supply = board["supply"]
    typical_a = supply["current_typical_by_clock_a"][board["clocks_hz"].index(clock_hz)]
    return board | {"clock_hz": clock_hz, "supply": supply | {"current_typical_a": typical_a}}


def _laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge tables key by key; where both have a value that is no table, `above` holds."""
    merged = below | above
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _laid_over(below[key], above[key])
    return merged
