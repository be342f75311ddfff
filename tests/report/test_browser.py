"""The page in a real browser: quiet, without requests, within the screen; screenshots go to artefacts/."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tapgnn.report import write_report
from tests.cli.command import tapgnn
from tests.report import sample

ARTEFACTS = Path(__file__).parents[2] / "artefacts"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PICTURES = (420, 1280)
OPTIONS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOO_WIDE = """() => [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, svg, .hidden')
    && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
OUTSIDE = """() => [...document.querySelectorAll('svg.chart:not(.map)')].flatMap(chart => {
    const box = chart.getBoundingClientRect();
    return [...chart.querySelectorAll('text, path:not(defs *), use')].filter(mark => {
        const own = mark.getBoundingClientRect();
        return own.left < box.left - 3 || own.right > box.right + 3
            || own.top < box.top - 3 || own.bottom > box.bottom + 3;
    }).map(mark => mark.outerHTML.slice(0, 120));
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser found (looked for {', '.join(BROWSERS)}): apt-get install chromium")
    ARTEFACTS.mkdir(exist_ok=True)
    with driver.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=found, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    reports = {"real": sample.run(), "simulated": sample.run(simulated=True), "awkward": sample.awkward()}
    written = {name: write_report(folder / f"{name}.html", report) for name, report in reports.items()}
    return {**written, **commanded(folder)}


def commanded(folder: Path) -> dict[str, Path]:
    """The reports that `tapgnn evaluate` and `tapgnn fit` write about a small simulated log."""
    log = folder / "payments.csv"
    network = ("--events", 8_000, "--accounts", 500, "--merchants", 80, "--fraud", 0.04, "--seed", 2)
    short = ("--epochs", 2, "--width", 32)
    for words in (
        ("simulate", log, *network),
        ("evaluate", log, "--out", folder / "evaluate", "--seeds", 2, *short),
        ("fit", log, "--out", folder / "fit", "--classify", *short),
    ):
        outcome = tapgnn(*words)
        assert outcome.code == 0, outcome.err
    return {name: folder / name / "report.html" for name in ("evaluate", "fit")}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["real", "simulated", "awkward", "evaluate", "fit"])
def test_a_page_is_quiet_and_fits_every_screen(browser: Any, pages: dict[str, Path], name: str, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(pages[name].as_uri())
    for width in (400, 420, 800, 1280, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        page.locator("summary").click()
        assert page.locator("details table").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.evaluate(TOO_WIDE) == []
        assert page.evaluate(OUTSIDE) == []
        page.locator("summary").click()
        if width in PICTURES:
            page.screenshot(path=ARTEFACTS / f"report-{name}-{scheme}-{width}.png", full_page=True)
    page.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [pages[name].as_uri()]


def test_the_page_of_a_command_has_every_section_and_says_that_the_log_is_simulated(
    browser: Any, pages: dict[str, Path]
) -> None:
    page = browser.new_page()
    shared = {"results", "ranking", "steadiness", "training", "map", "data", "settings"}
    for name, more in (("evaluate", {"negative-types"}), ("fit", {"classification"})):
        page.goto(pages[name].as_uri())
        assert {section.get_attribute("id") for section in page.locator("section[id]").all()} >= shared | more
        assert page.locator(".badge").inner_text().lower() == "simulated data"
        assert page.locator("p.note").count() == 0
        text = page.locator("main").inner_text()
        assert ("test events" in text, "test quer" in text) == ((False, True) if name == "evaluate" else (False, False))
    page.close()


def test_a_dark_screen_and_a_light_one_differ_and_paper_is_light(browser: Any, pages: dict[str, Path]) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(pages["real"].as_uri())
    colour = "getComputedStyle(document.querySelector('section')).backgroundColor"
    dark = page.evaluate(colour)
    page.emulate_media(media="print", color_scheme="dark")
    paper = page.evaluate(colour)
    page.emulate_media(media="screen", color_scheme="light")
    assert dark != page.evaluate(colour) == paper == "rgb(255, 255, 255)"
    page.emulate_media(media="print")
    page.pdf(path=ARTEFACTS / "report-real.pdf", prefer_css_page_size=True)
    page.close()
