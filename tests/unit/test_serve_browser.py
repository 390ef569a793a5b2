"""What a person sees in a real browser equals what the store holds, at two widths and after zooming."""

import json
import re

import numpy as np
import pytest

from labctl.campaign import journal
from labctl.campaign.results import load_rows
from labctl.campaign.watch import Watcher
from labctl.report.tables.sheet import Layout
from labctl.serve.tables import sheets
from labctl.store import envelope

from .campaign_synthetic import OHM
from .serve_browser import PROGRAMS, Browser, program
from .serve_campaigns import BOARDS, LONG_S, N_LONG, begin, take
from .serve_server import serving

pytestmark = pytest.mark.skipif(
    program() is None, reason=f"no browser: `make browser` installs one ({' or '.join(PROGRAMS)} is looked for)"
)
TOKEN = "a-token-of-24-characters"
CELLS = "[...document.querySelectorAll('#matrix td')]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = begin(tmp_path_factory.mktemp("seen") / "night")
    take(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder.path) as server:
        yield server


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        browser.size(1280)
        yield browser


@pytest.fixture(autouse=True)
def _nothing_goes_wrong(browser):
    browser.said.clear()
    yield
    # The plotting library asks for styles that the policy forbids, and does without them.
    assert [text for text in browser.said if "Applying inline style" not in text] == []


def texts(browser, selector):
    return browser.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText.trim())")


def series(browser, place, traces="data", columns=("x", "y")):
    """Give the numbers that a chart was drawn from, a list a trace."""
    # What is compact inside the library becomes a list again.
    picked = ", ".join(f"Array.from(one.{name} ?? [])" for name in columns)
    return browser.value(f"document.getElementById('{place}').{traces}.map((one) => [{picked}])")


def test_the_matrix_is_that_of_the_journal(browser, server, folder):
    browser.go(f"{server.address}c/night/", "document.querySelector('#last-waveform .xtick')")
    matrix = Watcher(folder.path).look().matrix
    assert texts(browser, "#matrix thead th") == ["operation", *BOARDS]
    assert texts(browser, "#matrix tbody th") == list(matrix.operations)
    seen = browser.value(f"{CELLS}.map((one) => [one.className, one.innerText.trim()])")
    cells = [matrix.cells[board, operation] for operation in matrix.operations for board in matrix.boards]
    assert seen == [[cell.state, cell.text] for cell in cells]
    assert ["failed", "1 failed, 1/2 done"] in seen
    colours = browser.value(f"Object.fromEntries({CELLS}.map((one) => "
                            "[one.className, getComputedStyle(one).backgroundColor]))")
    assert len(set(colours.values())) == len(colours) == 2
    state = Watcher(folder.path).look().state
    assert [texts(browser, f"#{name}") for name in ("done", "items", "failed", "pending")] == [
        [str(state.n_done)], [str(state.n_items)], [str(state.n_failed)], [str(state.n_pending)]
    ]


def test_text_that_would_do_harm_is_seen_as_text(browser, server):
    browser.go(f"{server.address}c/night/items/2", "document.querySelector('#waveform .xtick')")
    assert any("<script>alert('idn')</script>" in text for text in texts(browser, "#attempts td"))
    assert browser.value("document.querySelectorAll('main img, main i').length") == 0
    browser.go(f"{server.address}c/night/statistics", "document.querySelector('#spread .xtick')")
    # The library reads tags in its labels: those of a board's name must reach the eye as they are.
    labels = texts(browser, "#statistics .ytick")
    drawn = browser.value("[...document.querySelectorAll('#statistics .ytick text')].map((one) => one.textContent)")
    assert any("other<b>board</b>" in text for text in drawn), labels


@pytest.mark.parametrize("width", [1280, 400], ids=str)
def test_a_waveform_is_that_of_the_store_before_and_after_a_zoom(browser, server, folder, width):
    browser.size(width)
    browser.go(f"{server.address}c/night/items/1",
               "document.getElementById('waveform').layout?.shapes?.length && document.querySelector('#runs.said')")
    path = folder.capture_path(folder.campaign.items[0])

    def agrees():
        first, last = (int(browser.value(f"document.getElementById('waveform').dataset.{name}"))
                       for name in ("first", "last"))
        found = series(browser, "waveform")
        n_columns = browser.value("Math.max(200, Math.min(2000, document.getElementById('waveform').clientWidth))")
        whole = envelope(path, "series", "CH1", 0, first, last, n_columns)
        for (x, y), values in zip(found, (whole.minimum, whole.maximum, whole.mean), strict=True):
            np.testing.assert_allclose(y, values / OHM, rtol=1e-9)
            np.testing.assert_allclose(x, (whole.position[:-1] + whole.position[1:] - 1) / 2 * LONG_S, rtol=1e-9)
        return first, last

    assert agrees() == (0, N_LONG)
    (window,) = browser.value("document.getElementById('waveform').layout.shapes.map((one) => [one.x0, one.x1])")
    assert window == pytest.approx([1.0, 2.0], abs=1e-6)
    area = browser.value("(() => { const b = document.querySelector('#waveform .nsewdrag').getBoundingClientRect();"
                         " return [b.left, b.top, b.width, b.height]; })()")
    left, top, wide, high = area
    middle = top + high / 2
    # From 0.9 s to 1.5 s of the three that the axis spans.
    browser.drag((left + 0.3 * wide, middle), (left + 0.5 * wide, middle))
    browser.wait("Number(document.getElementById('waveform').dataset.first) > 0")
    first, last = agrees()
    pixel = N_LONG / wide
    assert first == pytest.approx(900_000, abs=2 * pixel)
    assert last == pytest.approx(1_500_000, abs=2 * pixel)
    # Down to the samples about the spike.
    browser.value("Plotly.relayout('waveform', {'xaxis.range': [1.234550, 1.234580]}).then(() => true)")
    browser.wait("Number(document.getElementById('waveform').dataset.first) > 1234000")
    assert agrees() == (1_234_550, 1_234_581)
    spike = series(browser, "waveform")[2][1]
    assert spike[17] == pytest.approx(30_000e-6 / OHM, rel=1e-9)
    browser.value("document.getElementById('whole').click()")
    browser.wait("document.getElementById('waveform').dataset.first === '0'")
    assert agrees() == (0, N_LONG)


def test_the_segments_of_a_series_can_be_looked_through(browser, server, folder):
    browser.size(1280)
    browser.go(f"{server.address}c/night/items/2", "document.querySelector('#runs .xtick')")
    path = folder.capture_path(folder.campaign.items[1])
    for segment in range(4):
        browser.wait(f"document.getElementById('segment').innerText === 'segment {segment + 1} of 4'")
        whole = envelope(path, "series", "CH1", segment, n_columns=600)
        np.testing.assert_allclose(series(browser, "waveform")[2][1], whole.mean / OHM, rtol=1e-9)
        browser.value("document.getElementById('after').click()")
    assert browser.value("document.getElementById('after').disabled")
    off = series(browser, "runs")[0][1]
    row = next(one.row for one in journal.read(folder.path).attempts if one.item == 2 and one.state == "done")
    assert np.std(off, ddof=1) == pytest.approx(row["energy_std_j"] / row["energy_mean_j"] * 100, rel=1e-9)


def test_the_charts_of_statistics_are_the_rows_of_the_journal(browser, server, folder):
    rows = {one.item: one.row for one in journal.read(folder.path).attempts if one.state == "done"}
    for quantity, mean, expanded in (("energy", "energy_mean_j", "energy_expanded_j"),
                                     ("duration", "duration_mean_s", "duration_expanded_s")):
        address = f"{server.address}c/night/statistics?quantity={quantity}"
        browser.go(address, f"location.href === '{address}' && document.querySelector('#spread .xtick')")
        traces = series(browser, "statistics", columns=("x", "customdata", "error_x?.array"))
        seen = [point for trace in traces for point in zip(*trace, strict=True)]
        assert seen == [(rows[item][mean], item, rows[item][expanded]) for item in (1, 2, 3, 10, 11, 12, 13)]
    (box, bars) = series(browser, "spread", columns=("median", "error_x?.array"))
    several = [rows[item] for item in (2, 3, 10, 11, 12, 13)]
    np.testing.assert_allclose(box[0], [(row["energy_median_j"] / row["energy_mean_j"] - 1) * 100 for row in several],
                               atol=1e-9)
    np.testing.assert_allclose(bars[1], [row["energy_std_j"] / row["energy_mean_j"] * 100 for row in several])


def test_the_chart_of_drift_is_the_rows_of_the_journal_over_time_and_order(browser, server, folder):
    attempts = journal.read(folder.path).attempts
    browser.go(f"{server.address}c/night/drift?quantity=energy", "document.querySelector('#drift .ytick')")
    powers = [one.row["energy_mean_j"] for one in attempts if one.item in (5, 6, 7)]
    x, y = series(browser, "drift")[0]
    np.testing.assert_allclose(y, (np.array(powers) / np.mean(powers) - 1) * 100, atol=1e-9)
    assert x == [one.ended_utc for one in attempts if one.item in (5, 6, 7)]
    browser.value("(() => { const over = document.getElementById('over'); over.value = 'order';"
                  " over.dispatchEvent(new Event('change')); })()")
    browser.wait("typeof document.getElementById('drift').data[0].x[0] === 'number'")
    places = [place for place, one in enumerate(attempts, 1) if one.item in (5, 6, 7)]
    assert series(browser, "drift")[0][0] == places


def test_the_table_is_that_of_labctl_table(browser, server, folder):
    browser.go(f"{server.address}c/night/results", "document.querySelector('.results')")
    (sheet,) = sheets(load_rows([folder.path]), Layout())["sheets"]
    seen = browser.value("[...document.querySelectorAll('.results tbody tr')].map((row) => "
                         "[...row.cells].map((one) => one.innerText.trim()))")
    assert seen == [[text for text, _ in line] for line in sheet["lines"]]
    assert sum("±" in text for line in seen for text in line) >= 4 * 7


@pytest.mark.parametrize("width", [1280, 400], ids=str)
def test_no_page_is_wider_than_the_window(browser, server, width):
    browser.size(width)
    for page in ("/", "/c/night/", "/c/night/items", "/c/night/items/2", "/c/night/statistics", "/c/night/drift",
                 "/c/night/results"):
        browser.go(f"{server.address}{page[1:]}", "document.querySelector('footer')")
        assert browser.value("document.documentElement.scrollWidth") <= width, page


def test_a_campaign_at_work_is_followed(browser, tmp_path):
    folder = begin(tmp_path / "work")
    with serving(folder.path) as server:
        browser.size(1280)
        browser.go(f"{server.address}c/work/", "document.getElementById('done')?.innerText === '0'")
        assert texts(browser, ".phase") == ["not begun"]
        take(folder)
        browser.wait("document.getElementById('done').innerText === '17'")
        assert texts(browser, ".phase") == ["finished, 1 failed"]
        browser.wait("document.querySelector('#last-waveform .xtick')")
        assert re.match("item 18, ", texts(browser, "#last-link")[0])
        browser.go("about:blank", "true")


def test_the_printed_address_signs_in_and_leaves_no_token_behind(browser, folder):
    with serving(folder.path, options=("--token", TOKEN)) as server:
        browser.go(server.address.partition("#")[0], "document.getElementById('form')")
        browser.go(server.address, "document.querySelector('main table')")
        assert TOKEN not in browser.value("location.href")
        assert TOKEN not in browser.value("document.cookie + document.documentElement.outerHTML")
        browser.go(f"{server.address.partition('#')[0]}c/night/drift", "document.querySelector('#drift .ytick')")
        browser.go("about:blank", "true")
    # Before it had the token it was told so.
    browser.said[:] = [text for text in browser.said if "401" not in text]
