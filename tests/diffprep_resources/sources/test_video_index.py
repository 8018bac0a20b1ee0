import json
import os
from pathlib import Path

from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.video_index import indexed
from diffprep_resources.sources.video_tables import VideoEntry, merged_entries, raw_entries
from tests.cases.clip_files import HTML, clip


def test_an_index_says_what_the_files_are_and_reads_back(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos/0.mp4").write_bytes(clip(frames=30, rotation=90))
    (tmp_path / "videos/1.mp4").write_bytes(HTML)
    entries = raw_entries(b"0.mp4\n1.mp4\n2.mp4\n../3.mp4\n", b"a\nb\nc\nd\n")
    found = [result for _, result in indexed(entries, root=os.fsencode(tmp_path))]
    assert found[0] == {
        "path": "0.mp4",
        "resolution": {"width": 96, "height": 128},
        "size": (tmp_path / "videos/0.mp4").stat().st_size,
        "fps": 24.0,
        "duration": 1.25,
        "num_frames": 30,
        "cap": ["a"],
    }
    assert [one.code for one in found[1:] if isinstance(one, SampleReject)] == [
        *("unreadable_video", "source_missing", "unsafe_name")
    ]
    (entry,) = merged_entries(json.dumps(found[:1]).encode())
    assert entry == VideoEntry("videos/0.mp4", ["a"], dict(entry.stated))
    assert entry.stated == found[0]
