"""The bench file: what it may say, checked, with the wrong key named and the nearest valid one suggested."""

from __future__ import annotations

import difflib
import math
import unicodedata
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PrivateAttr, TypeAdapter, ValidationError

from labctl.errors import ConfigError
from labctl.units import check_plausible, parse, parse_ratio


def _unit(unit: str) -> BeforeValidator:
    def convert(value: Any) -> float:
        try:
            number = parse(value, unit) if isinstance(value, str) else value
        except ConfigError as error:
            raise ValueError(str(error)) from error
        try:
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise ValueError(f"expected a number or text with a unit such as '1.3 {unit}'")
            return check_plausible(float(number), unit) if number > 0 else float(number)
        except (ConfigError, OverflowError) as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(convert)


def _positive(unit: str) -> AfterValidator:
    def check(value: float) -> float:
        if not value > 0:
            raise ValueError(f"{value:g} {unit} must be greater than 0")
        return value

    return AfterValidator(check)


def _not_negative(value: float) -> float:
    if value < 0:
        raise ValueError(f"{value:g} F must not be less than 0")
    return value


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("it is empty")
        if any(unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") for sign in value):
            raise ValueError("it holds a line break, a control character or half a character")
    return value


def _tolerance(value: Any) -> float:
    expected = "write for example '1 %' or 0.01"
    try:
        number = parse_ratio(value) if isinstance(value, str) else value
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
        raise ValueError(f"{value!r} is no tolerance: {expected}")
    if number >= 1:
        raise ValueError(f"{value!r} would be {100 * number:g} %, and a tolerance is less than 100 %: {expected}")
    return float(number)


def _probe_factor(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not (0 < value < math.inf):
        shown = f"{value:g}" if isinstance(value, float) else repr(value)
        raise ValueError(f"{shown} is no probe's factor: a finite number greater than 0, such as 10 for a 10:1 probe")
    return float(value)


def _channel(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= N_CHANNELS_MAX:
        raise ValueError(f"{value!r} is no channel: a whole number from 1 to {N_CHANNELS_MAX}")
    return value


N_CHANNELS_MAX = 8
Ohm = Annotated[float, _unit("ohm"), _positive("ohm")]
Volt = Annotated[float, _unit("V"), _positive("V")]
Farad = Annotated[float, _unit("F"), AfterValidator(_not_negative)]
Ratio = Annotated[float, BeforeValidator(_tolerance)]
ProbeRatio = Annotated[float, BeforeValidator(_probe_factor)]
ScopeChannel = Annotated[int, BeforeValidator(_channel)]
Text = Annotated[str, BeforeValidator(_printable)]


class Section(BaseModel):
    """Any table of the bench file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BenchSection(Section):
    """Name the bench."""

    name: Text = "bench"


class SupplySection(Section):
    """Say which node the shunt sits in and at what voltage it is."""

    node: Literal["mcu", "board"] = "mcu"
    voltage_v: Volt | None = None
    tolerance_ratio: Ratio = 0.01
    sensed: Literal["source", "dut"] = "source"


class ShuntSection(Section):
    """Say which resistor the current is read across, and how."""

    resistance_ohm: Ohm
    tolerance_ratio: Ratio = 0.01
    wiring: Literal["low-side", "high-side-differential", "two-channel"] = "low-side"
    decoupling_f: Farad | None = None
    decoupling_tolerance_ratio: Ratio = 0.2


class ScopeSection(Section):
    """Say which recorder is used and which channel sees what; a probe ratio of 10 is a 10:1 probe."""

    driver: Text
    resource: Text
    shunt_channel: ScopeChannel = 1
    shunt_high_channel: ScopeChannel | None = None
    shunt_low_channel: ScopeChannel | None = None
    supply_channel: ScopeChannel | None = None
    trigger_channel: ScopeChannel = 2
    trigger_edge: Literal["rising", "falling"] = "rising"
    shunt_probe_ratio: ProbeRatio = 1.0
    trigger_probe_ratio: ProbeRatio = 1.0
    shunt_bandwidth_limit: bool = True


class MeterSection(Section):
    """Say which meter measures the current itself, in the place of oscilloscope and shunt.

    `trigger` is the channel or input whose first edge begins a recording, None for a meter without one;
    `window_channel` the channel that shows the windows, by default the trigger where that is a channel of its own.
    Without `voltage_channel` the supply's voltage is what [supply] says.
    """

    driver: Text
    resource: Text
    current_channel: Text = "I1"
    voltage_channel: Text | None = None
    trigger: Text | None = None
    window_channel: Text | None = None
    trigger_edge: Literal["rising", "falling"] = "rising"


class DutSection(Section):
    """Say which board it is, where its serial port is, and what switches its supply.

    `power` is "manual" for a person who is asked, "meter" for the meter that supplies it, or the address of a supply.
    """

    board: Text
    port: Text
    power: Text = "manual"


class BenchFile(Section):
    """One bench file: an oscilloscope at a shunt, or a meter.

    `dut` is the board that is measured, by default the first where the file lists several.
    """

    bench: BenchSection = BenchSection()
    supply: SupplySection = SupplySection()
    shunt: ShuntSection | None = None
    scope: ScopeSection | None = None
    meter: MeterSection | None = None
    dut: DutSection
    _listed: tuple[DutSection, ...] = PrivateAttr(default=())

    @property
    def recorder(self) -> ScopeSection | MeterSection:
        """Return what records: the oscilloscope, or the meter."""
        return self.meter or self.oscilloscope

    @property
    def oscilloscope(self) -> ScopeSection:
        """Return the oscilloscope's table. Raises ConfigError for a bench that measures by a meter."""
        if self.scope is None:
            raise ConfigError(self._no("an oscilloscope"))
        return self.scope

    @property
    def resistor(self) -> ShuntSection:
        """Return the shunt's table. Raises ConfigError for a bench that measures by a meter."""
        if self.shunt is None:
            raise ConfigError(self._no("a shunt"))
        return self.shunt

    def _no(self, what: str) -> str:
        return (f"bench {self.bench.name!r} measures by a meter ([meter]), and this takes {what}: name a bench file "
                "with [scope] and [shunt]")

    @property
    def duts(self) -> tuple[DutSection, ...]:
        """Return every board of the bench, in the file's order."""
        return self._listed or (self.dut,)

    def for_board(self, name: str | None) -> BenchFile:
        """Return the file with that board as its `dut`; None leaves it as it is.

        In a file with one board, ``[dut]``, another can take its place by hand. Raises ConfigError where the file lists
        its boards, ``[[dut]]``, and this is none of them.
        """
        if name is None or not self._listed:
            return self
        for dut in self._listed:
            if dut.board == name:
                return self.model_copy(update={"dut": dut})
        listed = ", ".join(dut.board for dut in self._listed)
        raise ConfigError(f"{name} is no board of bench {self.bench.name!r}, which has {listed}: add it as a [[dut]]")

    def with_values(self, *, shunt_ohm: float | None = None, supply_v: float | None = None) -> BenchFile:
        """Return a copy in which values from the command line override the file's."""
        update: dict[str, Any] = {}
        if shunt_ohm is not None:
            update["shunt"] = self.resistor.model_copy(update={"resistance_ohm": shunt_ohm})
        if supply_v is not None:
            update["supply"] = self.supply.model_copy(update={"voltage_v": supply_v})
        return self.model_copy(update=update)


def parse_bench(table: dict[str, Any], where: str) -> BenchFile:
    """Check the tables of a bench file. Raises ConfigError naming the key, what is wrong, and the nearest valid key."""
    duts = table.get("dut")
    if isinstance(duts, list) and duts:
        files = [
            _validated({**table, "dut": dut}, where, f"[[dut]] number {number}: " if len(duts) > 1 else "")
            for number, dut in enumerate(duts, 1)
        ]
        file = files[0]
        file._listed = tuple(one.dut for one in files)
        _check_duts(file.duts, where)
    else:
        file = _validated(table, where)
    _check_recorder(file, where)
    return file


def _check_recorder(file: BenchFile, where: str) -> None:
    """Raise ConfigError unless there is either a meter, or an oscilloscope with its shunt."""
    scope, shunt = file.scope, file.shunt
    if file.meter is not None:
        other = "scope" if scope is not None else "shunt"
        if scope is not None or shunt is not None:
            raise ConfigError(f"{where}: [meter] measures the current itself, so [{other}] has no place beside it: "
                              "take one of them out")
        return
    if scope is None or shunt is None:
        name = "scope" if scope is None else "shunt"
        raise ConfigError(f"{where}: [{name}] is missing; a bench has [scope] and [shunt], or [meter] alone")
    meters = [f"[[dut]] {dut.board}" if len(file.duts) > 1 else "[dut]" for dut in file.duts if dut.power == "meter"]
    if meters:
        raise ConfigError(f"{where}: {meters[0]} power = \"meter\", and this bench has no [meter]")
    if shunt.wiring == "two-channel" and None in (scope.shunt_high_channel, scope.shunt_low_channel):
        raise ConfigError(
            f"{where}: [shunt] wiring = \"two-channel\" needs shunt_high_channel and shunt_low_channel in [scope]"
        )
    _check_channels(scope, shunt, where)


def _validated(table: dict[str, Any], where: str, part: str = "") -> BenchFile:
    try:
        return BenchFile.model_validate(table)
    except ValidationError as error:
        problems = "; ".join(_explain(dict(problem)) for problem in error.errors())
        raise ConfigError(f"{where}: {part}{problems}") from error


def _check_duts(duts: tuple[DutSection, ...], where: str) -> None:
    """Raise ConfigError where two boards of a list cannot be told apart, by name or by port."""
    for key in ("board", "port"):
        values = [getattr(dut, key) for dut in duts]
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise ConfigError(f"{where}: [[dut]] {key} = {twice!r} stands there twice: each board needs its own")


def _check_channels(scope: ScopeSection, shunt: ShuntSection, where: str) -> None:
    """Raise ConfigError where one channel of the scope is asked to see two things."""
    two = shunt.wiring == "two-channel"
    uses = {
        key: getattr(scope, key)
        for key in (*(("shunt_high_channel", "shunt_low_channel") if two else ("shunt_channel",)), "trigger_channel")
    }
    # A supply channel may be an end of the shunt as well, never the trigger.
    if scope.supply_channel is not None and not two:
        uses["supply_channel"] = scope.supply_channel
    seen: dict[int | None, str] = {}
    for key, channel in uses.items():
        if channel in seen:
            raise ConfigError(f"{where}: [scope] {seen[channel]} and {key} are both {channel}: each needs its own")
        seen[channel] = key


def _explain(problem: dict[str, Any]) -> str:
    path = [str(part) for part in problem["loc"]]
    key = f"[{path[0]}] {'.'.join(path[1:])}" if len(path) > 1 else f"[{path[0]}]"
    if problem["type"] == "extra_forbidden":
        valid = _valid_keys(path[:-1])
        near = difflib.get_close_matches(path[-1], valid, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"valid keys: {', '.join(valid)}"
        return f"{key} is not a key of the bench file; {hint}"
    if problem["type"] == "missing":
        return f"{key} is missing"
    return f"{key} = {problem['input']!r}: {problem['msg'].removeprefix('Value error, ')}"


def _reason(problem: dict[str, Any]) -> str:
    """Say what is wrong with a value; our own checks name it themselves."""
    text = problem["msg"].removeprefix("Value error, ")
    return text if problem["type"] == "value_error" else f"{problem['input']!r}: {text}"


def is_required(section: str, name: str) -> bool:
    """Tell whether a key must be given in every bench file."""
    return section_type(section).model_fields[name].is_required()


def default_of(section: str, name: str) -> Any:
    """Return what holds where a key is left out, None where that is nothing."""
    return None if is_required(section, name) else section_type(section).model_fields[name].default


def check_value(section: str, name: str, value: Any) -> Any:
    """Check one value by itself, as `parse_bench` would, and return it converted. Raises ConfigError."""
    annotation: Any = section_type(section).model_fields[name].rebuild_annotation()
    try:
        return TypeAdapter(annotation).validate_python(value)
    except ValidationError as error:
        raise ConfigError("; ".join(_reason(dict(problem)) for problem in error.errors())) from error


def section_type(name: str) -> type[BaseModel]:
    """Return the model of one table."""
    annotation: Any = BenchFile.model_fields[name].annotation
    return next((one for one in get_args(annotation) if one is not type(None)), annotation)


def _valid_keys(path: list[str]) -> list[str]:
    return list((section_type(path[0]) if path else BenchFile).model_fields)
