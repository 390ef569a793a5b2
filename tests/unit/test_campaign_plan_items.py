"""What a plan comes to: numbers, keys, order, what is left out, and what an edited plan does to a campaign begun."""

import dataclasses
import json
import subprocess
import sys
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labctl import boards
from labctl.campaign.changes import compare, refuse
from labctl.campaign.estimate import CAPTURE_BYTES, estimate, item_s
from labctl.campaign.items import expand, expansion, schedule
from labctl.campaign.plan import parse_plan
from labctl.errors import ConfigError
from labctl.operations import lacking

BOARDS = ("stm32vldiscovery", "stm32f4discovery", "stm32f0discovery")
OPERATIONS = ("sha256", "aes-128-ctr.encrypt", "sm3", "ecdsa-p256.sign")
WITH_MESSAGE = OPERATIONS[:3]


def plan_of(names=BOARDS[:2], operations=OPERATIONS[:2], sizes=(64, 256), profiles=("Os",), more="", **campaign):
    keys = {"name": "n", **campaign}
    text = "[campaign]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    text += f"[factors]\nboards = {json.dumps(list(names))}\noperations = {json.dumps(list(operations))}\n"
    text += f"profiles = {json.dumps(list(profiles))}\n" + (f"bytes = {json.dumps(list(sizes))}\n" if sizes else "")
    return parse_plan(text + more, "night.toml")


def in_between(baseline_every=None, reference_every=None):
    text = "" if baseline_every is None else f'[baselines]\noperations = ["idle", "busy"]\nevery = {baseline_every}\n'
    return text + ("" if reference_every is None else f'[reference]\noperation = "sha512"\nevery = {reference_every}\n')


@st.composite
def plans(draw, orders=("random", "blocked", "listed")):
    some = {
        "names": draw(st.lists(st.sampled_from(BOARDS), min_size=1, unique=True)),
        "operations": draw(st.lists(st.sampled_from(OPERATIONS), min_size=1, unique=True)),
        "profiles": draw(st.lists(st.sampled_from(["Os", "O2"]), min_size=1, unique=True)),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "order": draw(st.sampled_from(orders)),
    }
    sizes = draw(st.lists(st.integers(1, 8).map(lambda n: 16 * n), min_size=1, max_size=3, unique=True))
    every = st.none() | st.integers(1, 9)
    has_message = any(name in WITH_MESSAGE for name in some["operations"])
    return plan_of(sizes=sizes if has_message else (), more=in_between(draw(every), draw(every)), **some)


@settings(deadline=None, max_examples=50)
@given(plans())
def test_items_are_every_combination_once_with_unique_keys(plan):
    items = expand(plan)
    assert [item.number for item in items] == list(range(1, len(items) + 1))
    assert len({item.key for item in items}) == len(items)
    factors = plan.factors
    wanted = {
        (board, name, size, profile)
        for board, name, profile in product(factors.boards, factors.operations, factors.profiles)
        for size in ((factors.sizes or (64,)) if name in WITH_MESSAGE else (None,))
    }
    measured = [item for item in items if item.role == "item"]
    assert len(measured) == len(wanted)
    assert {(i.board, i.operation.name, i.operation.bytes, i.operation.profile) for i in measured} == wanted
    assert all(item.operation.clock_hz == boards.load(item.board)["clock_hz"] for item in items)


@settings(deadline=None, max_examples=50)
@given(plans())
def test_the_order_is_a_permutation_with_what_is_asked_in_between(plan):
    items = expand(plan)
    order = schedule(plan, items)
    assert sorted(order) == [item.number for item in items]
    by_number = {item.number: item for item in items}
    for board in plan.factors.boards:
        of_board = [by_number[number] for number in order if by_number[number].board == board]
        for role, section, n_names in (("baseline", plan.baselines, 2), ("reference", plan.reference, 1)):
            if section is None:
                assert role not in {item.role for item in of_board}
                continue
            n_measured, seen = 0, []
            for item in of_board:
                if item.role == "item":
                    n_measured += 1
                elif item.role == role:
                    seen.append((n_measured, item.repeat))
            expected = [(k * section.every, k) for k in range(1 + n_measured // section.every) for _ in range(n_names)]
            assert seen == expected


@settings(deadline=None, max_examples=30)
@given(plans(orders=("random",)), st.randoms(use_true_random=False))
def test_the_random_order_hangs_on_the_seed_and_not_on_the_order_of_the_plan(plan, random):
    def shuffled(values):
        return random.sample(values, len(values))

    keys = ("boards", "operations", "profiles", "sizes")
    mixed = {key: tuple(shuffled(getattr(plan.factors, key))) for key in keys}
    other = dataclasses.replace(plan, factors=plan.factors.model_copy(update=mixed))
    assert measured_keys(other) == measured_keys(plan)


def measured_keys(plan):
    items = {item.number: item for item in expand(plan)}
    return [items[number].key for number in schedule(plan, list(items.values())) if items[number].role == "item"]


def test_another_seed_gives_another_order_and_the_same_seed_the_same_in_any_process():
    orders = [tuple(measured_keys(plan_of(seed=seed, sizes=range(16, 160, 16)))) for seed in (1, 2, 3, 1)]
    assert len(set(orders)) == 3 and orders[0] == orders[3]
    # Python's own hashes differ from process to process.
    code = (
        "from labctl.campaign.items import *\nfrom labctl.campaign.plan import parse_plan\n"
        "plan = parse_plan('[campaign]\\nname = \"n\"\\n[factors]\\nboards = [\"stm32f0discovery\"]\\n"
        "operations = [\"sha*\", \"aes-*\"]\\n', 'x')\nprint(schedule(plan, expand(plan)))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_an_added_item_moves_no_other():
    few, many = measured_keys(plan_of(sizes=[64, 256])), measured_keys(plan_of(sizes=[64, 128, 256, 512]))
    assert len(few) == 8 and len(many) == 16
    assert [key for key in many if key in few] == few


def test_listed_is_the_order_of_numbers():
    plan = plan_of(order="listed", profiles=["Os", "O2"])
    items = expand(plan)
    assert schedule(plan, items) == [item.number for item in items]
    assert [(item.board, item.operation.profile, item.operation.name, item.operation.bytes) for item in items[:5]] == [
        ("stm32vldiscovery", "Os", "sha256", 64),
        ("stm32vldiscovery", "Os", "sha256", 256),
        ("stm32vldiscovery", "Os", "aes-128-ctr.encrypt", 64),
        ("stm32vldiscovery", "Os", "aes-128-ctr.encrypt", 256),
        ("stm32vldiscovery", "O2", "sha256", 64),
    ]


def test_blocked_keeps_an_image_together():
    plan = plan_of(order="blocked", profiles=["Os", "O2"], sizes=range(16, 160, 16))
    items = {item.number: item for item in expand(plan)}
    images = [(items[n].board, items[n].operation.profile) for n in schedule(plan, list(items.values()))]
    changes = sum(1 for before, after in pairwise(images) if before != after)
    assert changes == 3
    assert schedule(plan, list(items.values())) != sorted(items)


def test_keys_are_the_same_whatever_else_the_plan_holds():
    small = plan_of(names=BOARDS[:1], operations=["sha256"], sizes=[64])
    large = plan_of(names=BOARDS, operations=["aes-*", "sha256"], sizes=[32, 64, 128], order="listed", runs=7, warmup=2,
                    iterations=3, seed=9, more=in_between(5, 3))
    (item,) = expand(small)
    assert item.key == "stm32vldiscovery sha256 64B mbedtls Os 24000000Hz plain"
    assert item.key in {other.key for other in expand(large)}


def test_runs_iterations_and_warmup_reach_every_item():
    for item in expand(plan_of(runs=7, iterations=3, warmup=2, more=in_between(2, 2))):
        n_iterations = 1 if item.role == "baseline" else 3
        assert (item.operation.n_runs, item.operation.n_iterations, item.n_warmup) == (7, n_iterations, 2)


def test_baselines_have_iterations_of_their_own():
    items = expand(plan_of(iterations=3, more="[baselines]\niterations = 5\n"))
    assert {item.role: item.operation.n_iterations for item in items} == {"item": 3, "baseline": 5}


def test_overlapping_patterns_give_an_item_once():
    items = expand(plan_of(names=BOARDS[:1], operations=["sha*", "sha256"], sizes=[64]))
    assert sorted(item.operation.name for item in items) == ["sha224", "sha256", "sha384", "sha512"]


def test_items_know_their_bench():
    more = "".join(f'[[benches]]\nname = "b{n}"\nboards = ["{board}"]\n' for n, board in enumerate(BOARDS[:2]))
    assert {(item.board, item.bench) for item in expand(plan_of(more=more + in_between(2)))} == {
        (BOARDS[0], "b0"), (BOARDS[1], "b1")
    }


@pytest.mark.parametrize(
    ("more", "reason", "n_first", "n_second"),
    [
        ('clocks = ["24 MHz", "168 MHz"]\n', "168 MHz, 84 MHz, 8 MHz, not at 24 MHz", 0, 4),
        ('implementations = ["mbedtls", "portable"]\n', "not by 'portable'", 4, 4),
        ('variants = ["plain", "key=inside"]\n', "sha256 has no key to set up inside", 2, 2),
        ('[[exclude]]\nboard = "*vl*"\nbytes = 64\n', "[[exclude]] of line 8 leaves it out", 2, 0),
    ],
)
def test_what_is_left_out_is_named_with_its_reason(more, reason, n_first, n_second):
    found = [one.board for one in expansion(plan_of(more=more)).left_out if one.reason.endswith(reason)]
    assert [found.count(board) for board in BOARDS[:2]] == [n_first, n_second]


@pytest.mark.parametrize(
    ("more", "n_left"),
    [
        ('board = "stm32v*"', 4), ('operation = "sha256"', 4), ("bytes = 64", 4),
        ('bytes = [64, 256]\nboard = "*4*"', 4),
        ('clock = "24 MHz"', 4), ('profile = "Os"\noperation = ["sha*"]\nbytes = 256', 6),
        ('variant = "plain"\nboard = "stm32vldiscovery"\nimplementation = "mbed*"\nbytes = 64', 6),
    ],
)
def test_an_exclusion_takes_what_matches_every_key(more, n_left):
    assert len(expand(plan_of(more=f"[[exclude]]\n{more}\n"))) == n_left


def test_baselines_and_references_are_not_excluded():
    roles = [item.role for item in expand(plan_of(more='[[exclude]]\noperation = "sha*"\n' + in_between(100, 100)))]
    assert roles.count("baseline") == 4 and roles.count("reference") == 2 and roles.count("item") == 4


def test_a_sleep_mode_that_a_board_has_not_is_left_out(monkeypatch):
    data = {name: dict(boards.load(name)) for name in BOARDS}
    data[BOARDS[0]]["idle_modes"], data[BOARDS[1]]["idle_modes"] = ["stop"], []
    monkeypatch.setattr(boards, "load", data.get)
    expanded = expansion(plan_of(operations=["idle.stop"], sizes=()))
    assert [item.board for item in expanded.items] == [BOARDS[0]]
    assert [one.reason for one in expanded.left_out] == ["stm32f4discovery sleeps as idle, not as idle.stop"]


@pytest.mark.parametrize(
    ("name", "n_bytes", "variant", "lacks"),
    [
        # firmware/PROTOCOL.md, the table of variants.
        ("aes-128-ecb", 64, "key=inside,piece=16,offset=3", False),
        ("aes-128-ecb", 64, "piece=8", True),
        ("aes-256-cbc.decrypt", 72, "", True),
        ("sm4-cbc.encrypt", 64, "piece=24", True),
        ("aes-128-ctr", 65, "key=inside,piece=7,offset=1", False),
        ("aes-192-ccm.encrypt", 65, "key=inside,offset=1", False),
        ("aes-192-ccm.encrypt", 64, "piece=16", True),
        ("aes-128-gcm", 65, "piece=16", False),
        ("aes-128-gcm", 65, "piece=15", True),
        ("sha256", 65, "piece=7,offset=1", False),
        ("sm3", 64, "key=inside", True),
        ("drbg", 65, "key=inside,piece=7,offset=1", False),
        ("ecdsa-p256.sign", None, "key=inside", True),
        ("ecdsa-p256.sign", None, "ecp=plain,workspace=static", False),
        ("idle", None, "offset=1", True),
    ],
)
def test_variants_that_the_firmware_refuses_are_known(name, n_bytes, variant, lacks):
    assert bool(lacking(name, n_bytes, variant)) == lacks


def test_more_than_a_hundred_thousand_items_are_refused_before_they_are_made():
    sizes = range(16, 16 + 4000)
    with pytest.raises(ConfigError, match=r"line \d+: \[factors\] comes to \d+ combinations.*100000 at most"):
        expand(plan_of(names=BOARDS, operations=["*"], sizes=sizes, profiles=["Os", "O2", "O3", "O0"]))
    with pytest.raises(ConfigError, match="100000 at most"):  # with every baseline
        expand(plan_of(names=BOARDS[:1], operations=["sha*"], sizes=range(16, 9016), more=in_between(1)))


def test_an_equal_plan_changes_nothing():
    changes = compare(expand(plan_of()), expand(plan_of()))
    assert (changes.added, changes.changed, changes.removed, changes.reasons) == ((), (), (), ())
    refuse(changes)


@settings(deadline=None, max_examples=30)
@given(plans(), plans())
def test_added_items_come_behind_and_keep_the_numbers_of_the_others(before, after):
    frozen, wanted = expand(before), expand(after)
    changes = compare(frozen, wanted)
    assert [item.number for item in changes.added] == list(range(len(frozen) + 1, len(frozen) + 1 + len(changes.added)))
    keys = {item.key for item in frozen}, {item.key for item in wanted}
    assert {item.key for item in changes.added} == keys[1] - keys[0]
    assert {item.key for item in changes.removed} == keys[0] - keys[1]
    assert bool(changes.reasons) == bool(changes.changed or changes.removed)
    everything = (*frozen, *changes.added)
    assert sorted(schedule(after, everything)) == [item.number for item in everything]


def test_added_sizes_boards_and_baselines_are_taken():
    frozen = expand(plan_of(more=in_between(4)))
    changes = compare(frozen, expand(plan_of(names=BOARDS, sizes=[32, 64, 256], more=in_between(4))))
    assert not changes.reasons
    assert sum(1 for item in changes.added if item.role == "item") == 4 + 6
    assert {item.repeat for item in changes.added if item.role == "baseline" and item.board != BOARDS[2]} == set()
    refuse(changes)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"runs": 30}, ["[campaign] runs was 20 when the campaign began and is 30 now (8 items)"]),
        ({"iterations": 2, "warmup": 1}, ["[campaign] iterations was 1", "[campaign] warmup was 0"]),
        ({"sizes": [64]}, ["[factors] bytes held 256 when the campaign began and does not now (4 items)"]),
        ({"names": BOARDS[:1]}, ["[factors] boards held stm32f4discovery", "(4 items)"]),
        ({"profiles": ["O2"]}, ["[factors] profiles held Os", "(8 items)"]),
        ({"more": '[[exclude]]\nboard = "*f4*"\nbytes = 64\n'}, [
            "item 5 (stm32f4discovery sha256 64B mbedtls Os 168000000Hz plain) was in the plan",
        ]),
        ({"more": '[bench]\nname = "other"\n'}, ["bench was bench when the campaign began and is other now (8 items)"]),
    ],
)
def test_changed_and_removed_items_are_refused_with_key_and_values(changed, words):
    changes = compare(expand(plan_of()), expand(plan_of(**changed)))
    with pytest.raises(ConfigError) as caught:
        refuse(changes)
    for word in words:
        assert word in str(caught.value)
    assert "begin a new campaign" in str(caught.value)


def test_fewer_baselines_are_refused():
    changes = compare(expand(plan_of(more=in_between(1, 1))), expand(plan_of(more=in_between(4, 1))))
    assert len(changes.removed) == 12
    assert len(changes.reasons) == 1 and changes.reasons[0].startswith("12 baselines of when the campaign began")


def test_the_estimate_grows_with_runs_and_is_the_longest_bench():
    more = "".join(f'[[benches]]\nname = "b{n}"\nboards = ["{board}"]\n' for n, board in enumerate(BOARDS[:2]))
    plan = plan_of(operations=["ecdsa-p256.sign"], sizes=(), more=more, runs=100)
    items = expand(plan)
    cost = estimate(plan, items)
    assert cost.disk_bytes == 2 * CAPTURE_BYTES
    assert cost.time_s == max(cost.bench_s.values()) < sum(cost.bench_s.values())
    few = expand(plan_of(operations=["ecdsa-p256.sign"], sizes=(), more=more, runs=10))
    for one, other in zip(items, few, strict=True):
        assert item_s(one, emulated=True) > item_s(other, emulated=True)
        # 90 windows more, of some 23 million cycles each (emulated bench), with a pause of 0.5 ms on each side.
        assert item_s(one, emulated=False) - item_s(other, emulated=False) == pytest.approx(
            90 * (23e6 / one.operation.clock_hz + 1e-3)
        )
