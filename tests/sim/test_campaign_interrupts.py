"""A campaign that is stopped, killed, edited or begun twice: nothing acknowledged is lost, and a resume finishes it."""

import contextlib
import json
import os
import re
import shlex
import signal
import time
from pathlib import Path

import pytest

from labctl.campaign import folder as folders
from labctl.campaign import journal
from labctl.store import verify_capture

PLAN = """
[campaign]
name = "night"
seed = 3
runs = 2
[factors]
boards = ["stm32vldiscovery"]
operations = ["sha256"]
bytes = [{sizes}]
"""
TWO_BENCHES = """
[campaign]
name = "night"
seed = 3
runs = 2
[factors]
boards = ["stm32vldiscovery", "stm32f4discovery"]
operations = ["sha256"]
bytes = [16, 32]
[[benches]]
name = "left"
boards = ["stm32vldiscovery"]
[[benches]]
name = "right"
boards = ["stm32f4discovery"]
"""
TIMEOUT_S = 60.0


def write_plan(path: Path, n=3, text=PLAN):
    path.write_text(text.format(sizes=", ".join(str(16 * number) for number in range(1, n + 1))))
    return path


@pytest.fixture(scope="module")
def running(forker):
    """Give the command, started as a shell's job, as a context: running("resume", "night", cwd=tmp_path)."""

    @contextlib.contextmanager
    def running(*arguments, cwd):
        environment = {**os.environ, "XDG_CONFIG_HOME": str(cwd)}
        process = forker.start(["campaign", *arguments], cwd, environment, one_stream=True)
        with contextlib.closing(process):
            yield process

    return running


@pytest.fixture(scope="module")
def finish(running):
    """Give what resumes a campaign to its end."""

    def finish(path, cwd, status=0):
        with running("resume", str(path), cwd=cwd) as process:
            return ends(process, status)

    return finish


def n_done(path):
    return len(journal.read(path).attempts) if (path / journal.NAME).is_file() else 0


def wait_for(condition, process=None):
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come to that"
        assert process is None or process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def in_work(path, n):
    """Tell whether `n` attempts are on record and the next is under way: not the one just told done."""
    attempts = journal.read(path).attempts if (path / journal.NAME).is_file() else ()
    told = {attempt.item for attempt in attempts}
    return len(attempts) == n and any(now.item not in told for now in folders.read_now(path))


def ends(process, status):
    text = process.communicate(timeout=TIMEOUT_S)[0]
    assert process.returncode == status, text
    return text


def rows(path):
    found = {one.key: one.row for one in journal.read(path).attempts if one.state == "done"}
    for one in journal.read(path).attempts:
        if one.capture:
            assert verify_capture(path / one.capture) == []
    return found


@pytest.fixture(scope="module")
def good(running, elf, tmp_path_factory):
    """Run the plan undisturbed; give the row of each item."""
    cwd = tmp_path_factory.mktemp("good")
    with running("run", str(write_plan(cwd / "plan.toml")), "--out", "night", "--json", cwd=cwd) as process:
        document = json.loads(ends(process, 0))
    assert (document["items"], document["done"], document["failed"]) == (3, 3, 0)
    return rows(cwd / "night")


@pytest.fixture
def path(elf, tmp_path):
    write_plan(tmp_path / "plan.toml")
    return tmp_path / "night"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_once_ends_the_item_in_work_and_a_resume_finishes(running, finish, good, path, number):
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        wait_for(lambda: in_work(path, 1), process)
        process.send_signal(number)
        text = ends(process, 130)
    assert "Go on: labctl campaign resume night\n" in text
    assert text.count("topped") == 1
    assert n_done(path) == 2
    assert [event.facts.get("ended") for event in journal.read(path).events] == [None, "interrupted"]
    finish(path, path.parent)
    assert rows(path) == good


def test_ctrl_c_twice_ends_at_once_and_a_resume_finishes(running, finish, good, path):
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        wait_for(lambda: in_work(path, 1), process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        ends(process, 130)
    assert n_done(path) == 1
    assert [event.kind for event in journal.read(path).events] == ["begin", "end"]
    finish(path, path.parent)
    assert rows(path) == good


def test_killed_and_resumed_gives_what_an_undisturbed_campaign_gives(running, finish, good, path):
    for n in (0, 1):
        arguments = ("run", "plan.toml", "--out", "night") if n == 0 else ("resume", "night")
        with running(*arguments, cwd=path.parent) as process:
            wait_for(lambda n=n: in_work(path, n), process)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        # Out of the next run's way: one item more.
        if n == 0:
            with running("resume", "night", cwd=path.parent) as process:
                wait_for(lambda: in_work(path, 1), process)
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
    finish(path, path.parent)
    assert rows(path) == good


def test_a_terminal_that_is_closed_ends_nothing(running, path):
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        wait_for(lambda: in_work(path, 1), process)
        os.kill(process.pid, signal.SIGHUP)
        text = ends(process, 0)
    assert n_done(path) == 3
    assert "3/3" in text  # it goes to a file, which is still there


def test_a_second_runner_is_told_who_holds_the_folder(running, finish, path):
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        wait_for(lambda: in_work(path, 0), process)
        assert str(process.pid) in finish(path, path.parent, 3)
        ends(process, 0)


def test_a_finished_campaign_resumes_to_status_0_without_a_bench(running, finish, path, monkeypatch):
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        ends(process, 0)
    before = (path / journal.NAME).read_bytes()
    assert "3 of 3 items done" in finish(path, path.parent)
    assert (path / journal.NAME).read_bytes() == before


def test_a_folder_that_is_there_is_refused(running, path):
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        assert "campaign resume" in ends(process, 1)
    assert [file.name for file in path.iterdir()] == ["notes.txt"]


def test_items_that_are_added_are_taken_and_changed_ones_refused(running, finish, good, path):
    write_plan(path.parent / "plan.toml", 1)
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        ends(process, 0)
    kept = path / "plan.toml"
    began = kept.read_text()
    kept.write_text(began.replace("runs = 2", "runs = 3"))
    assert "runs was 2" in finish(path, path.parent, 2)
    kept.write_text(began.replace("bytes = [16]", "bytes = [32]"))
    assert "bytes" in finish(path, path.parent, 2)
    kept.write_text(began.replace("seed = 3", "seed = 4"))
    assert "seed was 3" in finish(path, path.parent, 2)
    assert n_done(path) == 1
    kept.write_text(began.replace("bytes = [16]", "bytes = [16, 32]"))
    assert "2 of 2" in finish(path, path.parent)
    write_plan(path.parent / "more.toml")
    with running("resume", "night", "--plan", "more.toml", cwd=path.parent) as process:
        ends(process, 0)
    assert rows(path) == good


def test_a_budget_ends_it_with_status_4_and_a_resume_goes_on(running, finish, good, path):
    with running("run", "plan.toml", "--out", "night", "--max-time", "100 ms", cwd=path.parent) as process:
        assert "Stopped" in ends(process, 4)
    assert n_done(path) == 1
    finish(path, path.parent)
    assert rows(path) == good


def test_hooks_that_the_folder_does_not_keep_are_told_and_named_in_the_hint(running, good, path):
    hook = '[hooks]\nfinish = ["sh", "-c", "cat > told.json"]\n'
    write_plan(path.parent / "a plan.toml", text=PLAN + hook)
    with running("run", "a plan.toml", "--out", "a night", "--max-time", "100 ms", cwd=path.parent) as process:
        text = ends(process, 4)
    hint = "labctl campaign resume 'a night' --plan 'a plan.toml'"
    assert f"Go on: {hint}\n" in text
    told = path.parent / "told.json"
    assert json.loads(told.read_text())["ended"] == "budget"
    told.unlink()
    with running("resume", "a night", "--max-time", "100 ms", cwd=path.parent) as process:
        text = ends(process, 4)
    assert "began with a hook on finish" in text
    assert "--plan FILE" in text
    assert not told.exists()
    with running(*shlex.split(hint)[2:], cwd=path.parent) as process:
        text = ends(process, 0)
    assert "began with a hook" not in text
    assert json.loads(told.read_text())["done"] == 3
    assert rows(path.parent / "a night") == good


def test_a_hook_that_is_not_there_is_told_before_anything_is_made(running, path):
    write_plan(path.parent / "plan.toml", text=PLAN + '[hooks]\nfailure = ["no-such-program-here"]\n')
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        text = " ".join(ends(process, 2).split())
    assert "plan.toml, line 11: [hooks] failure names the command 'no-such-program-here'" in text
    assert not path.exists()


def test_after_a_limit_it_says_what_to_do_and_that_goes_on(running, path):
    write_plan(path.parent / "plan.toml", 2, PLAN + '[limits]\ncurrent = "1 mA"\n')
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        text = ends(process, 1)
    hint = "labctl campaign resume night --retry-failed"
    assert "[limits]" in text
    assert f"\n{hint}\n" in text
    kept = path / "plan.toml"
    before = kept.read_text()
    kept.write_text(re.sub("(?m)^current = .*$", 'current = "100 mA"', before))
    assert kept.read_text() != before
    with running(*shlex.split(hint)[2:], cwd=path.parent) as process:
        assert "2 of 2 items done" in ends(process, 0)


def workers_of(pid):
    """List the processes that a process has started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def both(running, elf, tmp_path_factory):
    """Run two benches undisturbed; give the row of each item."""
    cwd = tmp_path_factory.mktemp("both")
    (cwd / "plan.toml").write_text(TWO_BENCHES)
    with running("run", "plan.toml", "--out", "night", cwd=cwd) as process:
        text = ends(process, 0)
    assert "4 of 4 items done" in text
    assert {event.bench for event in journal.read(cwd / "night").events} == {"left", "right"}
    return rows(cwd / "night")


def test_a_bench_beside_another_gives_what_it_gives_alone(good, both):
    shared = [key for key in both if key in good]
    assert len(shared) == 2
    assert {key: both[key] for key in shared} == {key: good[key] for key in shared}


def test_ctrl_c_once_ends_the_items_of_both_benches(running, finish, both, path):
    (path.parent / "plan.toml").write_text(TWO_BENCHES)
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        wait_for(lambda: len(folders.read_now(path)) == 2, process)
        process.send_signal(signal.SIGINT)
        ends(process, 130)
    found = journal.read(path)
    assert all(one.state == "done" for one in found.attempts)
    assert sorted(event.bench for event in found.events if event.facts.get("ended") == "interrupted") == [
        "left", "right",
    ]
    finish(path, path.parent)
    assert rows(path) == both


def test_a_supervisor_that_is_killed_takes_its_workers_along(running, finish, both, path):
    (path.parent / "plan.toml").write_text(TWO_BENCHES)
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        wait_for(lambda: len(folders.read_now(path)) == 2, process)
        workers = workers_of(process.pid)
        assert len(workers) == 2
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    finish(path, path.parent)
    assert rows(path) == both


def test_a_worker_that_is_killed_ends_its_bench_alone(running, finish, both, path):
    (path.parent / "plan.toml").write_text(TWO_BENCHES)
    with running("run", "plan.toml", "--out", "night", cwd=path.parent) as process:
        wait_for(lambda: len(folders.read_now(path)) == 2, process)
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        text = ends(process, 1)
    assert "left" in text
    assert len([one for one in journal.read(path).attempts if "f4discovery" in one.key]) == 2
    finish(path, path.parent)
    assert rows(path) == both
