"""Tables for a terminal of 80 columns: blocks of as many columns as fit, one below the other."""

from __future__ import annotations

from labctl.report.tables.cells import caption, heading, is_number, plain
from labctl.report.tables.sheet import Cell, Head, Page, Sheet
from labctl.report.text import N_COLUMNS, wrap

_GAP = "  "
_LABEL_MAX, _LABEL_WRAPPED = 30, 24
_HEAD_WIDTH = 12


def to_text(page: Page) -> str:
    """Write a page for a terminal."""
    parts = ["\n".join(line for sentence in caption(page) for line in wrap(printable(sentence)))]
    for sheet in page.sheets:
        parts += ["\n".join(wrap(f"{printable(sheet.title)}:"))] if sheet.title else []
        parts += _blocks(sheet) if sheet.lines else []
    parts += ["\n".join(line for note in page.notes for line in _hanging(printable(note)))] if page.notes else []
    return "\n\n".join(parts) + "\n"


def printable(text: str) -> str:
    """Give a text on one line, without what a terminal takes for commands."""
    return "".join(sign if sign.isprintable() else "\ufffd" if sign not in "\n\r\t" else " " for sign in text)


def _hanging(text: str) -> list[str]:
    """Break a text into lines, all but the first of them indented."""
    first, *others = wrap(text, N_COLUMNS - len(_GAP)) or [""]
    return [first, *(_GAP + line for line in others)]


def _blocks(sheet: Sheet) -> list[str]:
    labels, rest = _labels(sheet)
    width = max(len(line) for lines in labels for line in lines)
    columns = [_column(sheet, k, N_COLUMNS - width - len(_GAP)) for k in rest]
    blocks: list[list[int]] = [[]]
    for k, column in enumerate(columns):
        used = width + sum(len(_GAP) + _width(columns[j]) for j in blocks[-1])
        if blocks[-1] and used + len(_GAP) + _width(column) > N_COLUMNS:
            blocks.append([])
        blocks[-1].append(k)
    return ["\n".join(_lines(sheet, labels, [(rest[k], columns[k]) for k in block])) for block in blocks]


def _labels(sheet: Sheet) -> tuple[list[list[str]], list[int]]:
    """Give the label of the heads and of each line, which the first columns make, and the columns that are left."""
    n = next((k for k, head in enumerate(sheet.heads) if head.unit is not None or head.key in ("state", "captures")),
             len(sheet.heads))
    rows = [[head.title for head in sheet.heads[:n]]]
    rows += [[_word(head, cell) for head, cell in zip(sheet.heads[:n], line, strict=False)] for line in sheet.lines]
    texts = [", ".join(filter(None, row)) for row in rows]
    if max(map(len, texts)) <= _LABEL_MAX:
        return [[text] for text in texts], list(range(n, len(sheet.heads)))
    found = []
    for text in texts:
        first, *others = [line for part in wrap(text, _LABEL_WRAPPED) for line in _cut(part, _LABEL_MAX - 2)] or [""]
        found.append([first, *(f"  {line}" for line in others)])
    return found, list(range(n, len(sheet.heads)))


def _word(head: Head, cell: Cell) -> str:
    """Give what a cell adds to a label: numbers say what they are, and an item goes without saying."""
    text = printable(plain(head, cell))
    if not text or (head.key, text) == ("role", "item"):
        return ""
    return {"bytes": f"{text} B", "repeat": f"#{text}"}.get(head.key, text)


def _column(sheet: Sheet, k: int, room: int) -> list[list[str]]:
    """Give the lines of a column's head and of each of its cells."""
    head = sheet.heads[k]
    title, stroke, unit = heading(head).rpartition(" / ") if head.unit is not None else ("", "", heading(head))
    lines = wrap(title or unit, _HEAD_WIDTH) + ([unit] if stroke else [])
    cells = [lines]
    for line in sheet.lines:
        text = printable(plain(head, line[k]))
        cells.append([text] if head.unit is not None else [part for one in wrap(text, min(room, 40)) or [""]
                                                           for part in _cut(one, room)])
    return cells


def _lines(sheet: Sheet, labels: list[list[str]], columns: list[tuple[int, list[list[str]]]]) -> list[str]:
    width = max(len(line) for lines in labels for line in lines)
    found = []
    for row, label in enumerate(labels):
        cells = [(sheet.heads[k], column[row], _width(column)) for k, column in columns]
        n = max(len(label), *(len(lines) for _, lines, _ in cells)) if cells else len(label)
        for i in range(n):
            # The lines of a head stand at its foot, all others at their top.
            parts = [_line(label, i, n, foot=row == 0).ljust(width)]
            for head, lines, wide in cells:
                text = _line(lines, i, n, foot=row == 0)
                parts.append(text.rjust(wide) if is_number(head) else text.ljust(wide))
            found.append(_GAP.join(parts).rstrip())
        if row == 0:
            found.append("─" * (width + sum(len(_GAP) + wide for _, _, wide in cells)))
    return found


def _line(lines: list[str], i: int, n: int, *, foot: bool) -> str:
    i -= n - len(lines) if foot else 0
    return lines[i] if 0 <= i < len(lines) else ""


def _cut(text: str, width: int) -> list[str]:
    """Cut a word that is longer than a line."""
    return [text[k : k + width] for k in range(0, len(text), width)] or [""]


def _width(column: list[list[str]]) -> int:
    return max(len(line) for lines in column for line in lines)
