"""Rows of a list for a terminal of 80 columns: a word in front, a sentence, and the command that mends it."""

from __future__ import annotations

from rich.text import Text

from labctl.report.text import N_COLUMNS, printable, wrap

_COLUMN = 10
_STYLES = {
    **dict.fromkeys(("ok", "answers", "by USB id"), "green"),
    **dict.fromkeys(("missing", "silent", "busy", "forbidden", "no link", "odd"), "yellow"),
    "wrong": "bold red",
}


def render_row(word: str, text: str, command: str = "") -> Text:
    """Lay out one row; `command` stands on a line of its own, whole, so that it can be copied.

    It is taken off the end of the sentence where that has it.
    """
    sentence = " ".join(text.removesuffix(command).split())
    lines = wrap(printable(sentence), N_COLUMNS - _COLUMN)
    row = Text(word.ljust(_COLUMN), style=_STYLES.get(word, "dim"), no_wrap=True, overflow="ignore")
    if command:
        lines.append(f"$ {printable(command)}")
    return row.append(f"\n{'':{_COLUMN}}".join(lines), style="default")
