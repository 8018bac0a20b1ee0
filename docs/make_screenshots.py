"""Screenshots of the demo in the web UI, into docs/images.

python docs/make_screenshots.py [--project DIR]

Needs the dev extra and the system's Chromium. Without --project it makes the demo in a temporary
folder first.
"""

import argparse
import io
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, sync_playwright

IMAGES = Path(__file__).parent / "images"
DIFFPREP = Path(sys.executable).with_name("diffprep")
START_S = 120
SETTLE_MS = 2500
# The graph colours its stages some time after it is drawn.
LOADED_MS = 8000
MAX_BYTES = 200_000
WINDOW: ViewportSize = {"width": 1280, "height": 720}
GRAPH = "/locations/diffprep_assets.definitions/asset-groups/demo"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, help="a project folder that holds the made demo")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        project = options.project or made_demo(Path(name) / "my_project")
        with web_ui(project) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport=WINDOW)
            page.set_default_timeout(60_000)
            take_all(page, address)
            browser.close()


def made_demo(folder: Path) -> Path:
    subprocess.run([DIFFPREP, "new", folder], check=True)
    subprocess.run([DIFFPREP, "demo"], cwd=folder, check=True)
    return folder


@contextmanager
def web_ui(project: Path) -> Iterator[str]:
    """The address of `diffprep ui` for the project."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([DIFFPREP, "ui", "--port", str(port)], cwd=project)
    try:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def take_all(page: Page, address: str) -> None:
    """Every screenshot, each of the page as a person would leave it."""
    page.goto(address + GRAPH)
    page.get_by_text("validate", exact=True).first.wait_for()
    page.get_by_text("Hide navigation").click()
    # A tall window keeps the graph clear of the buttons below it.
    page.set_viewport_size({"width": 1400, "height": 1000})
    page.reload()
    page.wait_for_timeout(LOADED_MS)
    save(page, "asset-graph", height=700)
    page.set_viewport_size(WINDOW)

    page.goto(address + "/assets/demo/shard_plan")
    page.get_by_text("bucket_chart").first.wait_for()
    page.mouse.move(500, 500)
    page.mouse.wheel(0, 350)
    save(page, "asset-page")
    for name, key in (("contact-sheet", "pictures"), ("bucket-chart", "bucket_chart")):
        page.locator("tr", has_text=key).get_by_text("Show Markdown").click()
        save(page, name)
        page.get_by_role("button", name="Close").click()

    page.goto(address + "/assets/demo/encode_latents?view=partitions")
    page.get_by_text(re.compile("^g0-")).first.wait_for()
    page.locator("span", has_text=re.compile("^g0-")).nth(3).click()
    save(page, "partitions")
    run = page.get_by_role("link", name=re.compile("^[0-9a-f]{8}$")).first.get_attribute("href")

    page.goto(address + "/assets/demo/encode_latents")
    page.get_by_text("Plots").first.click()
    save(page, "plots")

    # Without the selection of one step.
    page.goto(f"{address}{str(run).partition('?')[0]}")
    page.get_by_text(re.compile("^(RUN|STEP|ASSET)_")).first.wait_for()
    save(page, "run-log")


def save(page: Page, name: str, *, height: int | None = None) -> None:
    """docs/images/<name>.png, of at most 256 colours; its upper part, if `height` is given."""
    page.wait_for_timeout(SETTLE_MS)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture = picture.crop((0, 0, picture.width, height or picture.height))
    IMAGES.mkdir(exist_ok=True)
    path = IMAGES / f"{name}.png"
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path} takes {size:,} bytes; at most {MAX_BYTES:,} are wanted")
    print(f"{path}: {size:,} bytes")


if __name__ == "__main__":
    main()
