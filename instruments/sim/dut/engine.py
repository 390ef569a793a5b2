"""A board's firmware in a thread of its own: power, serial port, trigger pin, time line of current.

The board's data (its TOML file as a dict) say what core, memory, peripherals, pins and currents it has; nothing here
knows a board by name. Time is told in cycles of the board's `clock_hz`, whatever clock the core is on; sending on the
serial port takes none, waking from sleep neither. Cycles and currents are a model (docs/cycle-model.md, the board's
currents_a), not silicon.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from instruments.sim.dut.cores import find_core
from instruments.sim.dut.costs import cost_table
from instruments.sim.dut.currents import currents_at_clock
from instruments.sim.dut.hook import BlockHook
from instruments.sim.dut.image import read_image
from instruments.sim.dut.inbox import Inbox
from instruments.sim.dut.machine import Halt, Machine
from instruments.sim.dut.registers import EngineFault
from instruments.sim.dut.serial_port import N_EMPTY_POLLS
from instruments.sim.dut.spoil import find_summing
from instruments.sim.serial_line import SerialLine
from instruments.sim.sink import Sink

_log = logging.getLogger(__name__)

# Those that strike once, at the third trigger pulse after something was said to the DUT.
_IN_SERIES = ("reset_during_series", "hang_during_series", "wrong_result")
_STRIKES_AT_WINDOW = 3
DUT_FAULTS = frozenset({"garbage", "corrupt_checksum", "silent", "no_hse", "hang", *_IN_SERIES})
# The emulator has to finish a block of code, and on a new machine to compile its kernels: seconds.
_SWITCH_TIMEOUT_S = 8.0
_CLOSE_TIMEOUT_S = 2.0


class Engine:
    """Run one board's firmware in a thread of its own, and report to a sink. Starts without power.

    All calls to `sink` and `on_uart` come from the engine's thread, those to `sink` in order of cycles. `on_uart`
    takes what the firmware sends; `faults` are those of `set_faults`. Raises ValueError for an ELF file that does not
    fit the board, or a board without a model.
    """

    def __init__(
        self,
        board: Mapping[str, Any],
        elf: Path,
        sink: Sink,
        on_uart: Callable[[bytes], None],
        faults: Mapping[str, bool] | None = None,
    ) -> None:
        self._board = board
        self._sink = sink
        self._image = read_image(Path(elf), board["memory"]["flash"])
        self._currents_a = currents_at_clock(board)
        core, flash = find_core(board["core"]), board["memory"]["flash"]
        table = cost_table(self._image, core.cost, core.halvings, self._currents_a)
        self._hook = BlockHook(table, (flash["address"], flash["address"] + flash["size_bytes"] - 1))
        self._line = SerialLine(on_uart)
        self.set_faults(faults or {})
        self._inbox = Inbox()
        self._received: deque[int] = deque()
        self._machine: Machine | None = None
        self._level = 0
        self._state, self._fault = "off", ""
        self._sleeping = self._park = False
        self._strike = ""  # a fault that is due
        self._poll_mark = (0, 0)
        self._n_windows = 0
        # Cycles spent in sleep; read by the machine's cycle counter.
        self.asleep_cycles = 0
        self._changed = threading.Condition()
        self._power_request: bool | None = None
        self._switching = self._closing = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    # Called from any thread.

    def power(self, on: bool) -> None:
        """Switch the supply: off, or on with a reset and an empty RAM. Returns when that is done.

        Raises TimeoutError where the emulator does not come to it in time or has ended; `status` tells what holds.
        """
        with self._changed:
            self._power_request = on
            self._switching = True
            self._hook.request_stop()
            self._changed.notify_all()
            if threading.current_thread() is self._thread:
                return
            self._changed.wait_for(lambda: not self._switching or self._closing, _SWITCH_TIMEOUT_S)
            if self._switching:
                self._power_request = None  # nobody waits for it any more
                raise TimeoutError(
                    f"the emulated DUT was to be switched {'on' if on else 'off'} and is {self._state}: "
                    + (
                        "it is closing"
                        if self._closing
                        else f"its emulator did not answer within {_SWITCH_TIMEOUT_S:g} s"
                    )
                )

    def uart_write(self, data: bytes) -> None:
        """Send bytes to the firmware; lost while there is no power."""
        with self._changed:
            if self._state in ("running", "parked"):
                self._inbox.put(data)
                self._changed.notify_all()

    def set_faults(self, faults: Mapping[str, bool]) -> None:
        """Replace the set of faults. Raises ValueError for an unknown one.

        garbage, corrupt_checksum, silent: what the serial link makes of what is sent. hang: the DUT takes the next line
        and does nothing more until its power is switched. reset_during_series, hang_during_series, wrong_result (a
        flipped bit in its output): at the third trigger pulse after a line; the latter two and hang only once. no_hse:
        the crystal is dead from the next power-up.
        """
        unknown = set(faults) - DUT_FAULTS
        if unknown:
            raise ValueError(f"unknown DUT fault {min(unknown)!r}; known: {', '.join(sorted(DUT_FAULTS))}")
        if faults.get("wrong_result"):
            find_summing(self._image)
        self._faults = dict(faults)
        self._line.faults = self._faults

    def status(self) -> dict[str, Any]:
        """Tell `engine` (running, parked, hung, off, fault), `fault` (text or empty), `cycles` since the beginning."""
        with self._changed:
            return {"engine": self._state, "fault": self._fault, "cycles": self._hook.cycles}

    @property
    def n_instructions(self) -> int:
        """Count the instructions executed since the beginning; exact inside `Sink.pin`."""
        return self._hook.n_instructions

    def close(self) -> None:
        """Stop the thread, whatever the firmware does. May be called twice."""
        with self._changed:
            self._closing = True
            self._hook.request_stop()
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_TIMEOUT_S)

    # Called by the machine, from inside a run.

    def pin_changed(self, level: int) -> None:
        """Hand over the time line up to an edge, then the edge."""
        self._hand_over()
        self._line.flush()
        self._level = level
        self._sink.pin(self._hook.cycles, level)
        self._n_windows += level
        if level and self._n_windows == _STRIKES_AT_WINDOW:
            self._strike = next((fault for fault in _IN_SERIES if self._faults.get(fault)), "")
            if self._strike:
                self._hook.request_stop()

    def byte_sent(self, byte: int) -> None:
        """Pass a byte on to the serial line."""
        self._line.put(byte)

    def polling(self, n_empty_polls: int) -> None:
        """Take the current of the polling loop, and stop it once it is clear that the firmware waits."""
        if n_empty_polls == N_EMPTY_POLLS // 2:
            self._poll_mark = self._hook.mark()
        elif n_empty_polls >= N_EMPTY_POLLS:
            self._park = True
            self._hook.request_stop()

    # The engine's thread.

    def _run(self) -> None:
        self._sink.parked(0, 0.0)
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._closing:
                    return
                request, self._power_request = self._power_request, None
                self._hook.arm()
            try:
                if request is not None:
                    self._switch_off()
                    if request:
                        self._boot()
                else:
                    self._go_on()
            except EngineFault as error:
                self._enter_fault(str(error))
            except BaseException as error:
                self._enter_fault(f"the emulator itself failed: {error!r}")
                raise
            with self._changed:
                self._switching = self._power_request is not None
                self._changed.notify_all()

    def _has_work(self) -> bool:
        woken = self._state == "parked" and not self._sleeping and bool(self._received or self._inbox)
        return self._closing or self._power_request is not None or self._state == "running" or woken

    def _go_on(self) -> None:
        assert self._machine is not None
        if self._state == "parked":
            if not self._received and not self._take_line():
                return
            self._sink.woken()
        self._state = "running"
        halted = self._machine.run()
        strike, self._strike = self._strike, ""
        if strike == "wrong_result":
            self._machine.spoil_next_output(find_summing(self._image))
            self._faults.pop(strike)
        if strike == "reset_during_series":
            self._forget()
            self._boot()
        elif strike == "hang_during_series":
            self._hang(strike)
        elif halted:
            self._sleep(self._machine, self._machine.halt())
        elif self._park:
            self._park = False
            if not self._received:
                self._rest_at(self._hook.mean_current_a(self._poll_mark))
        else:
            self._hand_over()

    def _sleep(self, machine: Machine, halt: Halt) -> None:
        stopped = halt.mode != "sleep"
        current_a, wake_up_s = self._currents_a["sleep"], 0.0
        if stopped:
            mode = self._board["emulation"]["stop_modes"][halt.mode]
            current_a, wake_up_s = mode["current_a"], mode["wake_up_s"]
        self._sleeping = halt.wake_cycle is None
        if halt.wake_cycle is None:
            self._rest_at(current_a)
            return
        self._hand_over()
        n_cycles = halt.wake_cycle - self._hook.cycles + round(wake_up_s * self._board["clock_hz"])
        if n_cycles > 0:
            before = self._hook.core_cycles
            self._hook.rest(n_cycles, current_a, clocked=not stopped)
            self.asleep_cycles += self._hook.core_cycles - before
            self._hand_over()
        machine.wake(halt.mode)

    def _take_line(self) -> bool:
        """Let a line reach the firmware, which waits; False where the DUT hangs on it."""
        with self._changed:
            self._received.extend(self._inbox.take())
        self._n_windows = 0
        if self._faults.get("hang"):
            self._hang("hang")
            return False
        return True

    def _hang(self, fault: str) -> None:
        """Spin for ever, pin as it is; switching the supply ends it, and the fault with it."""
        self._faults.pop(fault)
        self._rest_at(self._currents_a["run"], "hung")

    def _rest_at(self, current_a: float, state: str = "parked") -> None:
        self._hand_over()
        self._line.flush()
        self._sink.parked(self._hook.cycles, current_a)
        with self._changed:
            self._state = state

    def _hand_over(self) -> None:
        end_cycle, mean_current_a = self._hook.fetch()
        if len(end_cycle):
            self._sink.current(end_cycle, mean_current_a)

    def _switch_off(self) -> None:
        self._forget()
        self._rest_at(0.0, "off")

    def _forget(self) -> None:
        self._machine = None
        with self._changed:
            self._inbox.clear()
        self._received.clear()
        self._sleeping = self._park = False
        self._strike = ""
        self._n_windows = 0
        self._fault = ""
        self._hand_over()
        if self._level:
            self._level = 0
            self._sink.pin(self._hook.cycles, 0)

    def _boot(self) -> None:
        self._machine = Machine(
            self._board, self._image, self._hook, self._received, self, bool(self._faults.get("no_hse"))
        )
        self._sink.woken()
        with self._changed:
            self._state = "running"

    def _enter_fault(self, text: str) -> None:
        _log.error("%s", text)
        self._machine = None
        with self._changed:
            self._fault = text
        # The pin stays as it was and the core draws its run current: it would spin in its fault handler.
        self._rest_at(self._currents_a["run"], "fault")
