"""Drivers, one module a model family. Found by name in the entry-point group ``labctl.drivers``."""
