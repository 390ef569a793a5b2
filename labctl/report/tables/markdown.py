"""Tables in Markdown: pipe tables, as GitHub, Pandoc and others read them."""

from __future__ import annotations

import re

from labctl.report.tables.cells import caption, heading, is_number, plain
from labctl.report.tables.sheet import Page, Sheet

# What Markdown or the HTML in it would take for something else; a line break would end the table.
_SPECIAL = re.compile(r"([\\`*_\[\]|~$^@])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def to_markdown(page: Page) -> str:
    """Write a page in Markdown."""
    parts = ["\n".join(escaped(sentence) for sentence in caption(page))]
    for sheet in page.sheets:
        parts += [f"**{escaped(sheet.title)}**"] if sheet.title else []
        parts += [_table(sheet)] if sheet.lines else []
    parts += ["\n".join(f"- {escaped(note)}" for note in page.notes)] if page.notes else []
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Give a text that Markdown shows as it is, on one line."""
    text = re.sub(r"[\x00-\x1f\x7f\u2028\u2029]+", " ", text)
    text = re.sub("[&<>]", lambda found: _ENTITIES[found[0]], text)
    return _SPECIAL.sub(r"\\\1", text)


def _table(sheet: Sheet) -> str:
    rows = [[escaped(heading(head)) for head in sheet.heads]]
    rows.append(["---:" if is_number(head) else "---" for head in sheet.heads])
    rows += [[escaped(plain(head, cell)) for head, cell in zip(sheet.heads, line, strict=True)] for line in sheet.lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
