"""The state of a campaign from its list and journal, by hand-made attempts, and how it is printed."""

import dataclasses
import json

import pytest

from labctl.campaign.folder import Holder, Now
from labctl.campaign.journal import Journal
from labctl.campaign.model import Attempt, Campaign, Item
from labctl.campaign.state import state_of
from labctl.campaign.statuspage import render, to_json_object
from labctl.model import Operation

UTC = "2026-11-30T12:00:00Z"


def campaign(*benches):
    items = tuple(
        Item(number, f"k{number}", "stm32vldiscovery", Operation("sha256", 64, clock_hz=24_000_000), bench)
        for number, bench in enumerate(benches, 1)
    )
    order = tuple(item.number for item in items)
    return Campaign("night-1", 3, items, order, ({"name": "left", "emulated": True},), UTC, "labctl")


def done(item, elapsed_s, number=1):
    row = {"energy_mean_j": 59.3e-6, "energy_expanded_j": 2.1e-6, "duration_mean_s": 1e-3, "duration_expanded_s": 1e-6}
    return Attempt(item, f"k{item}", number, "done", True, UTC, UTC, elapsed_s, row=row)


def failed(item, elapsed_s, number, final, error="it hangs"):
    return Attempt(item, f"k{item}", number, "failed", final, UTC, UTC, elapsed_s, "transient", error)


def state(plan, *attempts, **more):
    return state_of(plan, Journal(attempts, ()), **more)


def states(plan, *attempts):
    return [one.state for one in state(plan, *attempts).items]


@pytest.mark.parametrize(("attempts", "expected"), [
    ((), "pending"),
    ((failed(1, 1, 1, False),), "pending"),
    ((failed(1, 1, 1, False), failed(1, 1, 2, True)), "failed"),
    ((failed(1, 1, 1, False), done(1, 1, 2)), "done"),
    ((failed(1, 1, 1, True), failed(1, 1, 2, False)), "pending"),  # taken again on request, and not at its end
    ((failed(1, 1, 1, True), done(1, 1, 2)), "done"),
    ((done(1, 1), failed(1, 1, 2, False)), "pending"),  # its capture is gone, and is taken again on request
    ((done(1, 1), failed(1, 1, 2, False), done(1, 1, 3)), "done"),
])
def test_the_state_of_an_item(attempts, expected):
    found = state(campaign("left"), *attempts)
    assert [one.state for one in found.items] == [expected]
    assert found.items[0].n_attempts == len(attempts)
    assert (found.n_done, found.n_failed, found.n_pending) == tuple(
        int(expected == one) for one in ("done", "failed", "pending")
    )


def test_one_bench_goes_on_as_it_did():
    """Two items in 10 s + 5 s + 15 s: one in 15 s, 240 an hour, and 45 s for the three that are left."""
    found = state(campaign(*["left"] * 5), failed(2, 10.0, 1, False), done(2, 5.0, 2), done(1, 15.0))
    assert found.elapsed_s == 30.0
    assert found.rate_per_hour == pytest.approx(240.0)
    assert found.left_s == pytest.approx(45.0)
    assert found.last == done(1, 15.0)


def test_benches_work_at_the_same_time():
    """Left: 10 s an item, one left. Right: 20 s an item, two left. The campaign ends with the slower."""
    plan = campaign("left", "left", "left", "right", "right", "right")
    found = state(plan, done(1, 10.0), done(2, 10.0), done(4, 20.0))
    assert found.elapsed_s == 20.0
    assert found.rate_per_hour == pytest.approx(360.0 + 180.0)
    assert found.left_s == pytest.approx(40.0)


def test_a_bench_that_ended_nothing_is_taken_to_be_as_quick_as_the_others():
    found = state(campaign("left", "left", "right", "right"), done(1, 10.0))
    assert found.left_s == pytest.approx(20.0)


def test_nothing_is_known_at_the_start_and_nothing_left_at_the_end():
    assert state(campaign("left")).left_s is None
    assert state(campaign("left")).rate_per_hour is None
    assert state(campaign("left"), done(1, 3.0)).left_s == 0.0


def test_the_page_fits_and_says_it_all():
    plan = campaign(*["left"] * 4)
    error = "the DUT on <path> did not answer within 2 s; check cable, supply and that it runs its firmware " * 3
    found = state(
        plan, done(1, 90.0), failed(2, 30.0, 1, False), failed(2, 30.0, 2, True, error), failed(3, 1.0, 1, False),
        running=(Now("left", 3, 2, UTC, "12 of 20 runs"),), held_by=Holder(4711, UTC),
    )
    lines = render(plan, found)
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "Campaign night-1; bench: left, emulated (currents are a model, not silicon)" in text
    assert "1 of 4 items done, 1 failed, 2 to do" in text
    assert "Process 4711 works on it since 2026-11-30T12:00:00Z" in text
    assert "left: item 3, stm32vldiscovery sha256 64 B mbedtls Os 24 MHz, attempt 2 since" in text
    assert "item 2, stm32vldiscovery sha256 64 B mbedtls Os 24 MHz, 2 attempts, transient: the DUT on <path>" in text
    assert "To be tried again: item 3" in text
    finished = " ".join(render(campaign("left"), state(campaign("left"), done(1, 3.0))))
    assert "Nobody works on it: it is finished" in finished
    assert "59.3 µJ ± 2.1 µJ" in finished


def test_the_object_is_strict_json_of_the_contract():
    plan = campaign("left", "left")
    told = json.loads(json.dumps(to_json_object(plan, state(plan, done(1, 4.0))), allow_nan=False))
    assert told["schema"] == "labctl.campaign-status/1"
    assert (told["n_items"], told["n_done"], told["n_failed"], told["n_pending"]) == (2, 1, 0, 1)
    assert told["held_by"] is None
    assert told["left_s"] == 4.0
    assert [one["state"] for one in told["items"]] == ["done", "pending"]
    assert told["items"][0]["last"] == dataclasses.asdict(done(1, 4.0))
    assert told["benches"] == [{"name": "left", "emulated": True}]
