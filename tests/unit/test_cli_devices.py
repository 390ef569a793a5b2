"""``labctl devices``: one row an address in 80 columns, JSON with the same, and a status that a script can use."""

import json
from pathlib import Path

import pytest

from instruments.record import Identity
from labctl import cli, devices
from labctl.devices import Device, Surroundings

SCOPE = Device(
    "TCPIP::10.0.0.9::5025::SOCKET", ("bench", "search"), "scope", "rigol-dho800", "answers", "EMULATED DHO824; driver",
    Identity("EMULATED", "DHO824", "1", "2"), ("rigol-dho800",),
)
ABOUT = "UART, USB 0403:6001: nothing is sent to a serial port that nobody named; `labctl devices --resource X` asks it"
PORT = Device("/dev/ttyUSB0", ("serial",), status="not asked", text=ABOUT, usb=(0x0403, 0x6001))
LOST = Device("TCPIP::10.0.0.1::INSTR", ("named",), status="no link", text="nobody \x1b[31m answers:\nsee there")


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """Let these devices be found; note what was searched for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    calls = []

    def see(*found):
        def look_around(timeout_s):
            calls.append(("search", timeout_s))
            return Surroundings(), ["mDNS was not searched"]

        def identify(named, file, around, timeout_s):
            calls.append((tuple(named), file and file.scope.resource, timeout_s))
            return list(found)

        monkeypatch.setattr(devices, "look_around", look_around)
        monkeypatch.setattr(devices, "identify", identify)
        return calls

    return see


def test_the_page_fits_80_columns_and_says_what_is_emulated(seen, capsys):
    calls = seen(SCOPE, PORT)
    assert cli.run(["devices", "--timeout", "3 s"]) == 0
    assert calls == [("search", 3.0), ((), None, 3.0)]
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    text = " ".join(out.split())
    assert text.startswith("answers TCPIP::10.0.0.9::5025::SOCKET (scope): EMULATED DHO824; driver. It is emulated (")
    assert "not asked /dev/ttyUSB0: UART, USB 0403:6001: nothing is sent" in text
    assert text.endswith("MDNS was not searched.")


def test_json_is_one_object(seen, capsys):
    seen(SCOPE, PORT)
    assert cli.run(["devices", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["not_searched"]) == ("labctl.devices/1", ["mDNS was not searched"])
    scope, port = document["devices"]
    told = (Path(__file__).parents[2] / "docs" / "devices.md").read_text()
    assert all(f"`{key}`" in told.partition("labctl.devices/1")[2] for key in (*document, *scope) if key != "schema")
    assert scope == {
        "resource": "TCPIP::10.0.0.9::5025::SOCKET", "found": ["bench", "search"], "role": "scope",
        "bench_driver": "rigol-dho800", "status": "answers", "text": "EMULATED DHO824; driver",
        "identity": {"vendor": "EMULATED", "model": "DHO824", "serial": "1", "firmware": "2"},
        "drivers": ["rigol-dho800"], "usb": None, "emulated": True,
    }
    assert (port["identity"], port["role"], port["usb"], port["emulated"]) == (None, None, "0403:6001", False)


def test_what_is_named_is_asked_alone_and_must_answer(seen, capsys):
    calls = seen(LOST)
    assert cli.run(["devices", "--resource", LOST.resource]) == 1
    assert calls == [((LOST.resource,), None, 5.0)]
    assert capsys.readouterr().out == "no link   TCPIP::10.0.0.1::INSTR: nobody \ufffd[31m answers: see there\n"


def test_a_wrong_bench_file_hides_no_device_unless_it_is_named(seen, capsys, tmp_path):
    calls = seen(PORT)
    (tmp_path / "bench.toml").write_text("[bench]\nnam = 'x'\n")
    assert cli.run(["devices"]) == 0
    assert "The bench file is left out: bench.toml: " in " ".join(capsys.readouterr().out.split())
    assert calls[-1] == ((), None, 5.0)
    assert cli.run(["devices", "--bench", "bench.toml"]) == 2
    assert "did you mean 'name'" in capsys.readouterr().err


def test_the_bench_file_is_asked(seen, tmp_path):
    calls = seen(SCOPE)
    (tmp_path / "bench.toml").write_text(
        '[shunt]\nresistance_ohm = 1.3\n[scope]\ndriver = "rigol-dho800"\nresource = "TCPIP::10.0.0.9::5025::SOCKET"\n'
        '[dut]\nboard = "stm32vldiscovery"\nport = "/dev/ttyUSB0"\n'
    )
    assert cli.run(["devices"]) == 0
    assert calls[-1] == ((), "TCPIP::10.0.0.9::5025::SOCKET", 5.0)


def test_nothing_found_says_so(seen, capsys):
    seen()
    assert cli.run(["devices"]) == 0
    assert capsys.readouterr().out.startswith("Nothing found.\n")
