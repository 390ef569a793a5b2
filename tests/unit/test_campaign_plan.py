"""The plan file: what it may say, and that each fault is told with file, line, key and what to do."""

import datetime

import pytest

from instruments.sim import linkfaults
from instruments.sim.bench import TRIGGER_FAULTS
from instruments.sim.dut.engine import DUT_FAULTS
from labctl.campaign import rehearsal
from labctl.campaign.items import expansion, planned
from labctl.campaign.plan import load_plan, parse_plan, to_toml
from labctl.campaign.planfile import PlanFile
from labctl.errors import ConfigError

# Line 1 [campaign], 2 name, 3 [factors], 4 boards, 5 operations; what a test adds begins in line 6.
MINIMAL = """\
[campaign]
name = "night-1"
[factors]
boards = ["stm32vldiscovery", "stm32f4discovery"]
operations = ["sha256", "aes-128-ctr.encrypt"]
"""
FULL = """\
[campaign]
name = "night-1"
seed = 3
runs = 30
iterations = 2
warmup = 4
order = "blocked"
attempts = 5
backoff = "1 min"
temperature_degc = 23.5
power = "supply"
[factors]
boards = ["stm32vldiscovery", "stm32f4discovery"]
operations = ["sha256", "aes-128-*"]
bytes = [64, 1024]
implementations = ["mbedtls"]
profiles = ["Os", "O3"]
clocks = ["24 MHz", 168e6]
variants = ["plain", "piece=16, key=inside"]
[[exclude]]
board = "stm32v*"
operation = ["sha*", "*-gcm"]
bytes = 1024
[[exclude]]
profile = "O3"
clock = "168 MHz"
variant = "key=inside,piece=16"
implementation = "mbedtls"
[baselines]
operations = ["idle", "busy"]
every = 7
[reference]
operation = "sha512"
bytes = 128
every = 3
[budget]
until = "07:00"
max_time = "8 h"
disk = "20 GB"
[limits]
current = "100 mA"
[hooks]
finish = ["notify-send", "done"]
failure = "http://127.0.0.1:9/x"
[[benches]]
name = "left"
boards = ["stm32vldiscovery"]
shunt = "1.3 ohm"
[[benches]]
name = "right"
boards = ["stm32f4discovery"]
file = "right.toml"
shunt = 0.5
supply = "3.3 V"
zero = "zero.h5"
calibrations = ["gain.json"]
[[faults]]
operation = "sha*"
attempts = [1, 2]
dut = {silent = true}
[[faults]]
item = 1
kill = "simulator"
"""


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        expansion(parse_plan(text, "night.toml"))
    return str(caught.value)


def test_the_plan_of_the_readme_has_these_defaults():
    plan = parse_plan(MINIMAL, "night.toml")
    campaign = plan.campaign
    assert (campaign.name, campaign.seed, campaign.n_runs, campaign.n_iterations, campaign.n_warmup) == (
        "night-1", 1, 20, 1, 0
    )
    assert (campaign.order, campaign.n_attempts, campaign.backoff_s, campaign.power) == ("random", 3, 2.0, "dut")
    assert plan.baselines is None and plan.reference is None
    assert [(bench.name, bench.emulated, bench.boards) for bench in plan.benches] == [
        ("bench", True, ("stm32vldiscovery", "stm32f4discovery"))
    ]


def test_every_key_is_read_in_si_units():
    plan = parse_plan(FULL, "/somewhere/night.toml")
    assert plan.campaign.backoff_s == 60
    assert plan.campaign.temperature_degc == 23.5
    assert plan.factors.clocks_hz == (24e6, 168e6)
    assert plan.factors.variants == ("", "key=inside,piece=16")
    assert plan.exclude[0].operation == ("sha*", "*-gcm")
    assert plan.exclude[0].sizes == (1024,)
    assert plan.exclude[1].clocks_hz == (168e6,)
    assert (plan.budget.until, plan.budget.max_time_s, plan.budget.disk_bytes) == (
        datetime.time(7), 28800, 20_000_000_000
    )
    assert plan.limits.current_a == 0.1
    assert (plan.hooks.finish, plan.hooks.failure) == (("notify-send", "done"), "http://127.0.0.1:9/x")
    assert [bench.emulated for bench in plan.benches] == [True, False]
    assert plan.bench_of("stm32f4discovery").shunt_ohm == 0.5
    assert str(plan.path_of("zero.h5")) == "/somewhere/zero.h5"
    assert plan.faults[0].faults == {"dut": {"silent": True}}


def test_benches_draw_differently_and_the_first_from_the_seed_itself():
    plan = parse_plan(FULL, "x")
    assert plan.bench_seed("left") == 3
    other = parse_plan(FULL.replace("seed = 3", "seed = 4"), "x")
    assert len({plan.bench_seed("left"), plan.bench_seed("right"), other.bench_seed("right")}) == 3


def test_the_normalised_plan_reads_back_and_names_no_file_and_no_address():
    plan = parse_plan(FULL, "x")
    text = to_toml(plan)
    for secret in ("right.toml", "zero.h5", "gain.json", "http", "notify", "#"):
        assert secret not in text
    again = parse_plan(text, "x")
    assert again.benches[1].withheld == ("file", "zero", "calibrations")
    assert again.hooks.withheld == ("finish", "failure")
    assert (plan.withholds, again.withholds) == (True, False)
    assert not again.benches[1].emulated
    assert expansion(again).items == expansion(plan).items
    for name in ("campaign", "factors", "exclude", "baselines", "reference", "budget", "limits", "faults"):
        assert getattr(again, name) == getattr(plan, name)
    assert to_toml(again) == text


@pytest.mark.parametrize("text", [MINIMAL, MINIMAL + '[bench]\nname = "desk"\nshunt = "1.3 ohm"\n'])
def test_an_emulated_plan_reads_back_whole(text):
    plan = parse_plan(text, "x")
    assert parse_plan(to_toml(plan), "x") == plan


def test_a_board_can_be_added_to_the_normalised_plan_in_one_place():
    text = to_toml(parse_plan(MINIMAL, "x")).replace('["stm32v', '["stm32f0discovery", "stm32v')
    assert parse_plan(text, "x").benches[0].boards[0] == "stm32f0discovery"


@pytest.mark.parametrize(
    "text", ["\ufeff" + MINIMAL, MINIMAL.replace("\n", "\r\n"), MINIMAL + "[budget]\nuntil = 07:00:00"]
)
def test_what_an_editor_may_do_to_a_file_is_no_fault(text):
    assert len(expansion(parse_plan(text, "x")).items) == 4


CAMPAIGN = [
    ('name = ""', 2, "name", "empty"),
    ("name = 3", 2, "name", "text in quotation marks"),
    ('name = "a/b"', 2, "name", "file names"),
    ('name = "é"', 2, "name", "ASCII"),
    ('name = "a\\nb"', 2, "name", "line break"),
    ("name = 1979-05-27", 2, "name", "text in quotation marks"),
    ('nmae = "n"', 2, "nmae", "did you mean 'name'?"),
    ('nmae = "n"', 1, "name", "is missing"),
]
CAMPAIGN_MORE = [
    ('runs = "20"', "runs", "whole number from 1 to 1000"),
    ("runs = 0", "runs", "1 to 1000"),
    ("runs = 1001", "runs", "1 to 1000"),
    ("runs = 20.0", "runs", "whole number"),
    ("runs = true", "runs", "true must be a whole number"),
    ("runs = [20]", "runs", "whole number"),
    ("seed = -1", "seed", "whole number from 0"),
    ("seed = 99999999999999999999999999", "seed", "whole number from 0"),
    ("iterations = 0", "iterations", "whole number"),
    ("warmup = -1", "warmup", "whole number"),
    ("attempts = 0", "attempts", "1 to 100"),
    ('order = "randm"', "order", "did you mean 'random'?"),
    ("backoff = 2", "backoff", "no unit"),
    ('backoff = "2"', "backoff", "'2 s'"),
    ("temperature_degc = nan", "temperature_degc", "-60 to 150"),
    ('temperature_degc = "23"', "temperature_degc", "-60 to 150"),
    ('power = "mcu"', "power", "dut, supply"),
    ("operation = 3", "operation", "but of [[exclude]] and of [reference] and of [[faults]]"),
    ('boards = ["x"]', "boards", "but of [factors]"),
]
FACTORS = [
    ("bytes = []", "bytes", "empty list"),
    ("bytes = 64", "bytes", "must be a list"),
    ("bytes = [64, 15]", "bytes", "15 must be a whole number from 16 to 16384"),
    ("bytes = [64, 16385]", "bytes", "16 to 16384"),
    ("bytes = [64, 1e3]", "bytes", "whole number"),
    ("bytes = [64, 64]", "bytes", "64 twice"),
    ('profiles = ["os"]', "profiles", "did you mean 'Os'?"),
    ('clocks = ["25 MHz"]', "clocks", "24 MHz, 8 MHz, 168 MHz, 84 MHz"),
    ('clocks = ["24 mHz"]', "clocks", "'24 mHz' is 24.0 mHz, and no core runs at that"),
    ("clocks = [8]", "clocks", "8 is 8.00 Hz, and no core runs at that"),
    ('operation = ["sha256"]', "operation", "did you mean 'operations'?"),
    ('clocks = ["24 mhz"]', "clocks", "not a unit known here"),
    ('clocks = ["24 MHz", 24e6]', "clocks", "twice (as '24 MHz')"),
    ('variants = ["key=insde"]', "variants", "key=outside|inside"),
    ('variants = ["piece=16,key=inside", "key=inside, piece=16"]', "variants", "twice"),
    ('implementations = ["mbedtsl"]', "implementations", "did you mean 'mbedtls'?"),
    ("extra = {a = {b = [1]}}", "extra", "its keys: boards, operations"),
    ("bench = 3", "bench", "a table of its own"),
]
TABLES = [
    ("[campain]", 6, "[campain]", "did you mean 'campaign'?"),
    ("[a.b.c]\nd = 1", 6, "[a]", "no table of the plan"),
    ("[[bench]]", 6, "[bench]", "single brackets"),
    ('[exclude]\nboard = "x"', 6, "[exclude]", "[[exclude]]"),
    ("[[exclude]]", 6, "[[exclude]]", "leave out everything"),
    ('[[exclude]]\nbord = "x"', 7, "[[exclude]] bord", "did you mean 'board'?"),
    ('[[exclude]]\noperation = "sha265"', 7, "[[exclude]] operation", "did you mean 'sha256'?"),
    ('[[exclude]]\noperation = ["sha*",\n"rsa*"]', 8, "[[exclude]] operation", "'rsa*' matches nothing"),
    ('[[exclude]]\nbytes = 64\nclock = "8 MHz"', 8, "[[exclude]] clock", "matches nothing"),
    ('[[exclude]]\nvariant = "key=inside"', 7, "[[exclude]] variant", "it has: plain"),
    ('[[exclude]]\nboard = "stm32v*"\nclock = "168 MHz"', 6, "[[exclude]]", "matches no item"),
    ('[[exclude]]\noperation = "*"', 3, "[factors]", "leaves nothing to measure"),
    ('[baselines]\noperations = ["idel"]', 7, "[baselines] operations", "did you mean 'idle'?"),
    ("[baselines]\nevery = 0", 7, "[baselines] every", "whole number"),
    ("[reference]", 6, "[reference] operation", "is missing"),
    ('[reference]\noperation = "sha"', 7, "[reference] operation", "did you mean"),
    ('[reference]\noperation = "ecdsa-p256.sign"\nbytes = 64', 8, "[reference] bytes", "has no message"),
    ('[budget]\nuntil = "25:00"', 7, "[budget] until", "'07:00'"),
    ('[budget]\nmax_time = "8"', 7, "[budget] max_time", "'8 h'"),
    ('[budget]\ndisk = "20 gigs"', 7, "[budget] disk", "'20 GB'"),
    ('[limits]\ncurrent = "100 mV"', 7, "[limits] current", "number in A"),
    ('[limits]\ntemperature = "60 degC"', 7, "[limits] temperature", "no instrument"),
    ('[hooks]\nfinish = "notify-send done"', 7, "[hooks] finish", "list of words"),
    ('[hooks]\nfailure = ["a", 3]', 7, "[hooks] failure", "list of words"),
    ("[hooks]\nfailure = []", 7, "[hooks] failure", "list of words"),
    ('[bench]\nshunt = "1.3 V"', 7, "[bench] shunt", "number in ohm"),
    ('[[faults]]\nitem = 3\ndut = {silennt = true}', 8, "[[faults]] dut", "'silennt', which is no fault of it; "),
    ('[[faults]]\nitem = 3\ndut = {silent = 1}', 8, "[[faults]] dut", "silent = 1: it must be true or false"),
    ('[[faults]]\nitem = 3\nscope = {stall_after_bytes = 1.5}', 8, "[[faults]] scope", "whole number of bytes"),
    ('[[faults]]\nitem = 3\nscope = {vanish_after_bytes = 0, return_after_s = -1}', 8, "[[faults]] scope", "a time"),
    ('[[faults]]\nitem = 3\nscope = {hang = true}', 8, "[[faults]] scope", "'hang', which is no fault of it"),
    ('[[faults]]\nitem = 3\ntrigger = "disconected"', 8, "[[faults]] trigger", "did you mean 'disconnected'?"),
    ("[baselines]\niterations = 0", 7, "[baselines] iterations", "whole number"),
    ('[hooks]\nfinish = "http://[::1/x"', 7, "[hooks] finish", "no web address"),
    ('[hooks]\nfinish = "http://127.0.0.1:99999/x"', 7, "[hooks] finish", "no web address"),
    ('[hooks]\nfinish = "http://:80/x"', 7, "[hooks] finish", "no web address"),
    ("[bench]\nshunt = 0", 7, "[bench] shunt", "greater than 0"),
    ("[bench]\nsupply = 1e9", 7, "[bench] supply", "not plausible"),
    ('[bench]\ncalibrations = "x.h5"', 7, "[bench] calibrations", "must be a list"),
    ('[bench]\nboards = ["stm32f0discovery"]', 7, "[bench] boards", "not in [factors] boards"),
    ('[bench]\n[[benches]]\nname = "a"', 6, "[bench]", "several as [[benches]]"),
    ('[[benches]]\nname = "a"\n[[benches]]\nname = "b"', 8, "[[benches]]", "needs boards"),
    ('[[benches]]\nname = "a"\nboards = ["stm32vldiscovery"]\n[[benches]]\nname = "A"\nboards = ["stm32f4discovery"]',
     10, "[[benches]] name", "another bench's"),
    ('[[benches]]\nname = "a"\nboards = ["stm32vldiscovery"]', 4, "[factors] boards", "on no bench"),
    ("[[faults]]\nitem = 3", 6, "[[faults]]", "nothing that goes wrong"),
    ('[[faults]]\nkill = "simulator"', 6, "[[faults]]", "either item"),
    ('[[faults]]\nitem = 5\nkill = "simulator"', 7, "[[faults]] item", "1 to 4"),
    ('[[faults]]\noperation = "rsa"\nkill = "simulator"', 7, "[[faults]] operation", "no item of this plan"),
    ('[[faults]]\nitem = 3\nkill = "scope"', 8, "[[faults]] kill", "simulator"),
    ("[[faults]]\nitem = 3\ndut = {silent = [1]}", 8, "[[faults]] dut", "true or false"),
    ('[bench]\nfile = "x.toml"\n[[faults]]\nitem = 1\nkill = "simulator"', 8, "[[faults]]", "no bench of the plan"),
]


@pytest.mark.parametrize(("entry", "line", "key", "words"), CAMPAIGN)
def test_faults_of_the_name(entry, line, key, words):
    told = complaint(MINIMAL.replace('name = "night-1"', entry))
    assert f"night.toml, line {line}: [campaign] {key} " in told
    assert words in told


@pytest.mark.parametrize(("entry", "key", "words"), CAMPAIGN_MORE)
def test_faults_of_the_campaign(entry, key, words):
    told = complaint(MINIMAL.replace("[factors]", f"{entry}\n[factors]"))
    assert told.startswith(f"night.toml, line 3: [campaign] {key} ")
    assert words in told


@pytest.mark.parametrize(("entry", "key", "words"), FACTORS)
def test_faults_of_the_factors(entry, key, words):
    told = complaint(MINIMAL + entry)
    assert told.startswith(f"night.toml, line 6: [factors] {key} ")
    assert words in told


@pytest.mark.parametrize(("entry", "line", "key", "words"), TABLES)
def test_faults_of_the_other_tables(entry, line, key, words):
    told = complaint(MINIMAL + entry)
    assert f"night.toml, line {line}: {key} " in told
    assert words in told


@pytest.mark.parametrize(
    ("operations", "line", "words"),
    [
        ('["sha256",\n"sha265"]', 6, "did you mean 'sha256'?"),
        ('["shaa*"]', 5, "fits no operation"),
        ('["sha256", 3]', 5, "3 must be text"),
        ('"sha256"', 5, "must be a list"),
        ("[]", 5, "empty list"),
        ('["sha256",\n# a comment\n\n"Ünï"]', 8, "'Ünï' is no name"),
    ],
)
def test_faults_of_operations_are_told_with_the_line_of_the_element(operations, line, words):
    told = complaint(MINIMAL.replace('["sha256", "aes-128-ctr.encrypt"]', operations))
    assert told.startswith(f"night.toml, line {line}: [factors] operations ")
    assert words in told


def test_sizes_are_numbers_or_texts_with_a_unit():
    plan = parse_plan(MINIMAL + 'bytes = ["64 B", "1 KiB", 2048]\n[[exclude]]\nbytes = "1 KiB"\n[reference]\n'
                      'operation = "sha512"\nbytes = "1 kB"\n', "x")
    assert plan.factors.sizes == (64, 1024, 2048)
    assert (plan.exclude[0].sizes, plan.reference.bytes) == ((1024,), 1000)
    assert parse_plan(to_toml(plan), "x") == plan
    for size, words in (("15 B", "16 to 16384"), ("17 KiB", "16 to 16384"), ("64", "'64'"), ("64 kHz", "'64 kHz'")):
        told = complaint(MINIMAL + f'bytes = ["{size}"]')
        assert told.startswith("night.toml, line 6: [factors] bytes ") and words in told


def test_what_is_wrong_with_one_factor_hides_nothing_of_another(tmp_path):
    wrong = MINIMAL.replace("f4discovery", "f4discvery").replace("sha256", "sha265")
    told = complaint(wrong + 'bytes = [8]\nclocks = ["100 MHz"]\n')
    assert [line.split(" = ")[0] for line in told.splitlines()] == [
        "night.toml, line 4: [factors] boards", "night.toml, line 5: [factors] operations",
        "night.toml, line 6: [factors] bytes", "night.toml, line 7: [factors] clocks",
    ]
    # A clock of any board may be that of the board that is misspelt; nor are the sizes without a message.
    assert len(complaint(MINIMAL.replace("f4discovery", "f4discvery") + 'clocks = ["216 MHz"]').splitlines()) == 1
    assert len(complaint(MINIMAL.replace('"sha256"', "3") + "bytes = [64]").splitlines()) == 1
    path = tmp_path / "night.toml"
    path.write_text(wrong + '[bench]\nfile = "gone.toml"\n')
    with pytest.raises(ConfigError, match=r"(?s)line 4: .*line 7: \[bench\] file = 'gone.toml' is no file"):
        load_plan(path)


def test_a_size_where_nothing_has_a_message():
    told = complaint(MINIMAL.replace('["sha256", "aes-128-ctr.encrypt"]', '["ecdsa-p256.sign"]') + "bytes = [64]\n")
    assert told.startswith("night.toml, line 6: [factors] bytes ")


def test_a_misspelt_board_is_told_with_the_nearest():
    told = complaint(MINIMAL.replace("f4discovery", "f4discvery"))
    assert told == (
        "night.toml, line 4: [factors] boards = 'stm32f4discvery' is no board; did you mean 'stm32f4discovery'?"
    )


def test_an_empty_plan_says_what_is_needed():
    assert complaint("").splitlines() == [
        'night.toml: [campaign] is missing: it names the campaign, for example name = "night-1"',
        "night.toml: [factors] is missing: it says what is measured, for example "
        'boards = ["stm32vldiscovery"] and operations = ["sha256"]',
    ]


def test_a_table_that_is_a_value():
    assert complaint('campaign = 3\n[factors]\nboards = ["stm32f0discovery"]\noperations = ["sha256"]') == (
        "night.toml, line 1: [campaign] = 3 must be a table: write [campaign] on a line of its own"
    )


def test_all_faults_are_told_at_once():
    told = complaint(MINIMAL + 'profiles = ["Oz"]\n[budget]\nuntil = 7\n[hooks]\nfinsh = 1\n').splitlines()
    assert [line.partition(":")[0] for line in told] == [f"night.toml, line {n}" for n in (6, 8, 10)]


def test_faults_of_every_kind_are_told_in_one_round_by_line(tmp_path):
    path = tmp_path / "night.toml"
    path.write_text(MINIMAL.replace("name", "seed = -1\nname") + """\
[[exclude]]
operation = "sha265"
[[exclude]]
bord = "x"
[[exclude]]
[reference]
operation = "ecdsa-p256.sign"
bytes = 64
[budget]
until = 7
[bench]
zero = "not-there.h5"
[[faults]]
item = 99
kill = "simulator"
[[faults]]
item = 1
dut = {silennt = true}
""")
    with pytest.raises(ConfigError) as caught:
        planned(path)
    told = str(caught.value).splitlines()
    assert [int(line.partition("line ")[2].partition(":")[0]) for line in told] == [2, 8, 10, 11, 14, 16, 18, 20, 24]
    assert [word in line for word, line in zip(("seed", "sha265", "bord", "leave out everything", "no message", "until",
                                                "no file", "99", "silennt"), told, strict=True)] == [True] * 9


def test_what_comes_of_a_fault_is_not_told_beside_it():
    board = complaint(MINIMAL.replace("f4discovery", "f4discvery") + '[[exclude]]\nboard = "stm32f4discovery"\n')
    assert len(board.splitlines()) == 1
    factors = MINIMAL.replace('"sha256"', '"shaa256"') + 'clocks = [8]\nbytes = [1]\n[[exclude]]\nbytes = 64\n'
    told = [line.partition("= ")[2][:8] for line in complaint(factors).splitlines()]
    assert told == ["'shaa256", "8 is 8.0", "1 must b"]
    benches = '[[benches]]\nname = "a"\nboards = ["stm32vldiscover"]\n[[faults]]\nitem = 1\nkill = "simulator"\n'
    assert len(complaint(MINIMAL + benches).splitlines()) == 1


def test_an_operation_that_resembles_none_is_not_answered_with_all_of_them():
    told = complaint(MINIMAL.replace('"sha256"', '"qqq*"'))
    assert told.endswith("= 'qqq*' fits no operation; `labctl firmware operations` lists them")


def test_a_voltage_in_millivolts_is_read_and_a_resistance_in_volts_is_not():
    assert parse_plan(MINIMAL + '[bench]\nsupply = "3300 mV"\n', "x").benches[0].supply_v == 3.3
    told = complaint(MINIMAL + '[bench]\nshunt = "5 mV"\n')
    assert "shunt = '5 mV': 'mV' is no unit of this; expected a number in ohm" in told


def test_the_faults_that_a_plan_may_rehearse_are_those_of_the_simulator(request):
    assert set(rehearsal.DUT) == DUT_FAULTS
    assert set(rehearsal.SCOPE) < set(linkfaults.KINDS)
    assert rehearsal.TRIGGER == TRIGGER_FAULTS
    page = (request.config.rootpath / "docs" / "campaign-plan.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in (*rehearsal.DUT, *rehearsal.SCOPE, *rehearsal.TRIGGER))


def test_hundreds_of_faults_are_told_shortly():
    told = complaint(MINIMAL + "[budget]\n" + "".join(f"key{n} = {n}\n" for n in range(200)))
    assert len(told.splitlines()) == 21
    assert told.endswith("and 180 more")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[campaign", "line 1, at the end"),
        (MINIMAL + "name = 1\nname = 2\n", "line 7, column 9"),
        ("a = 1\nb = [1,\n", "line 2, at the end"),
    ],
)
def test_what_is_no_toml(text, words):
    told = complaint(text)
    assert told.startswith(f"night.toml, {words}")
    assert "no TOML" in told


def test_an_operation_of_other_firmware_is_let_through_on_a_real_bench(tmp_path):
    text = MINIMAL.replace('"sha256"', '"ascon-128"')
    assert "is no operation" in complaint(text)
    plan = parse_plan(text + '[bench]\nfile = "desk.toml"\n', "x")
    assert "ascon-128" in {item.operation.name for item in expansion(plan).items}


@pytest.mark.parametrize(
    ("key", "line"), [('file = "desk.toml"', 7), ('zero = "z.h5"', 7), ('shunt = "1 ohm"\ncalibrations = ["c.h5"]', 8)]
)
def test_files_of_the_plan_must_be_there_relative_to_it(tmp_path, monkeypatch, key, line):
    monkeypatch.chdir("/")
    path = tmp_path / "night.toml"
    path.write_text(f"{MINIMAL}[bench]\n{key}\n")
    with pytest.raises(ConfigError, match=rf"night\.toml, line {line}: \[bench\] .* is no file"):
        load_plan(path)
    for name in ("desk.toml", "z.h5", "c.h5"):
        (tmp_path / name).touch()
    assert load_plan(path).folder == tmp_path


def test_every_table_of_the_plan_is_documented(request):
    page = (request.config.rootpath / "docs" / "campaign-plan.md").read_text(encoding="utf-8")
    for table in PlanFile.model_fields:
        assert f"[{table}]" in page
    for text in page.split("```toml\n")[1:]:
        expansion(parse_plan(text.partition("```")[0], "docs/campaign-plan.md"))
