"""Flash interface of the STM32 families: wait states, prefetch, cache; what they add and what they must be.

Sources: ST RM0091, RM0090, RM0410, chapters on the flash interface. The rules for what is added are simple on purpose:

- F0: with the prefetch buffer, code in sequence is free and a taken branch waits; without it, every line waits. Every
  data read waits: literals, tables.
- F4: with the instruction cache, code is free (the manual claims zero-wait execution from the ART accelerator); with
  prefetch alone a taken branch waits; with neither, every line. A data read waits where the data cache, 8 lines of 128
  bits, least recently used replaced, does not hold its line; without it, always.
- F7, on the AXIM interface: with the core's instruction cache on, code is free, and data with its data cache: misses of
  16 KiB are left out. Without, every line of code and every data read wait. (ART serves only the ITCM interface.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from instruments.sim.dut.cortexm import CoreRegisters
from instruments.sim.dut.registers import Registers
from instruments.sim.dut.waits import Waits

# Supply from, in volt: clock that one wait state more allows, in hertz. RM0090 table 10; RM0410 table 7.
_HZ_PER_WAIT_F4 = ((2.7, 30e6), (2.4, 24e6), (2.1, 22e6), (1.8, 20e6))


def waits_needed(family: str, core_hz: float, supply_v: float) -> int:
    """Return the fewest wait states that the manual allows at this clock and supply.

    F0: one above 24 MHz (RM0091, FLASH_ACR). F4, F7: one for each 30 MHz begun beyond the first at 2.7 V and more.
    """
    if family == "stm32f0":
        return int(core_hz > 24e6)
    step_hz = next((hz for from_v, hz in _HZ_PER_WAIT_F4 if supply_v >= from_v), _HZ_PER_WAIT_F4[-1][1])
    return max(-int(-core_hz // step_hz) - 1, 0)


class Flash(Registers):
    """ACR and what follows from it. `changed` is called after every write."""

    _ACR = 0x00
    # Bits of ACR: prefetch, instruction cache (F7: ART), data cache.
    _PREFETCH = 1 << 8
    _INSTRUCTION_CACHE, _DATA_CACHE = 1 << 9, 1 << 10
    _F0_PREFETCH, _F0_PREFETCH_STATUS = 1 << 4, 1 << 5

    def __init__(
        self, family: str, fetch: Mapping[str, Any], core: CoreRegisters, supply_v: float, changed: Callable[[], None]
    ) -> None:
        is_f0 = family == "stm32f0"
        super().__init__({self._ACR: self._F0_PREFETCH | self._F0_PREFETCH_STATUS if is_f0 else 0})
        self._family, self._fetch, self._core, self._supply_v = family, fetch, core, supply_v
        self._changed = changed

    def put(self, offset: int, value: int) -> None:
        """Write one word; on the F0 PRFTBS follows PRFTBE."""
        if offset == self._ACR and self._family == "stm32f0":
            value = value & ~self._F0_PREFETCH_STATUS | (value & self._F0_PREFETCH) << 1
        super().put(offset, value)
        self._changed()

    @property
    def latency(self) -> int:
        """Give the wait states that are set."""
        return self.words[self._ACR] & (0xF if self._family == "stm32f7" else 7)

    def waits(self) -> Waits:
        """Give what accesses add with the present settings."""
        acr, latency, line_bytes = self.words[self._ACR], self.latency, self._fetch["line_bytes"]
        if self._family == "stm32f0":
            line = 0 if acr & self._F0_PREFETCH else latency
            return Waits(line_bytes, taken=0 if line else latency, line=line, data=latency)
        if self._family == "stm32f7":
            code = 0 if self._core.instruction_cache else latency
            return Waits(line_bytes, line=code, data=0 if self._core.data_cache else latency)
        cached, prefetched = acr & self._INSTRUCTION_CACHE, acr & self._PREFETCH
        return Waits(
            line_bytes,
            taken=latency if prefetched and not cached else 0,
            line=0 if prefetched or cached else latency,
            data=latency,
            data_lines=self._fetch["data_lines"] if acr & self._DATA_CACHE else 0,
        )

    def objection(self, core_hz: float) -> str:
        """Say that there are too few wait states for the core's clock; empty where there are enough."""
        needed = waits_needed(self._family, core_hz, self._supply_v)
        if self.latency >= needed:
            return ""
        return f"the flash has {self.latency} wait states and needs {needed} at {core_hz:.0f} Hz"
