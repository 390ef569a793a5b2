"""Serial ports and USB instruments of this machine, by what the system tells of them: nothing is opened or sent."""

from __future__ import annotations

import contextlib
import grp
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from instruments.record import Identity

# Nordic Power Profiler Kit II: pc-nrfconnect-ppk, src/utils/devices.ts. Other firmware of Nordic's has the same
# numbers, so its name counts too.
PPK2_USB, PPK2_NAME = (0x1915, 0xC00A), "PPK2"
SYS_USB = Path("/sys/bus/usb/devices")
DEV_USB = Path("/dev/bus/usb")
PROC = Path("/proc")
# Base class and subclass of USB Test & Measurement: USBTMC specification 1.0, table 43.
_USBTMC = ("fe", "03")


@dataclass(frozen=True)
class SerialPort:
    """One serial port; what USB tells is None and "" for a port that is not on USB.

    `location` is the place on the bus, which of two ports of one device ends in the number of the interface.
    """

    device: str
    text: str = ""
    usb: tuple[int, int] | None = None
    serial: str = ""
    product: str = ""
    location: str = ""


@dataclass(frozen=True)
class UsbInstrument:
    """One USB Test & Measurement instrument that is plugged in: its VISA resource, its names, its device file."""

    resource: str
    text: str
    node: str


def serial_ports() -> tuple[SerialPort, ...]:
    """List the serial ports of this machine, those on USB first."""
    from serial.tools.list_ports import comports

    ports = sorted(comports(), key=lambda port: (port.vid is None, port.device))
    return tuple(
        SerialPort(
            p.device,
            "" if p.description in (None, "n/a", p.name) else p.description,
            None if p.vid is None else (p.vid, p.pid),
            p.serial_number or "",
            p.product or "",
            p.location or "",
        )
        for p in ports
    )


def instruments_at(ports: Collection[SerialPort]) -> dict[str, Identity]:
    """Tell which ports are an instrument's, as their USB numbers and names have it.

    Of the two ports of a PPK2 the first measures; the other, its shell, is none.
    """
    found: dict[str, Identity] = {}
    seen: set[str] = set()
    for port in sorted(ports, key=lambda port: (port.location, port.device)):
        if port.usb == PPK2_USB and (not port.product or PPK2_NAME in port.product) and port.serial not in seen:
            seen.add(port.serial)
            found[port.device] = Identity("Nordic Semiconductor", PPK2_NAME, port.serial, "", port.device)
    return found


def usb_instruments(sys_usb: Path = SYS_USB, dev_usb: Path = DEV_USB) -> tuple[UsbInstrument, ...]:
    """List the USB instruments that are plugged in, those included that nobody may open or nothing can speak to."""
    found = []
    for interface in sorted(sys_usb.glob("*:*")):
        if (_line(interface / "bInterfaceClass"), _line(interface / "bInterfaceSubClass")) != _USBTMC:
            continue
        device = sys_usb / interface.name.partition(":")[0]
        numbers = [_line(device / name) for name in ("idVendor", "idProduct")]
        bus, address = (int(_line(device / name) or "0") for name in ("busnum", "devnum"))
        vendor, product = (f"0x{number.upper()}" for number in numbers)
        number = int(_line(interface / "bInterfaceNumber") or "0", 16)
        resource = f"USB0::{vendor}::{product}::{_line(device / 'serial')}::{number}::INSTR"
        text = " ".join(filter(None, (_line(device / "manufacturer"), _line(device / "product"))))
        found.append(UsbInstrument(resource, text, str(dev_usb / f"{bus:03d}" / f"{address:03d}")))
    return tuple(found)


def forbidden(path: str) -> str:
    """Say how to get the right to use a device file, "" where this user has it or the file is not there."""
    if not os.path.exists(path) or os.access(path, os.R_OK | os.W_OK):
        return ""
    status = os.stat(path)
    if status.st_gid == 0 or not status.st_mode & 0o020:
        return "its owner or root has to give you the right"
    with contextlib.suppress(KeyError):
        group = grp.getgrgid(status.st_gid)
        if _user() in group.gr_mem:
            return f"you are in the group {group.gr_name} but were not when you logged in: log out and in again"
        return f"sudo usermod -a -G {group.gr_name} {_user()}, then log out and in again"
    return f"your user has to be in the group {status.st_gid}"


def holders(devices: Collection[str], proc: Path = PROC) -> dict[str, str]:
    """Tell of each device that another process has open which one that is, as far as this user may see it."""
    wanted = {os.path.realpath(device): device for device in devices}
    found: dict[str, str] = {}
    for process in proc.glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):  # another user's, or one that has ended
            for descriptor in (process / "fd").iterdir():
                device = wanted.get(os.readlink(descriptor))
                if device is not None:
                    found[device] = f"process {process.name} ({_line(process / 'comm')})"
    return found


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return str(os.getuid())


def _line(path: Path) -> str:
    """Read the one line of a file of the system, "" where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
