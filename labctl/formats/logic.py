"""What the readers of logic analysers' files share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from instruments.levels import Levels
from instruments.record import Channel, Identity, Record


def logic_record(
    levels: Mapping[str, Levels], dt_s: float | None, start_s: float, instrument: Identity,
    gaps: tuple[tuple[int, int], ...] = (),
) -> Record:
    """Make a record of inputs by name; `gaps` are (first sample, number)."""
    return Record(
        {name: Channel(name, codes, 1.0, 0.0, unit="", kind="digital") for name, codes in levels.items()},
        dt_s, np.array([start_s]), instrument, gaps=tuple((0, first, n) for first, n in gaps),
    )
