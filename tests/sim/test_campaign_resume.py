"""What a resume on the emulated bench takes from an edited plan, from its folder, and what it refuses."""

import json

import pytest

from labctl.campaign import journal
from labctl.campaign.drive import Options, begin, resume
from labctl.campaign.folder import open_campaign
from labctl.campaign.plan import parse_plan
from labctl.campaign.work import Show
from labctl.errors import ConfigError
from labctl.firmware import default_image
from labctl.firmware_image import read_manifest

BOARD = "stm32vldiscovery"
PLAN = """
[campaign]
name = "night"
seed = 3
runs = 1
order = "{order}"
[factors]
boards = ["stm32vldiscovery"]
operations = ["sha256"]
bytes = [16, 32, 48, 64]
"""
# Its first capture uses it up.
ONE_ITEM = '[budget]\ndisk = "1 B"\n'


class Told(Show):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def plan_of(order="random", rest=""):
    return parse_plan(PLAN.format(order=order) + rest, "plan.toml")


def taken(path):
    return [attempt.item for attempt in journal.read(path).attempts]


@pytest.fixture
def path(elf, tmp_path):
    """Begin a campaign of four items and take the first of its order."""
    path = tmp_path / "night"
    summary = begin(plan_of(rest=ONE_ITEM), path, Options(), Show())
    assert (summary.exit_status, summary.state.n_done, summary.state.n_pending) == (4, 1, 3)
    return path


def test_another_order_is_that_of_what_is_left(path):
    show = Told()
    (first,) = taken(path)
    assert list(open_campaign(path).campaign.schedule) != [1, 2, 3, 4]  # or this shows nothing
    assert resume(path, plan_of("listed"), Options(), show).exit_status == 0
    assert taken(path) == [first, *sorted({1, 2, 3, 4} - {first})]
    assert any("another order" in note and "listed" in note for note in show.notes)
    show.notes.clear()
    assert resume(path, plan_of("listed"), Options(), show).exit_status == 0
    assert not any("order" in note for note in show.notes)


def test_items_that_the_schedule_leaves_out_are_taken(path):
    document = json.loads((path / "campaign.json").read_text())
    document["schedule"] = document["schedule"][:1]
    (path / "campaign.json").write_text(json.dumps(document))
    summary = resume(path, plan_of(), Options(), Show())
    assert (summary.exit_status, summary.state.n_done) == (0, 4)
    assert sorted(open_campaign(path).campaign.schedule) == [1, 2, 3, 4]


def test_a_budget_of_disk_that_is_used_up_stays_so(path):
    summary = resume(path, plan_of(rest=ONE_ITEM), Options(), Show())
    assert (summary.ending.kind, summary.exit_status) == ("budget", 4)
    assert len(taken(path)) == 1


def test_firmware_that_is_another_build_is_refused_until_it_is_the_same_again(path, monkeypatch):
    manifest = read_manifest(default_image(BOARD).path)
    begun = next(event for event in journal.read(path).events if event.kind == "begin")
    assert begun.facts["images"] == {f"{BOARD}/Os": manifest["build"]}
    with monkeypatch.context() as patch:
        patch.setattr("labctl.campaign.attempt.read_manifest", lambda path: {**manifest, "build": "00000000000000AA"})
        with pytest.raises(ConfigError, match=f"{manifest['build']} when the campaign began and 00000000000000AA now"):
            resume(path, plan_of(), Options(), Show())
    assert len(taken(path)) == 1
    assert resume(path, plan_of(), Options(), Show()).exit_status == 0


def test_an_edited_headline_or_shunt_in_the_folder_is_refused(path):
    kept = (path / "plan.toml").read_text()
    (path / "plan.toml").write_text(kept.replace('power = "dut"', 'power = "supply"'))
    with pytest.raises(ConfigError, match=r"\[campaign\] power was dut when the campaign began and is supply now"):
        resume(path, None, Options(), Show())
    (path / "plan.toml").write_text(f'{kept}\n[bench]\nshunt = "2 ohm"\n' if "[[benches]]" not in kept else
                                    kept.replace("[[benches]]", '[[benches]]\nshunt = "2 ohm"'))
    with pytest.raises(ConfigError, match=r"shunt resistance_ohm was 1\.3 when the campaign began and is 2\.0 now"):
        resume(path, None, Options(), Show())


def test_a_capture_that_is_gone_is_taken_again_on_request_and_gives_the_same(path):
    (before,) = journal.read(path).attempts
    (path / before.capture).unlink()
    show = Told()
    assert resume(path, None, Options(), Show()).ending.kind == "budget"
    assert resume(path, plan_of(), Options(retry_failed=True), show).exit_status == 0
    assert any("an item that was done is taken again" in note for note in show.notes)
    last = {one.item: one for one in journal.read(path).attempts}[before.item]
    assert (last.state, last.capture, last.row) == ("done", before.capture, before.row)
    assert (path / before.capture).is_file()
