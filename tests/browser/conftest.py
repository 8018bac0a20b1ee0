"""One project, one `diffprep ui`, one browser for all tests of the web UI."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Page, expect, sync_playwright

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Root may not use the sandbox; the rest keeps Chromium from asking for things of its own.
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
]
# The UI asks its makers for news; without a network that fails.
KNOWN_ERRORS = ("net::ERR_NAME_NOT_RESOLVED", "net::ERR_INTERNET_DISCONNECTED")
START_S = 120
PAGE_S = 60
RUN_S = 120
SETTLE_MS = 1500
LAUNCHED = re.compile("Launched run|Created backfill")
PICTURES = range(12)


@dataclass
class WebUi:
    """Dagster's UI of the project, in a browser. `errors` are the console's."""

    project: "ProjectFolder"
    address: str
    page: Page
    errors: list[str] = field(default_factory=list)

    def open(self, path: str, *, until: str) -> Page:
        """The page at `path`, once it shows the text `until`."""
        self.page.goto(self.address + path)
        self.page.get_by_text(until).first.wait_for()
        return self.page

    def partition(self, stage: str, key: str, *, until: str) -> Page:
        """The stage's page of one partition, once it shows the text `until`."""
        return self.open(f"/assets/set/{stage}?view=partitions&partition={key}", until=until)

    def partition_becomes(self, stage: str, key: str, shown: str, *, gone: str = "") -> Page:
        """The page of one partition, opened again until its heading says the one and nothing of
        the other: some of what a page says, it does not ask for anew."""
        deadline = time.monotonic() + RUN_S
        while True:
            page = self.partition(stage, key, until="Latest materialization")
            page.wait_for_timeout(SETTLE_MS)
            is_shown = page.get_by_text(shown, exact=True).count() > 0
            if is_shown and not (gone and page.get_by_text(gone).count()):
                return page
            assert time.monotonic() < deadline, page.inner_text("body")

    def reload_definitions(self) -> None:
        """What a user does after editing a recipe."""
        page = self.open("/locations/diffprep_assets.definitions/asset-groups/set", until="shard")
        page.get_by_role("button", name="Reload definitions").click()
        page.get_by_text("Definitions reloaded").first.wait_for(timeout=1000 * RUN_S)

    def launch(self, stage: str, keys: list[str]) -> None:
        """Materialise these partitions of a stage, chosen in the dialog."""
        page = self.open(f"/assets/set/{stage}?view=partitions", until=keys[0])
        page.get_by_role("button", name="Materialize").first.click()
        page.get_by_text("Select a partition or create one").click()
        for key in keys:
            page.locator("[class*=menu]").get_by_text(key, exact=True).first.click()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Launch").last.click()
        page.get_by_text(LAUNCHED).first.wait_for()


@pytest.fixture(scope="module")
def made_project(
    tmp_path_factory: pytest.TempPathFactory, empty_project_in: Callable[..., "ProjectFolder"]
) -> Iterator["ProjectFolder"]:
    """A dataset of three shards, with one picture that cannot be read."""
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project_in(tmp_path_factory.mktemp("web"), patch=patch)
        project.write_pictures(PICTURES)
        (project.pictures / "images/broken.jpg").write_bytes(b"no picture")
        (project.pictures / "captions/broken.txt").write_text("a caption")
        project.write_recipe(image={"center_crop": True})
        assert project.run().ok
        yield project


@pytest.fixture(scope="module")
def server(made_project: "ProjectFolder") -> Iterator[str]:
    """The address of `diffprep ui`, which ends with Ctrl-C and leaves no process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = "from diffprep_assets.cli import main; main()"
    command = [sys.executable, "-c", code, "ui", "--port", str(port)]
    command += ["--project", str(made_project.folder)]
    # Not in the project's folder, and without the variables that its `.env` would set.
    unset = {"DAGSTER_HOME", "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS"}
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    log = made_project.folder / "ui.log"
    with log.open("wb") as output:
        started = subprocess.Popen(
            command, cwd=Path(sys.executable).parent, env=environment, stdout=output, stderr=output
        )
    try:
        wait_for(lambda: f"http://127.0.0.1:{port}" in log.read_text(), log=log)
        yield f"http://127.0.0.1:{port}"
    finally:
        group = children_of(started.pid)
        started.send_signal(signal.SIGINT)
        code = started.wait(START_S)
    assert code == 0, log.read_text()
    assert not [pid for pid in group if Path(f"/proc/{pid}").exists()], "left running"


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    found = [path for path in map(shutil.which, BROWSERS) if path]
    if not found:
        pytest.skip(f"needs Chromium: apt-get install chromium (looked for {', '.join(BROWSERS)})")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found[0], args=OPTIONS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(1000 * PAGE_S)
        expect.set_options(timeout=1000 * PAGE_S)
        yield page
        browser.close()


@pytest.fixture(scope="module")
def shared_ui(browser_page: Page, made_project: "ProjectFolder", server: str) -> WebUi:
    ui = WebUi(made_project, server, browser_page)

    def hear(message: Any) -> None:
        if message.type == "error" and not any(known in message.text for known in KNOWN_ERRORS):
            ui.errors.append(message.text)

    browser_page.on("console", hear)
    browser_page.on("pageerror", lambda error: ui.errors.append(str(error)))
    return ui


@pytest.fixture
def web(shared_ui: WebUi) -> Iterator[WebUi]:
    """The UI; after each test the browser's console holds no error."""
    shared_ui.errors.clear()
    yield shared_ui
    assert shared_ui.errors == []


def children_of(parent: int) -> set[int]:
    """All processes below this one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found: set[int] = set()
    waiting = [parent]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting.extend(below)
    return found


def wait_for(done: Callable[[], bool], *, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not done():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
