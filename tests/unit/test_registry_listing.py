"""What drivers say of themselves, those of other distributions included: what they drive, and what they lack."""

import sys

import pytest

from instruments.errors import DriverUnavailable
from instruments.record import Identity
from instruments.registry import fitting, list_drivers, open_driver

ACME = Identity("ACME", "SCOPE-1", "42", "1.0")
DRIVER = '''
class Scope:
    DRIVER_API = 1
    KIND = "oscilloscope"
    SUMMARY = "ACME SCOPE-1"
    MODULES = ({modules})
    PROGRAMS = ({programs})
    INSTALL = "apt-get install acme-tools"

    @classmethod
    def open(cls, resource):
        return resource

    @staticmethod
    def fits(identity):
        {fits}
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install distribution acme-scope, with one driver `acme`, beside the real ones; its metadata are real files."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(source):
        facts = tmp_path / "acme_scope-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-scope\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text("[labctl.drivers]\nacme = acme_scope_driver:Scope\n")
        (tmp_path / "acme_scope_driver.py").write_text(source)

    yield install
    sys.modules.pop("acme_scope_driver", None)


def source(modules="", programs="", fits='return identity.vendor == "ACME"'):
    return DRIVER.format(modules=modules, programs=programs, fits=fits)


def acme():
    (info,) = (info for info in list_drivers() if info.name == "acme")
    return info


def test_a_driver_of_another_distribution_stands_beside_ours(installed):
    installed(source())
    names = [info.name for info in list_drivers()]
    assert names == sorted(names)
    assert {"acme", "keysight-infiniivision"} <= set(names)
    info = acme()
    assert (info.distribution, info.target, info.available) == ("acme-scope", "acme_scope_driver:Scope", True)
    assert (info.kind, info.summary, info.reason, info.install) == ("oscilloscope", "ACME SCOPE-1", "", "")
    assert open_driver("acme", "x") == "x"


@pytest.mark.parametrize(
    ("lacking", "reason"),
    [
        ({"modules": '"json", "absent_vendor.automation",'}, "the Python module absent_vendor.automation is missing"),
        ({"programs": '"sh", "absent-program",'}, "the program absent-program is missing"),
        ({"modules": '"absent_a", "absent_b",'}, "the Python module absent_a and absent_b is missing"),
    ],
)
def test_a_driver_says_what_it_lacks_and_what_brings_it(installed, lacking, reason):
    installed(source(**lacking))
    info = acme()
    assert (info.available, info.reason, info.install) == (False, reason, "apt-get install acme-tools")
    assert (info.kind, info.summary) == ("oscilloscope", "ACME SCOPE-1")
    with pytest.raises(DriverUnavailable, match=f"{reason}; install it: apt-get install acme") as caught:
        open_driver("acme", "x")
    assert caught.value.install == "apt-get install acme-tools"


def test_a_driver_whose_package_is_missing_lists_itself(installed):
    installed("import absent_vendor_package\n" + source())
    info = acme()
    assert (info.available, info.kind, info.distribution) == (False, "", "acme-scope")
    assert "No module named 'absent_vendor_package'" in info.reason
    assert info.install == "python -m pip install 'acme-scope'"


def test_whatever_a_module_of_somebody_else_raises_is_its_reason(installed):
    installed("raise OSError('libacme.so: cannot open shared object file')\n")
    assert "libacme.so: cannot open shared object file" in acme().reason
    assert [info.name for info in list_drivers() if not info.reason]


def test_a_driver_claims_what_fits_it(installed):
    installed(source())
    assert fitting(ACME) == ("acme",)
    assert fitting(Identity("RIGOL TECHNOLOGIES", "DHO824", "DHO8A1", "00.01")) == ("rigol-dho800",)
    assert fitting(Identity("KEYSIGHT TECHNOLOGIES", "MSO-X 3104T", "MY1", "07.20")) == ("keysight-infiniivision",)
    assert fitting(Identity("ACMEE", "SCOPE-1", "42", "1.0")) == ()


def test_a_driver_that_lacks_something_still_says_what_is_its_own(installed):
    installed(source(programs='"absent-program",'))
    assert fitting(ACME) == ("acme",)


@pytest.mark.parametrize("fits", ["raise KeyError(identity)", "return None", "return 'no'"])
def test_a_claim_that_is_none_hides_nobody(installed, fits):
    installed(source(fits=fits))
    assert fitting(ACME) == ()
    assert fitting(Identity("RIGOL TECHNOLOGIES", "DHO824", "DHO8A1", "00.01")) == ("rigol-dho800",)


def test_every_driver_of_ours_says_what_it_drives_in_one_line():
    ours = [info for info in list_drivers() if info.distribution == "labctl-power"]
    assert ours
    for info in ours:
        assert info.kind in ("oscilloscope", "meter", "logic analyser", "switch"), info
        assert info.summary.strip(), info
        assert "\n" not in info.summary, info
