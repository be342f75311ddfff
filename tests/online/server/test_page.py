"""The page in a real browser: it loads, moves when events arrive, and says so when the server stops."""

import shutil
from pathlib import Path

import pytest

from tapgnn.online.server.service import ServerSettings
from tapgnn.online.server.tokens import Tokens
from tests.online.server.running import running

ARTEFACTS = Path(__file__).parents[3] / "artefacts"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
TOO_WIDE = """() => [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, svg, .skip, [hidden]')
    && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.outerHTML.slice(0, 90))"""


@pytest.fixture(scope="module")
def browser():
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser found (looked for {', '.join(BROWSERS)}): apt-get install chromium")
    ARTEFACTS.mkdir(exist_ok=True)
    with driver.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=found, args=OPTIONS)
        yield opened
        opened.close()


@pytest.fixture
def quiet(browser):
    """Pages that must not complain, nor ask any other host."""
    opened, said, asked = [], [], []

    def open_page(url, **options):
        page = browser.new_page(**options)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        opened.append((page, url))
        return page

    yield open_page
    for page, _ in opened:
        page.close()
    assert [text for text in said if "ERR_CONNECTION_REFUSED" not in text and "401" not in text] == []
    assert all(any(url.startswith(home) for _, home in opened) for url in asked)


def test_it_loads_moves_with_the_stream_and_says_when_the_server_stops(model, rows, tmp_path, quiet):
    from playwright.sync_api import expect

    with running(model, tmp_path / "state.db") as server, server.client() as client:
        page = quiet(server.url)
        page.wait_for_selector("#state.live")
        assert "No events since the server started" in page.locator("#newest").inner_text()
        client.observe(rows[:40])
        expect(page.locator("#newest .node")).to_have_count(40)
        expect(page.locator("#accepted")).to_have_text("40")
        page.wait_for_selector("#map circle")
        assert page.locator("#newest tr").first.locator(".node").first.inner_text() == rows[39][0]
        before = page.locator("#map circle").first.get_attribute("style")
        client.observe(rows[40:120])
        expect(page.locator("#accepted")).to_have_text("120")
        expect(page.locator("#map circle").first).not_to_have_attribute("style", before)
        expect(page.locator("#pace-chart rect")).not_to_have_count(0)
        assert page.locator("#riskiest .meter").count() == 20
    page.wait_for_selector("#state.gone", timeout=15_000)
    assert "not responding" in page.locator("#banner").inner_text()
    page.screenshot(path=ARTEFACTS / "live-gone.png")
    with running(model, tmp_path / "state.db", port=int(server.url.rpartition(":")[2])):
        page.wait_for_selector("#state.live", timeout=15_000)
        assert page.locator("#banner").is_hidden()
        expect(page.locator("#accepted")).to_have_text("120")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_every_screen_and_can_be_used_by_keyboard_alone(model, rows, tmp_path, quiet, scheme):
    with running(model, tmp_path / "state.db") as server, server.client() as client:
        client.observe(rows[:100])
        page = quiet(server.url, color_scheme=scheme)
        page.wait_for_selector("#map circle")
        page.wait_for_selector("#newest .node")
        for width in (360, 768, 1366):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), width
            assert page.evaluate(TOO_WIDE) == []
            page.screenshot(path=ARTEFACTS / f"live-{scheme}-{width}.png", full_page=True)
        page.keyboard.press("/")
        page.keyboard.type(rows[99][0])
        page.keyboard.press("Enter")
        page.wait_for_selector("#card:not([hidden])")
        assert page.locator("#card-title").inner_text() == rows[99][0]
        assert page.locator("#card-history li").count() >= 1
        assert page.locator("#card-suggested .ask").count() == 5
        page.locator("#card-suggested .ask").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#why-causes li")
        page.screenshot(path=ARTEFACTS / f"live-{scheme}-card.png")
        page.keyboard.press("Escape")
        assert page.locator("#card").is_hidden()
        page.locator("#map").focus()
        page.keyboard.press("ArrowRight")
        chosen = page.locator("#map-here").inner_text().partition(":")[0]
        page.keyboard.press("Enter")
        page.wait_for_selector("#card:not([hidden])")
        assert page.locator("#card-title").inner_text() == chosen


def test_colours_follow_the_system_until_told_otherwise(server, quiet):
    page = quiet(server.url, color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(colour)
    assert dark != light
    page.locator("#theme").click()
    assert page.evaluate(colour) == light
    page.locator("#theme").click()
    assert page.evaluate(colour) == dark


def test_a_locked_server_asks_for_a_token(model, rows, tmp_path, quiet):
    tokens = Tokens()
    text = tokens.add("read")
    settings = ServerSettings(tokens=tokens, window=100)
    with running(model, tmp_path / "state.db", settings) as server:
        page = quiet(server.url)
        page.wait_for_selector("#key:not([hidden])")
        page.locator("#token").fill(text)
        page.keyboard.press("Enter")
        page.wait_for_selector("#state.live")
        assert page.locator("#key").is_hidden()
