"""Names of rows: the operation, and of its settings those that differ between the rows of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from labctl.boards import clock_text
from labctl.model import MissingRow, Operation, Result


@dataclass(frozen=True)
class Subject:
    """What a row is of, by the names that a Result has for it."""

    board: str
    operation: str
    bytes: int | None
    implementation: str
    profile: str
    clock_hz: int | None
    variant: str

    @classmethod
    def of(cls, board: str, operation: Operation) -> Subject:
        """Take it from an operation."""
        return cls(board, operation.name, operation.bytes, operation.implementation, operation.profile,
                   operation.clock_hz, operation.variant)


Row = Result | Subject

N_COLUMNS_OF_LINE = 22
# More rows than these are counted instead of named, and all rows of a page are from three on.
N_NAMED = 4
_N_ALL = 3

# In the order of a label.
_TEXTS: dict[str, Callable[[Any], str]] = {
    "bytes": lambda value: "" if value is None else f"{value} B",
    "implementation": str,
    "profile": str,
    "clock_hz": lambda value: "" if value is None else clock_text(value),
    "variant": lambda value: value or "plain",
    "board": str,
}
# These tell rows apart where rows of one operation, or of one board, differ in them, the others wherever any two do.
_WITHIN = {"bytes": "operation", "implementation": "operation", "clock_hz": "board"}

# What a heading may say of all rows.
_SHARED = ("clock_hz", "profile", "variant")


class Labels:
    """How the rows of a page are called; `common` are the settings that all of them share and a heading may say."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._differing = {field for field in _TEXTS if _differ(rows, field)}
        shared = [field for field in _SHARED if len({getattr(row, field) for row in rows}) == 1]
        self.common = [text for field in shared if (text := _shared_text(field, getattr(rows[0], field)))]

    def lines(self, row: Row, but: Iterable[str] = ()) -> list[str]:
        """Give what differs between rows, as few indented lines, without the fields in `but`."""
        texts = [text for field in _TEXTS if field not in but for text in self._texts(row, field)]
        lines: list[str] = []
        for text in texts:
            if lines and len(lines[-1]) + len(", ") + len(text) <= N_COLUMNS_OF_LINE:
                lines[-1] += f", {text}"
            else:
                lines.append(f"  {text}")
        return lines

    def label(self, row: Row, n_columns: int) -> str:
        """Name a row on one line where all names of the page fit in `n_columns` columns, else on several."""
        if max(len(self._one_line(one)) for one in self._rows) <= n_columns:
            return self._one_line(row)
        return "\n".join([row.operation, *self.lines(row)])

    def name(self, row: Row) -> str:
        """Name a row in a sentence."""
        texts = [text for field in _TEXTS for text in self._texts(row, field)]
        return f"{row.operation} ({', '.join(texts)})" if texts else row.operation

    def names(self, rows: Sequence[Row]) -> str:
        """Name several rows in a sentence: a few one by one, all of many as all."""
        names = list(dict.fromkeys(self.name(row) for row in rows))
        if _N_ALL <= len(rows) == len(self._rows):
            return f"all {len(rows)} rows"
        if len(names) > N_NAMED:
            return f"{', '.join(names[: N_NAMED - 1])} and {len(names) - N_NAMED + 1} others"
        return ", ".join(names)

    def _one_line(self, row: Row) -> str:
        return ", ".join([row.operation, *(text for field in _TEXTS for text in self._texts(row, field))])

    def _texts(self, row: Row, field: str) -> list[str]:
        text = _TEXTS[field](getattr(row, field)) if field in self._differing else ""
        return text.split(",") if text else []


def missing_sentences(rows: Sequence[MissingRow], present: Sequence[Row] = ()) -> list[str]:
    """Say which rows there are not, by reason, named so that none is taken for one that is `present`."""
    subjects = [Subject.of(row.board, row.operation) for row in rows]
    labels = Labels([*subjects, *present])
    by_reason: dict[str, list[Subject]] = {}
    for row, subject in zip(rows, subjects, strict=True):
        by_reason.setdefault(str(row.error), []).append(subject)
    return [f"no result for {labels.names(lacking)}: {reason}" for reason, lacking in by_reason.items()]


def missing_to_json(rows: Sequence[MissingRow]) -> list[dict[str, Any]]:
    """Turn rows that there are not into objects for JSON: what they are of, and the `reason`."""
    return [{**asdict(Subject.of(row.board, row.operation)), "reason": str(row.error)} for row in rows]


def _differ(rows: Sequence[Row], field: str) -> bool:
    by = _WITHIN.get(field)
    values: dict[Any, set[Any]] = {}
    for row in rows:
        values.setdefault(getattr(row, by) if by else None, set()).add(getattr(row, field))
    return any(len(different) > 1 for different in values.values())


def _shared_text(field: str, value: Any) -> str:
    if not value:
        return ""
    return f"profile {value}" if field == "profile" else _TEXTS[field](value)
