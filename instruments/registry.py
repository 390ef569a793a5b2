"""Find drivers by name in the entry-point group ``labctl.drivers`` and load them one at a time.

A driver is a class with a class method ``open(resource, **options)`` and an integer ``DRIVER_API``, the version of
`instruments.protocols` that it was written for. What it may say of itself beside:

- ``KIND``, what it drives in a word ("oscilloscope", "meter", "logic analyser", "switch"), and ``SUMMARY``, in a line;
- ``fits(identity)``, whether an instrument that answers so is its own;
- ``MODULES`` and ``PROGRAMS``, what must be there before it can open anything: modules by their import name, programs
  by theirs in PATH; and ``INSTALL``, the command that brings them.
"""

from __future__ import annotations

import contextlib
import difflib
import shutil
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from instruments import DRIVER_API
from instruments.errors import DriverUnavailable
from instruments.record import Identity

GROUP = "labctl.drivers"


@dataclass(frozen=True)
class DriverInfo:
    """Describe one registered driver.

    `reason` says why it is not available, `install` is the command that mends it; both are "" where it is. Of a driver
    that cannot be imported `kind` and `summary` are not known, and "".
    """

    name: str
    target: str
    distribution: str
    available: bool
    reason: str = ""
    install: str = ""
    kind: str = ""
    summary: str = ""


def list_drivers() -> list[DriverInfo]:
    """List every registered driver by name; one that cannot be used says why. Raises DriverUnavailable for a name that
    is registered twice."""
    return [_describe(name, entry) for name, entry in sorted(_entries().items())]


def fitting(identity: Identity) -> tuple[str, ...]:
    """Name the drivers that claim the instrument that answers so, those included that lack something to open it."""
    names = []
    for name in sorted(_entries()):
        # A driver of somebody else that fails here claims nothing; it must not hide what the others say.
        with contextlib.suppress(Exception):
            if load_driver(name).fits(identity) is True:
                names.append(name)
    return tuple(names)


def load_driver(name: str) -> Any:
    """Return the driver class of that name. Raises DriverUnavailable with the reason and what to do."""
    entries = _entries()
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise DriverUnavailable(f"no driver is called {name!r}: {hint}known are {', '.join(sorted(entries))}")
    entry = entries[name]
    try:
        driver = entry.load()
    except Exception as error:  # whatever the module of somebody else does when it is imported
        install = f"python -m pip install '{_distribution(entry)}'"
        raise DriverUnavailable(
            f"driver {name!r} of {_distribution(entry)} cannot be imported ({error}); install what it needs: {install}",
            install,
        ) from error
    version = getattr(driver, "DRIVER_API", None)
    if version != DRIVER_API:
        install = f"python -m pip install --upgrade '{_distribution(entry)}'"
        raise DriverUnavailable(
            f"driver {name!r} of {_distribution(entry)} is written for driver interface {version}, this is "
            f"{DRIVER_API}; upgrade it: {install}",
            install,
        )
    return driver


def open_driver(name: str, resource: str, **options: Any) -> Any:
    """Open the instrument at `resource` with the driver of that name; `options` go to the driver's `open`.

    Raises DriverUnavailable, and what the driver raises where nobody or somebody else answers.
    """
    driver = load_driver(name)
    if lacking := _lacking(driver):
        install = getattr(driver, "INSTALL", "")
        remedy = f"install it: {install}" if install else "install it"
        raise DriverUnavailable(f"driver {name!r} cannot open anything: {lacking}; {remedy}", install)
    return driver.open(resource, **options)


def _describe(name: str, entry: EntryPoint) -> DriverInfo:
    distribution = _distribution(entry)
    try:
        driver = load_driver(name)
    except DriverUnavailable as error:
        return DriverInfo(name, entry.value, distribution, False, str(error), error.install)
    kind, summary = getattr(driver, "KIND", ""), getattr(driver, "SUMMARY", "")
    lacking = _lacking(driver)
    install = getattr(driver, "INSTALL", "") if lacking else ""
    return DriverInfo(name, entry.value, distribution, not lacking, lacking, install, kind, summary)


def _lacking(driver: Any) -> str:
    """Say which modules and programs of those that a driver needs are not there, "" where all are."""
    modules = [name for name in getattr(driver, "MODULES", ()) if not has_module(name)]
    programs = [name for name in getattr(driver, "PROGRAMS", ()) if shutil.which(name) is None]
    parts = []
    if modules:
        parts.append(f"the Python module {' and '.join(modules)} is missing")
    if programs:
        parts.append(f"the program {' and '.join(programs)} is missing")
    return ", ".join(parts)


def has_module(name: str) -> bool:
    """Tell whether a module could be imported, without importing more than the packages around it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # a package around it is missing; a module without a spec
        return False


def _entries() -> dict[str, EntryPoint]:
    """Map each name to its one entry point."""
    by_name: dict[str, dict[str, EntryPoint]] = defaultdict(dict)
    for entry in entry_points(group=GROUP):
        by_name[entry.name][entry.value] = entry
    for name, targets in by_name.items():
        if len(targets) > 1:
            claims = " and ".join(f"{_distribution(entry)} ({value})" for value, entry in sorted(targets.items()))
            raise DriverUnavailable(f"driver name {name!r} is claimed by {claims}: uninstall one of them")
    return {name: next(iter(targets.values())) for name, targets in by_name.items()}


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module.partition(".")[0]
