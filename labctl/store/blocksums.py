"""The pyramid's finest level in one compiled pass over the codes."""

# `if y < low` vectorises; min() would not.
# ruff: noqa: PLR1730

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def block_sums(codes, block, total, squares, low, high):
    """Fill sum, sum of squares, least and greatest of each full block of integer codes (rows, samples).

    The four arrays have shape (rows, samples // block); the first two are int64.
    """
    zero = np.int64(0)
    for row in range(codes.shape[0]):
        for k in range(codes.shape[1] // block):
            piece = codes[row, k * block : (k + 1) * block]
            s = zero
            q = zero
            least = piece[0]
            most = piece[0]
            for i in range(piece.size):
                x = piece[i] + zero
                s += x
                q += x * x
            for i in range(piece.size):
                y = piece[i]
                if y < least:
                    least = y
                if y > most:
                    most = y
            total[row, k] = s
            squares[row, k] = q
            low[row, k] = least
            high[row, k] = most
