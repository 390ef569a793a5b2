"""The nouns of labctl, as plain data: wiring, operation, capture, run, result. No I/O, no computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from instruments.record import Identity, Record

SCHEMA_RESULTS = "labctl.results/1"
SCHEMA_CAPTURE = "labctl.capture/1"


@dataclass(frozen=True)
class Shunt:
    """The resistor that the current is read across.

    `wiring` is "low-side", "high-side-differential" or "two-channel". `decoupling_f` is the capacitance behind the
    shunt, None where unknown. `tolerance_ratio` and its like are half-widths of rectangular distributions.
    """

    resistance_ohm: float
    tolerance_ratio: float = 0.01
    wiring: str = "low-side"
    decoupling_f: float | None = None
    decoupling_tolerance_ratio: float = 0.2


@dataclass(frozen=True)
class Supply:
    """The voltage of the node that the shunt sits in.

    `node` is "mcu" or "board"; `sensed` is "source" (before the shunt) or "dut" (behind it). `channel` names a
    scope channel that measures it sample by sample; otherwise `voltage_v` holds.
    """

    voltage_v: float | None
    tolerance_ratio: float = 0.01
    node: str = "mcu"
    sensed: str = "source"
    channel: str | None = None


@dataclass(frozen=True)
class Wiring:
    """Which channel sees what.

    Either `shunt_channel` carries the drop (or, where its unit is ampere, the current itself and `shunt` is None),
    or `shunt_high_channel` and `shunt_low_channel` carry the two ends. `threshold` and `hysteresis` are in the
    trigger channel's unit; None lets the analysis take the middle and a tenth of the swing.
    """

    shunt: Shunt | None = None
    supply: Supply | None = None
    shunt_channel: str | None = None
    shunt_high_channel: str | None = None
    shunt_low_channel: str | None = None
    trigger_channel: str | None = None
    trigger_edge: str = "rising"
    threshold: float | None = None
    hysteresis: float | None = None


@dataclass(frozen=True)
class Operation:
    """One thing to measure: `name` is ``algorithm[.step]``; `n_iterations` are done inside each window.

    `profile` is the compiler's optimisation, `clock_hz` the core's clock (None: the board's first), `variant` what
    differs from the plain operation, as `operations.canonical` spells it: "key=inside,piece=16", "" for plain.
    """

    name: str
    bytes: int | None = None
    implementation: str = "mbedtls"
    n_iterations: int = 1
    n_runs: int = 20
    profile: str = "Os"
    clock_hz: int | None = None
    variant: str = ""


@dataclass(frozen=True)
class MissingRow:
    """An operation on a board that was asked for and gave no result, with the error that says why."""

    board: str
    operation: Operation
    error: Exception


@dataclass(frozen=True)
class DutReport:
    """What the DUT says of a series: its own cycle count of each run (empty without a counter), and of its output.

    `output_ok` is the DUT's check of the measured output, `output_crc32` lets the host check it again.
    """

    cycles: tuple[int, ...]
    output_ok: bool
    output_crc32: int | None = None


@dataclass(frozen=True)
class Contribution:
    """One line of an uncertainty budget.

    `evaluation` is "A" or "B" (JCGM 100), `distribution` "normal" or "rectangular"; `standard` is the standard
    uncertainty of the input in `unit`, `effect` that of the output in the output's unit, with the sensitivity's sign.
    `key` names the error itself: contributions of equal keys, in whatever result, are one and the same error. Without
    a key the error is this result's own.
    """

    name: str
    evaluation: str
    distribution: str
    standard: float
    unit: str
    effect: float
    degrees_of_freedom: float = float("inf")
    source: str = ""
    key: str = ""


@dataclass(frozen=True)
class Interval:
    """A coverage interval for 95 %: the value plus and minus `expanded`, which is `coverage_factor` times `standard`.

    `standard` is the combined standard uncertainty, `degrees_of_freedom` its effective number (infinite where type B
    terms alone matter). `method` tells what the factor comes from, with its clause.
    """

    expanded: float
    coverage_factor: float
    degrees_of_freedom: float
    standard: float
    method: str


@dataclass(frozen=True)
class Calibration:
    """What a comparison with a reference found out about a bench, to be applied to later captures.

    `kind` and `value`: "gain" is the current that flows over the current that is read (unit "1"), for one shunt;
    "deskew" is how much later the shunt's channel shows an event than the trigger's (unit "s"); "timebase" is true
    time over the instrument's time, less one (unit "1"); "zero" is the reading of no current (unit "V"), told for
    people: the zero record beside it holds. `contributions` are the budget of `value`, with effects in `unit`.
    `channels` maps the name of a channel to the settings that the value holds for (keys of `analysis.keys.settings`);
    empty where it holds for any. `bench` is the key of the bench (`analysis.keys.bench`). Times are UTC,
    "2026-11-30T12:00:00Z".
    """

    kind: str
    value: float
    unit: str
    contributions: tuple[Contribution, ...]
    instrument: Identity
    bench: str
    method: str
    utc: str
    valid_until_utc: str
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shunt_ohm: float | None = None
    temperature_degc: float | None = None


@dataclass(frozen=True)
class Capture:
    """Everything needed to recompute every number of one series later.

    `records` holds "series" (the runs), and where they were taken "zero" (DUT unpowered, same range and offset) and
    "null" (the empty operation, at least 100 windows). `board` is the board's data, `manifest` the firmware's build
    manifest, `provenance` the bench, software version, UTC time and notes. `truth` is the emulated world's own
    account of each window (keys `duration_s`, `power_w`, `energy_j`, per iteration, null removed): only the output
    may read it. `null_report` is the DUT's report of the null series. `calibrations` are those in force. The file of a
    calibration is a capture too, whose records are the readings that it came from.
    """

    records: Mapping[str, Record]
    wiring: Wiring
    operation: Operation | None = None
    board: Mapping[str, Any] = field(default_factory=dict)
    dut_report: DutReport | None = None
    null_report: DutReport | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    truth: Mapping[str, float] | None = None
    path: str = ""
    calibrations: tuple[Calibration, ...] = ()


@dataclass(frozen=True)
class Window:
    """The span of one trigger pulse: positions in samples of `segment`, with a fraction."""

    segment: int
    start: float
    stop: float


@dataclass(frozen=True)
class Run:
    """The measurement of one window, all its iterations together, the trigger's cost still in it.

    Currents and powers are means over the window; `power_w` is what the DUT draws, `power_supply_w` what the
    source gives. `current_before_a` and `current_after_a` are the quiet spans on either side (None: none there).
    """

    segment: int
    start_s: float
    stop_s: float
    duration_s: float
    n_samples: float
    n_clipped: int
    current_mean_a: float
    current_min_a: float
    current_max_a: float
    power_w: float
    power_supply_w: float
    power_min_w: float
    power_max_w: float
    power_ripple_w: float | None
    energy_j: float
    energy_supply_j: float
    charge_c: float
    current_before_a: float | None = None
    current_after_a: float | None = None
    power_before_w: float | None = None
    power_after_w: float | None = None


@dataclass(frozen=True)
class Result:
    """Statistics over the runs of one operation on one board, per iteration, null removed, with uncertainty.

    Expanded uncertainties are for 95 % with the `coverage_factor` of the energy. `budget` maps "duration", "power"
    and "energy" to their contributions, `intervals` to what these make. `power_ripple_w`, of what follows once
    the decoupling has settled (None where windows are too short for that), is without the instrument's noise
    `power_noise_w` where a zero reading tells it (else that is None, and the noise in the ripple); the least
    and greatest current and power are those of single samples, noise included. `energy_lag1_ratio` is the
    autocorrelation of neighbouring runs, `energy_drift_j` the change of a line through them from the first run to the
    last, `energy_outliers` the runs (counted from 0) that lie apart from the others; they are in every number.
    `energy_shape` names why the mean is no typical run: "bimodal", "outliers", "skewed", or "" where it is.
    `throughput_mib_s` is the message in MiB (2^20 bytes) over the mean duration; it and `cycles_per_byte` are None
    where there is no message, the latter also where nothing counts cycles. `energy_std_expanded_j` is for runs that
    are normally distributed and independent, None for one run.
    """

    board: str
    operation: str
    bytes: int | None
    implementation: str
    n_runs: int
    n_iterations: int
    n_refused: int
    n_clipped: int
    duration_mean_s: float
    duration_std_s: float
    duration_se_s: float
    duration_max_s: float
    duration_expanded_s: float
    current_mean_a: float
    current_max_a: float
    power_mean_w: float
    power_supply_mean_w: float
    power_std_w: float
    power_ripple_w: float | None
    power_min_w: float
    power_max_w: float
    power_expanded_w: float
    energy_mean_j: float
    energy_net_idle_j: float | None
    energy_std_j: float
    energy_se_j: float
    energy_expanded_j: float
    coverage_factor: float
    charge_mean_c: float
    cycles_mean: float | None
    runs: tuple[Run, ...] = ()
    budget: Mapping[str, tuple[Contribution, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    power_noise_w: float | None = None
    energy_median_j: float | None = None
    energy_quartile_low_j: float | None = None
    energy_quartile_high_j: float | None = None
    energy_lag1_ratio: float | None = None
    energy_drift_j: float | None = None
    energy_outliers: tuple[int, ...] = ()
    energy_shape: str = ""
    profile: str = ""
    clock_hz: int | None = None
    variant: str = ""
    throughput_mib_s: float | None = None
    cycles_per_byte: float | None = None
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    current_expanded_a: float | None = None
    cycles_expanded: float | None = None
    energy_std_expanded_j: float | None = None
