"""The emulated device under test: a board's firmware on an instruction-set emulator, with cycles and currents.

`engine` is what the bench uses. Below it: `machine` (one power-up), `chip` (the peripherals of a board's table), `hook`
(cycles and charge, native), `costs` (what an instruction costs on each core), `waits` (what the flash adds).
docs/cycle-model.md says what the models take from which manual and what they leave out.
"""
