"""The emulated bench with a scripted DUT instead of firmware, as a process: config on stdin, as `instruments.sim`.

The DUT draws 4 mA. Each line it receives makes it raise its pin five times for 4800 cycles at 10 mA, 12 000 cycles of
quiet around each, and then answer ``done``. With the fault ``stuck`` its supply does not switch. Run by tests only.
"""

import json
import os
import sys
import threading

import numpy as np

from instruments.sim.__main__ import run
from instruments.sim.bench import Bench


class ScriptedDut:
    def __init__(self, world, on_uart):
        self.world, self.on_uart = world, on_uart
        self.cycle, self.on, self.faults, self.lock = 0, False, {}, threading.Lock()
        self.world.parked(0, 0.0)

    def power(self, on):
        if self.faults.get("stuck"):
            raise TimeoutError("stuck")
        with self.lock:
            self.on = on
            self.world.parked(self.cycle, 4e-3 if on else 0.0)

    def uart_write(self, data):
        for _ in range(data.count(b"\n")):
            with self.lock:
                if self.on:
                    self.series()
                    self.on_uart(b"garbage\n" if self.faults.get("garbage") else b"done\n")

    def run(self, n_cycles, current_a):
        self.cycle += n_cycles
        self.world.current(np.array([self.cycle], np.uint64), np.array([current_a], np.float32))

    def series(self):
        self.run(12_000, 4e-3)
        for _ in range(5):
            self.world.pin(self.cycle, 1)
            self.run(4800, 10e-3)
            self.world.pin(self.cycle, 0)
            self.run(12_000, 4e-3)
        self.world.parked(self.cycle, 4e-3)

    def set_faults(self, faults):
        self.faults = dict(faults)

    def status(self):
        return {"engine": "parked" if self.on else "off", "fault": "", "cycles": self.cycle}

    def close(self):
        self.on = False


if __name__ == "__main__":
    config = json.loads(sys.stdin.read())
    status = run(Bench(config, lambda config, world, on_uart: ScriptedDut(world, on_uart)))
    sys.stdout.flush()
    os._exit(status)
