"""Drivers are found by name; whatever is wrong with one is said by name, with the remedy."""

import inspect
import re
import sys
import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from instruments import registry
from instruments.errors import DriverUnavailable
from instruments.protocols import PowerSwitch, Recorder
from instruments.registry import GROUP, list_drivers, load_driver, open_driver

ROOT = Path(__file__).parents[2]


class FakeDistribution:
    name = "acme-scope"


class AcmeScope:
    DRIVER_API = 1

    def __init__(self, resource, options):
        self.resource, self.options = resource, options

    @classmethod
    def open(cls, resource, **options):
        return cls(resource, options)


class OldScope(AcmeScope):
    DRIVER_API = 0


def point(name, target, distribution=FakeDistribution):
    entry = EntryPoint(name, target, GROUP)
    vars(entry).update(dist=distribution and distribution())
    return entry


@pytest.fixture
def registered(monkeypatch):
    """Let the group hold these entry points only."""
    monkeypatch.setitem(sys.modules, "acme_scope", sys.modules[__name__])

    def register(*entries):
        monkeypatch.setattr(registry, "entry_points", lambda group: [e for e in entries if e.group == group])

    return register


def test_the_project_file_and_the_installed_table_agree():
    """A new entry point is invisible in an editable install until it is installed again."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    installed = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    assert declared.items() <= installed.items(), "install the project again: python -m pip install -e ."


def test_our_drivers_are_available_and_keep_their_protocols():
    available = {info.name for info in list_drivers() if info.available}
    assert {"keysight-infiniivision", "rigol-dho800", "scpi-switch"} <= available
    recorders = [(name, Recorder) for name in ("keysight-infiniivision", "rigol-dho800")]
    for name, protocol in (*recorders, ("scpi-switch", PowerSwitch)):
        methods = [method for method in vars(protocol) if not method.startswith("_")]
        assert methods
        for method in methods:
            wanted = list(inspect.signature(getattr(protocol, method)).parameters)
            assert list(inspect.signature(getattr(load_driver(name), method)).parameters)[: len(wanted)] == wanted


def test_open_hands_resource_and_options_to_the_driver(registered):
    registered(point("acme", "acme_scope:AcmeScope"))
    scope = open_driver("acme", "TCPIP::scope.lab::5025::SOCKET", timeout_s=2.0)
    assert (scope.resource, scope.options) == ("TCPIP::scope.lab::5025::SOCKET", {"timeout_s": 2.0})


def test_a_typo_is_answered_by_the_nearest_name():
    with pytest.raises(DriverUnavailable, match="'keysight-infinivision': did you mean 'keysight-infiniivision'"):
        open_driver("keysight-infinivision", "x")


def test_a_name_like_no_other_is_answered_by_the_list(registered):
    registered(point("acme", "acme_scope:AcmeScope"), point("other", "acme_scope:AcmeScope"))
    with pytest.raises(DriverUnavailable, match=r"'zzz': known are acme, other$"):
        load_driver("zzz")


def test_a_name_claimed_twice_is_an_error(registered):
    registered(point("acme", "acme_scope:AcmeScope"), point("acme", "acme_scope:OldScope"))
    for call in (list_drivers, lambda: load_driver("acme")):
        with pytest.raises(DriverUnavailable, match=r"'acme' is claimed by acme-scope \(acme_scope:AcmeScope\) and"):
            call()


def test_the_same_entry_seen_twice_is_one_driver(registered):
    registered(point("acme", "acme_scope:AcmeScope"), point("acme", "acme_scope:AcmeScope"))
    assert [info.name for info in list_drivers()] == ["acme"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("absent_vendor_package:Scope", "No module named 'absent_vendor_package'"),
        ("acme_scope:Absent", "no attribute 'Absent'"),
    ],
)
def test_a_driver_that_cannot_be_imported_lists_itself_with_the_remedy(registered, target, reason):
    registered(point("acme", "acme_scope:AcmeScope"), point("broken", target))
    working, broken = list_drivers()
    assert (working.name, working.available, working.reason) == ("acme", True, "")
    assert (broken.name, broken.available, broken.distribution) == ("broken", False, "acme-scope")
    assert reason in broken.reason
    assert "python -m pip install 'acme-scope'" in broken.reason


def test_without_a_distribution_the_module_is_named(registered):
    registered(point("broken", "absent_vendor_package.scope:Scope", distribution=None))
    assert "pip install 'absent_vendor_package'" in list_drivers()[0].reason


def test_another_interface_version_is_refused(registered):
    registered(point("old", "acme_scope:OldScope"))
    with pytest.raises(DriverUnavailable, match="driver interface 0, this is 1; upgrade it"):
        load_driver("old")


def public_methods():
    for entry in entry_points(group=GROUP):
        driver = load_driver(entry.name)
        for name, member in inspect.getmembers(driver, callable):
            if not name.startswith("_"):
                yield pytest.param(member, id=f"{entry.name}.{name}")


@pytest.mark.parametrize("method", list(public_methods()))
def test_public_methods_of_drivers_say_what_they_do(method):
    """The first line is one sentence in the imperative: it begins with a bare verb and says no 's' form."""
    line = (inspect.getdoc(method) or "").partition("\n")[0]
    verb = re.match(r"[A-Z][a-z]+\b", line)
    assert verb, f"no docstring that begins with a verb: {line!r}"
    assert not verb.group().endswith("s"), f"not imperative: {line!r}"
    assert verb.group() not in {"The", "A", "An", "This", "It", "Method", "Function"}
    assert "." in line or inspect.getdoc(method).partition("\n\n")[0].endswith(".")
