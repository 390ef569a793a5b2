"""What stands in the DUT's place, a known load or a known pulse, and how a person is told to connect it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labctl.units import quantity

FIXTURES = ("load", "pulsed-load", "pulse")


@dataclass(frozen=True)
class Fixture:
    """The known load and the known pulse: what they are said to be, and their tolerances.

    `meter_tolerance_ratio` is that of a reference meter in series with the load, None where none is wanted.
    """

    load_ohm: float = 330.0
    load_tolerance_ratio: float = 1e-3
    pulse_s: float = 1e-3
    period_s: float = 2e-3
    pulse_tolerance_ratio: float = 1e-6
    meter_tolerance_ratio: float | None = None


def connection_sentence(what: str, fixture: Fixture, board: dict[str, Any]) -> str:
    """Say what a person has to connect, the supply being off."""
    load = f"the {quantity(fixture.load_ohm, 'ohm')} load"
    metered = ", the reference meter in series with it" if fixture.meter_tolerance_ratio is not None else ""
    generator = (
        f"the pulse generator (0 V and {quantity(board['pins']['level_v'], 'V')}, "
        f"{quantity(fixture.pulse_s, 's')} every {quantity(fixture.period_s, 's')})"
    )
    return {
        "dut": "Put all back for measuring: the DUT behind the shunt, the shunt's probe across the shunt, the "
        "trigger's probe on the DUT's trigger pin",
        "load": f"Take the DUT out and connect {load} in its place, behind the shunt{metered}",
        "pulsed-load": f"Take the DUT out and connect {load} in its place, behind the shunt and with the decoupling "
        f"left in, through a switch that {generator} drives; put the trigger's probe on the generator's output",
        "pulse": f"Put the shunt's probe and the trigger's probe both on the output of {generator}, and connect "
        "nothing else to it",
    }[what]


def sim_command(what: str, fixture: Fixture, address: str) -> str:
    """Give the command that connects this at emulated instruments which somebody else started; defaults left out."""
    used = {"load": ("load", "meter"), "pulsed-load": ("load", "pulse"), "pulse": ("pulse",)}.get(what, ())
    usual = Fixture(meter_tolerance_ratio=1e-3)
    options = (
        ("load", "load_ohm", "ohm"),
        ("load-tolerance", "load_tolerance_ratio", ""),
        ("meter-tolerance", "meter_tolerance_ratio", ""),
        ("pulse", "pulse_s", "s"),
        ("period", "period_s", "s"),
        ("pulse-tolerance", "pulse_tolerance_ratio", ""),
    )
    text = f"labctl sim connect {what}"
    for option, name, unit in options:
        value = getattr(fixture, name)
        of_this = option.startswith(used) or (option == "period" and "pulse" in used)
        if of_this and value is not None and value != getattr(usual, name):
            text += f" --{option} {_typed(value, unit)}"
    return f"{text} --control {address}"


def _typed(value: float, unit: str) -> str:
    """Write a value as a person would type it, in one word: 330ohm, 1ms, 0.1%, 2ppm."""
    if not unit:
        scale, sign = (1e6, "ppm") if value < 1e-4 else (1e2, "%")
        return f"{value * scale:.9g}{sign}"
    number, _, symbol = quantity(value, unit, 9, ascii_only=True).partition(" ")
    return (number.rstrip("0").rstrip(".") if "." in number else number) + symbol
