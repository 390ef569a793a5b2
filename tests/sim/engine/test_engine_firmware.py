"""The real firmware on the emulated DUT: answers, cycle counts, faults."""

from __future__ import annotations

import binascii
import hashlib
import re
from pathlib import Path

import pytest

MESSAGE = bytes((7 * i + 3) % 256 for i in range(64))


class Dialogue:
    """Speak the firmware's protocol with a bench, on the wire."""

    def __init__(self, bench) -> None:
        self.bench, self.recorder = bench, bench.recorder
        bench.engine.power(True)
        self.answer = self._answer()

    def say(self, payload: str) -> str:
        """Send a line, give all lines up to the one that ends the answer, without their checksums."""
        del self.recorder.received[:], self.recorder.edges[:]
        self.bench.engine.uart_write(b"%s*%04X\n" % (payload.encode(), binascii.crc_hqx(payload.encode(), 0xFFFF)))
        return self._answer()

    def series(self, operation: str, runs: int) -> tuple[list[int], list[int], str]:
        """Give per run the cycles between the edges and the DUT's own count, and the last line."""
        ready = self.say(f"prepare op={operation} runs={runs} n=1 pause_us=100")
        assert ready.startswith(f"ok ready op={operation} "), ready
        answer = self.say("go")
        cycles = [cycle for cycle, _ in self.recorder.edges]
        assert [level for _, level in self.recorder.edges] == [1, 0] * runs
        counts = [int(count) for line in re.findall(r"data cycles \d+(.*)", answer) for count in line.split()]
        return [b - a for a, b in zip(cycles[::2], cycles[1::2], strict=True)], counts, answer.splitlines()[-1]

    def _answer(self) -> str:
        end = re.compile(rb"^(ok|err)\b.*\n", re.MULTILINE)
        self.recorder.wait(lambda: end.search(self.recorder.received))
        lines = bytes(self.recorder.received).decode().splitlines()
        for line in lines:
            payload, checksum = line.rsplit("*", 1)
            assert int(checksum, 16) == binascii.crc_hqx(payload.encode(), 0xFFFF)
        return "\n".join(line.rsplit("*", 1)[0] for line in lines)


@pytest.fixture
def dut(bench, elf: Path):
    """Start the real firmware."""
    return lambda faults=None: Dialogue(bench(faults, elf=elf))


def test_firmware_boots_from_its_crystal_and_passes_its_known_answers(dut):
    talk = dut()
    assert talk.answer.startswith("ok boot board=stm32vldiscovery ")
    assert " clock_hz=24000000 clock=crystal counter=dwt " in talk.say("hello")
    assert re.fullmatch(r"ok kat passed=[1-9]\d*", talk.say("kat"))


def test_firmware_reports_a_dead_crystal(dut):
    assert " clock=internal " in dut({"no_hse": True}).say("hello")


def test_digest_and_cycle_counts_of_a_series(dut):
    talk = dut()
    assert talk.say("kat op=sha256").startswith("ok kat ")
    widths, counts, last = talk.series("sha256", 5)
    assert last == f"ok done runs=5 check=pass crc32={binascii.crc32(hashlib.sha256(MESSAGE).digest() * 5):08X}"
    assert len(counts) == 5
    assert len(set(widths)) == len(set(counts)) == 1
    null_widths, null_counts, _ = talk.series("null", 3)
    busy_widths, busy_counts, _ = talk.series("busy", 3)
    # Pin and counter differ by the trigger functions and what lies between them and the readings: always the same.
    differences = {
        width - count
        for width, count in zip(widths + null_widths + busy_widths, counts + null_counts + busy_counts, strict=True)
    }
    assert len(differences) == 1
    # 1000 subtractions and branches, 999 of them taken with a refill of 2, and the call around them.
    assert 0 < busy_widths[0] - null_widths[0] - (2 * 1000 + 2 * 999) < 20


def test_signature_is_right_and_takes_about_as_long_as_on_another_emulator(dut):
    talk = dut()
    assert talk.say("kat op=ecdsa-p256.sign").startswith("ok kat ")
    (width,), _, last = talk.series("ecdsa-p256.sign", 1)
    assert " check=pass " in last
    # 13.6 million instructions were counted on two emulators at -Os; 1 to 2.5 cycles each.
    assert 13.6e6 < width < 2.5 * 13.6e6


def test_two_power_cycles_give_the_same_counts(dut):
    first, second = (self_tested.series("aes-128-ctr", 3)[0] for self_tested in (self_test(dut()), self_test(dut())))
    assert first == second


def test_reset_during_a_series_shows_as_a_banner(dut):
    talk = dut({"reset_during_series": True})
    self_test(talk)
    assert talk.say("prepare op=aes-128-ctr runs=20 n=1 pause_us=100").startswith("ok ready ")
    assert talk.say("go").startswith("ok boot ")
    assert [level for _, level in talk.recorder.edges] == [1, 0] * 3


def self_test(talk: Dialogue) -> Dialogue:
    """Let the DUT pass its known answers for AES."""
    assert talk.say("kat op=aes-128-ctr").startswith("ok kat ")
    return talk
