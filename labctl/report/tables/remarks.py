"""What a reader has to know about the rows of a table: above it what the numbers are, below it what concerns some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from labctl.operations import has_two_passes
from labctl.report.footnotes import together
from labctl.report.tables import choose
from labctl.report.tables.columns import MEMORY, QUANTITIES
from labctl.report.tables.row import COORDINATES, DONE, FAILED, Row, Value, coordinate_text
from labctl.report.text import two_passes

EMULATED = "Emulated bench: the currents are a model, not silicon."
_POWERS = {"dut": "the DUT's, behind the shunt", "supply": "the supply's, shunt included"}
_MEMORY = {
    "image": "of the whole image: flash that it fills, data and bss, and the room set aside for the stack",
    "operation": "of the operation alone as labctl memory finds them: beyond an image without it, and the deepest "
                 "stack in use",
}
# What goes without saying.
_UNSAID = (("role", "item"), ("variant", "plain"))
# What counts a message once, however often an operation passes over it.
PER_BYTE = ("throughput", "cycles_per_byte", "energy_per_byte")
_N_NAMED = 3


def caption(
    rows: Sequence[Row], names: Sequence[str], shared: Sequence[str], power: str, same: Mapping[str, Value]
) -> list[str]:
    """Say what the numbers are; that a bench is emulated always. `same` are quantities that all rows share."""
    if not rows:
        return ["No rows."]
    found = []
    emulated = {row.bench for row in rows if row.emulated}
    if emulated and len(emulated) < len({row.bench for row in rows}):
        found.append(f"{EMULATED[:-1]}: {', '.join(sorted(emulated))}.")
    elif emulated:
        found.append(EMULATED)
    if any(name in names for name in QUANTITIES if name not in MEMORY):
        removed = "the trigger's cost removed" + (" (in rows of null, which are it, it is there)"
                                                  if any(row.operation == "null" for row in rows) else "")
        found.append(f"Means per operation, {removed}; power and energy are {_POWERS[power]}.")
    if any(name.startswith("fluctuation") for name in names):
        found.append("Fluctuation: standard deviation of the energy between runs, of the power within a run, each over "
                     "its mean.")
    kinds = sorted({row.memory_of for row in rows if row.memory_of})
    if kinds and any(name in names or name in same for name in MEMORY):
        if len(kinds) == 1:
            found.append(f"Flash, RAM and stack are {_MEMORY[kinds[0]]}.")
        else:
            found.append(f"Flash, RAM and stack: {'; '.join(f'{kind}, {_MEMORY[kind]}' for kind in kinds)}.")
    texts = [choose.titled(name, text) for name in shared
             if (text := coordinate_text(rows[0], name)) and (name, text) not in _UNSAID]
    texts += [f"{QUANTITIES[key].title} {value.number:.0f} B" for key, value in same.items()]
    if texts:
        found.append(f"All rows: {', '.join(texts)}.")
    return found


def notes(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Say what concerns some rows: two passes, warnings of those with a result, why others have none."""
    shown = [name for name in names if name in PER_BYTE]
    with_message = (row.operation for row in rows if any(name in row.values for name in shown))
    twice = next(filter(has_two_passes, with_message), None)
    found = [] if twice is None else [two_passes(twice)]
    found += _warnings([row for row in rows if row.state == DONE], rows)
    return found + _missing(rows)


def _warnings(done: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """Give each warning once, with the rows that it is of."""
    found = []
    for concerned, sentence in together((row, row.warnings) for row in done):
        named = [_name(row, rows) for row in concerned[:_N_NAMED]]
        more = len(concerned) - len(named)
        if len(concerned) == len(done) > 1:
            who = "all rows"
        else:
            who = "; ".join(dict.fromkeys(named)) + (f" and {more} more" if more else "")
        found.append(f"{who}: {sentence}")
    return found


def _missing(rows: Sequence[Row]) -> list[str]:
    """Name the rows without a result, those of one reason together."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    missing = [row for row in rows if row.state != DONE]
    for row in sorted(missing, key=lambda row: row.state != FAILED):
        by_reason.setdefault((row.state, row.reason), []).append(_name(row, rows))
    return [f"{state}: {'; '.join(names)}{f': {reason}' if reason else ''}"
            for (state, reason), names in by_reason.items()]


def _name(row: Row, rows: Sequence[Row]) -> str:
    """Name a row by its board, its operation, and what else differs between rows."""
    names = [
        choose.titled(name, text) for name in COORDINATES
        if (text := coordinate_text(row, name))
        and (name in ("board", "operation") or any(coordinate_text(one, name) != text for one in rows))
    ]
    return " ".join(names) or "a capture"
