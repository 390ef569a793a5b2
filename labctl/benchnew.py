"""A bench file in the making: what is still open, what to propose, and a check of each answer as it comes."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from labctl import benchkeys, boards
from labctl.benchfile import BenchFile, check_value, default_of, is_required, parse_bench
from labctl.benchkeys import KEYS, Key
from labctl.benchwiring import overvoltage, wiring_of
from labctl.errors import ConfigError, FileFault
from labctl.report.text import N_COLUMNS, wrap

_BOARD, _DRIVER, _WIRING = ("dut", "board"), ("scope", "driver"), ("shunt", "wiring")
_NODE, _VOLTAGE, _DECOUPLING = ("supply", "node"), ("supply", "voltage_v"), ("shunt", "decoupling_f")
_RESOURCE = ("scope", "resource")
_PORT = ("dut", "port")
_ENDS = (("scope", "shunt_high_channel"), ("scope", "shunt_low_channel"))
_FACTOR = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(?:[:/]\s*1|[xX×])?")
_CHANNEL = re.compile(r"(?:CH(?:AN)?)?\s*([0-9]{1,3})", re.IGNORECASE)
_CHANNELS = range(1, 9)
# Stand for what is not answered yet: a shunt so small that it starves no board, and a word.
_SHUNT_LEAST_OHM = 1e-6
_OPEN = "open"

USUAL_DRIVER = "keysight-infiniivision"
Values = Mapping[tuple[str, str], Any]


class Draft:
    """The answers so far, (table, key) -> value. What is in it has been checked, by itself and with the rest."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], Any] = {}

    def set(self, key: Key, value: Any) -> None:
        """Take an answer. Raises ConfigError where it cannot be, by itself or beside the answers before."""
        values = {**self.values, key.id: value}
        self._check(values)
        self.values = values

    def next_key(self) -> Key | None:
        """Return what a person is to be asked next, None when that was all; it depends on the wiring answered."""
        return next((k for k in KEYS if k.asked and k.id not in self.values and _applies(k, self.values)), None)

    def default(self, key: Key) -> Any:
        """Return what holds where a key is not answered, None where nothing does."""
        if not _must_be_given(key):
            return default_of(*key.id)
        choices = choices_of(key)
        if key.id == _BOARD:
            return boards.DEFAULT
        if key.id == _DRIVER and USUAL_DRIVER in choices:
            return USUAL_DRIVER  # another instrument says at once that it is none
        return choices[0] if len(choices) == 1 else None

    def proposal(self, key: Key) -> tuple[Any, str]:
        """Return what to propose to a person and how to show it; shown as "" where there is nothing to propose."""
        value = self.default(key)
        if key.kind == benchkeys.CHANNEL:
            value = _free_channel(self.values, value or int(key.example))
        elif key.id == _PORT:
            value = next((name for name, _, usb in serial_ports() if usb), None)
        elif key.id == _VOLTAGE:
            node_v = boards.load(self.values[_BOARD])["supply"][f"node_{self.values[_NODE]}_v"]
            return None, f"the board's {node_v:g} V"
        elif key.id == _DECOUPLING:
            return None, "unknown"
        if value is not None and key.kind in (benchkeys.RATIO, benchkeys.FACTOR):
            return value, key.default
        return value, "" if value is None else str(value)

    def finish(self) -> BenchFile:
        """Return the bench file, defaults filled in. Raises ConfigError that names everything that is missing."""
        values, missing = dict(self.values), []
        for key in KEYS:
            if key.id not in values and _must_be_given(key) and _applies(key, values):
                values[key.id] = self.default(key)
                if values[key.id] is None:
                    missing.append(key)
        if missing:
            raise ConfigError(f"nobody was asked, and these have no default; give them as options:{_listed(missing)}")
        _refuse_unused(values)
        return _checked(values)

    def _check(self, values: Values) -> None:
        """Raise ConfigError for answers that cannot be, whatever the open ones will be."""
        if _WIRING in values:
            _refuse_unused(values)
        filled = {_BOARD: boards.DEFAULT, ("shunt", "resistance_ohm"): _SHUNT_LEAST_OHM, **values}
        for key in KEYS:
            if key.id in filled:
                continue
            if key.kind == benchkeys.CHANNEL and key.name != "supply_channel":
                filled[key.id] = _free_channel(filled, default_of(*key.id) or int(key.example))
            elif _must_be_given(key):
                filled[key.id] = _OPEN
        _checked(filled)


def choices_of(key: Key) -> tuple[str, ...]:
    """List the words that a key takes, empty for any: known boards and installed recorders' drivers among them."""
    if key.id == _BOARD:
        return boards.names()
    return _recorders() if key.id == _DRIVER else key.choices


def explain(key: Key) -> str:
    """Say in one line what a key means, with the words that it takes or an example."""
    if key.id in (_BOARD, _DRIVER):
        return f"{key.text} Known: {', '.join(choices_of(key))}."
    if key.id == _PORT and (ports := serial_ports()):
        found = ", ".join(f"{name} ({text})" if text else name for name, text, _ in ports)
        return f"{key.text} Found: {found}."
    if key.id == _RESOURCE:
        return f"{key.text} For example {key.example}; `labctl devices` lists those that can be found."
    shown = key.example and key.kind != benchkeys.CHANNEL
    return f"{key.text} For example {key.example}." if shown else key.text


def read(key: Key, text: str) -> Any:
    """Read what a person typed for a key. Raises ConfigError with what was expected."""
    typed: Any = text.strip()
    choices = choices_of(key)
    if choices and typed not in choices:
        near = difflib.get_close_matches(typed.lower(), choices, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"{typed!r} is none that is known here; {hint}known: {', '.join(choices)}")
    if key.kind == benchkeys.CHANNEL:
        match = _CHANNEL.fullmatch(typed)
        if match is None:
            raise ConfigError(f"{typed!r} is no channel; expected its number, for example 1")
        typed = int(match[1])
    elif key.kind == benchkeys.FACTOR:
        match = _FACTOR.fullmatch(typed)
        if match is None:
            raise ConfigError(f"{typed!r} is no factor; expected a number, for example 10 for a 10:1 probe")
        typed = float(match[1])
    return check_value(*key.id, typed)


def serial_ports() -> tuple[tuple[str, str, bool], ...]:
    """List the serial ports of this machine: name, what it says of itself, whether it may be a board's (USB, no meter).

    Oscilloscopes are not searched for, which takes seconds: `labctl devices` does.
    """
    from labctl import ports

    found = ports.serial_ports()
    instruments = ports.instruments_at(found)
    return tuple((p.device, p.text, p.usb is not None and p.device not in instruments) for p in found)


def check_target(path: Path, *, force: bool) -> Path:
    """Return where a bench file would really be written, links followed.

    Raises ConfigError where something is there that would be lost, or that is no file.
    """
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not target.is_file():
        raise ConfigError(f"{path} is no file that can be written: name another with --out")
    if target.exists() and not force:
        raise ConfigError(f"{path} exists already and is kept: name another with --out, or replace it with --force")
    return target


def write(file: BenchFile, path: Path, *, force: bool) -> None:
    """Write a bench file, commented, whole or not at all.

    Raises ConfigError as `check_target` does, EnvironmentFault where it cannot be written.
    """
    from labctl.benchtext import render
    from labctl.store.atomic import new_file

    target, text = check_target(path, force=force), render(file)
    try:
        with new_file(target, overwrite=force) as sink:
            sink.write(text.encode("utf-8"))
    except FileFault as error:  # it came up meanwhile
        raise ConfigError(str(error)) from error


def _listed(keys: list[Key]) -> str:
    """Set options beside what they mean, in 80 columns."""
    indent = 4 + max(len(key.option) for key in keys)
    text = ""
    for key in keys:
        first, *rest = wrap(explain(key), N_COLUMNS - indent)
        text += f"\n  {key.option:{indent - 2}}{first}" + "".join(f"\n{'':{indent}}{line}" for line in rest)
    return text


def _must_be_given(key: Key) -> bool:
    """Tell whether a key has to be answered where it applies."""
    return is_required(*key.id) or key.id in _ENDS


def _applies(key: Key, values: Values) -> bool:
    """Tell whether a key has an effect with the wiring answered."""
    two = values.get(_WIRING) == "two-channel"
    if key.id in _ENDS:
        return two
    return not (two and key.name == "shunt_channel")


def _refuse_unused(values: Values) -> None:
    """Raise ConfigError for an answer that has no effect."""
    for key in KEYS:
        if key.id in values and not _applies(key, values):
            wiring = values.get(_WIRING, default_of(*_WIRING))
            raise ConfigError(f"{key.option} has no effect with {wiring} wiring: leave it out, or change --wiring")


def _checked(values: Values) -> BenchFile:
    """Parse complete values and build the wiring of them, as opening the bench would."""
    table: dict[str, dict[str, Any]] = {}
    for (section, name), value in values.items():
        if value is not None:
            table.setdefault(section, {})[name] = value
    file = parse_bench(table, "the bench")
    board = boards.load(file.dut.board)
    wiring_of(file, board)
    if text := overvoltage(file, board):
        raise ConfigError(text)
    return file


def _free_channel(values: Values, wanted: int) -> int:
    """Return the channel wanted, or else the first that nothing uses."""
    taken = {value for (section, name), value in values.items() if section == "scope" and name.endswith("_channel")}
    if wanted not in taken:
        return wanted
    return next(channel for channel in _CHANNELS if channel not in taken)


@cache
def _recorders() -> tuple[str, ...]:
    """List the drivers of oscilloscopes that can be loaded here."""
    from instruments.registry import list_drivers

    return tuple(info.name for info in list_drivers() if info.available and info.kind == "oscilloscope")
