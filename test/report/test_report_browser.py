"""The page in a browser without a network: no error, everything visible, in light and dark, on any width."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from drives import simulated
from faulty import FaultyOptions
from notes_made import SOUND
from reports import SECTIONS
from test_report_page import HOSTILE, hostile

from edgefirst_ros.config.model import build_config
from edgefirst_ros.fleet.notes import DONE
from edgefirst_ros.fleet.page import fleet_report, page_of
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.report.models import parsed
from edgefirst_ros.report.page.make import document, make_page

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium")

DRIVE = FaultyOptions(
    seconds=8, fps=10, width=320, height=180, lidar_points=800, cube_hz=0, imu_hz=40, clock="realtime",
    silent={"lidar/points": ((3.0, 5.0),)},
)  # fmt: skip
NOT_SCRIPTED = """
() => [...document.querySelectorAll('*')].flatMap(e => [...e.attributes])
        .filter(a => a.name.startsWith('on')).length
      + document.querySelectorAll('img:not([src^="data:"]):not(#large)').length + document.scripts.length
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("browser")
    config = build_config({"topics": {"lidar_points": {"required": "never"}}})
    convert([simulated(DRIVE).mcap], out, config, dataset="d")
    return make_page(out)


class Shown:
    """A page in the browser, and what it complained about."""

    def __init__(self, browser: Any, path: Path, scheme: str = "light", width: int = 1280) -> None:  # noqa: ANN401
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        self.tab = context.new_page()
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda message: self.faults.append(message.text))
        self.tab.on("pageerror", lambda error: self.faults.append(str(error)))
        self.tab.on("dialog", lambda dialog: (self.faults.append(dialog.message), dialog.dismiss()))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(path.as_uri())
        self.tab.wait_for_selector("html[data-drawn]", state="attached", timeout=20_000)


@pytest.mark.long(cases=1)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_everything_is_visible_without_an_error(browser: Any, page: Path, scheme: str, width: int) -> None:  # noqa: ANN401
    shown = Shown(browser, page, scheme, width)
    for name in SECTIONS:
        assert shown.tab.is_visible(f"#{name} h2"), name
    assert "lidar/points lost" in shown.tab.inner_text("#verdict")
    lanes = shown.tab.query_selector_all("[data-lane]")
    assert len(lanes) >= 8
    assert all(lane.query_selector("canvas").is_visible() for lane in lanes)
    assert shown.tab.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.tab.evaluate("[...document.images].every(i => i.id || i.naturalWidth > 0)")
    assert shown.faults == []
    assert [url for url in shown.requests if not url.startswith(("file:", "data:"))] == []


@pytest.mark.long
def test_dark_is_dark(browser: Any, page: Path) -> None:  # noqa: ANN401
    def brightness(scheme: str) -> list[int]:
        script = "e => getComputedStyle(document.body)[e].match(/\\d+/g).map(Number)[0]"
        tab = Shown(browser, page, scheme).tab
        return [tab.evaluate(script, each) for each in ("backgroundColor", "color")]

    paper, ink = brightness("light")
    assert paper > 200
    assert ink < 100
    paper, ink = brightness("dark")
    assert paper < 100
    assert ink > 200


@pytest.mark.long
def test_plots_follow_a_change_of_the_scheme(browser: Any, page: Path) -> None:  # noqa: ANN401
    tab = Shown(browser, page).tab
    script = "document.querySelector('[data-lane=\"1\"] canvas').toDataURL()"
    light = tab.evaluate(script)
    tab.emulate_media(color_scheme="dark")
    # The page's policy forbids the evaluation of strings, with which playwright would wait for it.
    for _ in range(50):
        if tab.evaluate(script) != light:
            return
        tab.wait_for_timeout(20)
    pytest.fail("the plots keep their colours")


@pytest.mark.long
def test_a_drag_zooms_every_plot_over_time(browser: Any, page: Path) -> None:  # noqa: ANN401
    tab = Shown(browser, page).tab
    script = "[...document.querySelectorAll('.lane canvas')].map(c => c.toDataURL())"
    before = tab.evaluate(script)
    tab.locator("[data-lane='1']").scroll_into_view_if_needed()
    box = tab.locator("[data-lane='1'] .u-over").bounding_box()
    middle = box["y"] + box["height"] / 2
    tab.mouse.move(box["x"] + 0.3 * box["width"], middle)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=5)
    tab.mouse.up()
    tab.wait_for_timeout(100)
    zoomed = tab.evaluate(script)
    assert sum(a != b for a, b in zip(before, zoomed, strict=True)) >= len(before) - 1
    tab.mouse.dblclick(box["x"] + 5, middle)
    tab.wait_for_timeout(100)
    assert tab.evaluate(script) == before


@pytest.mark.long
def test_a_lane_says_what_is_under_the_pointer(browser: Any, page: Path) -> None:  # noqa: ANN401
    tab = Shown(browser, page).tab
    tab.locator("[data-lane='1']").scroll_into_view_if_needed()
    box = tab.locator("[data-lane='1'] .u-over").bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 10)
    assert "used" in tab.locator(".lane").nth(1).locator("output").inner_text()
    assert tab.locator("#cursor-time").inner_text().startswith("00:0")


@pytest.mark.long
def test_a_picture_is_enlarged(browser: Any, page: Path) -> None:  # noqa: ANN401
    tab = Shown(browser, page).tab
    tab.locator(".zoom").first.click()
    assert tab.is_visible("#large")
    tab.locator("#viewer").click()
    assert not tab.is_visible("#large")


@pytest.mark.long
def test_the_fleets_page_is_styled_and_runs_nothing_else(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    hostile_note = {**SOUND[DONE], "drive": HOSTILE, "warnings": [HOSTILE]}
    text = page_of(fleet_report([hostile_note], [{"drive": HOSTILE, "reason": HOSTILE}]))
    path = tmp_path / "fleet.html"
    # As if markup had got into it.
    path.write_text(text.replace("</table>", "</table><script>document.title = 'run'</script>"))
    tab = browser.new_context(offline=True).new_page()
    refused: list[str] = []
    tab.on("console", lambda message: refused.append(message.text))
    tab.goto(path.as_uri())
    assert tab.title() == "Drives"
    assert any("Content Security Policy" in each for each in refused)
    assert tab.evaluate("getComputedStyle(document.querySelector('table')).borderCollapse") == "collapse"
    assert HOSTILE.partition("\u202e")[0] in tab.inner_text("#failed")


@pytest.mark.long
def test_hostile_names_do_nothing(browser: Any, tmp_path: Path) -> None:  # noqa: ANN401
    path = tmp_path / "hostile.html"
    path.write_text(document(parsed(hostile()), HOSTILE, []), encoding="utf-8")
    shown = Shown(browser, path)
    assert shown.faults == []
    assert "<img src=x" in shown.tab.inner_text("#drive")
    assert shown.tab.evaluate(NOT_SCRIPTED) == 3
