"""What fits a DUT whose memory is too small: held against a heap that is known in full."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from labctl.dut import NoMemory, Ready
from labctl.fitting import prepare
from labctl.model import Operation

HEAP_BYTES = 4096
MESSAGES_AT_A_TIME = 2


@dataclass
class SmallDut:
    """Holds a count of four bytes a run and two messages in a heap, or less for an operation without message."""

    counts_runs: bool = True
    own_bytes: int = 0
    asked: list[Operation] = field(default_factory=list)

    def need_bytes(self, operation: Operation) -> int:
        runs = 4 * operation.n_runs if self.counts_runs else 0
        return self.own_bytes + runs + MESSAGES_AT_A_TIME * (operation.bytes or 0)

    def prepare(self, operation: Operation, pause_s: float) -> Ready:
        self.asked.append(operation)
        missing = self.need_bytes(operation) - HEAP_BYTES
        if missing > 0:
            raise NoMemory(f"the DUT refuses: {missing} bytes are missing in the heap")
        return Ready(1e-3, operation.n_runs * 1e-3)

    def manifest(self) -> dict[str, int]:
        return {"heap_bytes": HEAP_BYTES}


def refusal(dut: SmallDut, operation: Operation) -> str:
    with pytest.raises(NoMemory) as caught:
        prepare(dut, operation, 1e-3)  # type: ignore[arg-type]
    return str(caught.value)


def test_what_fits_is_made_ready_once():
    dut = SmallDut()
    assert prepare(dut, Operation("sha256", bytes=64), 1e-3).window_s == 1e-3  # type: ignore[arg-type]
    assert len(dut.asked) == 1


@pytest.mark.parametrize("n_bytes", [2049, 2064, 16384])
def test_the_longest_message_that_fits_is_told_and_fewer_runs_only_where_they_help(n_bytes):
    """A run takes four bytes: 2 n + 4 <= 4096 holds up to n = 2046, in whole blocks 2032."""
    text = refusal(SmallDut(), Operation("sha256", bytes=n_bytes, n_runs=1))
    assert f"{2 * n_bytes + 4 - HEAP_BYTES} bytes are missing in the heap, which holds 4096" in text
    assert "messages of up to 2032 B fit (--bytes 2032)" in text
    assert "runs" not in text
    # Without a counter no run takes any of it.
    assert "runs" not in refusal(SmallDut(counts_runs=False), Operation("sha256", bytes=n_bytes, n_runs=500))


def test_runs_that_fit_are_told_where_they_are_what_is_too_much():
    dut, operation = SmallDut(), Operation("sha256", bytes=1024, n_runs=1000)
    text = refusal(dut, operation)
    n_runs = int(text.rpartition("--runs ")[2].rstrip(")"))
    # 4 n + 2048 <= 4096; two runs are left for the rounding of blocks.
    assert n_runs == (HEAP_BYTES - 2048) // 4 - 2
    assert "--bytes" not in text


def test_an_operation_without_message_that_never_fits_has_no_remedy():
    assert refusal(SmallDut(own_bytes=5000), Operation("ecdsa-p256.sign", n_runs=1)).endswith("has no room for it")
    assert refusal(SmallDut(own_bytes=4090), Operation("sha256", bytes=64, n_runs=1)).endswith("has no room for it")
