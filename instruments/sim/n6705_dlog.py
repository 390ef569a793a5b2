"""The image of a data log file (.dlog) of a Keysight N6705.

Layout from derf's dlog-viewer and from the exporter rlib/keysight/dlog_exporter.cpp: an XML-like text with one element
for each output and one for the frame, ended by the line ``</dlog>``; eight bytes whose meaning is not known; big-endian
float32 records: for each enabled output the voltage and then the current. With the extremes on, each has three values,
mean, minimum, maximum. The names of two options start with a digit, which no XML parser takes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instruments.sim.n6705_module import MODEL
from instruments.sim.n6705_rules import N_OUTPUTS

TRIGGER_CODES = {"IMM": 0, "BUS": 1, "EXT": 2}


def header(
    quantities: Sequence[tuple[int, str]],
    extremes: bool,
    source: str,
    time_s: float,
    offset_percent: float,
    dt_s: float,
) -> bytes:
    """Return what comes before the records, for (output, "VOLT" or "CURR") in their order."""
    lines = ["<!-- N6700X dlog settings -->", "<dlog>"]
    for n in range(1, N_OUTPUTS + 1):
        volt, curr = (int((n, kind) in quantities) for kind in ("VOLT", "CURR"))
        lines += [
            f'\t<channel id="{n}">',
            f"\t\t<sense_volt>{volt}</sense_volt>",
            f"\t\t<sense_curr>{curr}</sense_curr>",
            "\t\t<ident>",
            f"\t\t\t<model>{MODEL}</model>",
            "\t\t\t<option>",
            *(f"\t\t\t\t<{name}>0</{name}>" for name in ("1ua", "2ua", "lga", "relay", "reverse")),
            "\t\t\t</option>",
            "\t\t</ident>",
            "\t</channel>",
        ]
    lines += [
        "\t<frame>",
        f"\t\t<sense_minmax>{int(extremes)}</sense_minmax>",
        f"\t\t<trig_source>{TRIGGER_CODES.get(source, 3)}</trig_source>",
        f"\t\t<time>{time_s:.9g}</time>",
        f"\t\t<offset>{offset_percent:.9g}</offset>",
        f"\t\t<tint>{dt_s:.9g}</tint>",
        "\t</frame>",
        "</dlog>",
    ]
    return "\n".join(lines).encode("ascii") + b"\n" + bytes(8)


def body(records: np.ndarray) -> bytes:
    """Return the records, shape (records, values), as they lie in the file."""
    return records.astype(">f4").tobytes()
