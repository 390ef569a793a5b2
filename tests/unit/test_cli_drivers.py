"""``labctl drivers``: every driver stands there, with what it lacks, in 80 columns; JSON holds the same."""

import json
from pathlib import Path

import pytest

from instruments import registry
from instruments.registry import DriverInfo
from labctl import cli

WHY = "driver 'acme' of acme-scope cannot be imported (No module named 'vendor'); install what it needs: "
INSTALL = "python -m pip install 'acme-scope'"
DRIVERS = [
    DriverInfo("acme", "acme_scope:Scope", "acme-scope", False, WHY + INSTALL, INSTALL),
    DriverInfo("logic", "l:L", "labctl-power", False, "the program sigrok-cli is missing", "apt-get install sigrok-cli",
               "logic analyser", "sigrok's logic analysers"),
    DriverInfo("meter-1", "m:M", "labctl-power", True, kind="meter", summary="the one \x1b[31mmeter\x1b[0m that is"),
]


@pytest.fixture
def listed(monkeypatch):
    monkeypatch.setattr(registry, "list_drivers", lambda: DRIVERS)


def test_the_page_names_each_with_what_it_lacks(listed, capsys):
    assert cli.run(["drivers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert [line[:10].strip() for line in lines if line[:1].strip()] == ["missing", "missing", "ok"]
    assert lines.count(f"          $ {INSTALL}") == 1
    assert "          $ apt-get install sigrok-cli" in lines
    text = " ".join("\n".join(lines).split())
    assert "acme. Driver 'acme' of acme-scope cannot be imported (No module named 'vendor'); install what it" in text
    assert "logic, logic analyser: sigrok's logic analysers. The program sigrok-cli is missing $ apt-get" in text
    assert "\x1b" not in text


def test_json_holds_the_same(listed, capsys):
    assert cli.run(["drivers", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "labctl.drivers/1"
    keys = {"name", "target", "distribution", "available", "reason", "install", "kind", "summary"}
    assert all(set(row) == keys for row in document["drivers"])
    told = (Path(__file__).parents[2] / "docs" / "devices.md").read_text()
    assert all(f"`{key}`" in told.partition("labctl.drivers/1")[2] for key in keys)
    acme, logic, meter = document["drivers"]
    assert (acme["name"], acme["available"], acme["kind"], acme["summary"]) == ("acme", False, None, None)
    assert (logic["kind"], logic["install"]) == ("logic analyser", "apt-get install sigrok-cli")
    assert (meter["available"], meter["reason"], meter["install"]) == (True, "", "")


def test_what_is_really_installed_is_listed(capsys):
    assert cli.run(["drivers", "--json"]) == 0
    names = [row["name"] for row in json.loads(capsys.readouterr().out)["drivers"] if row["available"]]
    assert {"keysight-infiniivision", "keysight-n6705", "rigol-dho800", "scpi-switch"} <= set(names)
