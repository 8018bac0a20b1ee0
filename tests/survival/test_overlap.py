"""Several runs over the same shards at once, as a backfill over scattered shards starts them."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from diffprep_assets.shard.record import read_samples
from diffprep_resources.compute.base import ComputeEngine, Outcome, Report, Task, WorkerSpec
from diffprep_resources.compute.engines import Engines, Load
from diffprep_resources.compute.inline import InlineEngine

if TYPE_CHECKING:
    from tests.conftest import Drawing
    from tests.survival.conftest import Workplace

Draw = Callable[..., "Drawing"]
Redone = dict[str, tuple[int, int]]
STUCK_S = 120
PROCESSES = 3


class Crowd(Engines):
    """Every stage is done by several processes at once, each of which is given every task."""

    def __init__(self) -> None:
        self.made: dict[str, Counter[str]] = {}

    @contextmanager
    def cpu(self, load: Load) -> Iterator[ComputeEngine]:
        yield _CrowdEngine(self)

    @contextmanager
    def device(
        self, load: Load, *, device: str | None = None, workers: int | None = None
    ) -> Iterator[ComputeEngine]:
        yield _CrowdEngine(self)


class _CrowdEngine(ComputeEngine):
    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd

    def run(self, spec: WorkerSpec, tasks: Sequence[Task], *, report: Report) -> Iterator[Outcome]:
        if len(tasks) > 1:
            made = self.crowd.made[type(spec).__name__] = Counter()
            jobs = [partial(alone, spec, tasks, seed) for seed in range(PROCESSES)]
            for encoded in together(jobs):
                made.update(encoded)
        # Whoever comes last finds all of it done.
        yield from InlineEngine(device="cpu").run(spec, tasks, report=report)


def alone(spec: WorkerSpec, tasks: Sequence[Any], seed: int) -> dict[str, int]:
    """How many samples this process worked on, by task; it takes them in an order of its own."""
    worker = spec.build()
    worker.setup("cpu")
    found = {}
    for task in random.Random(seed).sample(list(tasks), len(tasks)):
        found[task.key] = worker.process(task, lambda *_: None).counts.encoded
    worker.close()
    return found


def together(jobs: Sequence[Callable[[], dict[str, int]]]) -> list[dict[str, int]]:
    """What each job gives, in processes of their own that begin at the same moment."""
    go, started = os.pipe()
    running = []
    for job in jobs:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(STUCK_S)
            os.close(started)
            try:
                os.read(go, 1)
                os.write(writing, json.dumps(job()).encode())
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writing)
        running.append((child, reading))
    os.close(started)
    os.close(go)
    results = []
    for child, reading in running:
        with os.fdopen(reading) as file:
            content = file.read()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        results.append(json.loads(content))
    return results


def fill(workplace: "Workplace", draw: Draw, numbers: Sequence[int], *, version: int = 0) -> None:
    for folder in ("images", "captions"):
        (workplace.pictures / folder).mkdir(parents=True, exist_ok=True)
    for number in numbers:
        drawing = draw(number, version=version)
        (workplace.pictures / "images" / drawing.name).write_bytes(drawing.data)
        text = workplace.pictures / "captions" / f"{drawing.stem}.txt"
        text.write_text(f"{drawing.caption}, {version}", "utf-8")
    workplace.write_recipe(output={"shard_size": 3})


@pytest.mark.parametrize("rounds", [2, pytest.param(12, marks=pytest.mark.long)])
def test_several_at_once_make_each_shard_once_and_right(
    workplace: "Workplace", workplaces: Callable[[str], "Workplace"], drawing: Draw, rounds: int
):
    quiet = workplaces("quiet")
    for number in range(rounds):
        for place in (workplace, quiet):
            fill(place, drawing, range(12) if number == 0 else (1, 4, 7, 10), version=number)
        crowd = Crowd()
        report = workplace.run(engines=crowd)
        assert report.error is None, report.error
        assert quiet.run().error is None
        assert workplace.tar_digests() == quiet.tar_digests()
        # Each sample that wanted it was worked on by one process.
        each = 3 if number == 0 else 1
        shards = [f"g0-64-64x64-{shard:06d}" for shard in range(4)]
        assert crowd.made["LatentsSpec"] == dict.fromkeys(shards, each)
        texts = {key: count for key, count in crowd.made["TextSpec"].items() if "-" in key}
        assert texts == dict.fromkeys(shards, each)
        assert crowd.made["ShardSpec"] == dict.fromkeys(shards, 3)
        assert workplace.leftovers() == []


def test_one_caption_on_every_sample_is_encoded_once_per_shard_without_a_clash(
    workplace: "Workplace", drawing: Draw
):
    fill(workplace, drawing, range(6))
    for path in (workplace.pictures / "captions").iterdir():
        path.write_text("the same words")
    crowd = Crowd()
    report = workplace.run(engines=crowd)
    assert (report.error, report.written) == (None, 6)
    texts = {key: count for key, count in crowd.made["TextSpec"].items() if "-" in key}
    assert list(texts.values()) == [3, 3]
    layout = workplace.dataset().layout
    embeds = set()
    for shard in texts:
        tar = layout.shard_file(shard).read_bytes()
        for row in read_samples(layout.shard_samples(shard)):
            (part,) = [part for part in row.parts if part.name == "prompt_embeds.pth"]
            embeds.add(tar[part.offset : part.offset + part.size])
    assert len(embeds) == 1
    assert workplace.leftovers() == []


@pytest.mark.long
def test_overlapping_runs_of_dagsters_own_command_do_no_harm(workplace: "Workplace", drawing: Draw):
    fill(workplace, drawing, range(12))
    report = json.loads(spoken(workplace.command("run", "set", "--json")))
    assert report["ok"]
    expected = workplace.tar_digests()
    shutil.rmtree(workplace.work / "shards")
    shards = sorted(expected)
    commands = [
        materialize(workplace, f"{first}...{last}")
        for first, last in ((shards[0], shards[2]), (shards[1], shards[3]))
    ]
    for command in commands:
        spoken(command)
    report = json.loads(spoken(workplace.command("run", "set", "--json")))
    assert report["ok"]
    # All four were made before, each by one of the two.
    for stage in ("encode_latents", "encode_text", "shard"):
        assert report["stages"][stage]["shards"] == {"done": 0, "fresh": 4, "failed": 0}
    assert workplace.tar_digests() == expected
    assert workplace.leftovers() == []


def materialize(workplace: "Workplace", keys: str) -> subprocess.Popen:
    """The three stages of shards for a range of them, by `dagster asset materialize`."""
    stages = ",".join(f"set/{stage}" for stage in ("encode_latents", "encode_text", "shard"))
    program = "from dagster._cli import main; main()"
    words = ["asset", "materialize", "-m", "diffprep_assets.definitions"]
    return subprocess.Popen(
        [
            *(sys.executable, "-W", "ignore", "-c", program, *words),
            *("--select", stages, "--partition-range", keys),
        ],
        cwd=workplace.folder,
        env=workplace.environment(),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def spoken(process: subprocess.Popen) -> str:
    """What a command that must succeed says."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]
    return out
