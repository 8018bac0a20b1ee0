"""tests/pipeline/test_fastvideo.py has the list of a whole dataset."""

import json
from pathlib import Path

from diffprep_assets.fastvideo_prepare.clips_list import (
    clip_line,
    clips_lists,
    write_clips_lists,
)
from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.members import Member
from diffprep_assets.shard_plan.plan import Bucket, Candidate, PlannedSample
from diffprep_resources.sources.base import Location


def test_a_line_has_the_clips_path_and_its_caption():
    bucket = Bucket(16, 32, 16, 5)
    sample = Candidate("videos/7.mp4", "g", "p00000", "i", "c", bucket, (0, 0, 32, 16))
    planned = PlannedSample(7, "train", "s", sample)
    member = Member(planned, "caf\u00e9", 32, 16, Location("videos/7.mp4"))
    line = clip_line(member, source_folder=Path("/clips"))
    assert json.loads(line) == {"video": "/clips/videos/7.mp4", "prompt": "caf\u00e9"}
    assert "caf\u00e9" in line


def test_a_list_that_nobody_asks_for_any_more_goes(tmp_path: Path):
    layout = Layout(tmp_path / "storage", "demo", tmp_path / "out", "fastvideo")
    for folder in (layout.output_dir, layout.output_dir / "32x16x5"):
        folder.mkdir(exist_ok=True)
        (folder / "clips.jsonl").write_text("{}")
    assert len(clips_lists(layout.output_dir)) == 2
    write_clips_lists(layout, [], source_folder=None)
    assert clips_lists(layout.output_dir) == []
