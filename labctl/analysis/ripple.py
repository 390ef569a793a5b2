"""The fluctuation of power within a run, once the decoupling has settled.

A window begins with a step of the core's current. What the shunt shows follows it as 1 - exp(-t/tau), tau = R C: the
decoupling is charged, and the core's power does not rise so slowly. After 5 tau less than 1 % of the step is left, so
the standard deviation is that of the power from `start + 5 tau` to `stop`; of a window with fewer than 20 samples there
nothing is told. Where C is not known, 10 uF are assumed, more than most boards carry at the core.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from labctl.analysis.chain import Chain, Deviation
from labctl.analysis.kernels import Spans
from labctl.analysis.moments import SpanSums, Stretches, covariance, weigh
from labctl.analysis.trigger import MIN_SAMPLES

SETTLED_TAUS = 5
# Decoupling that a board may well carry.
PLAUSIBLE_DECOUPLING_F = 10e-6


def settle_s(chain: Chain) -> float:
    """Give how long the shunt shows the decoupling being charged: 5 R C, nothing where there is no shunt."""
    if chain.resistance_ohm is None:
        return 0.0
    tau_s = chain.tau_s
    return SETTLED_TAUS * (chain.resistance_ohm * PLAUSIBLE_DECOUPLING_F if tau_s is None else tau_s)


class Ripple:
    """The settled part of windows: `heads` are what is left out at their starts, to be summed with the windows."""

    def __init__(self, chain: Chain, segment: np.ndarray, windows: Stretches) -> None:
        self.chain, self.windows = chain, windows
        first = np.rint(windows.start + settle_s(chain) / chain.dt_s + 0.5).astype(np.int64)
        if settle_s(chain) == 0:
            first = windows.begin
        self.told = windows.stop - np.maximum(first - 0.5, windows.start) >= MIN_SAMPLES
        # A window of which nothing is told is left as it is, and not summed twice.
        self.first = np.where(self.told, first, windows.begin)
        self.heads = Spans(segment, windows.begin, self.first)

    def variance(
        self, of_windows: SpanSums, of_heads: SpanSums, shift: np.ndarray, power: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Give the variance of power in each window's settled part, and what of it is noise, both in square watts.

        (windows,) each, the former NaN where nothing is told. `of_windows` are sums over whole windows, `of_heads` over
        the heads.

        First order in the spread: exact for a power that is affine in the codes. Noise is that of the zero reading,
        where one holds for all of the shunt: 0 else. That of a supply's own channel stays, weaker by the drop over the
        supply.
        """
        chain, windows = self.chain, self.windows
        # A head ends between two samples, the window begins inside one.
        cut = self.first > windows.begin
        start = np.where(cut, self.first - 0.5, windows.start)
        nowhere = np.zeros((len(start), len(chain.channels)))
        m = weigh(
            _without(of_windows, of_heads), Stretches(start, windows.stop, self.first, windows.end), shift,
            (nowhere, nowhere),
        )
        a, _, b, _ = chain.forms(m.shift, Deviation())
        x, voltage_v = chain.means(m)
        slope = (np.outer(voltage_v + 2 * chain.drop_sign(power) * x, a) + np.outer(x, b)) * chain.current_per_unit
        total = np.einsum("ni,nij,nj->n", slope, covariance(m), slope)
        noise = np.einsum("ni,ij,nj->n", slope, chain.zero_covariance, slope)
        return np.where(self.told, total, np.nan), noise if chain.zeroed else np.zeros_like(noise)


def _without(of_windows: SpanSums, of_heads: SpanSums) -> SpanSums:
    """Take the heads' sums off those of the windows; exact, since codes are summed as integers."""
    sums = [
        replace(whole, n=whole.n - head.n, total=whole.total - head.total, squares=whole.squares - head.squares)
        for whole, head in zip(of_windows[0], of_heads[0], strict=True)
    ]
    return sums, {pair: whole - of_heads[1][pair] for pair, whole in of_windows[1].items()}
