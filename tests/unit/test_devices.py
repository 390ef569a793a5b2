"""Who is there: asked at once, in time, nothing sent where nobody asked, and every failure with its remedy."""

import errno
import os
import socket
import threading

import pytest

from instruments.errors import BadData, InstrumentTimeout, LinkLost, OutOfRange
from instruments.record import Identity
from instruments.transport import search as search_module
from instruments.transport.search import ask, ask_serial, search
from labctl import benchlock, benchnew, ports
from labctl.benchfile import parse_bench
from labctl.devices import Surroundings, identify
from labctl.ports import SerialPort, UsbInstrument

DHO = "RIGOL TECHNOLOGIES,DHO824,DHO8A1,00.01.02"
TABLE = {
    "shunt": {"resistance_ohm": 1.3},
    "scope": {"driver": "keysight-infiniivision", "resource": "TCPIP::10.0.0.9::5025::SOCKET"},
    "dut": {"board": "stm32vldiscovery", "port": "socket://127.0.0.1:9", "power": "TCPIP::10.0.0.10::5025::SOCKET"},
}


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setenv("LABCTL_LOCKS", str(tmp_path / "locks"))


@pytest.fixture
def instrument():
    """Start instruments on the loopback: each reads one line, notes it, and answers these bytes, or nothing."""
    stops = []

    def start(answer):
        server = socket.create_server(("127.0.0.1", 0))
        heard = []

        def serve():
            with server:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
            with peer:
                heard.append(peer.makefile("rb").readline())
                if answer:
                    peer.sendall(answer)
                peer.recv(1)  # until the other side leaves

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        stops.append((server, thread))
        return f"TCPIP::127.0.0.1::{server.getsockname()[1]}::SOCKET", heard

    yield start
    for server, thread in stops:
        server.close()
        thread.join(5)


def never(resource, timeout_s):
    pytest.fail(f"{resource} was asked")


def nobody(devices):
    return {}


def who(reply):
    return Identity(*reply.split(","))


def test_who_answers_is_told_with_the_driver_that_fits(instrument):
    resource, heard = instrument(DHO.encode() + b"\n")
    (device,) = identify([resource], None, Surroundings(), 5.0)
    assert heard == [b"*IDN?\n"]
    assert (device.status, device.drivers) == ("answers", ("rigol-dho800",))
    assert device.text == "RIGOL TECHNOLOGIES DHO824, serial DHO8A1, firmware 00.01.02; driver rigol-dho800"
    assert (device.identity.vendor, device.identity.firmware) == ("RIGOL TECHNOLOGIES", "00.01.02")
    assert not device.emulated


def test_what_no_driver_claims_says_so(instrument):
    resource, _ = instrument(b"ACME,SCOPE-1,EMULATED-7,1\n")
    (device,) = identify([resource], None, Surroundings(), 5.0)
    assert (device.status, device.drivers, device.emulated) == ("answers", (), True)
    assert device.text.endswith("no driver here claims it")


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [(b"", "silent", "ask again with --timeout 20"), (b"hello\n", "odd", "'hello'; expected vendor,model,serial,firm")],
)
def test_who_says_nothing_or_nonsense_is_told_apart(instrument, answer, status, text):
    resource, _ = instrument(answer)
    (device,) = identify([resource], None, Surroundings(), 0.3)
    assert (device.status, device.identity) == (status, None)
    assert text in device.text


def test_all_are_asked_at_once_and_one_that_hangs_holds_up_nobody():
    release, together = threading.Event(), threading.Barrier(3, timeout=10)

    def hang(resource, timeout_s):
        together.wait()  # breaks unless all three are asked at the same time
        if "0.0.3" in resource:
            release.wait(30)  # far beyond the time given: a system call that knows no deadline, and ends well
        return who(DHO)

    try:
        named = [f"TCPIP::10.0.0.{n}::5025::SOCKET" for n in (1, 2, 3)]
        devices = identify(named, None, Surroundings(), 0.2, ask_visa=hang)
    finally:
        release.set()
    assert [device.status for device in devices] == ["answers", "answers", "silent"]


def lost(number):
    error = LinkLost("it cannot be opened")
    error.__cause__ = OSError(number, "x")
    return error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (lost(errno.ECONNREFUSED), "no link"),
        (lost(errno.EACCES), "forbidden"),
        (lost(errno.EBUSY), "busy"),
        (OutOfRange("no package for this kind of resource"), "no link"),
        (BadData("a block where a line was expected"), "odd"),
        (InstrumentTimeout("no answer"), "silent"),
    ],
)
def test_a_failure_has_its_kind(error, status):
    def fail(resource, timeout_s):
        raise error

    (device,) = identify(["TCPIP::10.0.0.1::INSTR"], None, Surroundings(), 5.0, ask_visa=fail)
    assert device.status == status
    assert device.text


def test_what_a_bench_in_use_holds_is_not_asked():
    resource = "TCPIP::127.0.0.1::5025::SOCKET"
    with benchlock.hold_addresses("tcpip0::localhost::5025::socket"):
        (device,) = identify([resource], None, Surroundings(), 5.0, ask_visa=never)
    assert device.status == "busy"
    assert f"process {os.getpid()}" in device.text
    (device,) = identify([resource], None, Surroundings(), 5.0, ask_visa=lambda *_: who(DHO))
    assert device.status == "answers"


def test_one_instrument_with_two_addresses_is_asked_once():
    asked = []

    def note(resource, timeout_s):
        asked.append(resource)
        return who(DHO)

    named = ["TCPIP::127.0.0.1::5025::SOCKET", "TCPIP::localhost::5025::SOCKET"]
    devices = identify(named, None, Surroundings(), 5.0, ask_visa=note)
    assert len(asked) == 1
    other = next(device for device in devices if device.resource != asked[0])
    assert (other.status, other.text) == ("not asked", f"the same as {asked[0]}")
    same = identify(["TCPIP::10.0.0.1::INSTR", "tcpip0::10.0.0.1::inst0::instr"], None, Surroundings(), 5.0, note)
    assert [device.resource for device in same] == ["TCPIP::10.0.0.1::INSTR"]


def test_the_bench_file_is_asked_and_its_driver_compared():
    file = parse_bench(TABLE, "bench.toml")
    answers = {"TCPIP::10.0.0.9::5025::SOCKET": DHO, "TCPIP::10.0.0.10::5025::SOCKET": "ACME,SUPPLY,1,1"}
    scope, dut, supply = identify([], file, Surroundings(), 5.0, lambda resource, _: who(answers[resource]), never)
    assert (scope.role, scope.found) == ("scope", ("bench",))
    assert scope.text.endswith("; driver rigol-dho800, but the bench file names keysight-infiniivision")
    assert (dut.role, dut.status) == ("DUT stm32vldiscovery", "not asked")
    assert "labctl bench check" in dut.text
    assert supply.text.endswith("; no driver here claims it")  # scpi-switch is for any supply


def test_nothing_is_sent_to_a_serial_port_that_nobody_named(tmp_path):
    path = str(tmp_path / "ttyUSB0")
    open(path, "w").close()
    port = SerialPort(path, "USB UART", (0x0403, 0x6001), "FT1")
    (device,) = identify([], None, Surroundings((port,)), 5.0, never, never, nobody)
    assert (device.status, device.found, device.usb) == ("not asked", ("serial",), (0x0403, 0x6001))
    assert "USB UART, USB 0403:6001, serial FT1: nothing is sent" in device.text
    assert f"labctl devices --resource {path}" in device.text
    (device,) = identify([path], None, Surroundings((port,)), 5.0, never, lambda *_: who(DHO), nobody)
    assert (device.status, device.found) == ("answers", ("named", "serial"))


def test_a_serial_port_that_another_program_has_open_names_it(tmp_path):
    path = str(tmp_path / "ttyUSB0")
    open(path, "w").close()
    held = {path: "process 77 (minicom)"}
    (device,) = identify([path], None, Surroundings(), 5.0, never, never, lambda devices: held)
    assert device.status == "busy"
    assert device.text == "process 77 (minicom) has it open: end that first"


def test_a_serial_port_that_is_forbidden_or_locked_is_not_asked(tmp_path, monkeypatch):
    path = str(tmp_path / "ttyUSB0")
    open(path, "w").close()
    with benchlock.hold_addresses(f"ASRL{path}::INSTR"):
        (device,) = identify([path], None, Surroundings(), 5.0, never, never, nobody)
    assert device.status == "busy"
    assert f"process {os.getpid()}" in device.text
    monkeypatch.setattr(ports, "forbidden", lambda device: "sudo usermod -a -G dialout ada")
    (device,) = identify([path], None, Surroundings(), 5.0, never, never, nobody)
    assert (device.status, device.text) == ("forbidden", "you may not use it: sudo usermod -a -G dialout ada")


def test_a_port_that_does_not_exist():
    (device,) = identify(["/dev/ttyNOWHERE"], None, Surroundings(), 5.0, never, never)
    assert (device.status, device.text) == ("no link", "there is no such port: is it plugged in?")


@pytest.mark.parametrize("resource", ["nonsense", "socket://127.0.0.1:9", ""])
def test_what_is_no_address_says_what_one_looks_like(resource):
    (device,) = identify([resource], None, Surroundings(), 5.0, never, never)
    assert device.status == "odd"
    assert "TCPIP::scope.lab::5025::SOCKET" in device.text


def ppk2(device, number="1", name="PPK2", place="1-2:1.1"):
    return SerialPort(str(device), name, (0x1915, 0xC00A), number, name, place)


def test_a_ppk2_is_told_by_its_usb_id_and_never_asked(tmp_path):
    """Two ports of one PPK2: the lower interface measures, the other is its shell (firmware 1.2)."""
    first, second = tmp_path / "ttyACM0", tmp_path / "ttyACM1"
    first.touch()
    second.touch()
    around = Surroundings((ppk2(second, "C0FFEE", place="1-2:1.3"), ppk2(first, "C0FFEE")))
    measures, shell = identify([str(first)], None, around, 5.0, never, never, nobody)
    assert (measures.resource, measures.status) == (str(first), "by USB id")
    assert measures.identity == Identity("Nordic Semiconductor", "PPK2", "C0FFEE", "", str(first))
    assert measures.text == "Nordic Semiconductor PPK2, serial C0FFEE; driver nordic-ppk2"
    assert (shell.resource, shell.status, shell.identity) == (str(second), "not asked", None)


def test_other_firmware_with_the_numbers_of_a_ppk2_is_none():
    assert ports.instruments_at((ppk2("/dev/ttyACM0", name="nRF52 Connectivity"),)) == {}


def test_each_of_two_ppk2_is_found():
    two = [ppk2(f"/dev/ttyACM{n}", f"S{n}", place=f"1-{n}:1.1") for n in (6, 4)]
    assert list(ports.instruments_at(two)) == ["/dev/ttyACM4", "/dev/ttyACM6"]


def test_the_port_of_a_ppk2_is_never_proposed_for_a_board(monkeypatch):
    board = SerialPort("/dev/ttyUSB0", "UART", (0x0403, 0x6001), "FT1", "UART", "1-7:1.0")
    monkeypatch.setattr(ports, "serial_ports", lambda: (ppk2("/dev/ttyACM0"), board, SerialPort("/dev/ttyS0")))
    assert [(name, proposed) for name, _, proposed in benchnew.serial_ports()] == [
        ("/dev/ttyACM0", False), ("/dev/ttyUSB0", True), ("/dev/ttyS0", False),
    ]


def usb_tree(folder, interface_class="fe"):
    device = folder / "sys" / "1-4"
    interface = folder / "sys" / "1-4:1.0"
    for place, values in (
        (device, {"idVendor": "1ab1", "idProduct": "044c", "busnum": "1", "devnum": "7", "serial": "DHO8A1",
                  "manufacturer": "RIGOL", "product": "DHO800"}),
        (interface, {"bInterfaceClass": interface_class, "bInterfaceSubClass": "03", "bInterfaceNumber": "00"}),
    ):
        place.mkdir(parents=True)
        for name, value in values.items():
            (place / name).write_text(value + "\n")
    return folder / "sys"


def test_usb_instruments_are_found_without_a_package(tmp_path):
    (found,) = ports.usb_instruments(usb_tree(tmp_path))
    assert found == UsbInstrument("USB0::0x1AB1::0x044C::DHO8A1::0::INSTR", "RIGOL DHO800", "/dev/bus/usb/001/007")


def test_other_usb_devices_are_no_instruments(tmp_path):
    assert ports.usb_instruments(usb_tree(tmp_path, "08")) == ()
    assert ports.usb_instruments(tmp_path / "absent") == ()


def test_a_usb_instrument_is_one_with_what_the_search_finds(tmp_path, monkeypatch):
    monkeypatch.setattr("labctl.devices.has_module", lambda name: True)
    usb = (UsbInstrument("USB0::0x1AB1::0x044C::DHO8A1::0::INSTR", "RIGOL DHO800", str(tmp_path / "absent")),)
    around = Surroundings(usb=usb, found=("USB0::6833::1100::DHO8A1::0::INSTR",))
    (device,) = identify([], None, around, 5.0, lambda *_: who(DHO), never)
    assert (device.status, device.found) == ("answers", ("USB", "search"))


def test_a_usb_instrument_without_the_package_or_the_right(tmp_path, monkeypatch):
    usb = (UsbInstrument("USB0::0x1AB1::0x044C::DHO8A1::0::INSTR", "RIGOL DHO800", str(tmp_path)),)
    monkeypatch.setattr("labctl.devices.has_module", lambda name: False)
    (device,) = identify([], None, Surroundings(usb=usb), 5.0, never, never)
    assert (device.status, device.text.split(": ")[-1]) == ("no link", "python -m pip install pyusb")
    monkeypatch.setattr("labctl.ports.forbidden", lambda path: "ask root" if path == str(tmp_path) else "")
    (device,) = identify([], None, Surroundings(usb=usb), 5.0, never, never)
    assert device.status == "forbidden"
    assert f"RIGOL DHO800: you may not use {tmp_path} (ask root)" in device.text
    assert "docs/devices.md" in device.text


def test_a_port_that_is_forbidden_says_which_group(tmp_path, monkeypatch):
    path = tmp_path / "ttyUSB0"
    path.touch(mode=0o660)
    monkeypatch.setattr(ports.os, "access", lambda *_: False)
    assert ports.forbidden(str(tmp_path / "absent")) == ""
    path.chmod(0o600)
    assert ports.forbidden(str(path)) == "its owner or root has to give you the right"


class Status:
    st_gid, st_mode = 20, 0o020660


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([], "sudo usermod -a -G dialout ada, then log out and in again"),
        (["ada"], "you are in the group dialout but were not when you logged in: log out and in again"),
    ],
)
def test_the_group_of_a_port_and_whether_one_is_in_it_already(tmp_path, monkeypatch, members, said):
    monkeypatch.setattr(ports.os, "access", lambda *_: False)
    monkeypatch.setattr(ports.os, "stat", lambda path: Status)
    monkeypatch.setattr(ports.os.path, "exists", lambda path: True)
    monkeypatch.setattr(ports, "_user", lambda: "ada")
    group = ports.grp.struct_group(("dialout", "x", 20, members))
    monkeypatch.setattr(ports.grp, "getgrgid", lambda number: {20: group}[number])
    assert ports.forbidden("/dev/ttyUSB0") == said


def test_who_has_a_port_open_is_read_from_the_system(tmp_path):
    device = tmp_path / "ttyUSB0"
    device.touch()
    descriptors = tmp_path / "proc" / "77" / "fd"
    descriptors.mkdir(parents=True)
    (descriptors / "3").symlink_to(device)
    (descriptors / "4").symlink_to("/dev/null")
    (tmp_path / "proc" / "77" / "comm").write_text("minicom\n")
    (tmp_path / "proc" / "78").mkdir()  # one that has ended, or is somebody else's
    assert ports.holders([str(device)], tmp_path / "proc") == {str(device): "process 77 (minicom)"}
    assert ports.holders([str(tmp_path / "other")], tmp_path / "proc") == {}


def test_a_kind_that_fails_or_hangs_hides_no_other():
    release = threading.Event()

    def fail():
        raise KeyError("Manufacturer")

    def hang():
        release.wait(30)
        return ["late"]

    try:
        found, faults = search(0.2, {"VICP": fail, "GPIB": hang, "TCPIP": lambda: ["TCPIP::10.0.0.1::INSTR"]})
    finally:
        release.set()
    assert found == ["TCPIP::10.0.0.1::INSTR"]
    assert faults == ["VICP could not be searched ('Manufacturer')", "GPIB could not be searched within 0.2 s"]


def test_every_kind_that_can_be_searched_is_an_instrument_s():
    """Serial ports are listed elsewhere, and a network kind is there without any optional package."""
    kinds = search_module._kinds()
    assert "TCPIP INSTR" in kinds
    assert all(name.endswith(" INSTR") and not name.startswith("ASRL") for name in kinds)


def test_a_question_leaves_the_link_closed(instrument):
    resource, _ = instrument(DHO.encode() + b"\r\n")
    assert ask(resource, 5.0).model == "DHO824"


def test_a_serial_instrument_is_asked_by_its_line():
    master, slave = os.openpty()
    try:
        path = os.ttyname(slave)

        def answer():
            heard = b""
            while not heard.endswith(b"\n"):
                heard += os.read(master, 64)
            os.write(master, b"ACME,METER," + heard.strip().hex().encode() + b",1.0\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        identity = ask_serial(path, 5.0)
        thread.join(5)
    finally:
        os.close(master)
        os.close(slave)
    assert identity == Identity("ACME", "METER", b"*IDN?".hex(), "1.0", path)


def test_a_question_that_nobody_answers_ends(instrument):
    resource, _ = instrument(b"")
    with pytest.raises(InstrumentTimeout, match=r"0\.2 s|0\.1"):
        ask(resource, 0.2)
