"""Tables as one HTML page that needs nothing else, on the screen and in print."""

from __future__ import annotations

import re
from html import escape

from labctl.report.tables.cells import caption, heading, is_number, plain
from labctl.report.tables.sheet import Page, Sheet

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em; color: #111; background: #fff; }
section { overflow-x: auto; }
table { border-collapse: collapse; margin: 1em 0 2em; }
caption { text-align: left; font-weight: 600; padding: .3em 0; }
th, td { padding: .25em .9em .25em 0; text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid #111; vertical-align: bottom; }
tbody tr { border-bottom: 1px solid #ccc; break-inside: avoid; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
thead { display: table-header-group; }
@page { size: landscape; margin: 12mm; }
@media print { body { margin: 0; font-size: 7.5pt; } section { overflow: visible; } th, td { padding-right: .6em; } }
"""


def to_html(page: Page) -> str:
    """Write a page in HTML; every text in it is escaped, and nothing is loaded."""
    body = [f"<p>{shown(sentence)}</p>" for sentence in caption(page)]
    body += [_table(sheet) for sheet in page.sheets if sheet.lines]
    if page.notes:
        body += ["<ul>", *(f"<li>{shown(note)}</li>" for note in page.notes), "</ul>"]
    head = [
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        "<title>Results</title>",
        f"<style>{_STYLE}</style>",
    ]
    return "\n".join(['<!DOCTYPE html>', '<html lang="en">', "<head>", *head, "</head>", "<body>", *body, "</body>",
                      "</html>", ""])


def shown(text: str) -> str:
    """Escape a text, quotation marks too; control characters, which HTML forbids, become U+FFFD."""
    return escape(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", text), quote=True)


def _table(sheet: Sheet) -> str:
    classes = [' class="n"' if is_number(head) else "" for head in sheet.heads]
    heads = "".join(f'<th scope="col"{of}>{shown(heading(head))}</th>'
                    for head, of in zip(sheet.heads, classes, strict=True))
    lines = []
    for line in sheet.lines:
        cells = [shown(plain(head, cell)) for head, cell in zip(sheet.heads, line, strict=True)]
        lines.append(f"<tr>{''.join(f'<td{of}>{cell}</td>' for cell, of in zip(cells, classes, strict=True))}</tr>")
    title = f"<caption>{shown(sheet.title)}</caption>" if sheet.title else ""
    return "\n".join(["<section>", f"<table>{title}", f"<thead><tr>{heads}</tr></thead>", "<tbody>", *lines,
                      "</tbody>", "</table>", "</section>"])
