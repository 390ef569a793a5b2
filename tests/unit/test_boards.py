"""Board data: that the host's page and the firmware's page tell the same, and that lists by clock are complete."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from labctl import boards
from labctl.analysis.checks import warn_of_far_current
from labctl.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("run", "sleep", "alu", "branch", "load", "store", "multiply", "divide", "nop", "other")


def make_values(board: str) -> dict[str, str]:
    """The assignments of a board.mk."""
    text = (ROOT / "firmware" / "boards" / board / "board.mk").read_text()
    return dict(re.findall(r"^(\w+) := (.*)$", text, re.MULTILINE))


def header_values(board: str) -> dict[str, str]:
    """The definitions of a board.h."""
    text = (ROOT / "firmware" / "boards" / board / "board.h").read_text()
    return dict(re.findall(r"^#define (\w+) (.+?)u?$", text, re.MULTILINE))


@pytest.fixture(params=boards.names())
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    return boards.load(request.param)


def test_every_board_of_the_firmware_has_a_page() -> None:
    assert set(boards.names()) == {path.parent.name for path in (ROOT / "firmware" / "boards").glob("*/board.mk")}


def test_unknown_board() -> None:
    with pytest.raises(ConfigError, match="known boards: launchxl-cc26x2r1, stm32f0discovery"):
        boards.load("stm32f9discovery")


def test_family_lies_below_the_board() -> None:
    usart = boards.load("stm32f4discovery")["emulation"]["peripherals"]["usart2"]
    assert usart["address"] == 0x4000_4400
    assert usart["tx_pin"] == "PA2"


def test_memory_and_clocks_as_built(board: dict[str, Any]) -> None:
    built = make_values(board["name"])
    assert board["family"] == built["FAMILY"]
    assert board["core"] == built["CPU"]
    assert board["clocks_hz"] == [int(hz) for hz in built["CLOCKS"].split()]
    assert board["clock_hz"] == board["clocks_hz"][0]
    for region, name in (("flash", "FLASH"), ("ram", "RAM")):
        assert board["memory"][region]["address"] == int(built[f"{name}_ADDRESS"], 16)
        assert board["memory"][region]["size_bytes"] == int(built[f"{name}_BYTES"])


def test_sleep_modes_as_built(board: dict[str, Any]) -> None:
    built = make_values(board["name"]).get("IDLE_MODES", "")
    assert board.get("idle_modes", []) == built.split()
    assert set(board["emulation"].get("stop_modes", {})) == set(built.split())


def test_pins_as_built(board: dict[str, Any]) -> None:
    built, pins = header_values(board["name"]), board["pins"]
    assert built["BOARD_NAME"] == f'"{board["name"]}"'
    if pins["trigger"].startswith("DIO"):
        wired = {
            key: f"DIO{built[f'BOARD_{name}_DIO']}"
            for key, name in (
                ("trigger", "TRIGGER"),
                ("serial_tx", "SERIAL_TX"),
                ("serial_rx", "SERIAL_RX"),
            )
        }
    else:
        port = built["BOARD_SERIAL_GPIO"].removeprefix("GPIO")
        wired = {
            "trigger": f"P{built['BOARD_TRIGGER_GPIO'].removeprefix('GPIO')}{built['BOARD_TRIGGER_PIN']}",
            "serial_tx": f"P{port}{built['BOARD_SERIAL_TX_PIN']}",
            "serial_rx": f"P{port}{built['BOARD_SERIAL_RX_PIN']}",
        }
    assert wired == {key: pins[key] for key in wired}


def test_crystal_as_built(board: dict[str, Any]) -> None:
    oscillators = [t["hse_hz"] for t in board["emulation"]["peripherals"].values() if "hse_hz" in t]
    assert oscillators == [int(header_values(board["name"]).get("BOARD_CRYSTAL_HZ", board["clock_hz"]))]


def test_lists_by_clock(board: dict[str, Any]) -> None:
    n = len(board["clocks_hz"])
    currents = board["emulation"]["currents_by_clock_a"]
    assert len(board["memory"]["flash"]["wait_states"]) == n
    assert len(currents["run"]) == len(currents["sleep"]) == len(board["supply"]["current_typical_by_clock_a"]) == n
    assert (currents["run"][0], currents["sleep"][0]) == tuple(
        board["emulation"]["currents_a"][kind] for kind in ("run", "sleep")
    )


def test_currents_are_of_this_board(board: dict[str, Any]) -> None:
    supply, currents = board["supply"], board["emulation"]["currents_a"]
    assert set(currents) == set(KINDS)
    assert all(supply["current_min_a"] < i < supply["current_max_a"] for i in currents.values())
    assert currents["sleep"] < min(currents[kind] for kind in KINDS if kind != "sleep")
    assert board["counter"] == ("none" if board["core"] == "cortex-m0" else "dwt")


@pytest.mark.parametrize(
    ("name", "clock_hz", "typical_a"),
    [
        # 38 mW and 278 mW are published, of 5.0 V: reference/cortexm_discovery.csv.
        ("stm32vldiscovery", None, 38e-3 / 5.0),
        ("stm32f7discovery", 216e6, 278e-3 / 5.0),
        # STM32F031x4/x6 data sheet, table 23.
        ("stm32f0discovery", 48e6, 11.4e-3), ("stm32f0discovery", 24e6, 6.2e-3), ("stm32f0discovery", 8e6, 2.2e-3),
    ],
)
def test_the_typical_current_is_that_of_the_clock(name: str, clock_hz: float | None, typical_a: float) -> None:
    assert boards.at_clock(name, clock_hz)["supply"]["current_typical_a"] == pytest.approx(typical_a, rel=1e-3)


def test_a_board_that_draws_what_it_should_is_not_far_from_typical(board: dict[str, Any]) -> None:
    """At no clock is what an emulated core draws at work taken for a bypassed shunt; a fifth of it is."""
    for clock_hz, run_a in zip(board["clocks_hz"], board["emulation"]["currents_by_clock_a"]["run"], strict=True):
        for current_a, n_warnings in ((0.85 * run_a, 0), (1.15 * run_a, 0), (run_a / 5, 1)):
            warnings: list[str] = []
            warn_of_far_current(warnings, boards.at_clock(board["name"], clock_hz), "sha256", current_a)
            assert len(warnings) == n_warnings, (clock_hz, current_a)


def test_flash_commands_name_the_image(board: dict[str, Any]) -> None:
    flash = board["flash"]
    assert flash["tool"] in flash["commands"]
    for command in flash["commands"].values():
        assert sum("{elf}" in word or "{bin}" in word for word in command) == 1


@pytest.mark.parametrize(
    ("name", "wait_states"),
    [
        ("stm32f0discovery", [1, 0, 0]),  # RM0091 3.5.1: 24 MHz
        ("stm32f4discovery", [5, 2, 0]),  # RM0090 3.5.1, 2.7 to 3.6 V: 30, 60, ..., 150 MHz
        ("stm32f7discovery", [7, 3, 0]),  # RM0410 3.3.2, 2.7 to 3.6 V: 30, 60, ..., 210 MHz
    ],
)
def test_wait_states(name: str, wait_states: list[int]) -> None:
    assert boards.load(name)["memory"]["flash"]["wait_states"] == wait_states


@pytest.mark.parametrize("name", boards.names())
def test_a_board_lives_on_its_own_supply(name):
    supply = boards.load(name)["supply"]
    assert supply["voltage_min_v"] < supply["node_mcu_v"] < supply["voltage_max_v"]
