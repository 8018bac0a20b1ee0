import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from diffprep_resources.clips.choose import ClipSampling
from diffprep_resources.clips.pixels import read_pixels
from diffprep_resources.clips.probe import clip_facts, probe_clip
from diffprep_resources.clips.stated import stated_note
from diffprep_resources.demo.clips import draw_clip, draw_clips, save_clip
from diffprep_resources.demo.words import COLOURS

TWO_SECONDS = replace(draw_clip(0), num_frames=48, fps=Fraction(24), shape="square")


def test_the_table_says_what_the_files_are_and_the_same_seed_draws_the_same(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        draw_clips(tmp_path / name, count=5, seed=3)
    table = tmp_path / "a/videos2caption.json"
    entries = json.loads(table.read_text("utf-8"))
    assert len(entries) == 5
    for entry in entries:
        path = tmp_path / "a/videos" / entry["path"]
        facts = clip_facts(path)
        assert stated_note(facts, entry) is None
        assert facts.notes == ()
        assert path.read_bytes() == (tmp_path / "b/videos" / entry["path"]).read_bytes()
    assert table.read_bytes() == (tmp_path / "b/videos2caption.json").read_bytes()


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_a_turned_clip_shows_its_shape_where_it_was_drawn(turn: int, tmp_path: Path) -> None:
    drawn = replace(TWO_SECONDS, turn=turn, move="moving to the right", width=256, height=144)
    save_clip(drawn, tmp_path / "a.mp4")
    sampling = ClipSampling(frame_counts=(29,))
    wanted = probe_clip(tmp_path / "a.mp4", sampling=sampling, source_key="a.mp4").wanted_pts
    pixels = read_pixels(tmp_path / "a.mp4", wanted_pts=wanted, width=256, height=144)
    colour = np.array(COLOURS[drawn.colour])
    # The shape's middle starts a sixth of the height from the left edge, and ends as far from the
    # right one.
    for frame, column in ((pixels[0], 24), (pixels[14], 128)):
        assert np.abs(frame[72, column].astype(int) - colour).max() < 25
    assert np.abs(pixels[0][72, 200].astype(int) - colour).max() > 25


def test_clips_are_of_several_lengths_sizes_and_rates() -> None:
    drawn = [draw_clip(index) for index in range(40)]
    assert len({(clip.width, clip.height) for clip in drawn}) == 4
    assert len({clip.fps for clip in drawn}) == 4
    assert 0 < sum(clip.turn != 0 for clip in drawn) < 12
    assert all(1.4 < clip.num_frames / clip.fps < 4.1 for clip in drawn)
