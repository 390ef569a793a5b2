"""One operation seen by every instrument of the emulated bench: each interval holds the truth, and all agree."""

import json

import pytest

METERS = ["n6705", "ppk2", "energytrace"]


@pytest.fixture
def row(elf, labctl, tmp_path):
    """Measure one operation and give its row."""

    def measure(*options, op="sha256", runs="5", seed="1"):
        asked = ["measure", "--op", op, "--runs", runs, "--seed", seed, "--json", *options]
        (found,) = json.loads(labctl(*asked, cwd=tmp_path).stdout)["results"]
        return found

    return measure


def holds(row, quantity, unit):
    value, expanded = row[f"{quantity}_mean_{unit}"], row[f"{quantity}_expanded_{unit}"]
    return abs(value - row[f"truth_{quantity}_{unit}"]) <= expanded


@pytest.mark.parametrize("seed", ["1", "2"])
@pytest.mark.parametrize("meter", METERS)
def test_a_meters_intervals_hold_the_truth(row, meter, seed):
    found = row("--meter", meter, seed=seed)
    assert found["n_iterations"] > 1  # 293 us are no 20 samples of any of them
    for quantity, unit in (("duration", "s"), ("energy", "j"), ("power", "w")):
        assert holds(found, quantity, unit), (quantity, found)


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_second_oscilloscopes_intervals_hold_the_truth(row, seed):
    found = row("--shunt", "1.3", "--scope", "dho800", seed=seed)
    for quantity, unit in (("duration", "s"), ("energy", "j"), ("power", "w")):
        assert holds(found, quantity, unit), (quantity, found)


@pytest.mark.parametrize("transport", ["hislip", "vxi11"])
def test_another_transport_gives_the_same_numbers(row, transport):
    over_socket = row("--shunt", "1.3")
    other = row("--shunt", "1.3", "--transport", transport)
    assert other["energy_mean_j"] == over_socket["energy_mean_j"]
    assert other["duration_mean_s"] == over_socket["duration_mean_s"]


def test_all_instruments_agree_on_the_energy_of_one_operation(row):
    """Two intervals of 95 % that hold one truth lie apart by no more than both together."""
    seen = {meter: row("--meter", meter) for meter in METERS}
    seen["infiniivision"] = row("--shunt", "1.3")
    seen["dho800"] = row("--shunt", "1.3", "--scope", "dho800")
    for one in seen.values():
        for other in seen.values():
            apart_j = abs(one["energy_mean_j"] - other["energy_mean_j"])
            assert apart_j <= one["energy_expanded_j"] + other["energy_expanded_j"]


def test_iterations_that_were_asked_for_are_kept(row):
    assert row("--meter", "ppk2", "--iterations", "30")["n_iterations"] == 30


def test_an_operation_that_is_long_enough_is_not_repeated(row):
    assert row("--meter", "n6705", op="ecdsa-p256.sign", runs="2")["n_iterations"] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--meter", "ppk2", "--shunt", "1.3"], "--shunt has no place beside it"),
        (["--meter", "ppk2", "--scope", "dho800"], "--scope has no place beside it"),
    ],
)
def test_what_excludes_each_other_is_refused(labctl, tmp_path, options, words):
    done = labctl("measure", *options, cwd=tmp_path, status=2)
    assert words in done.stderr
