"""What the emulated DUT does at its edges: power, serial port, faults of firmware and link, firmware that hangs."""

from __future__ import annotations

import threading

import pytest

from instruments.sim.dut.currents import currents_at_clock

WAIT_S = 30.0
BANNER = b"boot*1A2B\n"


def test_without_power_nothing_runs(bench):
    one = bench()
    one.engine.uart_write(b"0")
    one.recorder.wait(lambda: one.recorder.parks)
    assert one.recorder.parks == [(0, 0.0)]
    assert one.engine.status() == {"engine": "off", "fault": "", "cycles": 0}


def test_waiting_for_input_parks_at_the_current_of_the_loop(probe, board):
    currents = board["emulation"]["currents_a"].values()
    assert probe.engine.status()["engine"] == "parked"
    assert min(currents) < probe.recorder.parks[-1][1] < max(currents)
    assert bytes(probe.recorder.received) == BANNER


def test_power_cycle_boots_again_with_empty_ram_and_time_going_on(probe):
    probe.tell("v")
    probe.tell("v")
    before = probe.engine.status()["cycles"]
    probe.engine.power(False)
    assert probe.engine.status()["engine"] == "off"
    assert probe.recorder.parks[-1] == (before, 0.0)
    probe.boot()
    probe.tell("v")
    assert bytes(probe.recorder.received) == BANNER + b"v=00000000\nv=00000001\n" + BANNER + b"v=00000000\n"
    assert probe.engine.status()["cycles"] > before


def test_power_off_drops_the_pin(bench):
    one = bench()
    one.boot()
    one.engine.uart_write(b"L")
    one.recorder.wait(lambda: one.recorder.edges)
    one.engine.power(False)
    assert [level for _, level in one.recorder.edges] == [1, 0]


def test_registers_without_a_model_read_back(probe):
    probe.tell("p")
    assert probe.recorder.received.endswith(b"p=00000001\nq=00000000\n")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("s", ["stack overflow", "sp 0x1fff", "endless_recursion"], id="stack-overflow"),
        pytest.param("B", ["write to 0x1ffffffc", "stack overflow: below the RAM at 0x20000000", "store_at"],
                     id="just-below-ram"),
        pytest.param("o", ["read of 0x1ffff7e0", "load_at"], id="far-below-ram"),
        pytest.param("b", ["read of 0x30000000", "where the board has nothing", "load_at"], id="bad-read"),
        pytest.param("f", ["write to 0x08000000", "which is flash", "store_at"], id="write-to-flash"),
        pytest.param("j", ["jump to 0x60000000", "where the board has nothing", "reset_handler"], id="bad-jump"),
        pytest.param("u", ["the core stopped", "reset_handler"], id="undefined-instruction"),
        pytest.param("k", ["trigger pin PC6 rises", "8000000 Hz", "pin_high"], id="wrong-clock"),
        pytest.param("I", ["an interrupt would be taken", "PRIMASK", "reset_handler"], id="interrupt"),
    ],
)
def test_firmware_fault_names_the_place_and_power_clears_it(probe, command, words):
    probe.tell(command)
    status = probe.engine.status()
    assert status["engine"] == "fault"
    for word in [*words, "pc 0x08"] if command != "j" else words:
        assert word in status["fault"]
    assert ("stack overflow" in status["fault"]) == (command in "sB")
    probe.boot()
    assert probe.engine.status()["engine"] == "parked"
    assert probe.window("n") == probe.window("0") + 100


def test_sleep_without_a_wake_source_lasts(probe, board):
    probe.tell("d")
    assert probe.engine.status()["engine"] == "parked"
    assert probe.recorder.parks[-1][1] == board["emulation"]["currents_a"]["sleep"]
    probe.engine.uart_write(b"0")
    probe.boot()
    assert probe.recorder.edges == []


@pytest.mark.parametrize("stop", ["close", "power"])
def test_firmware_that_hangs_hands_over_time_and_can_be_stopped(probe, stop):
    n = len(probe.recorder.ends)
    probe.engine.uart_write(b"h")
    probe.recorder.wait(lambda: len(probe.recorder.ends) > n + 1)
    assert probe.engine.status()["engine"] == "running"
    if stop == "close":
        probe.engine.close()
        assert not probe.engine._thread.is_alive()
    else:
        probe.engine.power(False)
        assert probe.engine.status()["engine"] == "off"


@pytest.mark.parametrize("on", [False, True])
def test_an_engine_that_does_not_switch_says_so_and_tells_its_state(probe, monkeypatch, on):
    """The world holds the engine up, as it may for instruments that lag behind; afterwards it obeys again."""
    monkeypatch.setattr("instruments.sim.dut.engine._SWITCH_TIMEOUT_S", 0.2)
    held, release = threading.Event(), threading.Event()

    def hold_up(cycle, level):
        held.set()
        release.wait(WAIT_S)

    monkeypatch.setattr(probe.recorder, "pin", hold_up)
    probe.engine.uart_write(b"0")
    assert held.wait(WAIT_S)
    with pytest.raises(TimeoutError, match=f"switched {'on' if on else 'off'} and is running: .* within 0.2 s"):
        probe.engine.power(on)
    assert probe.engine.status()["engine"] == "running"
    monkeypatch.setattr("instruments.sim.dut.engine._SWITCH_TIMEOUT_S", WAIT_S)
    release.set()
    probe.engine.power(False)
    assert probe.engine.status()["engine"] == "off"


def test_a_closed_engine_does_not_pretend_to_switch(probe):
    probe.engine.close()
    with pytest.raises(TimeoutError, match="is parked: it is closing"):
        probe.engine.power(False)


def test_dead_crystal_hangs_this_firmware(bench):
    one = bench({"no_hse": True})
    one.engine.power(True)
    one.recorder.wait(lambda: one.recorder.ends)
    assert one.engine.status()["engine"] == "running"
    assert not one.recorder.received


def test_faults_of_the_link(bench):
    one = bench({"corrupt_checksum": True})
    one.boot()
    assert bytes(one.recorder.received) == b"boot*1A2A\n"
    one.engine.set_faults({"garbage": True})
    one.tell("?")
    garbage = bytes(one.recorder.received)[10:]
    assert len(garbage) == len(b"unknown*0000\n")
    assert garbage.endswith(b"\n")
    assert all(byte >= 0x80 for byte in garbage[:-1])
    one.engine.set_faults({"silent": True})
    one.tell("?")
    assert bytes(one.recorder.received)[10:] == garbage


def test_reset_during_series_strikes_in_the_third_window(bench):
    one = bench({"reset_during_series": True})
    one.boot()
    one.engine.uart_write(b"0000")
    one.recorder.wait(lambda: bytes(one.recorder.received) == BANNER + BANNER)
    assert [level for _, level in one.recorder.edges] == [1, 0, 1, 0, 1, 0]


def test_unknown_fault_is_refused(bench):
    with pytest.raises(ValueError, match="unknown DUT fault 'smoke'; known: corrupt_checksum, garbage"):
        bench({"smoke": True})


def test_elf_that_does_not_fit_is_refused(bench, board, tmp_path):
    small = board | {"memory": board["memory"] | {"flash": {"address": 0x0800_0000, "size_bytes": 4096}}}
    with pytest.raises(ValueError, match="the flash of this board is 0x08000000 to 0x08001000"):
        bench(board=small)
    text = tmp_path / "notes.txt"
    text.write_text("no firmware")
    with pytest.raises(ValueError, match="no ELF file"):
        bench(elf=text)


def test_too_few_wait_states_are_refused_at_the_trigger(board, bench, build_probe):
    """At 1.8 V the STM32F4's flash needs a wait state from 20 MHz on (RM0090, table 10)."""
    emulation = board["emulation"]
    flash = {"kind": "stm32f4-flash", "address": 0x4002_2000}
    slow = board | {
        "core": "cortex-m4",
        "supply": board["supply"] | {"node_mcu_v": 1.8},
        "emulation": emulation
        | {
            "fetch": {"line_bytes": 16, "data_lines": 8},
            "peripherals": emulation["peripherals"] | {"flash": flash},
        },
    }
    one = bench(board=slow, elf=build_probe("cortex-m4"))
    one.boot()
    one.tell("x001")
    assert one.window("0") > 0
    one.tell("x000")
    one.tell("0")
    fault = one.engine.status()["fault"]
    assert "PC6 rises, and the flash has 0 wait states and needs 1 at 24000000 Hz: a real chip would fail" in fault


def test_currents_follow_the_chosen_clock(board):
    half = board | {
        "clocks_hz": [24_000_000, 8_000_000],
        "clock_hz": 8_000_000,
        "emulation": board["emulation"] | {"currents_by_clock_a": {"run": [0.01, 0.004], "sleep": [0.003, 0.002]}},
    }
    nominal = board["emulation"]["currents_a"]
    slow = currents_at_clock(half)
    assert slow["sleep"] == 0.002
    assert {kind: slow[kind] / nominal[kind] for kind in ("run", "alu", "load", "nop")} == pytest.approx(
        dict.fromkeys(("run", "alu", "load", "nop"), 0.4)
    )
    with pytest.raises(ValueError, match="the board runs at 24000000, 8000000 Hz"):
        currents_at_clock(half | {"clock_hz": 12_000_000})


def test_deep_sleep_lasts_because_systick_stands_still(probe, board):
    probe.tell("D")
    assert probe.engine.status()["engine"] == "parked"
    assert probe.recorder.parks[-1][1] == pytest.approx(board["emulation"]["stop_modes"]["stop"]["current_a"])
    probe.boot()
