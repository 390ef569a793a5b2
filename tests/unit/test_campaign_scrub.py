"""What names a place, a person or a secret goes; what tells of the fault stays."""

import getpass
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labctl.campaign import scrub as module
from labctl.campaign.scrub import facts, scrub, secrets_of, within


@pytest.mark.parametrize(("text", "scrubbed"), [
    ("cannot write /home/ann/data/x.h5: the disk is full", "cannot write <path>: the disk is full"),
    ("cannot read '/home/ann smith/b c.toml': gone", "cannot read '<path>': gone"),
    ("dut</home/ann/x> and path=/etc/x", "dut<<path>> and path=<path>"),
    ("~/bench.toml is missing", "<path> is missing"),
    (r"C:\Users\ann\x.toml is missing", "<path> is missing"),
    ("/dev/ttyUSB0 vanished", "<path> vanished"),
    ("TCPIP0::192.168.1.9::inst0::INSTR did not arm", "<address> did not arm"),
    ("USB0::0x2A8D::0x1766::MY1::INSTR did not arm", "<address> did not arm"),
    ("socket://10.0.0.7:4444: no answer", "<address>: no answer"),
    ("http://user:pass@hooks.example/x?token=1 said 404", "<address> said 404"),
    ("10.0.0.7:4444 refused", "<address> refused"),
    ("fe80::1 and ::1 refused", "<address> and <address> refused"),
    ("fe80::1: refused", "<address>: refused"),
    ("TCPIP0::scope.lab::5025::SOCKET: refused", "<address>: refused"),
    ("no answer (http://chat.lab/hook).", "no answer (<address>)."),
    ("Authorization: Bearer abc.def-123 is refused", "Authorization: Bearer <secret> is refused"),
    ('sent "bearer tok/en+1==" in vain', 'sent "bearer <secret>" in vain'),
    ("authorization: Basic dXNlcjpwYXNz is refused", "authorization: <secret> is refused"),
    ("token=abc123&x, password: hunter2", "token=<secret>&x, password: <secret>"),
    ('{"api_key": "abc123"}', '{"api_key": "<secret>"}'),
    ("ann@lab.example.org is away", "<address> is away"),
    ("00:11:22:aa:bb:cc is away", "<address> is away"),
    ("localhost:80 is away", "<address> is away"),
])
def test_what_names_a_place_goes(text, scrubbed):
    assert scrub(text) == scrubbed


@pytest.mark.parametrize("text", [
    "aes-128-ctr.encrypt: no edge on CH2 at 12:30:05; 3 MiB/s, 1 GSa/s, 50 Ω, ±2 %",
    "plan.toml:12: operations 'sha512' is no operation; one of sha256, aes-128-ctr.encrypt",
    "firmware 07.30.2019051434 of DSO-X 3024T, either/or, a<b>c</b>",
    "2026-11-30T12:00:00.000Z: captures/0001-stm32vldiscovery-sha256-16-24MHz.h5",
    "line one\nline two",
    "the token is missing; a password was asked for; key=inside, the bearer of it",
])
def test_what_tells_of_the_fault_stays(text):
    assert scrub(text) == text


def test_a_secret_goes_whatever_it_is():
    secrets = {"hunter2": "<secret>", "": "never", "hunter2+hunter2": "<secret>"}
    assert scrub("the word hunter2+HUNTER2 is wrong", secrets) == "the word <secret> is wrong"


def test_an_address_is_called_what_it_is_of_and_its_host_goes():
    secrets = secrets_of("TCPIP0::scope.lab::5025::SOCKET", "the oscilloscope") | secrets_of("/dev/ttyACM0", "the DUT")
    secrets |= secrets_of("https://ann@chat.lab:23/hook?x=1", "<secret>") | secrets_of(None)
    text = "TCPIP0::scope.lab::5025::SOCKET: no route to scope.lab; /dev/ttyACM0: gone; Chat.Lab: unknown"
    assert scrub(text, secrets) == "the oscilloscope: no route to <host>; the DUT: gone; <host>: unknown"


@pytest.mark.parametrize(("folder", "text", "seen"), [
    ("people/ann/night", "cannot write people/ann/night/captures/1.h5: full", "cannot write captures/1.h5: full"),
    ("people/ann/night", "people/ann/night is gone", "the campaign's folder is gone"),
    ("/home/ann/night", "cannot write /home/ann/night/journal.jsonl: full", "cannot write journal.jsonl: full"),
    ("../ann/night", "cannot write ../ann/night/journal.jsonl: full", "cannot write journal.jsonl: full"),
    ("night", "a good night, night/journal.jsonl and last-night/x", "a good night, journal.jsonl and last-night/x"),
    (".", "3.3 V and ./x", "3.3 V and ./x"),
])
def test_what_lies_in_the_folder_is_named_as_seen_from_there(folder, text, seen):
    assert within(text, Path(folder)) == seen


def test_this_machine_and_its_user_go(monkeypatch, tmp_path):
    monkeypatch.setattr(socket, "gethostname", lambda: "curie.lab.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "marie")
    monkeypatch.setattr(Path, "home", lambda: Path("/nest/marie"))
    module._own_names.cache_clear()
    try:
        assert scrub("marie on curie.lab.example, curie: mariette") == "<user> on <host>, <host>: mariette"
        assert scrub("x=/nest/marie/data/x") == "x=<path>"
    finally:
        module._own_names.cache_clear()


def test_what_would_steer_a_terminal_is_shown_as_unknown():
    assert scrub("a\x1b[31mb\x07\udc80<script>") == "a\ufffd[31mb\ufffd\ufffd<script>"


@given(st.text(max_size=3000), st.sampled_from(["/home/ann/x", "192.168.0.1", "hunter2"]), st.text(max_size=50))
def test_nothing_around_it_keeps_a_secret_in(before, secret, after):
    text = scrub(f"{before} {secret} {after}", {"hunter2": "<secret>"})
    assert len(text) <= 1000
    if secret not in before + after:
        assert secret not in text


def test_facts_lose_addresses_at_any_depth():
    given_facts = {
        "name": "left", "seed": 3, "zero": "z.h5",
        "scope": {"resource": "x", "driver": "y", "note": "behind /dev/ttyUSB1"}, "list": [{"port": 1, "a": None}],
    }
    assert facts(given_facts) == {
        "name": "left", "seed": 3, "scope": {"driver": "y", "note": "behind <path>"}, "list": [{"a": None}]
    }
