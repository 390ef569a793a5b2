"""The tables of a plan file: what each key may hold by itself. What keys must be together is plan.py's business."""

from __future__ import annotations

import datetime
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WrapValidator

from labctl import boards
from labctl.campaign import rehearsal
from labctl.errors import ConfigError
from labctl.firmware import PROFILES
from labctl.operations import EVERYWHERE, NAMES, canonical, implementations
from labctl.tomlsource import nearest, shown
from labctl.units import check_plausible, parse, parse_size, parse_time, parse_time_of_day, quantity

# firmware/PROTOCOL.md: `bytes`, `runs`.
N_BYTES = (16, 16384)
N_RUNS_MAX = 1000
# Beyond these a clock of a microcontroller is a slip of the prefix.
_CLOCKS_HZ = (1e4, 1e10)
ORDERS = ("random", "blocked", "listed")
_MODES = tuple(f"idle.{mode}" for name in boards.names() for mode in boards.load(name).get("idle_modes", ()))
BASELINES = (*EVERYWHERE, *dict.fromkeys(_MODES))
IMPLEMENTATIONS = tuple(dict.fromkeys(who for name in NAMES for who in implementations(name)))
# What a campaign's folder does not say: addresses and files of the machine it was begun on.
WITHHELD = ("file", "zero", "calibrations")
HOOKS = ("finish", "failure")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PATTERN = re.compile(r"[a-z0-9.*?\[\]!-]{1,64}")


def _refused(check: Callable[[Any], Any]) -> BeforeValidator:
    """Let a check of ours raise ConfigError where pydantic expects ValueError."""

    def convert(value: Any) -> Any:
        try:
            return check(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(convert)


def _whole(low: int, high: int) -> BeforeValidator:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"= {shown(value)} must be a whole number from {low} to {high}")
        return value

    return _refused(check)


def _message(value: Any) -> int:
    n_bytes = parse_size(value, what="=") if isinstance(value, str) else value
    if isinstance(n_bytes, bool) or not isinstance(n_bytes, int) or not N_BYTES[0] <= n_bytes <= N_BYTES[1]:
        raise ConfigError(
            f"= {shown(value)} must be a whole number from {N_BYTES[0]} to {N_BYTES[1]}, or such a size as text, for "
            'example "1 KiB": the firmware takes no others'
        )
    return n_bytes


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"= {shown(value)} must be text in quotation marks")
    if not value.strip():
        raise ConfigError("is empty: write a value, or leave the key out")
    if any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in value):
        raise ConfigError(f"= {shown(value)} holds a line break, a control character or half a character")
    return value


def _name(value: Any) -> str:
    if not _NAME.fullmatch(_text(value)):
        raise ConfigError(
            f"= {shown(value)} becomes part of file names: up to 64 letters, digits, '.', '_' and '-' of ASCII, "
            "a letter or digit first"
        )
    return value


def _one_of(known: Iterable[str], what: str) -> BeforeValidator:
    def check(value: Any) -> str:
        if _text(value) not in known:
            raise ConfigError(f"= {shown(value)} is no {what}; {nearest(value, known)}")
        return value

    return _refused(check)


def _operation(value: Any) -> str:
    if not _PATTERN.fullmatch(_text(value)):
        raise ConfigError(
            f"= {shown(value)} is no name or pattern of an operation, such as 'sha256' or 'aes-128-*'"
        )
    return value


def _variant(value: Any) -> str:
    try:
        return canonical(_text(value))
    except ConfigError as error:
        raise ConfigError(f"= {str(error).removeprefix('--variant ')}") from error


def _quantity(unit: str, example: str) -> BeforeValidator:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ConfigError(f'= {shown(value)} must be a number or text with a unit, for example "{example}"')
        return check_plausible(parse(value, unit, what="=", positive=True), unit, what="=")

    return _refused(check)


def _clock(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f'= {shown(value)} must be a number of hertz or text with a unit, for example "24 MHz"')
    clock_hz = parse(value, "Hz", what="=", positive=True)
    if not _CLOCKS_HZ[0] <= clock_hz <= _CLOCKS_HZ[1]:
        raise ConfigError(
            f"= {shown(value)} is {quantity(clock_hz, 'Hz')}, and no core runs at that: check the unit and its prefix, "
            'for example "24 MHz"'
        )
    return clock_hz


def _temperature(value: Any) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and -60 <= value <= 150
    if not good:  # not a number is no good either
        raise ConfigError(f"= {shown(value)} must be a number of degrees Celsius from -60 to 150")
    return float(value)


def _time_of_day(value: Any) -> datetime.time:
    if isinstance(value, datetime.time):  # TOML's own: until = 07:00:00
        return value.replace(microsecond=0)
    return parse_time_of_day(value, what="=")


def _hook(value: Any) -> tuple[str, ...] | str:
    if isinstance(value, str):
        if not _is_address(_text(value)):
            raise ConfigError(
                f'= {shown(value)} is no web address (http:// or https://); a command is a list of words, '
                'for example ["notify-send", "done"]'
            )
        return value
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise ConfigError(f'= {shown(value)} must be a list of words, such as ["notify-send", "done"], or an address')
    return tuple(value)


def _is_address(text: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(text)
        port_is_good = parts.port != 0  # reading it raises for what is no port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port_is_good and not re.search(r"\s", text)


def _list(example: str, *, single: bool = False) -> WrapValidator:
    """Make a check of a list: not empty, nothing in it twice; with `single`, one value by itself as well."""

    def check(value: Any, elements: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
        if single and isinstance(value, str | int | float):
            value = [value]
        if not isinstance(value, list):
            raise ValueError(f"= {shown(value)} must be a list, for example {example}")  # noqa: TRY004 - as pydantic asks
        if not value:
            raise ValueError(f"is an empty list: name something, for example {example}, or leave the key out")
        found = elements(value)
        for number, element in enumerate(found):
            first = found.index(element)
            if first < number:
                as_ = f" (as {shown(value[first])})" if value[first] != value[number] else ""
                raise ValueError(f"holds {shown(value[number])} twice{as_}: take one away")
        return found

    return WrapValidator(check)


def _with(unit: str) -> PlainSerializer:
    """Spell a number as text with its unit, so that it is read back as the same double."""

    def spell(value: float | tuple[float, ...] | None) -> str | tuple[str, ...] | None:
        if isinstance(value, tuple):
            return tuple(f"{one:.17g} {unit}" for one in value)
        return None if value is None else f"{value:.17g} {unit}"

    return PlainSerializer(spell)


_BOARD = _one_of(boards.names(), "board")
_PRINTABLE = _refused(_text)
_IDENTIFIER = _refused(_name)
_OPERATION = _refused(_operation)
_VARIANT = _refused(_variant)
_MESSAGE = _refused(_message)
_CLOCK = _refused(_clock)
_SPAN = _refused(lambda value: parse_time(value, what="="))
_SIZE = _refused(lambda value: parse_size(value, what="="))
_SPELLED = PlainSerializer(lambda values: values and tuple(value or "plain" for value in values))

Boards = Annotated[tuple[Annotated[str, _BOARD], ...], _list('["stm32vldiscovery"]')]
Patterns = Annotated[tuple[Annotated[str, _PRINTABLE], ...], _list('["sha*"]', single=True)]


class Section(BaseModel):
    """Any table of the plan: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CampaignSection(Section):
    """Say what holds for every item."""

    name: Annotated[str, _IDENTIFIER]
    seed: Annotated[int, _whole(0, 2**63 - 1)] = 1
    n_runs: Annotated[int, _whole(1, N_RUNS_MAX)] = Field(default=20, alias="runs")
    n_iterations: Annotated[int, _whole(1, 1_000_000)] = Field(default=1, alias="iterations")
    n_warmup: Annotated[int, _whole(0, N_RUNS_MAX)] = Field(default=0, alias="warmup")
    order: Annotated[str, _one_of(ORDERS, "order")] = "random"
    n_attempts: Annotated[int, _whole(1, 100)] = Field(default=3, alias="attempts")
    backoff_s: Annotated[float, _SPAN, _with("s")] = Field(default=2.0, alias="backoff")
    temperature_degc: Annotated[float | None, _refused(_temperature)] = None
    power: Annotated[str, _one_of(("dut", "supply"), "power")] = "dut"


class FactorsSection(Section):
    """Say what is combined: every value of each with every value of the others."""

    boards: Boards
    operations: Annotated[tuple[Annotated[str, _OPERATION], ...], _list('["sha256", "aes-128-*"]')]
    sizes: Annotated[tuple[Annotated[int, _MESSAGE], ...], _list("[64, 256]")] = Field(default=(), alias="bytes")
    implementations: Annotated[
        tuple[Annotated[str, _one_of(IMPLEMENTATIONS, "implementation")], ...], _list('["mbedtls"]')
    ] = ()
    profiles: Annotated[tuple[Annotated[str, _one_of(PROFILES, "profile")], ...], _list('["Os", "O2"]')] = ()
    clocks_hz: Annotated[
        tuple[Annotated[float, _CLOCK], ...], _list('["24 MHz"]'), _with("Hz")
    ] = Field(default=(), alias="clocks")
    variants: Annotated[
        tuple[Annotated[str, _VARIANT], ...], _list('["plain", "key=inside"]'), _SPELLED
    ] = ()


class ExcludeSection(Section):
    """Say what is left out: items that match every key given."""

    board: Patterns | None = None
    operation: Patterns | None = None
    sizes: Annotated[
        tuple[Annotated[int, _MESSAGE], ...] | None, _list("[64]", single=True)
    ] = Field(default=None, alias="bytes")
    implementation: Patterns | None = None
    profile: Patterns | None = None
    clocks_hz: Annotated[
        tuple[Annotated[float, _CLOCK], ...] | None, _list('["24 MHz"]', single=True), _with("Hz")
    ] = Field(default=None, alias="clock")
    variant: Annotated[
        tuple[Annotated[str, _VARIANT], ...] | None, _list('["plain"]', single=True), _SPELLED
    ] = None


class BaselinesSection(Section):
    """Say which of the bench's quiet states are measured in between."""

    operations: Annotated[
        tuple[Annotated[str, _one_of(BASELINES, "baseline")], ...], _list('["idle", "null", "busy"]')
    ] = ("idle", "null", "busy")
    n_iterations: Annotated[int, _whole(1, 1_000_000)] = Field(default=1, alias="iterations")
    every: Annotated[int, _whole(1, 100_000)] = 20


class ReferenceSection(Section):
    """Say which operation comes again and again, to show drift."""

    operation: Annotated[str, _one_of(NAMES, "operation")]
    bytes: Annotated[int | None, _MESSAGE] = None
    every: Annotated[int, _whole(1, 100_000)] = 10


class BudgetSection(Section):
    """Say when the campaign stops by itself, resumable."""

    until: Annotated[datetime.time | None, _refused(_time_of_day)] = None
    max_time_s: Annotated[float | None, _SPAN, _with("s")] = Field(default=None, alias="max_time")
    disk_bytes: Annotated[int | None, _SIZE, _with("B")] = Field(default=None, alias="disk")


def _no_thermometer(_: Any) -> None:
    raise ConfigError(
        "cannot be watched: no instrument that labctl drives measures a temperature; take the key away, and note the "
        "room's in [campaign] temperature_degc"
    )


class LimitsSection(Section):
    """Say beyond what the outputs are switched off."""

    current_a: Annotated[float | None, _quantity("A", "100 mA"), _with("A")] = Field(default=None, alias="current")
    temperature: Annotated[None, _refused(_no_thermometer)] = None


class HooksSection(Section):
    """Say what is run, or which address is called, at the end.

    `withheld` names the hooks that the plan had when the campaign began, which its folder does not keep.
    """

    finish: Annotated[tuple[str, ...] | str | None, _refused(_hook)] = None
    failure: Annotated[tuple[str, ...] | str | None, _refused(_hook)] = None
    withheld: Annotated[tuple[Annotated[str, _one_of(HOOKS, "hook")], ...], _list('["finish"]')] = ()


class BenchSection(Section):
    """Say on which bench it is measured; without a file, on an emulated one.

    `withheld` names what the plan said when the campaign began and its folder does not: files and addresses.
    """

    name: Annotated[str, _IDENTIFIER] = "bench"
    boards: Boards = ()
    file: Annotated[str | None, _PRINTABLE] = None
    shunt_ohm: Annotated[float | None, _quantity("ohm", "1.3 ohm"), _with("ohm")] = Field(default=None, alias="shunt")
    supply_v: Annotated[float | None, _quantity("V", "3.3 V"), _with("V")] = Field(default=None, alias="supply")
    zero: Annotated[str | None, _PRINTABLE] = None
    calibrations: Annotated[tuple[Annotated[str, _PRINTABLE], ...], _list('["x.h5"]')] = ()
    withheld: Annotated[tuple[Annotated[str, _one_of(WITHHELD, "key")], ...], _list('["file"]')] = ()

    @property
    def emulated(self) -> bool:
        """Tell whether this is an emulated bench."""
        return self.file is None and "file" not in self.withheld


class FaultSection(Section):
    """Say what goes wrong, on an emulated bench, to rehearse a bad night."""

    item: Annotated[int | None, _whole(1, 100_000)] = None
    operation: Annotated[str | None, _OPERATION] = None
    attempts: Annotated[tuple[Annotated[int, _whole(1, 100)], ...], _list("[1]")] = (1,)
    dut: Annotated[dict[str, Any] | None, _refused(rehearsal.dut)] = None
    scope: Annotated[dict[str, Any] | None, _refused(rehearsal.scope)] = None
    trigger: Annotated[str | None, _one_of(rehearsal.TRIGGER, "fault of the trigger wire")] = None
    kill: Annotated[str | None, _one_of(("simulator",), "process of the bench")] = None

    @property
    def faults(self) -> dict[str, Any]:
        """Give what the emulated bench is told: its faults by name."""
        return {name: value for name in ("dut", "scope", "trigger") if (value := getattr(self, name)) is not None}


class PlanFile(Section):
    """One plan file."""

    campaign: CampaignSection
    factors: FactorsSection
    exclude: tuple[ExcludeSection, ...] = ()
    baselines: BaselinesSection | None = None
    reference: ReferenceSection | None = None
    budget: BudgetSection = BudgetSection()
    limits: LimitsSection = LimitsSection()
    hooks: HooksSection = HooksSection()
    bench: BenchSection | None = None
    benches: tuple[BenchSection, ...] = ()
    faults: tuple[FaultSection, ...] = ()
