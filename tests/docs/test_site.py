"""The site: it is built without a warning, names all that there is, and loads nothing from another host."""

import re
import shutil
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import sync_playwright

from tapgnn import Config, errors
from tapgnn.model.files import FORMAT as MODEL_FORMAT
from tapgnn.online.journal.journal import FORMAT as JOURNAL_FORMAT
from tapgnn.training.link_prediction import Settings
from tests.online.conftest import fitted, model, rows, server  # noqa: F401

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import site_pages  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


SEARCH = """() => {
    const box = document.querySelector("[data-md-component=search-query]")
    box.focus()
    box.value = box.value === "late events" ? "late event" : "late events"
    box.dispatchEvent(new Event("input", { bubbles: true }))
    return document.querySelector(".md-search-result__item") !== null
}"""


class Links(HTMLParser):
    """What a page refers to: links, and what it loads."""

    def __init__(self, page):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        self.loaded += [given[name] for name in ("src", "data") if tag != "a" and given.get(name)]
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preconnect", "preload", "modulepreload"):
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site): Links(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_within_the_site_leads_somewhere(site, pages):
    assert len(pages) > 40
    for name, page in pages.items():
        for link in page.links:
            target = urlsplit(link)
            if target.scheme or target.netloc or name.name == "404.html":
                continue
            file = (site / name.parent / unquote(target.path)).resolve() if target.path else site / name
            file = file / "index.html" if file.is_dir() else file
            assert file.is_file(), (str(name), link)
            if target.fragment and file.suffix == ".html" and target.fragment != "__codelineno":
                there = pages[file.relative_to(site)].anchors
                assert unquote(target.fragment) in there | {""}, (str(name), link)


def test_nothing_is_loaded_from_another_host_and_search_works_without_a_network(site, pages):
    for name, page in pages.items():
        outside = [address for address in page.loaded if urlsplit(address).netloc]
        assert not outside, (str(name), outside)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", style.read_text()), style
    assert "temporal node" in (site / "search/search_index.json").read_text().lower()


def test_search_finds_a_page_of_a_site_that_is_opened_from_a_disk(site):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no browser found: apt-get install chromium")
    asked = []
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        # Asked until the page listens and its index is read.
        page.wait_for_function(SEARCH, polling=250, timeout=120_000)
        assert "late" in page.text_content(".md-search-result__item").lower()
        opened.close()
    assert not [address for address in asked if address.startswith("http")]


def test_every_command_and_every_option_is_documented_with_what_it_does():
    page = site_pages.command_line()
    seen = 0
    for words, command in site_pages.commands():
        assert f"## {words}\n" in page
        assert command.help, words
        section = page.partition(f"## {words}\n")[2].partition("\n## ")[0]
        for each in command.params:
            assert each.help, (words, each.name)
            assert all(f"`{name}`" in section for name in (*each.opts, *each.secondary_opts) if name.startswith("-"))
            seen += 1
    assert seen > 200


def test_every_route_and_every_metric_of_a_server_is_documented(server):  # noqa: F811
    told = site_pages.http()
    routes = [route for route in server.app.routes if getattr(route, "include_in_schema", False)]
    assert len(routes) > 12
    for route in routes:
        for method in route.methods:
            assert f"## {method} {route.path}\n" in told
            assert route.description, route.path
    with server.http() as http:
        shown = http.get("/metrics").text
    told = site_pages.metrics()
    for name in re.findall(r"^# TYPE (tapgnn_\w+) ", shown, re.MULTILINE):
        assert f"| `{name}` |" in told or name.endswith("_created")


def test_every_setting_and_every_error_is_documented():
    told = site_pages.configuration()
    for kind in (Config, Settings):
        for each in fields(kind):
            assert re.search(rf"^\| `{each.name}` \| \S", told, re.MULTILINE), each.name
    for name, kind in vars(errors).items():
        assert not isinstance(kind, type) or f"| `{name}` |" in site_pages.errors()


def test_every_environment_variable_that_is_read_is_documented():
    told = (ROOT / "docs/reference/environment.md").read_text()
    read = r"(?:envvar=|environ(?:\.get|\.setdefault)?[\[(]|getenv\()\s*\"([A-Z_]+)\""
    for path in (ROOT / "src/tapgnn").rglob("*.py"):
        for name in re.findall(read, path.read_text()):
            assert f"`{name}`" in told, (path.name, name)


def test_the_formats_of_files_are_those_that_are_written():
    promised, described = ((ROOT / f"docs/{name}.md").read_text() for name in ("releasing", "reference/file-formats"))
    for name, number in {"`format` in `model.json`": MODEL_FORMAT, "in its own table": JOURNAL_FORMAT}.items():
        assert f"| {name}, now {number} |" in promised
    assert f"`format` (now {MODEL_FORMAT})" in described
    assert f"one schema of PostgreSQL; format {JOURNAL_FORMAT}." in described
