"""``labctl doctor``: each thing that labctl uses is ok, missing or wrong, with what mends it; only needs decide."""

import json
import re
from pathlib import Path

import pytest

from instruments.errors import DriverUnavailable
from instruments.registry import DriverInfo
from labctl import cli, doctor
from labctl.benchfile import parse_bench
from labctl.doctor import Host, examine
from labctl.ports import SerialPort, UsbInstrument
from labctl.report.firmware import FirmwareRow

BOARD = "stm32vldiscovery"
ELF = "/opt/build/firmware.elf"
PROGRAMS = ("make", "arm-none-eabi-gcc", "openocd", "st-flash", "sigrok-cli", "chromium", "pdflatex")


def row(board, **facts):
    return FirmwareRow(board, "all", "Os", 24_000_000, path=ELF, **{"built": True, **facts})


class Sound(Host):
    """A machine on which all is well."""

    def version(self, distribution):
        return "1.2"

    def import_fault(self, module):
        return ""

    def library(self, name):
        return f"lib{name}.so.0"

    def program(self, name):
        return f"/usr/bin/{name}" if name in PROGRAMS else ""

    def run(self, command):
        if command[-1].endswith(("nano.specs", "siunitx.sty")):
            return 0, f"/usr/lib/{command[-1].rpartition('=')[2]}"
        return 0, f"{command[0].rpartition('/')[2]} 7.0"

    def free_bytes(self, folder):
        return 5_000_000_000

    def may_write(self, folder):
        return True

    def clock_is_right(self):
        return True

    def serial_ports(self):
        return ()

    def usb_instruments(self):
        return ()

    def forbidden(self, path):
        return ""

    def drivers(self):
        return [DriverInfo(name, "t:T", "labctl-power", True, kind="oscilloscope", summary="scopes")
                for name in ("rigol-dho800", "scpi-switch")]

    def lock_fault(self):
        return ""

    def image(self, board):
        return row(board)


def host(**answers):
    """Make a machine that answers so, a function or a value a question."""
    methods = {name: (answer if callable(answer) else lambda *_, a=answer: a) for name, answer in answers.items()}
    return type("Machine", (Sound,), {k: (lambda self, *a, f=f: f(*a)) for k, f in methods.items()})()


def without(program):
    """Make a machine that lacks one of the programs."""
    return host(program=lambda one: f"/usr/bin/{one}" if one in PROGRAMS and one != program else "")


def bench(port="socket://127.0.0.1:9", resource="TCPIP::10.0.0.9::5025::SOCKET", **dut):
    return parse_bench({
        "bench": {"name": "desk"}, "shunt": {"resistance_ohm": 1.3},
        "scope": {"driver": "rigol-dho800", "resource": resource}, "dut": {"board": BOARD, "port": port, **dut},
    }, "bench.toml")


def find(name, checks):
    (check,) = (check for check in checks if check.name == name)
    return check


def needs(checks):
    return [check.name for check in checks if check.keeps_bench_from_working]


def test_on_a_sound_machine_all_is_well():
    checks = examine(None, None, host=Sound())
    assert {check.status for check in checks} == {"ok"}
    assert {check.command for check in checks} == {""}
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    assert {"pyvisa-py", "pyserial", "pyusb", "libusb", "zeroconf", "serial ports", "USB instruments", "locks", "make",
            "arm-none-eabi-gcc", "openocd", "st-flash", "sigrok-cli", "chromium", "TeX", "disk", "clock", "bench file",
            f"firmware of {BOARD}"} <= set(names)


@pytest.mark.parametrize("name", ["pyusb", "zeroconf", "psutil"])
def test_a_package_that_this_bench_does_not_use(name):
    checks = examine(None, None, host=host(version=lambda one: "" if one == name else "1"))
    check = find(name, checks)
    assert (check.status, check.command, check.needed) == ("missing", f"python -m pip install {name}", False)
    assert needs(checks) == []


def test_a_usb_instrument_of_the_bench_needs_what_speaks_usb():
    usb = bench(resource="USB0::0x1AB1::0x044C::DHO8A1::INSTR")
    without = host(version=lambda one: "" if one == "pyusb" else "1", library="")
    assert needs(examine(usb, None, host=without)) == ["pyusb", "libusb"]
    assert needs(examine(bench(), None, host=without)) == []
    assert find("libusb", examine(usb, None, host=without)).command.endswith("libusb-1.0-0")


def test_a_back_end_that_cannot_be_imported_is_wrong():
    checks = examine(None, None, host=host(import_fault=lambda one: "no name 'x'" if "visa" in one else ""))
    check = find("pyvisa-py", checks)
    assert (check.status, check.text) == ("wrong", "1.2; no name 'x'")
    assert check.command.startswith("python -m pip install")
    assert needs(checks) == ["pyvisa-py"]


def test_a_back_end_that_is_not_installed():
    assert needs(examine(None, None, host=host(version=lambda one: "" if one == "pyserial" else "1"))) == ["pyserial"]


@pytest.mark.parametrize(
    ("name", "program", "package"),
    [
        ("openocd", "openocd", "openocd"),
        ("st-flash", "st-flash", "stlink-tools"),
        ("sigrok-cli", "sigrok-cli", "sigrok-cli"),
        ("chromium", "chromium", "chromium"),
        ("TeX", "pdflatex", "texlive-science"),
        ("arm-none-eabi-gcc", "arm-none-eabi-gcc", "gcc-arm-none-eabi"),
        ("make", "make", "make"),
    ],
)
def test_a_tool_that_is_missing_names_its_package(name, program, package):
    checks = examine(None, None, host=without(program))
    check = find(name, checks)
    assert (check.status, check.needed) == ("missing", False)
    assert check.command.startswith("apt-get install ")
    assert package in check.command.split()
    assert needs(checks) == []


def test_another_program_of_the_same_kind_will_do():
    others = ("chromium", "pdflatex")
    checks = examine(None, None, host=host(program=lambda one: "" if one in others else f"/usr/bin/{one}"))
    assert find("chromium", checks).text.startswith("chromium-headless-shell 7.0;")
    assert find("TeX", checks).text.startswith("lualatex 7.0;")


@pytest.mark.parametrize("result", [(127, "error while loading libraries"), (None, "timed out after 10 seconds")])
def test_a_tool_that_does_not_run_is_wrong(result):
    check = find("openocd", examine(None, None, host=host(run=lambda command: result)))
    assert check.status == "wrong"
    assert result[1] in check.text
    assert "openocd" in check.command


@pytest.mark.parametrize(("name", "answer"), [("arm-none-eabi-gcc", (0, "nano.specs")), ("TeX", (1, ""))])
def test_a_tool_without_the_files_it_works_with_is_wrong(name, answer):
    """The compiler gives a file that it does not find back by its bare name; kpsewhich ends with status 1."""

    def run(command):
        return answer if command[-1].endswith(("nano.specs", "siunitx.sty")) else (0, "7.0")

    check = find(name, examine(None, None, host=host(run=run)))
    assert check.status == "wrong"
    assert "does not find" in check.text


def test_the_emulated_bench_needs_its_firmware_or_what_builds_it():
    unbuilt = {"image": lambda board: row(board, built=False)}
    checks = examine(None, None, host=host(**unbuilt))
    check = find(f"firmware of {BOARD}", checks)
    assert (check.status, check.command) == ("missing", f"labctl firmware build --board {BOARD}")
    assert needs(checks) == []
    no_compiler = host(**unbuilt, program=without("arm-none-eabi-gcc").program)
    assert needs(examine(None, None, host=no_compiler)) == [f"firmware of {BOARD}"]
    assert needs(examine(bench(), None, host=no_compiler)) == []


@pytest.mark.parametrize(
    ("facts", "text"), [({"remark": "no manifest"}, "no manifest"), ({"out_of_date": True}, f"{ELF} is older than its")]
)
def test_firmware_that_is_not_what_it_should_be_is_wrong(facts, text):
    check = find(f"firmware of {BOARD}", examine(None, None, host=host(image=lambda board: row(board, **facts))))
    assert check.status == "wrong"
    assert text in check.text


def test_disk_and_clock():
    checks = examine(None, None, host=host(free_bytes=150_000_000))
    assert (find("disk", checks).status, needs(checks)) == ("wrong", ["disk"])
    assert find("disk", checks).text.startswith("150 MB free")
    assert needs(examine(None, None, host=host(may_write=False))) == ["disk"]
    for answer, status in ((False, "wrong"), (None, "missing")):
        checks = examine(None, None, host=host(clock_is_right=lambda a=answer: a))
        assert (find("clock", checks).status, find("clock", checks).command) == (status, "timedatectl set-ntp true")
        assert needs(checks) == []


def test_ports_and_usb_instruments_that_one_may_not_use():
    ports = (SerialPort("/dev/ttyUSB0"), SerialPort("/dev/ttyUSB1"))
    usb = (UsbInstrument("USB0::1::2::3::0::INSTR", "RIGOL", "/dev/bus/usb/001/007"),)
    checks = examine(None, None, host=host(serial_ports=lambda: ports, usb_instruments=lambda: usb,
                                           forbidden=lambda node: "" if node == "/dev/ttyUSB0" else "ask root"))
    assert find("serial ports", checks).text == "/dev/ttyUSB1: ask root"
    assert find("USB instruments", checks).text.startswith("/dev/bus/usb/001/007: ask root; or add the rule")
    assert [find(name, checks).status for name in ("serial ports", "USB instruments")] == ["wrong", "wrong"]
    assert needs(checks) == []
    checks = examine(None, None, host=host(serial_ports=lambda: ports))
    assert find("serial ports", checks).text == "you may use /dev/ttyUSB0, /dev/ttyUSB1"


def test_the_port_of_the_bench_is_needed(tmp_path):
    name = f"port of {BOARD}"
    there = tmp_path / "ttyUSB0"
    there.touch()
    assert find(name, examine(bench(str(there)), None, host=Sound())).status == "ok"
    checks = examine(bench(str(tmp_path / "ttyUSB1")), None, host=Sound())
    assert (find(name, checks).status, needs(checks)) == ("missing", [name])
    checks = examine(bench(str(there)), None, host=host(forbidden=lambda path: "ask root"))
    assert (find(name, checks).status, needs(checks)) == ("wrong", [name])
    assert find(name, checks).text == f"you may not use {there}: ask root"


def test_the_port_of_a_meter_is_needed(tmp_path):
    file = parse_bench({"meter": {"driver": "rigol-dho800", "resource": str(tmp_path / "ttyACM0")},
                        "dut": {"board": BOARD, "port": "socket://127.0.0.1:9", "power": "meter"}}, "bench.toml")
    checks = examine(file, None, host=Sound())
    assert (find("port of meter", checks).status, needs(checks)) == ("missing", ["port of meter"])


def test_a_board_that_nobody_knows_is_wrong():
    table = {**bench().model_dump(exclude_none=True), "dut": {"board": "stm32vl", "port": "p"}}
    file = parse_bench(table, "bench.toml")
    checks = examine(file, None, host=host(image=Host().image))
    assert find("firmware of stm32vl", checks).status == "wrong"
    assert BOARD in find("firmware of stm32vl", checks).text
    assert needs(checks) == ["firmware of stm32vl"]


def test_drivers_of_the_bench_are_needed_and_others_are_not():
    lacking = DriverInfo("logic", "l:L", "acme", False, "the program acme-cli is missing", "apt-get install acme-cli")
    rigol, switch = Sound().drivers()
    checks = examine(bench(), None, host=host(drivers=lambda: [rigol, lacking]))
    assert (find("driver logic", checks).status, find("driver logic", checks).command) == ("missing", lacking.install)
    assert needs(checks) == []
    without_package = DriverInfo("rigol-dho800", "r:R", "labctl-power", False, "the Python module x is missing")
    assert needs(examine(bench(), None, host=host(drivers=lambda: [without_package]))) == ["driver rigol-dho800"]
    checks = examine(bench(power="TCPIP::10.0.0.10::5025::SOCKET"), None, host=host(drivers=lambda: [rigol]))
    assert needs(checks) == ["driver scpi-switch"]
    checks = examine(bench(), None, host=host(drivers=lambda: [switch]))
    assert needs(checks) == ["driver rigol-dho800"]
    assert "known are scpi-switch" in find("driver rigol-dho800", checks).text

    def twice():
        raise DriverUnavailable("driver name 'x' is claimed by a and b: uninstall one of them")

    checks = examine(bench(), None, host=host(drivers=twice))
    assert "claimed by a and b" in find("drivers", checks).text
    assert needs(checks) == ["drivers"]


def test_a_bench_file_that_is_wrong_is_what_the_bench_needs():
    checks = examine(None, None, "bench.toml: [shunt] is missing", host=Sound())
    assert find("bench file", checks).text == "bench.toml: [shunt] is missing"
    assert needs(checks) == ["bench file"]


def test_locks_that_cannot_be_made(monkeypatch, tmp_path):
    monkeypatch.setenv("LABCTL_LOCKS", str(tmp_path / "locks"))
    assert Host().lock_fault() == ""
    monkeypatch.setenv("LABCTL_LOCKS", str(tmp_path / "absent" / "locks"))
    assert "LABCTL_LOCKS" in Host().lock_fault()


@pytest.mark.parametrize(("state", "right"), [(0, True), (1, True), (5, False), (-1, None)])
def test_the_clock_by_what_the_system_returns(monkeypatch, state, right):
    """adjtimex(2): TIME_OK is 0, TIME_INS 1 (a leap second is due), TIME_ERROR 5 (not synchronised), -1 a failure."""

    class Library:
        def __init__(self, name):
            pass

        def adjtimex(self, asked):
            assert asked.raw.strip(b"\0") == b""  # nothing is to be set
            assert len(asked) >= 208  # struct timex
            return state

    monkeypatch.setattr(doctor.ctypes, "CDLL", Library)
    assert Host().clock_is_right() is right


def test_this_machine_is_really_asked(tmp_path):
    this = Host()
    assert this.version("labctl-power")
    assert [ask("no-such-thing") for ask in (this.version, this.program, this.library)] == ["", "", ""]
    assert "no_such_module" in this.import_fault("no_such_module")
    assert this.import_fault("serial") == ""
    assert this.run(["sh", "-c", "echo 'sh 5'; echo more"]) == (0, "sh 5")
    assert this.run(["sh", "-c", "echo wrong >&2; exit 3"]) == (3, "wrong")
    assert this.run([str(tmp_path / "absent")])[0] is None
    assert this.free_bytes(tmp_path) > 0
    assert this.may_write(tmp_path)
    assert this.clock_is_right() in (True, False, None)
    assert this.image(BOARD).board == BOARD


@pytest.fixture
def machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def use(one):
        monkeypatch.setattr(doctor, "Host", lambda: one)

    return use


def test_the_page_fits_80_columns_and_ends_with_what_the_bench_needs(machine, capsys, tmp_path):
    machine(host(version=lambda one: "" if one == "pyusb" else "1"))
    assert cli.run(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert "missing   pyusb: speaks to USB instruments; this bench does without" in lines
    assert "          $ python -m pip install pyusb" in lines
    n_rows = sum(bool(line[:1].strip()) for line in lines) - 1
    assert lines[-1] == f"{n_rows - 1} ok, 1 missing, 0 wrong. This bench has all it needs."


def test_the_status_is_3_where_the_bench_needs_something(machine, capsys, tmp_path):
    machine(host(version=lambda one: "" if one == "pyserial" else "1"))
    assert cli.run(["doctor"]) == 3
    assert re.search(r"This bench needs: pyserial\.$", capsys.readouterr().out.strip())
    machine(Sound())
    (tmp_path / "bench.toml").write_text("[shunt]\nresistance = 1\n")
    assert cli.run(["doctor"]) == 3
    assert "did you mean 'resistance_ohm'" in " ".join(capsys.readouterr().out.split())
    assert cli.run(["doctor", "--bench", "absent.toml"]) == 2


def test_json_holds_the_same(machine, capsys, tmp_path):
    machine(host(clock_is_right=False))
    assert cli.run(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["bench"]) == ("labctl.doctor/1", {"name": None, "file": None})
    assert all(set(check) == {"area", "name", "status", "text", "command", "needed"} for check in document["checks"])
    assert [check["name"] for check in document["checks"] if check["status"] == "wrong"] == ["clock"]
    told = (Path(__file__).parents[2] / "docs" / "devices.md").read_text()
    assert all(f"`{key}`" in told.partition("## labctl doctor")[2] for key in document["checks"][0])
    assert {check["area"] for check in document["checks"]} == {"back ends", "permissions", "tools", "machine", "bench"}
