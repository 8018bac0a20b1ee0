"""Run as a script: makes dataset `warm`, then dataset `many`, and watches its own memory.

    python measured_run.py PROJECT

Prints one JSON line: the report of `many`, and by how many bytes each stage of it took this
process above what it held before. Anonymous resident memory is counted: mapped files are the
kernel's to drop, and a reservation is not yet a use.
"""

import contextlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from diffprep_assets.project import find_project
from diffprep_assets.run_command import RunRequest, run_dataset
from diffprep_resources.progress.base import Log, Show, StageSummary
from diffprep_resources.progress.silent import SilentProgress

EVERY_S = 0.002


class StagePeaks(SilentProgress):
    """Notes the peak of each stage, looked at from a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.before = anonymous_bytes()
        self.peaks: dict[str, int] = {}
        self._stage = "between"
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    @contextlib.contextmanager
    def _shown(self, summary: StageSummary, tell: Log) -> Iterator[Show]:
        self._stage = summary.stage
        with super()._shown(summary, tell) as show:
            yield show

    def close(self) -> dict[str, int]:
        """Bytes above what was held before, by stage."""
        self._stop.set()
        self._watcher.join()
        return {stage: peak - self.before for stage, peak in self.peaks.items()}

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            stage, now = self._stage, anonymous_bytes()
            self.peaks[stage] = max(now, self.peaks.get(stage, 0))


def anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no RssAnon")


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    project = find_project(folder, folder)

    def run(name: str, progress: SilentProgress) -> dict[str, Any]:
        request = RunRequest(project, project.recipe_path(name), {}, {})
        return run_dataset(request, progress, say=lambda _: None).as_json()

    warm = run("warm", SilentProgress())
    watched = StagePeaks()
    report = run("many", watched) if warm["ok"] else warm
    print(json.dumps({"report": report, "grown": watched.close()}))


if __name__ == "__main__":
    main()
