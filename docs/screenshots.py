"""The screenshots in docs/images: the report of a model and the live page, light and dark.

    python docs/screenshots.py MODEL EVENTS

MODEL is a folder of 'tapgnn fit --classify', EVENTS a log that goes on where the model's ends. A server is started on
this machine, the events are replayed into it, and Chromium takes the pictures.
"""

import io
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tapgnn.online import Client

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH, HEIGHT, COLOURS = 1_100, 720, 96
TAPGNN = [sys.executable, "-m", "tapgnn.cli"]


def main(model, events):
    pages = {"report": (Path(model) / "report.html").resolve().as_uri()}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        journal = str(Path(folder) / "state.db")
        command = [*TAPGNN, "serve", model, "--journal", journal, "--port", "0", "--log-level", "error"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                pages["page"] = server.stdout.readline().split()[-1]
                with Client(pages["page"]) as client:
                    while not client.is_ready():
                        time.sleep(0.2)
                subprocess.run([*TAPGNN, "replay", events, "--server", pages["page"]], check=True, capture_output=True)
                browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                for name, address in pages.items():
                    for scheme in ("light", "dark"):
                        take(browser, address, scheme, IMAGES / f"{name}-{scheme}.png")
            finally:
                server.terminate()


def take(browser, address, scheme, target):
    """One picture, in few colours."""
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
    page.goto(address)
    page.wait_for_load_state("networkidle" if address.startswith("file") else "load")
    page.wait_for_timeout(1_500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    page.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
