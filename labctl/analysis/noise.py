"""The noise floor of a channel: rms, its part that a mean over a window keeps, and the bits that it leaves.

The variance of a mean over a time T of noise that is white below 1/T is D/T: for samples that are independent
D = rms^2 dt, and for a channel whose bandwidth is limited, or that hums, more. D is found from the means of stretches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

# Their variance is then known to 7 %, rms; each must stay long beside what a limited bandwidth correlates.
_N_STRETCHES = 400
_IDEAL = 1 / math.sqrt(12)


@dataclass(frozen=True)
class Noise:
    """Noise of a steady signal: `rms` in a unit, `density` (D above) in its square times seconds, `dt_s` of a sample.

    `density` has `n_stretches` - 1 degrees of freedom.
    """

    rms: float
    density: float
    dt_s: float
    n_stretches: int

    def of_mean(self, duration_s: float) -> float:
        """Give the standard deviation of a mean over a window."""
        return math.sqrt(self.density / duration_s)

    def of_integral(self, duration_s: float) -> float:
        """Give the standard deviation of an integral over a window, in the unit times seconds."""
        return math.sqrt(self.density * duration_s)


def find_noise(codes: list[np.ndarray], factors: np.ndarray, dt_s: float) -> Noise:
    """Find the noise of a sum of channels, each times its factor (unit a code); codes of shape (segments, samples).

    Codes are summed as they are, stretch by stretch; nothing is converted whole. A segment gives at least two
    stretches. Raises ValueError for fewer than two samples.
    """
    n_segments, n_samples = codes[0].shape
    if n_samples < 2:
        raise ValueError(f"noise needs two samples or more, not {n_samples}")
    per_segment = max(2, _N_STRETCHES // n_segments)
    length = max(1, n_samples // per_segment)
    per_segment = min(per_segment, n_samples // length)
    means, variance = [], 0.0
    for segment in range(n_segments):
        for k in range(per_segment):
            pieces = [c[segment, k * length : (k + 1) * length].astype(np.float64) for c in codes]
            x = factors @ np.stack(pieces)
            means.append(x.mean())
            variance += float(x.var())
    found = np.asarray(means)
    total = found.reshape(n_segments, per_segment)
    # Segments may lie far apart in time: what changes from one to the next is drift, not noise of a window.
    between = float(((total - total.mean(axis=1, keepdims=True)) ** 2).sum() / (n_segments * (per_segment - 1)))
    return Noise(
        rms=math.sqrt(variance / len(found) + float(total.var(axis=1).mean())),
        density=between * length * dt_s,
        dt_s=dt_s,
        n_stretches=n_segments * (per_segment - 1) + 1,
    )


def effective_bits(n_bits: float, noise_codes: float) -> float:
    """Give the effective number of bits, N - log2(noise rms / ideal quantisation noise), the latter 1/sqrt(12) codes.

    The definition of IEEE Std 1241-2010 (ENOB), here with the noise of a steady input alone: without a sine the
    converter's non-linearity and jitter do not show. A steady input that falls inside one code shows less than the
    ideal noise; no more than N is given.
    """
    return n_bits - math.log2(max(noise_codes, _IDEAL) / _IDEAL)


def converter_bits(code_min: float | None, code_max: float | None) -> float | None:
    """Give the bits of a converter from its least and greatest code, None where they are not known."""
    if code_min is None or code_max is None or code_max <= code_min:
        return None
    return math.log2(code_max - code_min + 1)
