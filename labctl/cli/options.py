"""Options that several commands share, and types that read values with units."""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Callable
from typing import Any

import click

from labctl import boards
from labctl.errors import ConfigError
from labctl.operations import BYTES_DEFAULT, BYTES_MAX, BYTES_MIN
from labctl.units import check_plausible, parse, parse_ratio, parse_time

BOARDS_TEXT = f"Board, or pattern such as 'stm32f*': {', '.join(boards.names())}"
OPERATIONS_TEXT = "Operation, or pattern such as 'aes-128-*'; labctl firmware operations lists them"


class Quantity(click.ParamType[float]):
    """A number, with or without its unit: ``1.3``, ``1.3ohm``, ``50 mohm``; positive unless `signed`."""

    def __init__(self, unit: str, *, signed: bool = False) -> None:
        self.unit = unit
        self.name = unit
        self.signed = signed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text. Fails with what was expected and an example."""
        try:
            number = parse(value, self.unit) if isinstance(value, str) else float(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        if self.signed:
            return number
        if not number > 0:
            self.fail(f"{value!r} must be more than zero", param, ctx)
        try:
            return check_plausible(number, self.unit)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class Temperature(click.ParamType[float]):
    """A temperature in °C that a laboratory may have, such as 23 or -10.5."""

    name = "°C"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the number. Fails with what was expected."""
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not -60 <= number <= 150:  # not a number is outside too
            self.fail(f"{value!r} is no temperature between -60 and 150 °C", param, ctx)
        return number


class Span(click.ParamType[float]):
    """A span of time with its unit, such as ``8h``, ``90 min`` or ``30 s``, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the span. Fails with what was expected and an example."""
        try:
            return parse_time(value) if isinstance(value, str) else float(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class TimeOfDay(click.ParamType[datetime.time]):
    """A local time of day, such as ``07:00``."""

    name = "HH:MM"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.time:
        """Read the time. Fails with what was expected and an example."""
        try:
            return datetime.datetime.strptime(str(value), "%H:%M").time()
        except ValueError:
            self.fail(f"{value!r} is no time of day, such as 07:00", param, ctx)


class Tolerance(click.ParamType[float]):
    """A ratio below one, such as ``1%``, ``50 ppm`` or ``0.01``."""

    name = "ratio"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text. Fails with what was expected and an example."""
        try:
            number = parse_ratio(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        if not 0 <= number < 1:
            self.fail(f"{value!r} is no tolerance: 0 to 100 %", param, ctx)
        return number


def fitting_boards(patterns: tuple[str, ...], known: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Choose boards by names and patterns ('stm32f*') among those that are known, by default all of labctl's.

    A plain name is taken as it is. Raises ConfigError for a pattern that none fits.
    """
    known = boards.names() if known is None else known
    chosen: list[str] = []
    for pattern in patterns:
        plain = not any(sign in pattern for sign in "*?[")
        fitting = [pattern] if plain else [name for name in known if fnmatch.fnmatchcase(name, pattern)]
        if not fitting:
            raise ConfigError(f"no board fits {pattern!r}; boards: {', '.join(known)}")
        chosen += fitting
    return tuple(dict.fromkeys(chosen))


def shunt_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --shunt."""
    return click.option(
        "--shunt", "shunt_ohm", type=Quantity("ohm"), help="Shunt resistance, e.g. '50 mohm' [default: the bench's]."
    )(function)


def sizes_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --bytes, repeatable."""
    return click.option(
        "--bytes", "sizes", multiple=True, type=click.IntRange(BYTES_MIN, BYTES_MAX),
        help=f"Message size, as far as the board's RAM holds it [default: {BYTES_DEFAULT}].",
    )(function)


def power_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --power."""
    return click.option(
        "--power",
        type=click.Choice(["dut", "supply"]),
        default="dut",
        show_default=True,
        help="Headline power: what the DUT draws, or what the supply gives (shunt included).",
    )(function)


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")(function)
