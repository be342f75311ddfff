"""Pages of the site that are generated from the program: commands, routes, settings, metrics, errors.

A hook of MkDocs (`mkdocs.yml`), and importable by the test that compares the pages with the program. Each function of
PAGES gives the Markdown of one page.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority
from mkdocs.utils import get_relative_url

FOREIGN_SCRIPT, OWN_SCRIPT = "https://unpkg.com/iframe-worker/shim", "assets/file_worker.js"
ROOT = Path(__file__).resolve().parent.parent
if str(ROOT / "src") not in sys.path:
    sys.path.insert(0, str(ROOT / "src"))


@event_priority(100)  # before mkdocstrings takes the extensions
def on_config(config: Any) -> Any:
    """Show the doctests of docstrings as code."""
    from markdown.extensions import Extension
    from markdown.preprocessors import Preprocessor

    class Fences(Preprocessor):
        def run(self, lines: list[str]) -> list[str]:
            return fenced(lines)

    class Doctests(Extension):
        def extendMarkdown(self, md: Any) -> None:  # noqa: N802
            # Before the fences of pymdownx, which have priority 25.
            md.preprocessors.register(Fences(md), "doctests", 40)

    config.markdown_extensions.append(Doctests())
    return config


def fenced(lines: list[str]) -> list[str]:
    """Lines with a fence around every doctest that has none.

    >>> fenced(["text", ">>> 1 + 1", "2", "", "more"])
    ['text', '```pycon', '>>> 1 + 1', '2', '```', '', 'more']
    """
    found, inside, foreign = list[str](), False, False
    for line in lines:
        foreign ^= line.startswith("```")
        if not inside and not foreign and line.startswith(">>> "):
            found.append("```pycon")
            inside = True
        elif inside and not line.strip():
            found.append("```")
            inside = False
        found.append(line)
    return [*found, "```"] if inside else found


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The plugin for pages without a server loads a script from another host; ours does its work."""
    return output.replace(FOREIGN_SCRIPT, get_relative_url(OWN_SCRIPT, page.url))


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    """The same on 404.html."""
    return output.replace(FOREIGN_SCRIPT, f"/{OWN_SCRIPT}")


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for name, make in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links out of docs/ (to deploy/, tests/, ...) have no page: their text stays, as code."""
    return re.sub(
        r"\[`?([^]`]+)`?\]\(\.\./(?:deploy|tests|examples|benchmarks|src|CHANGELOG|CONTRIBUTING)[^)]*\)",
        r"`\1`",
        markdown,
    )


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its words."""
    import typer

    from tapgnn.cli.app import app

    def walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        for name, member in getattr(command, "commands", {}).items():
            yield from walk(f"{words} {name}", member)
        if not hasattr(command, "commands"):
            yield words, command

    return walk("tapgnn", typer.main.get_command(app))


def command_line() -> str:
    """The commands with all arguments and options."""
    lines = [
        "# Command line\n",
        "Every command with its arguments and options, as `tapgnn COMMAND --help` shows them. Exit codes: 0 done, "
        "1 the work could not be done completely, 2 a mistake in the call or in the data (one line says which), "
        "130 stopped by Ctrl-C.\n",
    ]
    for words, command in commands():
        lines += [f"## {words}\n", *(f"{part}\n" for part in paragraphs(command.help or ""))]
        given = [each for each in command.params if each.param_type_name == "argument"]
        usage = " ".join([words, *(each.metavar for each in given if each.metavar), "[OPTIONS]"])
        lines += [f"```text\n{usage}\n```\n", "| | | default |", "|---|---|---|"]
        lines += [f"| {names(each)} | {cell(each.help or '')} | {cell(default(each))} |" for each in command.params]
        lines.append("")
    return "\n".join(lines)


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a help text; its examples become a block of code."""
    found = []
    for part in re.sub(r"\[/?(?:cyan|bold|dim)\]", "", text).replace("\b", "").strip().split("\n\n"):
        lines = part.strip().splitlines()
        is_code = bool(lines) and all(line.lstrip().startswith(("tapgnn ", "$ ")) for line in lines)
        found.append("```text\n" + "\n".join(line.strip() for line in lines) + "\n```" if is_code else cell(part))
    return found


def names(parameter: Any) -> str:
    """How a parameter is written."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    shown = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    return f"{shown} {cell(parameter.metavar or '')}".strip()


def default(parameter: Any) -> str:
    """The default that help shows."""
    if parameter.required:
        return "required"
    shown = getattr(parameter, "show_default", None)
    if isinstance(shown, str):
        return shown
    return "" if parameter.default in (None, False, (), []) or callable(parameter.default) else f"{parameter.default}"


def cell(text: str) -> str:
    """A text as one cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


@cache
def served() -> tuple[dict[str, Any], str]:
    """The OpenAPI document and the metrics of a server over a small model."""
    from tapgnn import TAPGNN
    from tapgnn.data.simulation.payment_stream import simulate
    from tapgnn.online import Engine
    from tapgnn.online.server.app import make_app
    from tapgnn.online.server.service import ServerSettings, Service

    with tempfile.TemporaryDirectory() as folder:
        model = TAPGNN(width=8, epochs=1).fit(simulate(400, accounts=60, merchants=20, days=20))
        model.save(folder)
        service = Service(lambda: Engine.open(folder, str(Path(folder) / "state.db")), ServerSettings(), ())
        return asyncio.run(asked(service, make_app(service, model.model_.config)))


async def asked(service: Any, app: Any) -> tuple[dict[str, Any], str]:
    """What an application answers once its service is ready."""
    import httpx

    service.start()
    try:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            while (await client.get("/readyz")).status_code != 200:
                if service.failure is not None:
                    raise service.failure
                await asyncio.sleep(0.01)
            return (await client.get("/openapi.json")).json(), (await client.get("/metrics")).text
    finally:
        await asyncio.to_thread(service.close)


def http() -> str:
    """The routes."""
    document, _ = served()
    lines = [
        "# HTTP\n",
        f"{cell(document['info']['description'])}\n",
        "A running server has the same, with the columns of its own model, at `/openapi.json` and, as a page that "
        "sends requests, at `/docs`. [The server](../server.md) says what the routes mean.\n",
    ]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            lines += [
                f"## {method.upper()} {path}\n",
                f"{cell(operation.get('description') or operation['summary'])}\n",
            ]
            example = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            if example is not None:
                lines.append(f"```json\n{json.dumps(example)}\n```\n")
            if operation.get("parameters"):
                lines += ["| parameter | |", "|---|---|"]
                lines += [
                    f"| `{each['name']}` | {cell(each.get('description', ''))} |" for each in operation["parameters"]
                ]
                lines.append("")
            lines += ["| status | |", "|---|---|"]
            lines += [f"| {code} | {cell(each['description'])} |" for code, each in operation["responses"].items()]
            lines.append("")
    return "\n".join(lines)


def metrics() -> str:
    """What /metrics reports."""
    _, text = served()
    lines = [
        "# Metrics\n",
        "What `GET /metrics` reports, in the format of Prometheus. Alerts and a dashboard for them: "
        "[deployment](../deployment.md#alerts-and-dashboard).\n",
        "| metric | type | |",
        "|---|---|---|",
    ]
    about = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        if not name.endswith("_created"):
            lines.append(f"| `{name}` | {kind} | {cell(about[name])} |")
    return "\n".join(lines) + "\n"


def configuration() -> str:
    """The settings of model and training, and where each can be given."""
    from tapgnn import TAPGNN, Config
    from tapgnn.cli.options import TrainingOptions
    from tapgnn.training.link_prediction import Settings

    options = {each.name: each.metadata["option"] for each in fields(TrainingOptions)}
    presets = {name: TAPGNN(name).resolved() for name in ("adaptive", "paper", "published")}
    lines = [
        "# Configuration\n",
        "Every setting of model and training has the same name in Python (`TAPGNN(width=32)`, or in `options={...}`), "
        "on the command line (`--width 32`) and in a file for `--config` (`width = 32`). The default depends on the "
        "preset. What is measured on the log is not set.\n",
    ]
    for title, kind, part in (("Model", Config, "model"), ("Training", Settings, "training")):
        lines += [f"## {title}\n", "| setting | | adaptive | paper | published |", "|---|---|---|---|---|"]
        for each in fields(kind):
            about = options[each.name].help if each.name in options else "Measured on the log."
            values = [value(presets[name][part][each.name]) for name in presets]
            lines.append(f"| `{each.name}` | {cell(about)} | {' | '.join(values)} |")
        lines.append("")
    return "\n".join(lines)


def value(given: Any) -> str:
    """A value in a cell."""
    if isinstance(given, list | tuple):
        return cell(", ".join(f"{each:.4g}" if isinstance(each, float) else str(each) for each in given))
    return cell(f"{given:.4g}" if isinstance(given, float) else given)


def errors() -> str:
    """The errors, as a tree."""
    from tapgnn import errors

    found = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    lines = [
        "# Errors\n",
        "Every error that a caller can cause is a `TapgnnError` of `tapgnn.errors`, and its message says what was "
        "expected, what came, where, and the cure. On the command line it is one line and exit code 2; over HTTP a "
        "problem document ([HTTP](http.md)).\n",
        "| error | also a | |",
        "|---|---|---|",
    ]
    lines += [f"| `{name}` | {bases(kind)} | {cell(inspect.getdoc(kind) or '')} |" for name, kind in found.items()]
    return "\n".join(lines) + "\n"


def bases(kind: type) -> str:
    return ", ".join(f"`{each.__name__}`" for each in kind.__bases__)


PAGES: Mapping[str, Any] = {
    "command-line": command_line,
    "http": http,
    "metrics": metrics,
    "configuration": configuration,
    "errors": errors,
}
