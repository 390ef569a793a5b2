"""Peripherals of the STM32 families F0, F1, F4 and F7, as far as firmware can tell, from their reference manuals."""
