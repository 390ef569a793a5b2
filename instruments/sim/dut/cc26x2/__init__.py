"""Peripherals of the CC13x2 and CC26x2, as far as firmware can tell, from their technical reference manual."""
