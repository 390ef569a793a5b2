"""The server answers readers alone: escaped, to its own name, with the token where there is one, and nothing else."""

import csv
import io
import json
import os
import re
from html.parser import HTMLParser
from wsgiref.util import setup_testing_defaults

import pytest
from click.testing import CliRunner

from labctl.campaign import journal, pack
from labctl.campaign.model import Attempt
from labctl.cli import run
from labctl.cli.serve import _serving, command
from labctl.cli.table import command as table
from labctl.errors import ConfigError
from labctl.serve.app import Site
from labctl.serve.guard import CONTENT_SECURITY_POLICY
from labctl.serve.server import choose_token, is_loopback, link
from labctl.serve.shelf import Shelf

from .serve_campaigns import begin, take
from .serve_server import serving

TOKEN = "a-token-of-24-characters"
PAGES = ("", "live", "items", "items/1", "items/2", "items/4", "items/9", "statistics", "drift", "results",
         "results?role=reference", "results.html", "items?board=other%3Cb%3Eboard%3C/b%3E")
DATA = ("statistics.json", "drift.json", "items/2/runs.json", "items/2/waveform.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = begin(tmp_path_factory.mktemp("served") / "night")
    take(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder.path.parent) as server:
        server.ask("/c/night/results")
        yield server


class Tags(HTMLParser):
    """Notes the tags and texts of a page."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("page", PAGES)
def test_text_of_instruments_and_plans_is_text_on_every_page(server, page):
    answer = server.ask(f"/c/night/{page}")
    assert answer.status == 200
    found = Tags(answer.text)
    assert not {"i", "b", "img"} & set(found.tags)
    assert not [one for one in found.attributes if one[1].startswith("on") or one[1] == "style"]
    scripts = [one for one in found.attributes if one[0] == "script"]
    assert len([tag for tag in found.tags if tag == "script"]) == len([one for one in scripts if one[1] == "src"])
    assert not re.search("[\x00-\x08\x0e-\x1f]", answer.text)


def test_the_harmful_texts_are_there_to_be_read(server):
    texts = "".join(Tags(server.ask("/c/night/items/2").text).texts)
    assert "the scope answered <script>alert('idn')</script>\"&" in texts
    assert "serial number <img src=x onerror=alert(1)>" in texts
    assert "the DUT says <script>" in "".join(Tags(server.ask("/c/night/").text).texts)
    assert "night <i>1</i>" in "".join(Tags(server.ask("/").text).texts)


@pytest.mark.parametrize("page", [*(f"/c/night/{page}" for page in (*PAGES, *DATA)), "/", "/nothing",
                                  "/static/live.js"])
def test_every_answer_has_the_headers_that_keep_a_browser_safe(server, page):
    headers = server.ask(page).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


def test_the_policy_lets_no_script_of_a_page_run():
    policy = dict(part.strip().split(" ", 1) for part in CONTENT_SECURITY_POLICY.split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY


def test_no_page_fetches_anything_from_elsewhere(server):
    for page in PAGES:
        for _, name, value in Tags(server.ask(f"/c/night/{page}").text).attributes:
            if name in ("src", "href", "action"):
                assert re.match(r"/[^/]|#|/$|data:,$", value), value


@pytest.mark.parametrize("path", [
    "/static/../shelf.py", "/static/..%2fshelf.py", "/static/%2e%2e/%2e%2e/pyproject.toml", "/static//etc/passwd",
    "/../../../../etc/passwd", "/c/../night/", "/c/night/../../etc/passwd", "/c/night/items/..%2f..%2fplan.toml",
    "/c/night/plan.toml", "/c/night/journal.jsonl", "/c/night/captures/0002-made-up-sha256-1024.h5",
    "/c/%2e%2e/", "/c/night%00/", "/static/style.css%00",
])
def test_no_path_leads_out_of_the_pages(server, path):
    answer = server.ask(path)
    assert answer.status in (400, 404)
    assert b"root:" not in answer.body
    assert b"[campaign]" not in answer.body


def test_a_journal_that_somebody_sent_leads_to_no_file_outside(folder, tmp_path):
    (tmp_path / "secret.h5").write_bytes((folder.path / "captures/0002-made-up-sha256-1024.h5").read_bytes())
    evil = begin(tmp_path / "evil")
    done = journal.read(folder.path).attempts[-1]
    for number, place in ((1, "../secret.h5"), (2, str(tmp_path / "secret.h5"))):
        journal.append(evil.path, Attempt(**{**vars(done), "item": number, "capture": place}))
    os.symlink(tmp_path / "secret.h5", evil.path / "captures/link.h5")
    journal.append(evil.path, Attempt(**{**vars(done), "item": 3, "capture": "captures/link.h5"}))
    with serving(evil.path) as server:
        for number in (1, 2, 3):
            assert server.ask(f"/c/evil/items/{number}/waveform.json").status == 404
            assert server.ask(f"/c/evil/items/{number}").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
@pytest.mark.parametrize("path", ["/", "/c/night/", "/static/style.css"])
def test_pages_can_only_be_read(server, method, path):
    answer = server.ask(path, method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/c/night/", "/static/style.css", "/c/night/statistics.json"])
def test_head_is_get_without_the_page(server, path):
    whole, head = server.ask(path), server.ask(path, "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.body))
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize(("host", "status"), [
    ("127.0.0.1", 200), ("localhost", 200), ("LOCALHOST:8000", 200), ("[::1]:8000", 200), ("192.0.2.7:80", 200),
    ("evil.example", 421), ("evil.example:8000", 421), ("127.0.0.1.evil.example", 421), ("localhost.evil.example", 421),
    ("", 421), ("127.0.0.1@evil.example", 421),
])
def test_a_name_that_is_not_ours_is_turned_away(server, host, status):
    assert server.ask("/c/night/", Host=host).status == status


def test_what_there_is_not_is_said(server):
    for path in ("/c/nothing/", "/c/night/items/99", "/c/night/items/4/runs.json", "/c/night/results.xml"):
        assert server.ask(path).status == 404
    for query in ("segment=9", "segment=-1", "start=x", "start=nan", "stop=inf", "columns=0", "columns=1000000"):
        assert server.ask(f"/c/night/items/2/waveform.json?{query}").status == 400, query
    assert server.ask("/c/night/statistics?quantity=x").status == 400
    assert server.ask("/c/night/results?role=x").status == 400


def test_the_table_is_that_of_labctl_table(server, folder):
    for name in ("csv", "json", "md"):
        whole = CliRunner().invoke(table, [str(folder.path), "--format", name])
        assert server.ask(f"/c/night/results.{name}").body == whole.stdout_bytes
    shown = Tags(server.ask("/c/night/results").text).texts
    lines = CliRunner().invoke(table, [str(folder.path), "--format", "md"]).stdout.splitlines()
    cells = [cell.strip() for line in lines if line.startswith("|") for cell in line.strip("|").split("|")]
    numbers = [cell for cell in cells if "±" in cell]
    assert len(numbers) >= 4 * 7
    assert [text for text in shown if re.fullmatch(r"[\d.]+ ± [\d.]+", text)] == numbers


def test_statistics_are_those_of_the_table(server):
    found = json.loads(server.ask("/c/night/statistics.json?quantity=energy").text)
    rows = list(csv.DictReader(io.StringIO(server.ask("/c/night/results.csv").text)))[1:]
    whole = {(row["board"], row["operation"], row["bytes"]): row for row in rows if row["state"] == "done"}
    assert len(found["items"]) == len(whole) == 7
    shown = sorted(one["mean"] for one in found["items"])
    assert shown == sorted(float(row["energy"]) for row in whole.values())
    assert sorted(one["expanded"] for one in found["items"]) == sorted(
        float(row["energy_expanded"]) for row in whole.values()
    )


def test_only_what_changed_is_sent(server):
    number = re.search('data-number="([^"]+)"', server.ask("/c/night/live").text)[1]
    assert server.ask(f"/c/night/live?since={number}").status == 204
    assert server.ask("/c/night/live?since=other").status == 200


def test_a_pack_is_served_too(folder, tmp_path):
    packed = pack.pack(folder.path, tmp_path / "packed.h5")
    with serving(packed) as server:
        assert '<span id="done">17</span>' in server.ask("/c/packed/").text
        assert json.loads(server.ask("/c/packed/items/2/runs.json").text)["reason"] == ""
    assert [path.name for path in tmp_path.iterdir()] == ["packed.h5"]


@pytest.fixture(scope="module")
def locked(folder):
    with serving(folder.path, options=("--token", TOKEN)) as server:
        yield server


def test_the_token_is_behind_the_sign_that_no_browser_sends(locked):
    assert locked.address.endswith(f"/#token={TOKEN}")


@pytest.mark.parametrize("path", ["/", "/c/night/", "/c/night/statistics.json", "/nothing", "/signin"])
def test_without_the_token_nothing_is_read(locked, path):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"},
                    {"Authorization": f"Bearer {TOKEN}x"}, {"Cookie": f"labctl-00000000={TOKEN}"},
                    {"Cookie": "\xff=;;"}):
        answer = locked.ask(path, **headers)
        assert answer.status == 401
        assert b"night" not in answer.body
        assert "set-cookie" not in answer.headers
    assert locked.ask(f"{path}?token={TOKEN}").status == 401


def test_the_token_opens_by_header_and_by_the_cookie_it_earns(locked):
    header = {"Authorization": f"Bearer {TOKEN}"}
    assert locked.ask("/c/night/", **header).status == 200
    answer = locked.ask("/signin", **header)
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
    assert locked.ask("/c/night/", Cookie=cookie).status == 200
    assert locked.ask("/c/night/", Cookie=cookie[:-1]).status == 401
    assert locked.ask("/c/night/", "POST", **header).status == 405
    assert locked.ask("/c/night/", Host="evil.example", **header).status == 421


def test_the_pages_for_signing_in_need_no_token(locked):
    assert locked.ask("/static/signin.js").status == 200
    assert "token" in locked.ask("/").text


@pytest.mark.parametrize(("host", "loopback"), [
    ("127.0.0.1", True), ("127.8.9.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("::", False),
    ("192.0.2.7", False), ("scope.lab", False),
])
def test_a_host_that_others_reach_has_a_token(host, loopback):
    assert is_loopback(host) is loopback
    made = choose_token(host, None)
    assert (made == "") is loopback
    if not loopback:
        assert len(made) >= 32
        assert made != choose_token(host, None)


def test_a_file_that_is_not_there_yet_says_when_to_ask_again(folder, monkeypatch):
    monkeypatch.setattr("labctl.serve.tables.Tables.rows", lambda *_: None)
    told = []
    with Shelf([folder.path]) as shelf:
        key = shelf.books()[0].key
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": f"/c/{key}/results.csv"}
        setup_testing_defaults(environ)
        b"".join(Site(shelf).app(environ, lambda status, headers, *_: told.extend([status, dict(headers)])))
    assert told[0].startswith("503")
    assert told[1]["Retry-After"] == "2"


@pytest.mark.parametrize(("host", "shown"), [
    ("0.0.0.0", "ADDRESS"), ("::", "ADDRESS"), ("::1", "[::1]"), ("bench.example", "bench.example"),
])
def test_a_server_on_every_address_names_none_that_nobody_can_open(host, shown):
    assert link(host, 8000, TOKEN) == f"http://{shown}:8000/#token={TOKEN}"
    assert ("ADDRESS is this machine's" in _serving(link(host, 8000, ""))) == (shown == "ADDRESS")


@pytest.mark.parametrize("token", ["", "short", "sixteen letters; and more", "sixteen-létters-and-more"])
def test_a_poor_token_is_refused(token):
    with pytest.raises(ConfigError, match="16 characters"):
        choose_token("127.0.0.1", token)


def test_a_place_without_campaigns_is_named(tmp_path, capsys):
    assert run(["serve", str(tmp_path), "--port", "0"]) == 1
    assert "holds no campaign" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(server, folder, capsys):
    assert run(["serve", str(folder.path), "--port", str(server.port)]) == 3
    assert "--port 0" in capsys.readouterr().err


def test_serving_changes_nothing_but_what_can_be_made_again(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*") if path.is_file()}
    with serving(folder.path) as server:
        for page in (*PAGES, *DATA):
            server.ask(f"/c/night/{page}")
    after = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*") if path.is_file()}
    tables = folder.path / "tables"
    assert {path: time for path, time in after.items() if tables not in path.parents} == {
        path: time for path, time in before.items() if tables not in path.parents
    }


def test_the_command_explains_itself():
    shown = CliRunner().invoke(command, ["--help"])
    assert shown.exit_code == 0
    assert "Ctrl-C ends it" in shown.output
