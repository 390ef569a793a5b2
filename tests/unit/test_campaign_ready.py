"""Which firmware each item gets, what of a bench a folder keeps, and what no text may hold."""

import pytest
from click.testing import CliRunner

from labctl.campaign import ready
from labctl.campaign.items import expansion
from labctl.campaign.plan import parse_plan, to_toml
from labctl.cli.campaign import command
from labctl.errors import ConfigError, DiskFull, EnvironmentFault, Unsupported

PLAN = """
[campaign]
name = "night"
seed = 7
[factors]
boards = ["stm32f0discovery", "stm32vldiscovery"]
operations = ["sha256", "ecdsa-p256.sign"]
[hooks]
finish = "https://chat.lab.example/hooks/T0KEN"
failure = ["notify-send", "done", "--token=S3CRET"]
[bench]
shunt = "2 ohm"
"""


@pytest.fixture
def plan():
    return parse_plan(PLAN, "plan.toml")


def test_an_image_that_does_not_fit_gives_way_to_a_smaller_one_and_costs_the_rest_their_items(plan, monkeypatch):
    built = []

    def ensure(image, progress):
        built.append((image.board, image.name))
        if image.board == "stm32f0discovery" and image.name != "others":
            raise Unsupported(f"the image {image.name} does not fit: 4 kB of flash are missing")

    monkeypatch.setattr(ready, "ensure", ensure)
    items = expansion(plan).items
    (station,) = ready.stations(plan, items)
    for item in items:
        image = station.images[item.number]
        if item.board == "stm32vldiscovery":
            assert (image.board, image.name) == ("stm32vldiscovery", "all")
        elif item.operation.name == "ecdsa-p256.sign":
            assert isinstance(image, Unsupported)
            assert "4 kB" in str(image)
    assert len(built) == len(set(built))  # each once


def test_firmware_that_cannot_be_built_ends_it_on_the_emulated_bench(plan, monkeypatch):
    def ensure(image, progress):
        raise EnvironmentFault("no compiler")

    monkeypatch.setattr(ready, "ensure", ensure)
    with pytest.raises(EnvironmentFault, match="no compiler"):
        ready.stations(plan, expansion(plan).items)


def test_the_facts_of_a_bench(plan):
    facts = ready.facts(plan, plan.benches[0])
    assert (facts["name"], facts["emulated"], facts["seed"]) == ("bench", True, 7)
    assert facts["shunt"]["resistance_ohm"] == 2.0
    assert "dut" not in facts


def test_secrets_are_addresses_of_hooks_and_their_long_words(plan):
    found = ready.secrets(plan, [])
    assert "https://chat.lab.example/hooks/T0KEN" in found
    assert "--token=S3CRET" in found
    assert "done" not in found


def test_room_is_asked_for_up_to_the_budget(tmp_path):
    ready.check_room(tmp_path / "not" / "there", 1, None)
    ready.check_room(tmp_path, 10**18, 1)
    with pytest.raises(DiskFull, match="free: make room"):
        ready.check_room(tmp_path, 10**18, None)


def test_one_bench_file_is_not_for_several_benches(tmp_path):
    several = PLAN.replace("[bench]\n", '[[benches]]\nname = "left"\nboards = ["stm32f0discovery"]\n')
    several += '[[benches]]\nname = "right"\nboards = ["stm32vldiscovery"]\n'
    plan = parse_plan(several, "plan.toml")
    with pytest.raises(ConfigError, match="several benches"):
        ready.with_bench(plan, tmp_path / "desk.toml")


def test_a_bench_file_that_was_named_beside_the_plan_is_asked_for_again(plan, tmp_path):
    begun = ready.with_bench(plan, tmp_path / "desk.toml")
    assert begun.path_of(begun.benches[0].file) == tmp_path / "desk.toml"
    kept = parse_plan(to_toml(begun), "plan.toml")
    with pytest.raises(ConfigError, match="does not keep file of bench bench"):
        ready.stations(kept, expansion(kept).items)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--until", "25:00"], "no time of day, such as 07:00"),
        (["--until", "7"], "no time of day, such as 07:00"),
        (["--max-time", "8"], "'8 h'"),
        (["--wait", "soon"], "cannot be read"),
    ],
)
def test_times_that_cannot_be(tmp_path, arguments, words):
    (tmp_path / "plan.toml").write_text(PLAN)
    done = CliRunner().invoke(command, ["run", str(tmp_path / "plan.toml"), *arguments])
    assert done.exit_code == 2
    assert words in done.output
