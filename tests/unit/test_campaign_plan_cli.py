"""`labctl campaign plan`: what a person and what a script reads."""

import json

import pytest

from labctl import cli
from labctl.campaign import runner
from labctl.campaign.folder import create
from labctl.campaign.items import expand, schedule
from labctl.campaign.model import Campaign
from labctl.campaign.plan import parse_plan, to_toml
from labctl.campaign.work import Policy
from labctl.cli import campaign
from labctl.errors import DeviceStable

from .campaign_synthetic import Synthetic, planned_folder

PLAN = """\
[campaign]
name = "night-1"
seed = 3
runs = 30
[factors]
boards = ["stm32vldiscovery", "stm32f4discovery"]
operations = ["sha256", "aes-128-ctr.encrypt"]
bytes = [64, 256]
clocks = ["24 MHz", "168 MHz"]
[baselines]
every = 2
[reference]
operation = "sha512"
[budget]
max_time = "1 min"
"""


@pytest.fixture
def night(tmp_path):
    path = tmp_path / "night.toml"
    path.write_text(PLAN)
    return path


def run(capsys, *arguments):
    status = cli.run(["campaign", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_object_holds_everything_in_the_order_it_is_taken(capsys, night):
    status, out, err = run(capsys, "plan", night, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["schema"], found["name"], found["seed"], found["order"]) == ("labctl.plan/1", "night-1", 3, "random")
    # 4 of each board; 3 baselines thrice for each; one reference for each.
    assert sorted(item["number"] for item in found["items"]) == list(range(1, 8 + 2 * 9 + 2 + 1))
    roles = [item["role"] for item in found["items"] if item["board"] == "stm32vldiscovery"]
    assert sorted(roles[:4]) == ["baseline"] * 3 + ["reference"]
    assert roles[-3:] == ["baseline"] * 3
    assert all(item["n_runs"] == 30 and item["clock_hz"] in (24_000_000, 168_000_000) for item in found["items"])
    assert len(found["left_out"]) == 8
    assert all("not at" in one["reason"] for one in found["left_out"])
    assert found["time_estimated_s"] > 0 and found["disk_estimated_bytes"] > 28 * 1_000_000
    assert found["benches"][0]["emulated"] is True


def test_the_page_fits_80_columns_and_says_what_matters(capsys, night):
    status, out, err = run(capsys, "plan", night)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("Bench bench: emulated")
    assert max(map(len, lines[:-1])) <= 80
    assert not [line for line in lines if line != line.rstrip()]
    for word in ("28 items (8 measured, 2 references, 18 baselines)", "random order of seed 3", "not at 168 MHz",
                 "Left out: 8 combinations", "Estimated", "baseline 3", "The budget of 60 s may end it earlier"):
        assert word in " ".join(out.split())


def test_what_a_person_wrote_is_printed_as_it_is(capsys, night):
    night.write_text(PLAN + '[[exclude]]\noperation = "sha256"\nboard = "stm32f4*"\n[bench]\nfile = "[red].toml"\n')
    (night.parent / "[red].toml").touch()
    out = run(capsys, "plan", night)[1]
    assert "file [red].toml; stm32vldiscovery" in " ".join(out.split())
    assert "4: [[exclude]] of line 16 leaves it out" in out


def test_one_of_a_thing_is_one(capsys, night):
    night.write_text(
        '[campaign]\nname = "n"\nruns = 1\n[factors]\nboards = ["stm32vldiscovery"]\noperations = ["sha256"]\n'
        'clocks = ["24 MHz", "8 MHz"]\n[[exclude]]\nclock = "8 MHz"\n[reference]\noperation = "sm3"\n'
    )
    out = " ".join(run(capsys, "plan", night)[1].split())
    assert "2 items (1 measured, 1 reference), 1 run each" in out
    assert "Left out: 1 combination 1:" in out


@pytest.mark.parametrize("named", ["", "plan.toml"])
def test_a_campaign_that_has_begun_keeps_its_numbers(capsys, tmp_path, named):
    text = '[campaign]\nname = "n"\norder = "listed"\n[factors]\nboards = ["stm32vldiscovery"]\noperations = {}\n'
    path = tmp_path / "begun"
    begun = parse_plan(text.format('["sm3", "sha256"]'), "x")
    items = expand(begun)
    create(path, to_toml(begun), Campaign("n", 1, tuple(items), tuple(schedule(begun, items)), (), "2026-01-01", "x"))
    edited = parse_plan(text.format('["sha512", "sm3", "sha256"]'), "x")
    (path / "plan.toml").write_text(to_toml(edited))
    found = json.loads(run(capsys, "plan", path / named, "--json")[1])["items"]
    assert {item["operation"]: item["number"] for item in found} == {"sm3": 1, "sha256": 2, "sha512": 3}
    assert f"Go on with it: labctl campaign resume {path}" in run(capsys, "plan", path / named)[1]


def test_a_campaign_that_has_begun_says_what_is_done_and_estimates_what_is_left(capsys, tmp_path):
    folder = planned_folder(tmp_path / "begun", 3)
    whole = json.loads(run(capsys, "plan", folder.path, "--json")[1])
    runner.run(folder, Synthetic({(2, 1): DeviceStable("no")}), "made-up-bench", Policy(n_attempts=1))
    found = json.loads(run(capsys, "plan", folder.path, "--json")[1])
    assert {item["number"]: item["state"] for item in found["items"]} == {1: "done", 2: "failed", 3: "done"}
    assert (found["time_estimated_s"], found["disk_estimated_bytes"]) == (0, 0) and whole["time_estimated_s"] > 0
    page = run(capsys, "plan", folder.path)[1]
    assert "So far: 2 done, 1 failed, 0 pending" in page
    assert f"labctl campaign resume {folder.path} --retry-failed" in page.replace("\n", " ")
    # What an edit adds is pending, and status and watch say that there is more.
    text = (folder.path / "plan.toml").read_text()
    (folder.path / "plan.toml").write_text(f"{text}\n[reference]\noperation = \"sha512\"\n")
    assert "So far: 2 done, 1 failed, 1 pending" in run(capsys, "plan", folder.path)[1]
    more = "plan.toml has 1 item more, which the next `labctl campaign resume` takes"
    for words in (("status",), ("watch", "--once")):
        assert more in run(capsys, *words, folder.path)[1]
    assert json.loads(run(capsys, "status", folder.path, "--json")[1])["n_to_add"] == 1


def test_a_rehearsal_is_named(capsys, night):
    assert "Rehearsal" not in run(capsys, "plan", night)[1]
    night.write_text(PLAN + '[[faults]]\nitem = 1\nkill = "simulator"\n[[faults]]\nitem = 2\nkill = "simulator"\n')
    assert "Rehearsal: 2 faults" in run(capsys, "plan", night)[1]
    assert json.loads(run(capsys, "plan", night, "--json")[1])["n_faults"] == 2


def test_long_lists_show_their_ends_unless_all_is_asked(capsys, night):
    night.write_text(PLAN.replace('"sha256", ', '"aes-*", "sha256", '))
    short, whole = (run(capsys, "plan", night, *more)[1] for more in ([], ["--all"]))
    assert "more in between: --all prints them" in short
    assert len(short.splitlines()) < 70
    assert len(whole.splitlines()) > 200


def test_a_faulty_plan_ends_with_2_and_its_line(capsys, night):
    night.write_text(PLAN.replace("runs", "rnus"))
    status, out, err = run(capsys, "plan", night, "--json")
    assert (status, out) == (2, "")
    assert f"{night}, line 4: [campaign] rnus is not a key of this table; did you mean 'runs'?" in err


@pytest.mark.parametrize(
    ("content", "words"), [(None, "is not there"), (b"\xff\xfe", "not in UTF-8"), (b"", "is missing")]
)
def test_what_is_no_plan(capsys, tmp_path, content, words):
    if content is not None:
        (tmp_path / "x.toml").write_bytes(content)
    status, out, err = run(capsys, "plan", tmp_path / "x.toml")
    assert (status, out) == (2, "")
    assert words in err


def test_nothing_is_written(capsys, night, monkeypatch):
    monkeypatch.chdir(night.parent)
    run(capsys, "plan", night)
    assert list(night.parent.iterdir()) == [night]


def test_the_group_names_every_command_and_the_nearest(capsys):
    status, out, _ = run(capsys, "--help")
    assert status == 0
    for name in campaign.COMMANDS:
        assert f"  {name} " in out
    status, _, err = run(capsys, "paln")
    assert status == 2 and "Did you mean 'plan'?" in err


@pytest.mark.parametrize("name", campaign.COMMANDS)
def test_each_command_of_the_group_has_help(capsys, name):
    status, out, _ = run(capsys, name, "--help")
    assert status == 0
    assert "Usage: labctl campaign" in out
