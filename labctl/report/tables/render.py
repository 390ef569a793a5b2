"""Rows as a text in one of the formats."""

from __future__ import annotations

from collections.abc import Sequence

from labctl.report.tables import machine
from labctl.report.tables.row import Row
from labctl.report.tables.sheet import Layout, page, selected

FORMATS = ("csv", "md", "tex", "html", "json")


def render(rows: Sequence[Row], format: str, layout: Layout, dialect: str = "comma") -> str:
    """Write the rows that a layout wants as csv, md, tex, html or json, or as "text" for a terminal.

    `rows` are in the order of `row.arranged`; `dialect` is for csv.
    Raises ConfigError for what a layout asks that there is not.
    """
    wanted = selected(rows, layout)
    if format == "csv":
        return machine.to_csv(wanted, layout, dialect)
    if format == "json":
        return machine.to_json(wanted, layout)
    from labctl.report.tables import html, latex, markdown, terminal

    writers = {"md": markdown.to_markdown, "tex": latex.to_latex, "html": html.to_html, "text": terminal.to_text}
    return writers[format](page(wanted, layout))
