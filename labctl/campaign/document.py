"""The nouns of a campaign out of JSON that may hold anything: every value is checked here, once, or refused."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from labctl.campaign.model import SCHEMA_CAMPAIGN, STATES, Attempt, Campaign, Event, Item
from labctl.errors import FileFault
from labctl.model import Operation

# A name is shown on a line and becomes part of a file's; a text is a sentence or some.
_N_NAME, _N_TEXT, _N_LIST = 500, 20_000, 1_000_000
_WHOLE_MAX = 2**63
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# How deep a value may be: facts of a bench have tables in them, and these lists.
_DEPTH_MAX = 3
# Keys of a row that are quantities, and so numbers or not known.
_QUANTITY = re.compile(r"n_.*|bytes|cycles.*|.*_(j|s|v|a|w|c|hz|ratio|factor|bytes|mib_s)")

_ENTRIES: dict[str, type[Attempt] | type[Event]] = {"attempt": Attempt, "event": Event}


class Refused(ValueError):
    """What a campaign's file cannot hold: the key and its value."""


def parse(data: bytes) -> Any:
    """Read JSON. Raises ValueError for what is none, for nan and infinity, and for what is nested without end."""
    try:
        return json.loads(data, parse_constant=_no_number)
    except RecursionError as error:
        raise Refused("it is nested too deep") from error


def campaign_of(document: Any) -> Campaign:
    """Make a campaign of the document of `campaign.json`.

    Raises Refused, naming the key, for what a campaign cannot be, FileFault for another schema's.
    """
    if not isinstance(document, dict) or "schema" not in document:
        raise Refused("it has no schema")
    if document["schema"] != SCHEMA_CAMPAIGN:
        raise FileFault(f"is {_shown(document['schema'])} and not {SCHEMA_CAMPAIGN!r}: read it with the labctl that "
                        "wrote it")
    fields = {key: value for key, value in document.items() if key != "schema"}
    items = tuple(_item(one, f"items[{n}]") for n, one in enumerate(_list(fields.get("items"), "items")))
    for number, item in enumerate(items, 1):
        if item.number != number:
            raise Refused(f"items[{number - 1}].number is {item.number}: items are numbered from 1, in order")
    schedule = tuple(_list(fields.get("schedule"), "schedule"))
    for number in schedule:
        if type(number) is not int or not 1 <= number <= len(items):
            raise Refused(f"schedule has {_shown(number)}, which is the number of no item")
    benches = tuple(_bench(one, f"benches[{n}]") for n, one in enumerate(_list(fields.get("benches"), "benches")))
    return built(Campaign, {**fields, "items": items, "schedule": schedule, "benches": benches})


def entry_of(document: Any) -> Attempt | Event:
    """Make an attempt or event of a line of the journal. Raises Refused, naming the key, for what it cannot be."""
    if not isinstance(document, dict):
        raise Refused("it is no object")
    kind = document.get("entry")
    cls = _ENTRIES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise Refused(f"entry is {_shown(kind)}")
    entry = built(cls, {key: value for key, value in document.items() if key != "entry"})
    if isinstance(entry, Attempt):
        if entry.state not in STATES[1:]:
            raise Refused(f"state is {_shown(entry.state)}")
        for key, value in entry.row.items():
            _check_row(key, value)
    else:
        _check_value(entry.facts, "facts", _DEPTH_MAX)
    return entry


def _item(document: Any, where: str) -> Item:
    if not isinstance(document, dict):
        raise Refused(f"{where} is no object")
    operation = built(Operation, document.get("operation"), f"{where}.operation.")
    return built(Item, {**document, "operation": operation}, f"{where}.")


def _bench(document: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise Refused(f"{where} is no object")
    _check_name(document.get("name"), f"{where}.name")
    _check_value(document, where, _DEPTH_MAX)
    return document


def built(cls: Any, document: Any, where: str = "") -> Any:
    """Make an object of a dataclass of texts and numbers; `where` goes before a key that is named.

    Raises Refused for what is missing, not known, or of another type.
    """
    if not isinstance(document, dict):
        raise Refused(f"{where.rstrip('.') or 'it'} is no object")
    checks, needed = _checks_of(cls)
    for key in sorted(needed - document.keys()):
        raise Refused(f"{where}{key} is missing")
    for key, value in document.items():
        if key not in checks:
            raise Refused(f"{where}{_shown(key)} is not known")
        checks[key](value, f"{where}{key}")
    return cls(**document)


@cache
def _checks_of(cls: Any) -> tuple[dict[str, Callable[[Any, str], None]], frozenset[str]]:
    """Give the check of each field of a dataclass, and the fields without a default."""
    fields = dataclasses.fields(cls)
    nothing = dataclasses.MISSING
    needed = frozenset(one.name for one in fields if one.default is nothing and one.default_factory is nothing)
    return {one.name: _CHECKS_OF_KEY.get(one.name) or _CHECKS[str(one.type)] for one in fields}, needed


def _check_name(value: Any, where: str) -> None:
    _check_text(value, where, _N_NAME)
    if _CONTROL.search(value):
        raise Refused(f"{where} is {_shown(value)}: it has control characters")


def _check_text(value: Any, where: str, n_max: int = _N_TEXT) -> None:
    if not isinstance(value, str):
        raise Refused(f"{where} is {_shown(value)} and no text")
    if len(value) > n_max:
        raise Refused(f"{where} has {len(value)} characters, more than {n_max}")


def _check_whole(value: Any, where: str) -> None:
    if type(value) is not int or abs(value) >= _WHOLE_MAX:
        raise Refused(f"{where} is {_shown(value)} and no whole number")


def _check_maybe_whole(value: Any, where: str) -> None:
    if value is not None:
        _check_whole(value, where)


def _check_number(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{where} is {_shown(value)} and no number")
    if abs(value) >= _WHOLE_MAX if isinstance(value, int) else not math.isfinite(value):
        raise Refused(f"{where} is {_shown(value)}, which is no such number")


def _check_truth(value: Any, where: str) -> None:
    if not isinstance(value, bool):
        raise Refused(f"{where} is {_shown(value)} and neither true nor false")


def _check_table(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise Refused(f"{where} is {_shown(value)} and no object")


def _check_made(value: Any, where: str) -> None:
    """Take what was checked where it was made."""


def _check_value(value: Any, where: str, depth: int) -> None:
    """Check facts: plain values, and tables and lists of them."""
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, dict | list) and depth:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in pairs:
            if isinstance(key, str):
                _check_name(key, f"a key in {where}")
            _check_value(one, f"{where}.{key}" if isinstance(value, dict) else f"{where}[{key}]", depth - 1)
    elif isinstance(value, dict | list):
        raise Refused(f"{where} is nested too deep")
    elif value is not None and not isinstance(value, bool):
        _check_number(value, where)


def _check_row(key: str, value: Any) -> None:
    """Check one value of a result."""
    _check_name(key, "a key in row")
    if value is not None and _QUANTITY.fullmatch(key):
        _check_number(value, f"row.{key}")
    elif key == "warnings":
        _check_value(_list(value, f"row.{key}"), f"row.{key}", 1)
    else:
        _check_value(value, f"row.{key}", 1)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > _N_LIST:
        raise Refused(f"{where} is no list" if not isinstance(value, list) else f"{where} is too long")
    return value


def _no_number(name: str) -> None:
    raise Refused(f"{name} is no number")


def _shown(value: Any) -> str:
    """Show a value shortly, on one line."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = "a huge number" if isinstance(value, int) and abs(value) >= _WHOLE_MAX else ascii(value)
    return text if len(text) <= 60 else text[:56] + "…" + text[-1:]


_CHECKS: dict[str, Callable[[Any, str], None]] = {
    "str": _check_name, "int": _check_whole, "int | None": _check_maybe_whole, "float": _check_number,
    "bool": _check_truth, "Mapping[str, Any]": _check_table, "Operation": _check_made,
    "tuple[Item, ...]": _check_made, "tuple[int, ...]": _check_made, "tuple[Mapping[str, Any], ...]": _check_made,
}
# Sentences, which may have line breaks, and control characters where an instrument sent some: shown as `printable`.
_CHECKS_OF_KEY: dict[str, Callable[[Any, str], None]] = {"error": _check_text, "text": _check_text}
