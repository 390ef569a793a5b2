"""Find drivers by name in the entry-point group ``labctl.drivers`` and load them one at a time.

A driver is a class with a class method ``open(resource, **options)`` and an integer ``DRIVER_API``, the version of
`instruments.protocols` that it was written for.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from instruments import DRIVER_API
from instruments.errors import DriverUnavailable

GROUP = "labctl.drivers"


@dataclass(frozen=True)
class DriverInfo:
    """Describe one registered driver; `reason` says why it is not available, and what to do."""

    name: str
    target: str
    distribution: str
    available: bool
    reason: str = ""


def list_drivers() -> list[DriverInfo]:
    """List every registered driver by name; one that fails to import says why. Raises DriverUnavailable for a
    name that is registered twice."""
    found = []
    for name, entry in sorted(_entries().items()):
        try:
            load_driver(name)
            reason = ""
        except DriverUnavailable as error:
            reason = str(error)
        found.append(DriverInfo(name, entry.value, _distribution(entry), not reason, reason))
    return found


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
    except (ImportError, AttributeError) as error:
        raise DriverUnavailable(
            f"driver {name!r} of {_distribution(entry)} cannot be imported ({error}); "
            f"install what it needs: python -m pip install '{_distribution(entry)}'"
        ) from error
    version = getattr(driver, "DRIVER_API", None)
    if version != DRIVER_API:
        raise DriverUnavailable(
            f"driver {name!r} of {_distribution(entry)} is written for driver interface {version}, this is "
            f"{DRIVER_API}; upgrade it: python -m pip install --upgrade '{_distribution(entry)}'"
        )
    return driver


def open_driver(name: str, resource: str, **options: Any) -> Any:
    """Open the instrument at `resource` with the driver of that name; `options` go to the driver's `open`.

    Raises DriverUnavailable, and what the driver raises where nobody or somebody else answers.
    """
    return load_driver(name).open(resource, **options)


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
