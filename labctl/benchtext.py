"""A bench file as commented text: every key with what it means; those not in force behind a #."""

from __future__ import annotations

from typing import Any

from labctl import benchkeys, boards
from labctl.benchfile import BenchFile, check_value, default_of
from labctl.benchkeys import Key
from labctl.report.text import wrap

_WIDTH = 78
_HEADER = (
    "Bench file of labctl. `labctl bench check` compares it with what is connected.",
    'Numbers are in the unit that ends the key (_ohm, _v, _f); text with a unit such as "50 mohm" is understood too.',
    "A key behind a # is not in force: what it shows is a default or an example. Take the # away to set it.",
)
_FORMS = {
    benchkeys.OHM: 'In ohm, or text: "50 mohm".',
    benchkeys.VOLT: 'In V, or text: "3300 mV".',
    benchkeys.FARAD: 'In F, or text: "4.7 uF".',
    benchkeys.RATIO: 'A ratio, or text: 0.01 is "1 %".',
    benchkeys.CHANNEL: "A number from 1.",
    benchkeys.FACTOR: "A number.",
    benchkeys.SWITCH: "true or false.",
}
_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def render(file: BenchFile) -> str:
    """Write a bench file as TOML that parses to exactly `file`. Raises ConfigError for a board that is not known."""
    lines = [f"# {line}" for sentence in _HEADER for line in wrap(sentence, _WIDTH)]
    for section, text in benchkeys.SECTIONS.items():
        lines += ["", *(f"# {line}" for line in wrap(text, _WIDTH)), f"[{section}]"]
        values = getattr(file, section)
        for name in type(values).model_fields:
            key = benchkeys.key_of(section, name)
            lines += [f"# {line}" for line in wrap(_comment(key), _WIDTH)]
            value = getattr(values, name)
            if _in_force(key, value, file):
                lines.append(f"{name} = {literal(value)}")
            else:
                lines.append(f"#{name} = {literal(_shown(key, file) if value is None else value)}")
    return "\n".join(lines) + "\n"


def literal(value: bool | float | str) -> str:
    """Write one value as TOML, a float such that it parses to the same double."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        mantissa, mark, exponent = repr(value).partition("e")
        return f"{mantissa}{mark}{int(exponent)}" if mark else mantissa
    return '"' + "".join(_ESCAPES.get(sign) or (sign if sign >= " " else f"\\u{ord(sign):04X}") for sign in value) + '"'


def _in_force(key: Key, value: Any, file: BenchFile) -> bool:
    """Tell whether a key is written as a setting; every other holds its default, or nothing."""
    if value is None:
        return False
    unused = not key.asked or (key.name == "shunt_channel" and file.resistor.wiring == "two-channel")
    return not (unused and value == default_of(*key.id))


def _comment(key: Key) -> str:
    """Say what a key means, in which form it is written, and what else it could be."""
    choices = boards.names() if key.id == ("dut", "board") else key.choices
    words = f"One of {', '.join(map(literal, choices))}." if choices else ""
    return " ".join(part for part in (key.text, _FORMS.get(key.kind, ""), words) if part)


def _shown(key: Key, file: BenchFile) -> Any:
    """Return what a key that holds nothing is shown with."""
    if key.id == ("supply", "voltage_v"):
        return boards.load(file.dut.board)["supply"][f"node_{file.supply.node}_v"]
    return check_value(*key.id, int(key.example) if key.kind == benchkeys.CHANNEL else key.example)
