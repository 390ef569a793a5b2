"""From codes to volts, amperes and watts: affine arithmetic on sums over windows.

With x the shunt's drop (or the current itself where the channel is in ampere), i = x/R, V_s the voltage of the node
and C the capacitance behind the shunt, over one window:

    sensed at the source   p_supply = V_s i          p_dut = (V_s - x) i
    sensed at the DUT      p_supply = (V_s + x) i    p_dut = V_s i
    energy                 integral of p, the first and last sample weighted by their part inside
    decoupling             charge C (x_end - x_start), at the mean of the two voltages that the charge passes

The last line is exact for a first-order R C: integrating p_dut i_core with i_core = i + tau di/dt gives
C [V_s x - x^2/2] between the edges (sensed at the source).

A gain calibration tells the current that flows over the current that is read, k: i = k x/R with the nominal R, and the
true drop is R i. Skew is how much later the shunt's channel shows what the trigger's shows.

A gain limit is a slope about mid-screen. A zero reading at the same settings takes the part at zero off, so that the
error is g (v - zero); without one, and in a measured supply, which is never zeroed, it is g (v - mid-screen).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from instruments.record import Channel, Record
from labctl.analysis import kernels
from labctl.analysis.calibration import in_force, same_settings
from labctl.analysis.grid import code_step
from labctl.analysis.keys import settings
from labctl.analysis.trigger import channel_of, check_complete
from labctl.errors import CaptureError, ConfigError
from labctl.model import Calibration, Shunt, Wiring


class Flow(NamedTuple):
    """What passes in each window; every array has shape (windows,)."""

    duration_s: np.ndarray
    charge_c: np.ndarray
    energy_j: np.ndarray
    energy_supply_j: np.ndarray


# One number, or one for each window (of a single window: one for each trial).
Amount = float | np.ndarray


@dataclass(frozen=True)
class Deviation:
    """How far the inputs lie from what was taken for them: ratios, and offsets in volts (or amperes), by channel.

    `current` is that of a gain calibration's factor. Arrays are of shape (windows,), or (trials,) for one window.
    """

    gain: Mapping[str, Amount] = field(default_factory=dict)
    offset: Mapping[str, Amount] = field(default_factory=dict)
    supply_offset_v: Amount = 0.0
    resistance: Amount = 0.0
    supply: Amount = 0.0
    decoupling: Amount = 0.0
    timebase: Amount = 0.0
    current: Amount = 0.0
    skew_s: Amount = 0.0


@dataclass(frozen=True)
class Moments:
    """Weighted sums over each window of codes less `shift`: all that energy, its spread and its budget need.

    `weight` is the window's length in samples, (windows,); `first` sums codes, (windows, channels); `second` their
    products, (windows, channels, channels); `start` and `stop` are the codes at the edges, as `first`.
    """

    shift: np.ndarray
    weight: np.ndarray
    first: np.ndarray
    second: np.ndarray
    start: np.ndarray
    stop: np.ndarray

    def mean(self) -> Moments:
        """Average over the windows: one window that stands for all."""
        return Moments(self.shift, *(np.mean(a, axis=0, keepdims=True) for a in
                                     (self.weight, self.first, self.second, self.start, self.stop)))


@dataclass(frozen=True)
class Chain:
    """One record's way from codes to watts. Arrays are of shape (channels,) unless said.

    `sign` and `supply` say how each channel enters x and V_s. `has_zero` tells which channels a zero reading holds
    for; `zero` is its mean (0 elsewhere), `zero_n` the number of its samples, `zero_covariance`, (channels, channels),
    that of its samples in codes: the instrument's noise. `middle` is the value at mid-screen, 0 where not known, and
    `code_step` the converter's step in codes, NaN where not known. `voltage_v` holds where no channel measures the
    supply. `resistance_ohm` is None where the channel is in ampere. `calibrations` are those in force, by
    kind; that of the time base is already in `dt_s`.
    """

    channels: tuple[Channel, ...]
    sign: np.ndarray
    supply: np.ndarray
    has_zero: np.ndarray
    zero: np.ndarray
    zero_n: np.ndarray
    zero_covariance: np.ndarray
    middle: np.ndarray
    code_step: np.ndarray
    dt_s: float
    voltage_v: float | None
    sensed: str
    resistance_ohm: float | None
    decoupling_f: float | None
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)

    @property
    def skew_s(self) -> float:
        """Give how much later the shunt's channel shows an event than the trigger's, as far as a calibration tells."""
        deskew = self.calibrations.get("deskew")
        return deskew.value if deskew else 0.0

    @property
    def zeroed(self) -> bool:
        """Tell whether a zero reading holds for every channel of the shunt."""
        return bool(self.has_zero[self.sign != 0].all())

    @property
    def tau_s(self) -> float | None:
        """Give the time constant of shunt and decoupling, None where not known."""
        if self.resistance_ohm is None or self.decoupling_f is None:
            return None
        return self.resistance_ohm * self.decoupling_f

    def forms(self, shift: np.ndarray, d: Deviation) -> tuple[np.ndarray, Any, np.ndarray, Any]:
        """Give x = a . (codes - shift) + a0 and V_s = b . (codes - shift) + b0 under a deviation.

        a and b are of shape (channels,), a0 and b0 numbers; a deviation of arrays puts their axis before.
        """
        scale = np.array([c.scale for c in self.channels])
        base = np.array([c.offset for c in self.channels]) + scale * shift
        gain, push = self._by_channel(d.gain), self._by_channel(d.offset)
        pivot = np.where(self.has_zero, self.zero, self.middle)
        a = self.sign * (1 + gain) * scale
        a0 = (base - self.zero + gain * (base - pivot) + push) @ self.sign
        b = self.supply * (1 + gain) * scale
        if self.voltage_v is None:
            return a, a0, b, (base + gain * (base - self.middle)) @ self.supply + d.supply_offset_v
        return a, a0, b, self.voltage_v * (1 + d.supply)

    def _by_channel(self, values: Mapping[str, Amount]) -> np.ndarray:
        return np.stack(np.broadcast_arrays(*(values.get(c.name, 0.0) for c in self.channels)), axis=-1)

    def means(self, m: Moments) -> tuple[np.ndarray, np.ndarray]:
        """Give the mean of x and of V_s in each window."""
        a, a0, b, b0 = self.forms(m.shift, Deviation())
        return m.first @ a / m.weight + a0, m.first @ b / m.weight + b0

    def flow(self, m: Moments, d: Deviation | None = None) -> Flow:
        """Give duration, charge and both energies of each window, under a deviation of the inputs."""
        d = d or Deviation()
        a, a0, b, b0 = self.forms(m.shift, d)
        dt_s = self.dt_s * (1 + d.timebase)
        first_a, first_b = _dot(m.first, a), _dot(m.first, b)
        x = first_a + a0 * m.weight
        xx = _dot(_dot(m.second, a[..., None, :]), a) + 2 * a0 * first_a + a0 * a0 * m.weight
        ux = _dot(_dot(m.second, a[..., None, :]), b) + b0 * first_a + a0 * first_b + a0 * b0 * m.weight
        per_unit: Amount = self.current_per_unit
        true_drop: Amount = self.true_drop_ratio
        if "gain" not in self.calibrations:
            per_unit /= 1 + d.resistance
        else:
            per_unit *= 1 + d.current
            true_drop *= (1 + d.current) * (1 + d.resistance)
        scale = dt_s * per_unit
        charge, sensed, drop = x * scale, ux * scale, xx * scale * true_drop
        voltage_v = first_b / m.weight + b0
        start, stop = _dot(m.start, a) + a0, _dot(m.stop, a) + a0
        if np.any(d.skew_s):
            charge = charge + d.skew_s * (stop - start) * per_unit
            sensed = sensed + d.skew_s * (stop - start) * per_unit * voltage_v
            drop = drop + d.skew_s * (stop**2 - start**2) * per_unit * true_drop
        if self.tau_s is not None:
            assert self.decoupling_f is not None
            capacitance_f = self.decoupling_f * (1 + d.decoupling)
            charge = charge + capacitance_f * (stop - start) * true_drop
            sensed = sensed + capacitance_f * (stop - start) * true_drop * voltage_v
            drop = drop + capacitance_f * (stop**2 - start**2) * true_drop**2 / 2
        dut, supply = (sensed + self.drop_sign(power) * drop for power in ("dut", "supply"))
        return Flow(m.weight * dt_s, charge, dut, supply)

    @property
    def current_per_unit(self) -> float:
        """Give the amperes for one unit of x."""
        return self.true_drop_ratio * (1.0 if self.resistance_ohm is None else 1 / self.resistance_ohm)

    @property
    def true_drop_ratio(self) -> float:
        """Give the true drop over x: other than one where a gain calibration holds."""
        gain = self.calibrations.get("gain")
        return gain.value if gain else 1.0

    def drop_sign(self, power: str) -> int:
        """Tell how the shunt's drop enters a power, "dut" or "supply": power = (V_s + sign x) i."""
        if self.resistance_ohm is None:
            return 0
        if self.sensed == "source":
            return -1 if power == "dut" else 0
        return 1 if power == "supply" else 0

    def power_w(self, x: np.ndarray, voltage_v: np.ndarray | float, power: str) -> np.ndarray:
        """Give the power, "dut" or "supply", at drops x (or currents) and node voltages."""
        return (voltage_v + self.drop_sign(power) * self.true_drop_ratio * x) * x * self.current_per_unit


def _dot(values: np.ndarray, form: np.ndarray) -> np.ndarray:
    """Sum over the channels: the last axis."""
    return np.einsum("...i,...i->...", values, form)


def check_shunt(shunt: Shunt) -> Shunt:
    """Raise ConfigError unless resistance, tolerances and decoupling are possible."""
    if not 0 < shunt.resistance_ohm < math.inf:
        raise ConfigError(f"the shunt is {shunt.resistance_ohm} ohm; it must be a resistance above zero, as 1.3")
    if shunt.wiring not in ("low-side", "high-side-differential", "two-channel"):
        raise ConfigError(
            f"shunt wiring {shunt.wiring!r} is not known; it is low-side, high-side-differential or two-channel"
        )
    for name, value in (("tolerance_ratio", shunt.tolerance_ratio),
                        ("decoupling_tolerance_ratio", shunt.decoupling_tolerance_ratio)):
        if not 0 <= value < 1:
            raise ConfigError(f"the shunt's {name} is {value}; it must lie between 0 and 1, as 0.01 for 1 %")
    if shunt.decoupling_f is not None and not 0 <= shunt.decoupling_f < math.inf:
        raise ConfigError(f"decoupling_f is {shunt.decoupling_f}; it must be a capacitance, as 4.7e-6")
    return shunt


def resolve(
    record: Record, wiring: Wiring, zero: Record | None = None, calibrations: Sequence[Calibration] = ()
) -> Chain:
    """Work out how a record's codes become watts.

    Raises CaptureError where shunt, supply or sample rate are missing, ConfigError for values that cannot be.
    """
    if record.dt_s is None:
        raise CaptureError("the sample rate is not known, so there is no duration and no energy; give it (--rate)")
    supply = wiring.supply
    if supply is None or (supply.voltage_v is None and supply.channel is None):
        raise CaptureError("the supply voltage is not known, so there is no power; give it (--supply 3.3)")
    if not 0 <= supply.tolerance_ratio < 1:
        raise ConfigError(
            f"the supply's tolerance_ratio is {supply.tolerance_ratio}; it must lie between 0 and 1, as 0.01 for 1 %"
        )
    if supply.sensed not in ("source", "dut"):
        raise ConfigError(f'the supply is sensed at {supply.sensed!r}; it is "source" or "dut"')
    signs = _shunt_signs(wiring)
    if not signs:
        raise CaptureError("no channel carries the shunt's drop or a current; name it (--shunt-channel CH1)")
    names = list(signs)
    if supply.channel and supply.channel not in names:
        names.append(supply.channel)
    channels = tuple(channel_of(record, name) for name in names)
    direct = channels[0].unit == "A"
    if not direct and wiring.shunt is None:
        raise CaptureError(
            f"{channels[0].name} is in {channels[0].unit} and the shunt's value is not known; give it (--shunt 1.3)"
        )
    resistance_ohm = decoupling_f = None
    if not direct:
        assert wiring.shunt is not None
        resistance_ohm = check_shunt(wiring.shunt).resistance_ohm
        decoupling_f = wiring.shunt.decoupling_f
    sensed = supply.sensed
    voltage_v = None if supply.channel else supply.voltage_v
    if supply.channel and supply.channel == wiring.shunt_low_channel:
        sensed = "dut"
    if voltage_v is not None and not 0 < voltage_v < math.inf:
        raise ConfigError(f"the supply is {voltage_v} V; it must be a voltage above zero, as 3.3")
    by_kind = in_force(calibrations, record.instrument, wiring, [c for c in channels if c.name in signs])
    timebase = by_kind.get("timebase")
    found = [zero_channel(c, zero) if name in signs else None for name, c in zip(names, channels, strict=True)]
    means, covariance, n = _read_zero(zero, found)
    return Chain(
        channels=channels,
        sign=np.array([signs.get(name, 0.0) for name in names]),
        supply=np.array([float(name == supply.channel) for name in names]),
        has_zero=np.array([z is not None for z in found]),
        zero=means,
        zero_n=n,
        zero_covariance=covariance,
        middle=np.array([float(c.settings.get("offset_v") or 0.0) for c in channels]),
        code_step=np.array([code_step(c) for c in channels]),
        dt_s=record.dt_s * (1 + timebase.value if timebase else 1),
        voltage_v=voltage_v,
        sensed=sensed,
        resistance_ohm=resistance_ohm,
        decoupling_f=decoupling_f,
        calibrations=by_kind,
    )


def _shunt_signs(wiring: Wiring) -> dict[str, float]:
    """Tell how the shunt's channels enter its drop; empty where none is named."""
    high, low = wiring.shunt_high_channel, wiring.shunt_low_channel
    if high and low:
        return {high: 1.0, low: -1.0}
    return {wiring.shunt_channel: 1.0} if wiring.shunt_channel else {}


def same_errors(one: Channel, other: Channel) -> bool:
    """Tell whether gain and offset errors of two channels are the same: one range, offset, probe and bandwidth."""
    return same_settings(one, settings(other))


def zero_channel(channel: Channel, zero: Record | None) -> Channel | None:
    """Get the zero reading of a channel, None where there is none at the same settings."""
    found = None if zero is None else zero.channels.get(channel.name)
    return found if found is not None and same_errors(channel, found) else None


def zero_applies(record: Record, wiring: Wiring, zero: Record) -> bool:
    """Tell whether a zero reading was taken at the settings of every channel of a record's shunt.

    Raises ConfigError where the wiring names a channel that the record does not hold.
    """
    return all(zero_channel(channel_of(record, name), zero) is not None for name in _shunt_signs(wiring))


def _read_zero(zero: Record | None, found: list[Channel | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give the means of a zero reading in the channels' units, the covariance of its samples in codes, their numbers.

    All zeros for a channel without one. Raises CaptureError for a reading that is clipped or holds no number.
    """
    means, covariance, n = np.zeros(len(found)), np.zeros((len(found), len(found))), np.zeros(len(found), np.int64)
    index = [k for k, z in enumerate(found) if z is not None]
    channels = [z for z in found if z is not None]
    if zero is None or not channels:
        return means, covariance, n
    check_complete(zero, "zero")
    n_segments, n_samples = channels[0].codes.shape
    spans = kernels.Spans(np.arange(n_segments), np.zeros(n_segments, np.int64), np.full(n_segments, n_samples))
    sums, cross = kernels.sum_spans(
        [c.codes for c in channels], spans, clip_limits=[(c.code_min, c.code_max) for c in channels]
    )
    # Python's integers: exact for any number of codes.
    first = [sum(s.total.tolist()) for s in sums]
    second = {(i, i): sum(s.squares.tolist()) for i, s in enumerate(sums)}
    second |= {pair: sum(products.tolist()) for pair, products in cross.items()}
    total = n_segments * n_samples
    for i, (k, c, s) in enumerate(zip(index, channels, sums, strict=True)):
        n_bad = int(s.n_clipped.sum() + s.n_nan.sum())
        if n_bad:
            raise CaptureError(
                f"the zero reading of {c.name} has {n_bad} clipped or lost of {total} samples; take it again with a "
                "range and offset that hold zero"
            )
        means[k] = first[i] / total * c.scale + c.offset
        n[k] = total
    for (i, j), products in second.items():
        value = (total * products - first[i] * first[j]) / (total * max(total - 1, 1))
        covariance[index[i], index[j]] = covariance[index[j], index[i]] = max(value, 0.0) if i == j else value
    return means, covariance, n
