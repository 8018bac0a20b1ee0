"""A folder of very many small files is listed, looked through and planned in bounded memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.picture_files import png

SCRIPT = """\
import json, re, sys, time
from pathlib import Path
from diffprep_assets.curate.update import update_curate
from diffprep_assets.shard_plan.update import update_plan
from diffprep_assets.source_index.table import read_index
from tests.cases.looking import looked_through
folder = Path(sys.argv[1])
def peak():
    return int(re.search("VmHWM:[^0-9]*([0-9]+)", Path("/proc/self/status").read_text())[1])
before = peak()
dataset = looked_through(folder, image={"image_size": 16}).dataset
index = read_index(dataset.layout.source_index)
update_curate(dataset, index)
found = update_plan(dataset, index)
kept = sum(shard.num_samples for shard in found.shards)
print(json.dumps([found.listed, kept, time.process_time(), (peak() - before) / 1024]))
"""


# Modules that are loaded on the way take 60 MiB; the rows that `looked_through` keeps come on top.
@pytest.mark.parametrize(
    ("count", "most_mib"), [(2_000, 120), pytest.param(100_000, 700, marks=pytest.mark.long)]
)
def test_very_many_files_are_listed_and_planned_under_a_minute_in_bounded_memory(
    tmp_path: Path, count: int, most_mib: int
) -> None:
    folder = tmp_path / "pictures"
    picture = png((16, 16), 1, 0, bytes(2))
    for number in range(count):
        inner = folder / f"{number // 1000:03d}"
        inner.mkdir(parents=True, exist_ok=True)
        (inner / f"{number}.png").write_bytes(picture if number % 10 else b"")
        (inner / f"{number}.txt").write_bytes(b"a caption")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    listed, kept, seconds, mib = json.loads(run.stdout)
    print(f"{count:,} files: {seconds:.1f} s of CPU, {mib:.0f} MiB above the start")
    assert (listed, kept) == (count, count - count // 10)
    assert seconds < 60
    assert mib < most_mib
