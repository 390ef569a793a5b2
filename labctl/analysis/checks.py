"""What a result is checked against: the DUT's own count, the board's data, and what the wiring leaves unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instruments.record import Record
from labctl.analysis.chain import Chain, Deviation, zero_channel
from labctl.analysis.power import Measurement
from labctl.analysis.ripple import PLAUSIBLE_DECOUPLING_F, SETTLED_TAUS, settle_s
from labctl.analysis.statistics import reach, summarize
from labctl.analysis.trigger import Refusal
from labctl.errors import CaptureError
from labctl.model import Capture, Run
from labctl.units import quantity

_UNKNOWN_TAUS = 20
_FEW_CYCLES = 8
_FEW_CODES = 10
# A current this many times below or above the board's typical one is hardly the board's, whatever it does.
FAR_RATIO = 3.0
_FEW_BITS_SAMPLES = 65536
# More than half of an extreme's distance from the mean.
_MOSTLY_RATIO = 0.5
_TAIL_TAUS = 5


@dataclass(frozen=True)
class Series:
    """One record measured, with all that was refused in it: what is needed of series and null alike."""

    measurement: Measurement
    refusals: tuple[Refusal, ...]
    record: Record

    @property
    def runs(self) -> tuple[Run, ...]:
        """Give the runs that were measured."""
        return self.measurement.runs


def compare_with_dut(warnings: list[str], capture: Capture, series: Series, null: Series | None) -> None:
    """Warn where scope and DUT disagree beyond time base, crystal, one count and a few cycles.

    Without null windows nothing is compared: what the pin takes beyond the DUT's own count is not known.
    """
    report, clock_hz = capture.dut_report, capture.board.get("clock_hz")
    if report is None or not report.cycles or not clock_hz or null is None:
        return
    runs, n_cycles = series.runs, len(report.cycles)
    if series.record.n_segments > 1:
        if n_cycles != series.record.n_segments:
            warnings.append(
                f"the DUT counted {n_cycles} runs, the record holds {series.record.n_segments}: not compared"
            )
            return
        counts = [report.cycles[r.segment] for r in runs]
    elif n_cycles == len(runs):
        counts = list(report.cycles)
    else:
        warnings.append(f"the DUT counted {n_cycles} runs, {len(runs)} windows were measured: not compared")
        return
    base_s, base_cycles = 0.0, 0.0
    if capture.null_report is not None and capture.null_report.cycles:
        base_s = summarize([r.duration_s for r in null.runs]).mean
        base_cycles = summarize(capture.null_report.cycles).mean
    ratio = (series.record.timebase_ratio or 0.0) + capture.board.get("crystal_tolerance_ratio", 0.0)
    fixed_s = 2 * series.measurement.chain.dt_s + (1 + _FEW_CYCLES) / clock_hz
    off = []
    for number, (run, count) in enumerate(zip(runs, counts, strict=True), 1):
        expected_s = (count - base_cycles) / clock_hz
        difference_s = run.duration_s - base_s - expected_s
        if abs(difference_s) > ratio * abs(expected_s) + fixed_s:
            off.append((number, difference_s))
    if off:
        number, difference_s = off[0]
        warnings.append(
            f"DUT timer and scope disagree in {len(off)} of {len(runs)} runs, in run {number} by "
            f"{quantity(difference_s, 's')}: an edge was missed, the clock is not what the board's data say, or the "
            "counter wrapped"
        )


def check_current(
    warnings: list[str] | None, board: Mapping[str, Any], current_a: float, operation: str = ""
) -> None:
    """Judge an implied mean current by the board's range: add a warning, or raise CaptureError where None is given.

    Asleep, in an operation `idle…`, a board draws as little as it likes.
    """
    supply = board.get("supply", {})
    low, high = supply.get("current_min_a", -math.inf), supply.get("current_max_a", math.inf)
    if operation.startswith("idle"):
        low = -math.inf
    if low <= current_a <= high:
        return
    text = (
        f"the implied current of {quantity(current_a, 'A')} lies outside what {board.get('name', 'the board')} can "
        f"draw ({quantity(low, 'A')} to {quantity(high, 'A')}): check the shunt's value and unit, the probe ratio and "
        "the polarity, and that the zero reading was taken with the DUT unpowered"
    )
    if warnings is None:
        raise CaptureError(text)
    warnings.append(text)


def warn_of_far_current(warnings: list[str], board: Mapping[str, Any], operation: str, current_a: float) -> None:
    """Warn where a core at work draws a current that is far from what the board typically does."""
    typical = board.get("supply", {}).get("current_typical_a")
    if typical is None or operation.startswith("idle") or typical / FAR_RATIO <= current_a <= typical * FAR_RATIO:
        return
    less = current_a < typical / FAR_RATIO
    cause = "another ground or supply may bypass the shunt, or" if less else "another load may share the shunt, or"
    warnings.append(
        f"the mean current of {quantity(current_a, 'A')} is far {'less' if less else 'more'} than the "
        f"{quantity(typical, 'A')} that {board.get('name', 'the board')} typically draws: {cause} the shunt's value, "
        "its wiring or the probe ratio is wrong; `labctl bench check` names it"
    )


def warn_of_chain(warnings: list[str], measured: Measurement, zero: Record | None) -> None:
    """Warn of what the wiring leaves unknown: offset, accuracy, decoupling, resolution."""
    chain = measured.chain
    # A meter states its offset, and has neither range nor offset setting that a zero reading would belong to.
    if not chain.zeroed and not (chain.resistance_ohm is None and chain.channels[0].accuracy):
        found = zero is not None and any(
            c.name in zero.channels and zero_channel(c, zero) is None for c in chain.channels
        )
        why = "the zero reading was taken at another range or other settings" if found else "no zero reading"
        limit = "with its full limit in the uncertainty" if chain.channels[0].accuracy else "of unknown size"
        warnings.append(
            f"{why}: the instrument's offset, {limit}, is in every number, and its noise in ripple and extremes"
        )
    if all(c.accuracy is None for c in chain.channels):
        warnings.append("the accuracy of the instrument is not known: gain and offset are not in the uncertainty")
    mean_s = summarize([r.duration_s for r in measured.runs]).mean
    unknown_ohm = chain.resistance_ohm if chain.decoupling_f is None else None
    if unknown_ohm is not None and mean_s < _UNKNOWN_TAUS * unknown_ohm * PLAUSIBLE_DECOUPLING_F:
        warnings.append(
            f"the decoupling behind the shunt is not known: with {quantity(PLAUSIBLE_DECOUPLING_F, 'F')} a "
            f"window of {quantity(mean_s, 's')} is shorter than {_UNKNOWN_TAUS} time constants, and part of the energy "
            "flows outside it; give the capacitance ([shunt] decoupling_f, or --decoupling)"
        )
    if chain.tau_s and mean_s < SETTLED_TAUS * chain.tau_s:
        warnings.append(
            f"a window of {quantity(mean_s, 's')} is shorter than {quantity(SETTLED_TAUS * chain.tau_s, 's')}, "
            f"{SETTLED_TAUS} time constants of shunt and decoupling: the energy rests on the correction, whose model "
            "of a steady current at the edges is not in the uncertainty; repeat the operation in each window "
            "(--iterations 10, or more)"
        )
    _warn_of_no_ripple(warnings, measured, mean_s)
    currents = [r.current_mean_a for r in measured.runs]
    if summarize(currents).mean < 0:
        warnings.append("the mean current is negative: swap the ends of the shunt, or the channel is AC-coupled")
    _warn_of_resolution(warnings, measured, abs(summarize(currents).mean))
    seen = np.flatnonzero(chain.sign).tolist()
    if len(seen) == 2 and any(_few_bits(chain, k) for k in seen):
        step_v = max(_code_units(chain, k) for k in seen)
        warnings.append(
            f"two single-ended channels of eight bits: one code is {step_v:.3g} V, which rarely resolves a shunt's drop"
        )


def _warn_of_no_ripple(warnings: list[str], measured: Measurement, mean_s: float) -> None:
    """Say why the fluctuation within a run is not told."""
    if measured.ripple_w is not None:
        return
    chain = measured.chain
    taken = "" if chain.tau_s is not None else f" (with {quantity(PLAUSIBLE_DECOUPLING_F, 'F')}, since it is not known)"
    warnings.append(
        f"no std within runs: the decoupling{taken} is being charged for {SETTLED_TAUS} time constants, "
        f"{quantity(settle_s(chain), 's')}, and of windows of {quantity(mean_s, 's')} too little is left after that"
    )


def _code_units(chain: Chain, k: int) -> float:
    """Give the converter's step of a channel in its unit, NaN where not known."""
    return float(chain.code_step[k]) * abs(chain.channels[k].scale)


def _few_bits(chain: Chain, k: int) -> bool:
    """Tell whether a channel has eight bits: by its codes, or where its values are less than 256 steps from zero."""
    codes = chain.channels[k].codes
    if np.dtype(codes.dtype).kind in "iu":
        return np.dtype(codes.dtype).itemsize == 1
    if math.isnan(chain.code_step[k]):
        return False
    return bool(np.abs(np.asarray(codes[0, :_FEW_BITS_SAMPLES])).max() < 256 * chain.code_step[k])


def _warn_of_resolution(warnings: list[str], measured: Measurement, current_a: float) -> None:
    """Warn where the signal spans only a few codes: averaging resolves it, but the converter's non-linearity stays."""
    chain = measured.chain
    steps = [_code_units(chain, k) for k in np.flatnonzero(chain.sign).tolist()]
    step_a = max((s for s in steps if not math.isnan(s)), default=0.0) * chain.current_per_unit
    if current_a < _FEW_CODES * step_a:
        warnings.append(
            f"the mean current spans {current_a / step_a:.1f} codes of the converter: its non-linearity, not in the "
            "uncertainty, may exceed what is stated; take a larger shunt or a smaller range"
        )


def warn_of_peaks(warnings: list[str], measured: Measurement) -> None:
    """Warn where ripple and extremes are mostly the instrument's noise, or the peak is from before the windows.

    An extreme is mostly noise where as many samples of noise alone reach half as far from the mean or further; the
    ripple is within the noise where less of it is left than was taken off.
    """
    chain, moments = measured.chain, measured.moments
    mean_a = summarize([r.current_mean_a for r in measured.runs]).mean
    high_a = max(r.current_max_a for r in measured.runs) - mean_a
    low_a = mean_a - min(r.current_min_a for r in measured.runs)
    a, a0, _, _ = chain.forms(moments.shift, Deviation())
    if measured.noise_w:
        n_samples = float(moments.weight.sum())
        noise_a = math.sqrt(float(a @ chain.zero_covariance @ a)) * chain.current_per_unit
        reach_a = reach(n_samples) * noise_a
        high, low = (distance < reach_a / _MOSTLY_RATIO for distance in (high_a, low_a))
        for mostly, what in ((high, "peak current and greatest power are"), (low, "least power is")):
            if mostly:
                warnings.append(f"{what} mostly scope noise ({quantity(noise_a, 'A', 2)} rms)")
        if measured.ripple_w is not None and measured.ripple_w < measured.noise_w:
            warnings.append("std within runs is rough: more noise was taken off than is left")
    if chain.tau_s:
        mean = np.array([r.current_mean_a for r in measured.runs])
        excess = summarize((moments.start @ a + a0) * chain.current_per_unit - mean)
        if excess.mean > max(_MOSTLY_RATIO * high_a, 3 * excess.se):
            warnings.append(
                f"the windows begin in the tail of what went before, {quantity(excess.mean, 'A')} above their mean "
                "current, which the decoupling lets fade slowly: peak current and greatest power are not the "
                f"operation's; see the waveform from {quantity(_TAIL_TAUS * chain.tau_s, 's')} on"
            )


def check_sign(runs: Sequence[Run], power_w: float, expanded_w: float) -> None:
    """Raise CaptureError where the shunt reads negative beyond the uncertainty of the mean power."""
    current_a = summarize([r.current_mean_a for r in runs]).mean
    if current_a < 0 and power_w < -expanded_w:
        raise CaptureError(
            f"the shunt reads negative, a mean current of {quantity(current_a, 'A')}: swap the leads at the shunt (or "
            "the names of the channels at its two ends) and measure again"
        )


def warn_of_refusals(warnings: list[str], series: Series, null: Series | None) -> None:
    """Name what was refused, and where."""
    for name, part in (("run", series), ("null window", null)):
        if part is None:
            continue
        reasons: dict[str, list[int]] = {}
        for refusal in part.refusals:
            reasons.setdefault(refusal.reason, []).append(refusal.segment)
        for reason, segments in reasons.items():
            shown = ", ".join(str(s) for s in segments[:5]) + (", …" if len(segments) > 5 else "")
            warnings.append(f"{len(segments)} {name}(s) refused: {reason} (segment {shown})")
