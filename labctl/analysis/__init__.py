"""From codes to joules: arrays in, numbers out. No I/O, no clock."""
