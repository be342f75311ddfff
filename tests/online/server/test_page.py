"""The page in a real browser: it loads, moves when events arrive, and says so when the server stops."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tapgnn.online.server.service import ServerSettings
from tapgnn.online.server.tokens import Tokens
from tests.online.payments import payments
from tests.online.server.running import running

ARTEFACTS = Path(__file__).parents[3] / "artefacts"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MINUS = "\N{MINUS SIGN}"
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
    # A server that is stopped, starts, or asks for a token is told of on the page.
    expected = ("ERR_CONNECTION_REFUSED", "400", "401", "503")
    assert [text for text in said if not any(each in text for each in expected)] == []
    assert all(any(url.startswith(_origin(home)) for _, home in opened) for url in asked)


def _origin(url):
    return url.partition("/docs")[0]


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


CLIPPED = """() => [...document.querySelectorAll('td.number, th.number, td.when')].filter(e => e.checkVisibility()
    && (e.scrollWidth > e.clientWidth
        || e.getBoundingClientRect().right > e.closest('.scroll').getBoundingClientRect().right + 1))
    .map(e => e.textContent)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_risky_event_says_why_and_no_risk_is_clipped(table_model, tmp_path, quiet, scheme):
    rows = [{**row, "timestamp": 1_700_000_000.0 + place} for place, row in enumerate(payments(80, seed=5))]
    with running(table_model, tmp_path / "state.db") as server, server.client() as client:
        client.score_then_observe(rows)
        page = quiet(server.url, color_scheme=scheme)
        page.wait_for_selector("#riskiest .ask")
        assert page.locator("#riskiest .ask").count() == page.locator("#riskiest tr").count() == 20
        for width in (390, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(CLIPPED) == []
            page.locator("#riskiest .ask").nth(2).click()
            page.wait_for_selector("#why-parts li")
            assert page.locator("#why-parts li").count() == 7
            assert page.evaluate(CLIPPED) == []
            terms = [number(text) for text in page.locator("#why-parts .amount").all_inner_texts()]
            whole, base = map(number, re.findall(rf"[+{MINUS}][\d.]+", page.locator("#why-summary").inner_text()))
            assert base + sum(terms) == pytest.approx(whole, abs=0.05)
            assert page.locator("#why-causes li").count() > 0
            page.screenshot(path=ARTEFACTS / f"live-{scheme}-why-{width}.png")
            page.locator("#card-title .node").first.click()
            page.wait_for_selector("#card-history li")
            assert "amount" in page.locator("#card-history").inner_text()
            assert page.evaluate(CLIPPED) == []
            page.screenshot(path=ARTEFACTS / f"live-{scheme}-history-{width}.png")
            page.keyboard.press("Escape")


def number(text):
    return float(text.replace(MINUS, "-"))


def test_numbers_close_to_the_ends_can_be_told_apart(server, quiet):
    values = [0.5, 0.1234, 0.991, 0.995, 0.9962, 0.99961, 0.99962, 0.999998, 1 - 3e-8, 1 - 2e-8, 3e-8, 0.0004, 0.0005]
    page = quiet(server.url)
    shown = page.evaluate("async (values) => values.map((await import('/page/format.js')).percent)", values)
    assert len(set(shown)) == len(values)
    assert shown[:3] == ["50 %", "12 %", "99.10 %"]


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_api_is_documented_and_can_be_tried_on_a_page(model, rows, tmp_path, quiet, scheme):
    from playwright.sync_api import expect

    with running(model, tmp_path / "state.db") as server, server.client() as client, server.http() as http:
        client.observe(rows[:40])
        document = http.get("/openapi.json").json()
        page = quiet(f"{server.url}/docs#post-v1-score", color_scheme=scheme)
        parts = {f"{method}{path.replace('/', '-')}" for path, item in document["paths"].items() for method in item}
        expect(page.locator("#operations details")).to_have_count(len(parts))
        assert parts == set(page.locator("#operations details").evaluate_all("found => found.map((each) => each.id)"))
        assert page.locator("#schemas details").count() == len(document["components"]["schemas"])
        described = page.locator("#post-v1-events").text_content()
        assert all(text in described for text in ("1 to 200 characters", "at least 0", "1 to 10,000 items"))
        # The link opens its part, whose example can be sent as it is, and with another body.
        part = page.locator("#post-v1-score")
        expect(part.locator("textarea")).to_be_visible()
        part.locator("textarea").fill(json.dumps({"pairs": [{"src": rows[0][0], "dst": rows[0][1]}]}))
        assert rows[0][0] in part.get_by_label("Command").inner_text()
        part.locator("button").click()
        answer = part.get_by_label("Answer", exact=True)
        expect(answer).to_contain_text("200 OK")
        assert '"scores"' in answer.inner_text()
        part.locator("textarea").fill("{")
        part.locator("button").click()
        expect(answer).to_contain_text("400 Bad Request")
        for width in (360, 1366):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), width
            page.screenshot(path=ARTEFACTS / f"docs-{scheme}-{width}.png", full_page=True)


def test_the_documentation_of_a_server_with_tokens_sends_the_one_it_is_given(model, tmp_path, quiet):
    from playwright.sync_api import expect

    tokens = Tokens()
    token = tokens.add("read")
    with running(model, tmp_path / "state.db", ServerSettings(tokens=tokens, window=100)) as server:
        page = quiet(f"{server.url}/docs#get-v1-model")
        part = page.locator("#get-v1-model")
        expect(part.locator("summary")).to_contain_text("scope read")
        part.locator("button").click()
        expect(part.get_by_label("Answer", exact=True)).to_contain_text("401")
        page.locator("#token").fill(token)
        page.locator("#key button").click()
        part.locator("button").click()
        expect(part.get_by_label("Answer", exact=True)).to_contain_text("200 OK")
        assert token not in page.content()
