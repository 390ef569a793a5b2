"""Where each key of a TOML file stands, against lines counted by hand; faults of TOML with their line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.errors import ConfigError
from labctl.tomlsource import Source, nearest, parse, read, shown, spelled

TEXT = """\
# a comment
top = 1
[campaign]
name = "a"
"quoted key" . inner = 3

[factors]
boards = [
  "a",  # [not a table]
  # nor this: x = 1
  "b", ["c",
    "d"],
]
text = \"\"\"
[campaign]
name = 1
\"\"\"
after = 2
[[exclude]]
a = 1
[[exclude.inner]]
z = 1
[[exclude]]
a = {b = 1, c = [2, {d = 3}]}
[exclude.table]
y = 1
[[exclude.inner]]
z = 2
[[exclude.inner]]
z = 3
[over.there]
x = 1
"""
PLACES = {
    ("top",): 2,
    ("campaign",): 3,
    ("campaign", "name"): 4,
    ("campaign", "quoted key"): 5,
    ("campaign", "quoted key", "inner"): 5,
    ("factors", "boards"): 8,
    ("factors", "boards", 0): 9,
    ("factors", "boards", 1): 11,
    ("factors", "boards", 2): 11,
    ("factors", "boards", 2, 1): 12,
    ("factors", "text"): 14,
    ("factors", "after"): 18,
    ("exclude",): 19,
    ("exclude", 0): 19,
    ("exclude", 0, "a"): 20,
    ("exclude", 0, "inner", 0, "z"): 22,
    ("exclude", 1): 23,
    ("exclude", 1, "a", "b"): 24,
    ("exclude", 1, "a", "c", 1, "d"): 24,
    ("exclude", 1, "table", "y"): 26,
    ("exclude", 1, "inner", 0, "z"): 28,
    ("exclude", 1, "inner", 1, "z"): 30,
    ("over",): 31,
    ("over", "there"): 31,
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("place", "line"), PLACES.items())
def test_each_key_has_its_line(place, line, newline):
    assert Source("x", TEXT.replace("\n", newline)).line(place) == line


@pytest.mark.parametrize(
    ("place", "line"), [(("factors", "missing"), 7), (("exclude", 1, "gone"), 23), (("factors", "boards", 9), 8)]
)
def test_what_is_not_there_has_the_line_of_what_it_would_stand_in(place, line):
    assert Source("x", TEXT).line(place) == line


def test_without_text_there_is_no_line():
    assert Source("x").line(("a",)) is None
    assert str(Source("the plan").fault(("a", "b"), "is wrong")) == "the plan: [a] b is wrong"


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_lines_of_tables_of_tables(gaps):
    lines, places = [], {}
    for number, gap in enumerate(gaps):
        lines += [""] * gap + ["[[t]]"]
        places["t", number] = len(lines)
        lines += [f"key = {number} # µ"]
        places["t", number, "key"] = len(lines)
    source = Source("x", "\n".join(lines))
    assert {place: source.line(place) for place in places} == places


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1\nb = \n", ["line 2, column 5", "no TOML"]),
        ("a = [1,\n\n", ["line 1, at the end", "no TOML"]),
        ('a = 1\r\nb = "x\r\n', ["line 2, column 7"]),
        ("a = 1\n[t]\na = 2\na = 3\n", ["line 4", "there twice"]),
        ("[t]\na = 2\n[t]\n", ["line 3", "there twice"]),
        ('a = 1\nb = "\x00"\n', ["line 2, column 6"]),
        ("a = 1\nb = " + "9" * 5000, ["line 2", "thousands of digits"]),
        ("a = " + "[" * 5000, ["nested too deep"]),
        ("x = 1\n" + ".".join(["a"] * 1000) + " = 1", ["line 2", "nested too deep"]),
        ("x = 1\n[" + ".".join(["a"] * 1000) + "]", ["line 2", "nested too deep"]),
        ("a = " + "[" * 100 + "]" * 100, ["line 1", "nested too deep"]),
        ("a = " + "{b = " * 50 + "1" + "}" * 50, ["line 1", "nested too deep"]),
    ],
)
def test_faults_of_toml_say_the_line(text, words):
    with pytest.raises(ConfigError) as caught:
        parse(Source("night.toml", text))
    assert str(caught.value).startswith("night.toml")
    for word in words:
        assert word in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(ConfigError, match="is not there"):
        read(tmp_path / "gone.toml")
    with pytest.raises(ConfigError, match="is a folder"):
        read(tmp_path)
    (tmp_path / "utf16.toml").write_bytes("a = 1".encode("utf-16"))
    with pytest.raises(ConfigError, match="not in UTF-8"):
        read(tmp_path / "utf16.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * 1_000_001)
    with pytest.raises(ConfigError, match="larger than 1 MB"):
        read(tmp_path / "large.toml")


def test_a_byte_order_mark_is_no_fault(tmp_path):
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2\r\n")
    source = read(tmp_path / "bom.toml")
    assert parse(source) == {"a": 1, "b": 2}
    assert source.line(("b",)) == 2


def test_places_are_spelled_as_in_the_file():
    assert spelled(("factors", "boards", 1)) == "[factors] boards"
    assert spelled(("exclude", 2, "board")) == "[[exclude]] board"
    assert spelled(("bench",)) == "[bench]"
    assert spelled(("a", "b", "c")) == "[a] b.c"


def test_the_nearest_or_all():
    assert nearest("randm", ["random", "listed"]) == "did you mean 'random'?"
    assert nearest("OS", ["O2", "Os"]) == "did you mean 'Os'?"
    assert nearest("qqqqq", ["random", "listed"], "orders") == "orders: random, listed"


def test_long_values_are_shown_shortly():
    assert shown("x" * 1000) == "'" + "x" * 59 + "…"
    assert shown(True) == "true"
