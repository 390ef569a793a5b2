"""Sentences for a terminal: lines of at most 80 columns that never part a number from its unit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

N_COLUMNS = 80
EMULATED = "emulated (currents are a model, not silicon)"
NO_BREAK = "\u00a0"
# Stands behind the name of an operation that passes over its message twice.
TWO_PASSES = "*"
_UNITS = "%|°C|ppm|ohm|cycles|bytes|samples|runs|windows|[afpnuµmkMGT]?(?:A|V|W|J|s|C|F|Ω|Hz|B|S/s|pts)"
_BEFORE_UNIT = re.compile(rf"(?<=\d) (?=(?:{_UNITS})(?![\w/]))")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_AFTER_SIGN = re.compile(r"(?<=±) (?=\d)")


def wrap(text: str, width: int = N_COLUMNS) -> list[str]:
    """Break a text at spaces into lines of at most `width` columns, none with a space at its end.

    "12.5 mA" and "± 3 %" stay on one line. Only a word that is longer than a line is longer than `width`.
    """
    kept = _AFTER_SIGN.sub(NO_BREAK, _BEFORE_UNIT.sub(NO_BREAK, text))
    # textwrap breaks at spaces of ASCII only; rich would break at a no-break space too.
    lines = textwrap.wrap(kept, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines]


def printable(text: str) -> str:
    """Give a text without what a terminal would take for a command; U+FFFD stands for each such character."""
    return _CONTROL.sub("\ufffd", text)


def bench_label(name: str, emulated: bool) -> str:
    """Name a bench, saying of an emulated one that it is."""
    if emulated:
        return EMULATED if name == "emulated" else f"{name}, {EMULATED}"
    return name


class Sentences:
    """Sentences that rich prints one after the other, each wrapped to the terminal or to 80 columns."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self._sentences = sentences

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the lines."""
        for sentence in self._sentences:
            yield Text("\n".join(wrap(sentence, min(N_COLUMNS, options.max_width))), overflow="ignore", no_wrap=True)


def counted(number: int, noun: str) -> str:
    """Count things: "1 item", "2 items"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def two_passes(name: str) -> str:
    """Say what the mark of two passes means, with an operation as the example."""
    return (
        f"{TWO_PASSES} Two passes: the message is encrypted, then decrypted, and a byte of it counts once for both. "
        f"One pass alone: {name}.encrypt, .decrypt."
    )
