"""The results of a campaign as `labctl table` has them. Captures are analysed once, in a thread of its own."""

from __future__ import annotations

import threading
from pathlib import Path

from labctl.campaign.results import load_rows
from labctl.campaign.watch import Sight
from labctl.errors import LabctlError
from labctl.report.tables.cells import caption, heading, is_number, plain
from labctl.report.tables.row import Row
from labctl.report.tables.sheet import Layout, page, selected

# How long a page waits for the rows before it says how far they are.
_PATIENCE_S = 1.5


class Tables:
    """The rows of one campaign, kept until the campaign goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._rows: list[Row] = []
        self._of = 0
        self._failed = ""
        self._progress = ""

    def rows(self, sight: Sight, patience_s: float = _PATIENCE_S) -> list[Row] | None:
        """Give the rows, those of before while captures are being analysed, None where there were none yet.

        Raises LabctlError where the captures cannot be read.
        """
        with self._lock:
            if self._of == sight.number:
                if self._failed:
                    raise LabctlError(self._failed)
                return self._rows
            if self._thread is None:
                self._thread = threading.Thread(target=self._load, args=(sight.number,), daemon=True)
                self._thread.start()
            thread = self._thread
        thread.join(patience_s)
        with self._lock:
            return self._rows if self._of and not self._failed else None

    @property
    def progress(self) -> str:
        """Say how far the analysis is."""
        return self._progress

    def _load(self, number: int) -> None:
        rows, failed = [], ""
        try:
            rows = load_rows([self._path], progress=self._note)
        except (LabctlError, OSError) as error:
            failed = str(error)
        with self._lock:
            self._rows, self._failed, self._of, self._thread = rows, failed, number, None

    def _note(self, text: str, done: int, total: int) -> None:
        self._progress = f"{done} of {total} captures analysed"


def sheets(rows: list[Row], layout: Layout) -> dict[str, object]:
    """Lay rows out as texts: sentences above, tables of heads and cells (each with whether it is a number), notes."""
    laid = page(selected(rows, layout), layout)
    return {
        "captions": caption(laid),
        "notes": laid.notes,
        "sheets": [
            {
                "title": sheet.title,
                "heads": [(heading(head), is_number(head)) for head in sheet.heads],
                "lines": [
                    [(plain(head, cell), is_number(head)) for head, cell in zip(sheet.heads, line, strict=True)]
                    for line in sheet.lines
                ],
            }
            for sheet in laid.sheets if sheet.lines
        ],
    }
