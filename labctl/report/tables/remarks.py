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
_FLUCTUATIONS = {
    "fluctuation_between": "between runs of the energy, where ≤ is the upper end of its interval (95 %)",
    "fluctuation_within": "within a run of the power as this bench sees it, blunted by the decoupling",
}
# What goes without saying.
_UNSAID = (("role", "item"), ("variant", "plain"))
# Of which quantities alone a warning is that begins so; any other is of all.
_OF = {
    "peak current": ("current_max",),
    "the windows begin in the tail": ("current_max",),
    "least power": (),
    "std within runs": ("fluctuation_within",),
    "no std within runs": ("fluctuation_within",),
    "no quiet span": ("energy_net_idle",),
    "the idle power differs": ("energy_net_idle",),
}
_N_NAMED = 3


def caption(
    rows: Sequence[Row], names: Sequence[str], shared: Sequence[str], same: Mapping[str, Value]
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
        found.append(f"Means per operation, {removed}; power and energy are {_powers(rows)}.")
    fluctuations = [sentence for name, sentence in _FLUCTUATIONS.items() if name in names]
    if fluctuations:
        found.append(f"Fluctuation is a standard deviation over the mean: {'; '.join(fluctuations)}.")
    kinds = sorted({row.memory_of for row in rows if row.memory_of})
    if kinds and any(name in names or name in same for name in MEMORY):
        if len(kinds) == 1:
            found.append(f"Flash, RAM and stack are {_MEMORY[kinds[0]]}.")
        else:
            found.append(f"Flash, RAM and stack: {'; '.join(f'{kind}, {_MEMORY[kind]}' for kind in kinds)}.")
    texts = [choose.titled(name, text) for name in shared
             if (text := coordinate_text(rows[0], name)) and (name, text) not in _UNSAID]
    texts += memory_texts(same)
    if texts:
        found.append(f"All rows: {', '.join(texts)}.")
    return found


def memory_texts(same: Mapping[str, Value]) -> list[str]:
    """Say what of the memory is the same for all rows."""
    return [f"{QUANTITIES[key].title} {value.number:.0f} B" for key, value in same.items()]


def _powers(rows: Sequence[Row]) -> str:
    """Say whose power and energy the rows have, for each bench where they differ."""
    benches: dict[str, list[str]] = {}
    for row in rows:
        benches.setdefault(row.power_of, []).append(row.bench)
    if len(benches) == 1:
        return _POWERS[next(iter(benches))]
    return "; ".join(f"{_POWERS[power]} ({', '.join(dict.fromkeys(names))})" for power, names in benches.items())


def notes(rows: Sequence[Row], names: Sequence[str], identity: Sequence[str]) -> list[str]:
    """Say what concerns some rows: two passes, warnings of those with a result, why others have none.

    `names` are the columns: a warning that is of other quantities alone is left out. `identity` are the coordinates
    that tell rows apart.
    """
    twice = next((row.operation for row in rows if has_two_passes(row.operation)), None)
    found = [] if twice is None else [two_passes(twice)]
    done = [row for row in rows if row.state == DONE]
    told = [(row, [text for text in row.warnings if _concerns(text, names)]) for row in done]
    for concerned, sentence in together(told):
        who = _names(concerned, done, identity)
        more = f" and {len(who) - _N_NAMED} more" if len(who) > _N_NAMED else ""
        found.append(f"{', '.join(who[:_N_NAMED])}{more}: {sentence}")
    by_reason: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.state != FAILED):
        if row.state != DONE:
            by_reason.setdefault((row.state, row.reason), []).append(row)
    for (state, reason), missing in by_reason.items():
        found.append(f"{state}: {', '.join(_names(missing, rows, identity))}{f': {reason}' if reason else ''}")
    return found


def _concerns(warning: str, names: Sequence[str]) -> bool:
    """Tell whether a warning is of any of the columns of a table."""
    of = next((quantities for begin, quantities in _OF.items() if warning.startswith(begin)), None)
    return of is None or any(name in names for name in of)


def _names(some: Sequence[Row], rows: Sequence[Row], identity: Sequence[str]) -> list[str]:
    """Name some of the rows shortly: all of them, all of a board or of an operation, else one by one."""
    if len(some) == len(rows) > 1:
        return ["all rows"]
    left = list(some)
    found = []
    for name in ("board", "operation"):
        for text in dict.fromkeys(coordinate_text(row, name) for row in some):
            same = [row for row in rows if coordinate_text(row, name) == text]
            if name in identity and len(same) > 1 and all(any(row is one for one in left) for row in same):
                found.append(choose.titled(name, text))
                left = [row for row in left if coordinate_text(row, name) != text]
    return found + [_name(row, identity) for row in left]


def _name(row: Row, identity: Sequence[str]) -> str:
    """Name a row by its board, its operation, and what else tells rows apart."""
    names = [
        choose.titled(name, text) for name in COORDINATES
        if (name in ("board", "operation") or name in identity) and (text := coordinate_text(row, name))
        and (name, text) not in _UNSAID
    ]
    return " ".join(names) or "a capture"
