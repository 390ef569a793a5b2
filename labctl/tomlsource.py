"""The text of a TOML file that a person wrote, and where in it each key stands, so that an error can say the line."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from labctl.errors import ConfigError

# Keys and numbers in arrays, from 0, from the outside in: ("benches", 0, "shunt").
Place = tuple[str | int, ...]

_N_BYTES_MAX = 1_000_000
_N_SHOWN = 60
_N_LISTED = 20
# Beyond what any file that a person writes needs, and far from where Python's own recursion ends.
_DEPTH_MAX = 20
_SIGNS_IN_KEYS = ("bare_key", "quoted_key")


@dataclass(frozen=True)
class Source:
    """A file's text and what it is called; without text nothing in it has a line."""

    where: str
    text: str = ""

    def line(self, place: Place) -> int | None:
        """Return the line, from 1, of a place, or of the table it would stand in; None where not even that is there."""
        for length in range(len(place), 0, -1):
            outer = place[:length]
            if outer in self._lines:
                return self._lines[outer]
            if inside := [line for other, line in self._lines.items() if other[:length] == outer]:
                return min(inside)
        return None

    def sentence(self, place: Place, text: str) -> str:
        """Say something of a place: file, line, key, text."""
        line = self.line(place)
        at = self.where if line is None else f"{self.where}, line {line}"
        return f"{at}: {spelled(place)}{' ' if place else ''}{text}"

    def fault(self, place: Place, text: str) -> ConfigError:
        """Make the error that says what is wrong at a place."""
        return ConfigError(self.sentence(place, text))

    @cached_property
    def _lines(self) -> dict[Place, int]:
        return dict(_located(self.text)) if self.text else {}


def read(path: Path) -> Source:
    """Read a file. Raises ConfigError for what is no text file in UTF-8, or too large to be typed by a person."""
    try:
        if not path.is_file():
            raise ConfigError(f"{path} is {'a folder' if path.is_dir() else 'not there'}: name a TOML file")
        if path.stat().st_size > _N_BYTES_MAX:
            raise ConfigError(f"{path} is larger than 1 MB: is it another file?")
        return Source(str(path), path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not in UTF-8 (byte {error.start + 1}): save it as UTF-8 text") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def parse(source: Source) -> dict[str, Any]:
    """Read the tables of a file. Raises ConfigError, with the line, for what is no TOML."""
    try:
        data = tomllib.loads(source.text)
    except RecursionError as error:
        raise ConfigError(_too_deep(source)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_no_toml(source, str(error))) from error
    except ValueError as error:
        long = re.search("[0-9_]{4000}", source.text)
        line = source.text[: long.start()].count("\n") + 1 if long else "unknown"
        raise ConfigError(f"{source.where}, line {line}: a number of thousands of digits is beyond reading") from error
    if _is_deep(data):
        raise ConfigError(_too_deep(source))
    return data


def spelled(place: Place) -> str:
    """Spell a place as a person finds it: ``[factors] boards``, ``[[exclude]] board``."""
    if not place:
        return ""
    many = len(place) > 1 and isinstance(place[1], int)
    table = f"[[{place[0]}]]" if many else f"[{place[0]}]"
    keys = ".".join(str(part) for part in place[1:] if isinstance(part, str))
    return f"{table} {keys}".rstrip()


def shown(value: object) -> str:
    """Show a value as the file spells it, more or less, and not at length."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _N_SHOWN else f"{text[:_N_SHOWN]}…"


def nearest(word: str, known: Iterable[str], kind: str = "valid", listed: str = "") -> str:
    """Suggest the nearest of what is known, or list it; `listed` says where it is, where it would be a long list."""
    known = list(dict.fromkeys(known))
    by_fold = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(word.casefold()[:200], by_fold, n=1, cutoff=0.5)
    if near:
        return f"did you mean {by_fold[near[0]]!r}?"
    if len(known) > _N_LISTED and listed:
        return listed
    more = f" and {len(known) - _N_LISTED} more" if len(known) > _N_LISTED else ""
    return f"{kind}: {', '.join(known[:_N_LISTED])}{more}"


def _no_toml(source: Source, message: str) -> str:
    """Put what the reader of TOML says into our form: file, line, what is wrong."""
    match = re.fullmatch(r"(.*) \(at (?:line ([0-9]+), column ([0-9]+)|end of document)\)", message, re.DOTALL)
    text, line, column = match.groups() if match else (message, None, None)
    at = f"line {line}, column {column}" if line else f"line {source.text.rstrip().count(chr(10)) + 1}, at the end"
    twice = ": a key or table is there twice" if text.startswith(("Cannot overwrite", "Cannot declare")) else ""
    return f"{source.where}, {at}: this is no TOML: {text}{twice}"


def _is_deep(data: object) -> bool:
    layer = [data]
    for _ in range(_DEPTH_MAX):
        layer = [
            inner for one in layer if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(layer)


def _too_deep(source: Source) -> str:
    """Say that something is nested too deep, with the first line that shows it."""
    lines = enumerate(source.text.splitlines(), 1)
    line = next((n for n, text in lines if max(map(text.count, ".[{")) >= _DEPTH_MAX), None)
    at = source.where if line is None else f"{source.where}, line {line}"
    return f"{at}: nested too deep: keys, arrays or tables more than {_DEPTH_MAX} deep"


def _located(text: str) -> Iterator[tuple[Place, int]]:
    """Yield each table, key and array element with its line."""
    import tree_sitter
    import tree_sitter_toml

    language = tree_sitter.Language(tree_sitter_toml.language())
    root = tree_sitter.Parser(language).parse(text.encode("utf-8", "replace")).root_node
    arrays: dict[Place, int] = {}
    for node in root.named_children:
        if node.type == "pair":
            yield from _pair(node, ())
        elif node.type in ("table", "table_array_element"):
            place: Place = ()
            *outer, last = _keys(node.named_children[0])
            for key in outer:
                place = _inside((*place, key), arrays)
            place = (*place, last)
            if node.type == "table_array_element":
                arrays[place] = arrays.get(place, -1) + 1
                if arrays[place] == 0:
                    yield place, _line(node)
                place = (*place, arrays[place])
            yield place, _line(node)
            for child in node.named_children[1:]:
                if child.type == "pair":
                    yield from _pair(child, place)


def _inside(place: Place, arrays: dict[Place, int]) -> Place:
    return (*place, arrays[place]) if place in arrays else place


def _pair(node: Any, place: Place) -> Iterator[tuple[Place, int]]:
    key, value = (child for child in node.named_children if child.type != "comment")
    for name in _keys(key):
        place = (*place, name)
        yield place, _line(node)
    yield from _value(value, place)


def _value(node: Any, place: Place) -> Iterator[tuple[Place, int]]:
    children = [child for child in node.named_children if child.type != "comment"]
    if node.type == "inline_table":
        for child in children:
            yield from _pair(child, place)
    elif node.type == "array":
        for number, child in enumerate(children):
            yield (*place, number), _line(child)
            yield from _value(child, (*place, number))


def _keys(node: Any) -> Sequence[str]:
    if node.type in _SIGNS_IN_KEYS:
        text = node.text.decode()
        return [next(iter(tomllib.loads(f"{text} = 0")))]
    return [name for child in node.named_children for name in _keys(child)]


def _line(node: Any) -> int:
    return node.start_point.row + 1
