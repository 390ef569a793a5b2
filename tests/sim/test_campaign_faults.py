"""A bad night on the emulated bench: each fault is got over or costs its item alone, and changes no result."""

import dataclasses
import errno
import itertools
import json
import os
import sys

import pytest

from labctl.bench import open_bench
from labctl.campaign import journal
from labctl.campaign.budget import Clocks
from labctl.campaign.drive import Options, begin, resume
from labctl.campaign.folder import open_campaign
from labctl.campaign.plan import parse_plan
from labctl.campaign.work import Show
from labctl.measure import Plan, take
from labctl.model import Operation
from labctl.store import atomic, open_capture

PLAN = """
[campaign]
name = "night"
seed = 3
runs = 2
order = "listed"
backoff = "100 ms"
[factors]
boards = ["stm32vldiscovery"]
operations = ["sha256"]
bytes = [{sizes}]
"""
# One item each: what goes wrong in its first attempt, and a word of what is said of it.
FAULTS = {
    "hangs": ("dut = {hang = true}", "no answer"),
    "garbage": ("dut = {garbage = true}", "garbage"),
    "reboots": ("dut = {reset_during_series = true}", "reset"),
    "wrong result": ("dut = {wrong_result = true}", "wrong result"),
    "scope vanishes": ("scope = {vanish_after_bytes = 50_000, return_after_s = 0.5}", "connection"),
    "simulator killed": ('kill = "simulator"', "SIGKILL"),
    "extra edge": ('trigger = "extra-edge"', "extra trigger edge"),
}
PERSISTING = len(FAULTS) + 1  # the number of the item whose result is wrong in every attempt


def plan_text(n, faults=""):
    return PLAN.format(sizes=", ".join(str(16 * number) for number in range(1, n + 1))) + faults


def night(out, text, show=None, **options):
    return begin(parse_plan(text, "plan.toml"), out, Options(**options), show or Show())


def by_item(path):
    found = {}
    for attempt in journal.read(path).attempts:
        found.setdefault(attempt.item, []).append(attempt)
    return found


@pytest.fixture(scope="module")
def patched():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labctl.bench.DUT_TIMEOUT_S", 2.0)
        patch.setattr("labctl.bench.OPEN_TIMEOUT_S", 3.0)
        yield patch


@pytest.fixture(scope="module")
def bad(elf, tmp_path_factory, patched):
    """Run a night of faults; give its folder and how it ended."""
    tables = [f"[[faults]]\nitem = {number}\n{fault}\n" for number, (fault, _) in enumerate(FAULTS.values(), 1)]
    tables.append(f"[[faults]]\nitem = {PERSISTING}\nattempts = [1, 2, 3]\ndut = {{wrong_result = true}}\n")
    path = tmp_path_factory.mktemp("bad") / "night"
    return path, night(path, plan_text(PERSISTING, "".join(tables)))


@pytest.fixture(scope="module")
def good(elf, tmp_path_factory, patched):
    """Run the same night without faults."""
    path = tmp_path_factory.mktemp("good") / "night"
    assert night(path, plan_text(PERSISTING)).exit_status == 0
    return by_item(path)


@pytest.mark.parametrize(("number", "name"), list(enumerate(FAULTS, 1)), ids=str)
def test_a_fault_of_the_moment_is_on_record_and_the_next_attempt_gives_the_result_of_a_good_night(
    bad, good, number, name
):
    first, second = by_item(bad[0])[number]
    assert (first.state, first.final, first.failure) == ("failed", False, "transient")
    assert FAULTS[name][1] in first.error
    assert (second.state, second.final, second.number) == ("done", True, 2)
    # Bit for bit: seed and key alone decide.
    assert second.row == good[number][0].row


def test_a_wrong_result_that_persists_fails_after_the_last_attempt(bad):
    tried = by_item(bad[0])[PERSISTING]
    assert [(one.number, one.state, one.final, one.failure) for one in tried] == [
        (n, "failed", n == 3, "transient") for n in (1, 2, 3)
    ]
    assert bad[1].exit_status == 4
    assert (bad[1].state.n_done, bad[1].state.n_failed) == (len(FAULTS), 1)


def test_the_capture_of_a_failed_attempt_is_kept(bad):
    first, second = by_item(bad[0])[list(FAULTS).index("extra edge") + 1]
    assert first.capture.startswith("captures/failed/")
    with open_capture(bad[0] / first.capture, verify=True) as capture:
        assert capture.records["series"].n_segments == 2
    assert second.capture.startswith("captures/0")


def test_the_codes_of_a_capture_are_those_of_a_good_night(bad, good, tmp_path_factory):
    night_before = next(path for path in tmp_path_factory.getbasetemp().glob("good*/night"))
    one = by_item(bad[0])[1][1].capture
    with open_capture(bad[0] / one) as after, open_capture(night_before / good[1][0].capture) as before:
        for name, record in before.records.items():
            for channel, data in record.channels.items():
                assert (data.codes[...] == after.records[name].channels[channel].codes[...]).all()


def test_a_full_disk_pauses_and_loses_nothing(good, elf, tmp_path, monkeypatch):
    monkeypatch.setattr("labctl.campaign.pace.DISK_POLL_S", 0.2)
    real, n_full = os.pwrite, iter(range(3))

    def pwrite(descriptor, data, place):
        if len(data) > 1000 and next(n_full, None) is not None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, place)

    monkeypatch.setattr(atomic.os, "pwrite", pwrite)
    notes = []
    show = Show()
    show.note = notes.append
    assert night(tmp_path / "night", plan_text(1), show).exit_status == 0
    found = journal.read(tmp_path / "night")
    assert [event.kind for event in found.events] == ["begin", "pause", "go-on", "end"]
    assert any("disk is full" in note for note in notes)
    assert [one.number for one in found.attempts] == [1]
    assert found.attempts[0].row == good[1][0].row


def test_a_disk_too_small_is_said_before_anything_begins(elf, tmp_path, monkeypatch):
    about = os.statvfs(tmp_path)
    small = os.statvfs_result((*about[:4], 1, *about[5:]))
    monkeypatch.setattr("labctl.campaign.ready.os.statvfs", lambda path: small)
    with pytest.raises(Exception, match="free"):
        night(tmp_path / "night", plan_text(1))
    assert list(tmp_path.iterdir()) == []


def test_a_clock_that_jumps_is_noted_and_changes_nothing(good, elf, tmp_path):
    real, calls = Clocks(), itertools.count()
    # Forward by an hour once the first attempt is under way.
    jumping = dataclasses.replace(real, wall_s=lambda: real.wall_s() + (3600.0 if next(calls) > 4 else 0.0))
    assert night(tmp_path / "night", plan_text(2), clocks=jumping).exit_status == 0
    found = journal.read(tmp_path / "night")
    (jump,) = [event for event in found.events if event.kind == "clock"]
    assert jump.facts["jump_s"] == pytest.approx(3600.0, abs=0.5)
    assert all(0 < one.elapsed_s < 60 for one in found.attempts)
    assert [one.row for one in found.attempts] == [good[number][0].row for number in (1, 2)]


def test_a_limit_that_is_passed_stops_all_and_a_resume_goes_on(elf, tmp_path):
    text = plan_text(2, '[limits]\ncurrent = "1 mA"\n')
    summary = night(tmp_path / "night", text)
    assert (summary.ending.kind, summary.exit_status) == ("safety", 1)
    assert (summary.state.n_failed, summary.state.n_pending) == (1, 1)
    after = resume(tmp_path / "night", parse_plan(plan_text(2), "plan.toml"), Options(retry_failed=True), Show())
    assert after.exit_status == 0


def test_failed_items_are_taken_again_on_request_alone(elf, tmp_path):
    fault = '[[faults]]\nitem = 1\nattempts = [1, 2, 3]\ntrigger = "extra-edge"\n'
    assert night(tmp_path / "night", plan_text(1, fault)).exit_status == 4
    assert resume(tmp_path / "night", None, Options(), Show()).exit_status == 4
    assert len(journal.read(tmp_path / "night").attempts) == 3
    assert resume(tmp_path / "night", None, Options(retry_failed=True), Show()).exit_status == 0
    assert journal.read(tmp_path / "night").attempts[3].number == 4


def test_nothing_in_the_folder_names_this_machine(bad):
    forbidden = [str(bad[0].parent).encode(), os.uname().nodename.encode(), b"127.0.0.1", b"socket://", b"TCPIP"]
    for file in bad[0].rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert [word for word in forbidden if len(word) > 2 and word in data] == [], file.name
    assert open_campaign(bad[0]).campaign.benches[0]["emulated"] is True


def test_the_hook_on_finish_gets_how_it_ended_and_one_that_fails_changes_no_status(elf, tmp_path):
    told = tmp_path / "told.json"
    write = f"import sys; open({str(told)!r}, 'w').write(sys.stdin.read()); sys.exit('no display')"
    text = plan_text(1, f"[hooks]\nfinish = {json.dumps([sys.executable, '-c', write])}\n")
    notes = []
    show = Show()
    show.note = notes.append
    assert night(tmp_path / "night", text, show).exit_status == 0
    document = json.loads(told.read_text())
    assert (document["event"], document["ended"], document["items"], document["done"]) == ("finish", "complete", 1, 1)
    assert journal.read(tmp_path / "night").events[-1].kind == "hook"
    assert any("no display" in note for note in notes)
    assert "sys.exit" not in (tmp_path / "night" / "plan.toml").read_text()


def test_windows_of_the_warm_up_are_run_and_not_recorded(elf):
    operation = Operation("sha256", bytes=64, n_runs=3)
    prepared = []
    with open_bench(None, board_name=None, overrides=lambda file: file, ask=print) as bench:
        prepare = bench.dut.prepare

        def noted(asked, pause_s):
            prepared.append((asked.name, asked.n_runs))
            return prepare(asked, pause_s)

        bench.dut.prepare = noted
        (capture,) = take(bench, Plan((operation,), n_warmup=7))
    # Trials of one run come first, then the null series, and right before the series its warm-up.
    assert prepared[-3:] == [("sha256", 1), ("sha256", 7), ("sha256", 3)]
    assert capture.records["series"].n_segments == 3
