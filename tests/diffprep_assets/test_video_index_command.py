import json
from pathlib import Path

from typer.testing import CliRunner

from diffprep_assets.cli import app
from tests.cases.clip_files import HTML, clip


def test_an_index_is_written_once_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos/0.mp4").write_bytes(clip(frames=6))
    (tmp_path / "videos/1.mp4").write_bytes(HTML)
    (tmp_path / "videos.txt").write_text("0.mp4\n1.mp4\n2.mp4\n")
    (tmp_path / "prompt.txt").write_text("caf\u00e9\ntwo\nthree\n")
    command = ["video-index", str(tmp_path)]
    made = CliRunner().invoke(app, [*command, "--json"])
    assert made.exit_code == 0, made.output
    told = json.loads(made.stdout)
    assert told["clips"] == 1
    assert [one["code"] for one in told["left_out"]] == ["unreadable_video", "source_missing"]
    written = (tmp_path / "videos2caption.json").read_bytes()
    (row,) = json.loads(written)
    assert (row["path"], row["cap"], row["num_frames"]) == ("0.mp4", ["caf\u00e9"], 6)

    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "is there already; --force replaces it" in refused.output
    again = CliRunner().invoke(app, [*command, "--force"])
    assert again.exit_code == 0
    assert "left out videos/1.mp4: unreadable_video" in again.output
    assert (tmp_path / "videos2caption.json").read_bytes() == written


def test_a_folder_without_a_clip_that_can_be_read_gets_no_index(tmp_path: Path) -> None:
    (tmp_path / "videos.txt").write_text("0.mp4\n")
    (tmp_path / "prompt.txt").write_text("one\n")
    refused = CliRunner().invoke(app, ["video-index", str(tmp_path)])
    assert refused.exit_code == 2
    assert "none of the 1 clips can be read" in refused.output
    assert not (tmp_path / "videos2caption.json").exists()
