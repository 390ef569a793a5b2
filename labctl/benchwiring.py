"""From a bench file and a board to the wiring: which channel sees what; values that cannot be are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from labctl.benchfile import BenchFile, MeterSection
from labctl.errors import ConfigError
from labctl.model import Shunt, Supply, Wiring
from labctl.units import quantity


def wiring_of(file: BenchFile, board: dict[str, Any]) -> Wiring:
    """Build the wiring from the bench file, the board's data filling what the file leaves open.

    Raises ConfigError where the shunt would starve the board at its typical current.
    """
    node = file.supply.node
    voltage_v = file.supply.voltage_v or board["supply"][f"node_{node}_v"]
    _check_supply(voltage_v, board)
    supply = Supply(
        voltage_v=voltage_v, tolerance_ratio=file.supply.tolerance_ratio, node=node, sensed=file.supply.sensed
    )
    threshold, hysteresis = board["pins"]["level_v"] / 2, board["pins"]["level_v"] / 10
    if file.meter is not None:
        return _metered(file.meter, supply, threshold, hysteresis)
    shunt = Shunt(
        resistance_ohm=file.resistor.resistance_ohm,
        tolerance_ratio=file.resistor.tolerance_ratio,
        wiring=file.resistor.wiring,
        decoupling_f=file.resistor.decoupling_f,
        decoupling_tolerance_ratio=file.resistor.decoupling_tolerance_ratio,
    )
    check_burden(shunt.resistance_ohm, board["supply"][f"node_{node}_v"], board)
    scope = file.oscilloscope
    two = shunt.wiring == "two-channel"
    return Wiring(
        shunt=shunt,
        supply=replace(supply, channel=f"CH{scope.supply_channel}" if scope.supply_channel else None),
        shunt_channel=None if two else f"CH{scope.shunt_channel}",
        shunt_high_channel=f"CH{scope.shunt_high_channel}" if two else None,
        shunt_low_channel=f"CH{scope.shunt_low_channel}" if two else None,
        trigger_channel=f"CH{scope.trigger_channel}",
        trigger_edge=scope.trigger_edge,
        threshold=threshold,
        hysteresis=hysteresis,
    )


def _metered(meter: MeterSection, supply: Supply, threshold: float, hysteresis: float) -> Wiring:
    """Build the wiring of a meter: it sees the current itself, and the windows by a level or as logic."""
    windows = meter.window_channel or (meter.trigger if meter.trigger != "BNC" else None)
    is_logic = windows is not None and windows.startswith("D")
    return Wiring(
        supply=replace(supply, channel=meter.voltage_channel),
        shunt_channel=meter.current_channel,
        trigger_channel=windows,
        trigger_edge=meter.trigger_edge,
        threshold=0.5 if is_logic else threshold,
        hysteresis=0.5 if is_logic else hysteresis,
    )


def _check_supply(voltage_v: float, board: dict[str, Any]) -> None:
    """Raise ConfigError for a supply that the board could not live on."""
    low_v, high_v = board["supply"]["voltage_min_v"], 2 * board["supply"]["node_board_v"]
    if not low_v <= voltage_v <= high_v:
        raise ConfigError(
            f"a supply of {quantity(voltage_v, 'V')} is nothing that {board['name']} runs on "
            f"({quantity(low_v, 'V')} to {quantity(high_v, 'V')}): check the value and its unit"
        )


def overvoltage(file: BenchFile, board: dict[str, Any]) -> str:
    """Say, in a sentence, where the voltage stated for the MCU's own node is more than the MCU takes; else empty.

    `labctl measure` takes such a voltage all the same, since published tables multiply by the board's 5 V input.
    """
    voltage_v, most_v = file.supply.voltage_v, board["supply"]["voltage_max_v"]
    if file.supply.node != "mcu" or voltage_v is None or voltage_v <= most_v:
        return ""
    return (
        f"a supply of {quantity(voltage_v, 'V')} at the MCU's supply pin is more than the {quantity(most_v, 'V')} that "
        f"{board['mcu']} takes: give the voltage at that pin ({quantity(board['supply']['node_mcu_v'], 'V')} on "
        f"{board['name']}), or, where the shunt sits in the board's input, that node (board)"
    )


def check_burden(resistance_ohm: float, node_v: float, board: dict[str, Any]) -> None:
    """Raise ConfigError where the shunt's burden at the board's typical current leaves too little for the MCU."""
    current_a = board["supply"]["current_typical_a"]
    drop_v = resistance_ohm * current_a
    if drop_v >= node_v:
        raise ConfigError(
            f"a shunt of {quantity(resistance_ohm, 'ohm')} would drop {quantity(drop_v, 'V')} at the "
            f"{quantity(current_a, 'A')} that {board['name']} typically draws: more than its "
            f"{quantity(node_v, 'V')} supply. Check the value and its unit (1.3 ohm is usual)."
        )
    if node_v - drop_v < board["supply"]["voltage_min_v"]:
        raise ConfigError(
            f"a shunt of {quantity(resistance_ohm, 'ohm')} would leave {board['name']} only "
            f"{quantity(node_v - drop_v, 'V')} of its {quantity(node_v, 'V')}, and it needs "
            f"{quantity(board['supply']['voltage_min_v'], 'V')}. Use a smaller shunt."
        )
