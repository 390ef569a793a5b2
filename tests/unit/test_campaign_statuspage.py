"""The page of a campaign fits 80 columns whatever texts hold, and names references as `campaign plan` does."""

import dataclasses

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from labctl.campaign import journal
from labctl.campaign.folder import open_campaign
from labctl.campaign.model import Attempt
from labctl.campaign.statuspage import named
from labctl.cli import campaignfiles, campaignwatch

from .campaign_synthetic import campaign_folder

UTC = "2026-11-30T12:00:00Z"


@pytest.mark.parametrize("text", ["\udcff\x00" * 300, "x" * 900, "測" * 300, "a\n\tb\x1b[2J\r" + "ÿ" * 500, "", "\n\n"],
                         ids=["bytes", "word", "wide", "commands", "nothing", "breaks"])
def test_no_text_is_wider_than_the_page(tmp_path, text):
    path = campaign_folder(tmp_path / "night", 2).path
    for number, final in ((1, True), (2, False)):
        key = open_campaign(path).campaign.items[number - 1].key
        journal.append(path, Attempt(number, key, 1, "failed", final, UTC, UTC, 1.0, "transient", text))
    for command in (campaignfiles.status, campaignwatch.watch):
        found = CliRunner().invoke(command, [str(path)], standalone_mode=False)
        assert found.exception is None
        lines = found.output.splitlines()
        assert max(map(cell_len, lines)) <= 80
        assert all(line == line.rstrip() and (not line or line.isprintable()) for line in lines)
        assert "item 1, made-up sha256 16 B mbedtls Os, 1 attempt, transient:" in found.output


def test_a_reference_is_named_by_which_one_it_is_from_1(tmp_path):
    item = campaign_folder(tmp_path / "night", 1).campaign.items[0]
    assert named(item, 1) == "item 1, made-up sha256 16 B mbedtls Os"
    third = dataclasses.replace(item, role="reference", repeat=2)
    assert named(third, 1) == "item 1, made-up sha256 16 B mbedtls Os, reference 3"
