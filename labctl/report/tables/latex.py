r"""Tables for LaTeX with siunitx: S columns, uncertainties in parentheses; booktabs' rules.

Syntax: siunitx manual (J. Wright, versions 2 and 3), "Tabular material": numbers as for \num, `table-format` with the
digits before and behind the decimal point and of the uncertainty, all else in braces. \si is what both versions have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from labctl.report.tables.cells import is_number, plain, uncertain
from labctl.report.tables.columns import Unit, texts
from labctl.report.tables.remarks import EMULATED
from labctl.report.tables.row import Value
from labctl.report.tables.sheet import Cell, Head, Page, Sheet
from labctl.report.text import TWO_PASSES, wrap
from labctl.units import MICRO

_PREFIXES = {
    "p": r"\pico", "n": r"\nano", MICRO: r"\micro", "m": r"\milli", "": "", "k": r"\kilo", "M": r"\mega",
    "G": r"\giga", "Ki": r"\kibi", "Mi": r"\mebi", "Gi": r"\gibi",
}
_BASES = {"J": r"\joule", "W": r"\watt", "A": r"\ampere", "s": r"\second", "B": r"\byte", "B/s": r"\byte\per\second"}
_SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "{''}", "`": r"\textasciigrave{}", "[": "{[}", "]": "{]}",
    **{sign: "\\" + sign for sign in "#$%&_{}"},
    "±": r"\ensuremath{\pm}", "×": r"\ensuremath{\times}", "°": r"\textdegree{}", "…": r"\ldots{}", "Ω": r"\textohm{}",
    "≤": r"\ensuremath{\leq}", MICRO: r"\textmu{}", "\u00a0": "~", "\u2212": r"\ensuremath{-}", "\0": "{}",
}
# The text of article in 10 pt, and of its 8 pt (footnotesize, Computer Modern) a digit or usual letter, with the gap
# beside a column. What is wider goes on in a table below.
_PAGE_PT, _SIGN_PT, _GAP_PT = 345.0, 4.4, 12.0
_N_HEAD = 14
_PARENTHESES = "In parentheses: expanded uncertainty (95 %) in units of the last digits."
_PACKAGES = r"% needs \usepackage{textcomp}, \usepackage{booktabs} and \usepackage{siunitx}"


def to_latex(page: Page) -> str:
    """Write a page as one or more LaTeX tables; only printable ASCII is in it."""
    # A table that goes on says which one, that a bench is emulated, and what its signs mean.
    again = [sentence for sentence in page.caption if sentence.startswith(EMULATED[:-1])]
    marks = [note for note in page.notes if note.startswith(TWO_PASSES)]
    notes = [note for note in page.notes if note not in marks]
    tables = [part for sheet in page.sheets for part in split(sheet)]
    parts = [_PACKAGES]
    for number, part in enumerate(tables):
        said = [f"{part.title}."] if part.title else ["Continued."] if number else []
        said += again if number else page.caption
        said += [_PARENTHESES] if uncertain(Page((), (part,), ())) else []
        said += marks if not number or TWO_PASSES in part.title or _has_mark(part) else []
        caption = " ".join(escaped(text) for text in said)
        begin = [r"\begin{table}", r"\centering", r"\footnotesize", rf"\caption{{{caption}}}", r"\smallskip"]
        parts += [*begin, *_tabular(part), *(_itemized(notes) if part is tables[-1] else []), r"\end{table}"]
    return "\n".join(parts) + "\n"


def _has_mark(sheet: Sheet) -> bool:
    texts = [*(head.title for head in sheet.heads), *(cell for line in sheet.lines for cell in line)]
    return any(isinstance(text, str) and TWO_PASSES in text for text in texts)


def _itemized(notes: Sequence[str]) -> list[str]:
    """Set notes below a table, in its float."""
    items = [rf"\item {escaped(note)}" for note in notes]
    begin = [r"\par\medskip", r"\begin{minipage}{\linewidth}", r"\begin{itemize}"]
    return [*begin, *items, r"\end{itemize}", r"\end{minipage}"] if notes else []


def escaped(text: str) -> str:
    """Give a text that LaTeX sets as it is. Control characters become spaces, signs that fonts lack their code."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
    text = re.sub("(?<=[-',])(?=[-',])", "\0", text)  # else two become one: a dash, a quotation mark
    return "".join(_SPECIAL.get(sign) or (sign if sign.isascii() else f"{{[}}U+{ord(sign):04X}{{]}}") for sign in text)


def unit_text(unit: Unit) -> str:
    """Give a unit as siunitx writes it."""
    if unit.base == "1":
        return r"\si{\percent}" if unit.prefix == "%" else ""
    return rf"\si{{{_PREFIXES[unit.prefix]}{_BASES[unit.base]}}}" if unit.base else ""


def number_text(number: str, expanded: str) -> str:
    """Write a number with its uncertainty in units of its last digits: "7.30", "0.20" -> "7.30(20)"."""
    if not expanded:
        return number
    return f"{number}({expanded.replace('.', '').lstrip('0') or '0'})"


def table_format(numbers: Sequence[str]) -> str:
    """Give the format that has room for each of some numbers as `number_text` writes them."""
    parts = [re.fullmatch(r"(-?)([0-9]+)\.?([0-9]*)(?:\(([0-9]+)\))?", number) for number in numbers]
    signs, whole, decimals, expanded = zip(*(part.groups("") for part in parts if part), strict=True)
    places = max(map(len, decimals))
    uncertainty = max(map(len, expanded))
    return "".join([
        "-" if any(signs) else "", str(max(map(len, whole))), f".{places}" if places else "",
        f"({uncertainty})" if uncertainty else "",
    ])


def split(sheet: Sheet) -> list[Sheet]:
    """Split a sheet into some that are narrow enough, all with the same first columns and one number at least."""
    widths_pt = [_width_pt(head, [line[k] for line in sheet.lines]) for k, head in enumerate(sheet.heads)]
    index = [k for k, head in enumerate(sheet.heads) if head.unit is None]
    room_pt = _PAGE_PT - sum(widths_pt[k] for k in index)
    blocks: list[list[int]] = [[]]
    for k, head in enumerate(sheet.heads):
        if head.unit is None:
            continue
        if blocks[-1] and sum(widths_pt[j] for j in blocks[-1]) + widths_pt[k] > room_pt:
            blocks.append([])
        blocks[-1].append(k)
    if len(blocks) == 1:
        return [sheet]
    for before, block in zip(blocks[-2::-1], blocks[:0:-1], strict=True):  # none goes on for the sake of one column
        if len(block) == 1 < len(before) and widths_pt[before[-1]] + widths_pt[block[0]] <= room_pt:
            block.insert(0, before.pop())
    return [
        Sheet(sheet.title, tuple(sheet.heads[k] for k in [*index, *block]),
              tuple(tuple(line[k] for k in [*index, *block]) for line in sheet.lines))
        for block in blocks
    ]


def _width_pt(head: Head, column: Sequence[Cell]) -> float:
    """Estimate the width of a column, the gap beside it included."""
    texts = [plain(head, cell) if head.limited else _cell(head, cell).strip("{}") for cell in column]
    heads = wrap(f"{head.title} / {head.unit.symbol}" if head.unit else head.title, _N_HEAD)
    return _SIGN_PT * max(map(len, [*heads, *texts])) + _GAP_PT


def _tabular(sheet: Sheet) -> list[str]:
    columns = [[_cell(head, line[k]) for line in sheet.lines] for k, head in enumerate(sheet.heads)]
    kinds = [_kind(head, column) for head, column in zip(sheet.heads, columns, strict=True)]
    return [
        rf"\begin{{tabular}}{{{''.join(kinds)}}}", r"\toprule",
        " & ".join(_heading(head) for head in sheet.heads) + r" \\", r"\midrule",
        *(" & ".join(line) + r" \\" for line in zip(*columns, strict=True)), r"\bottomrule", r"\end{tabular}",
    ]


def _kind(head: Head, column: Sequence[str]) -> str:
    if head.unit is None:
        return "r" if is_number(head) else "l"
    numbers = [cell for cell in column if cell and not cell.startswith("{")]
    return f"S[table-format={table_format(numbers)}]" if numbers else "r" if head.limited else "c"


def _heading(head: Head) -> str:
    """Write a head with its unit, on several lines where it is long."""
    unit = unit_text(head.unit) if head.unit is not None else ""
    lines = [escaped(line) for line in wrap(head.title, _N_HEAD)]
    lines[-1] += f" / {unit}" if unit else ""
    if len(lines) > 1:
        lines = [r"\shortstack{" + r" \\ ".join(lines) + "}"]
    return f"{{{lines[0]}}}"


def _cell(head: Head, cell: Cell) -> str:
    if isinstance(cell, Value) and not head.limited:
        assert head.unit is not None
        return number_text(*texts(cell, head.unit))
    text = escaped(plain(head, cell))
    return f"{{{text}}}" if head.unit is not None and text else text
