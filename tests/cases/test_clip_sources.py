"""Each kind of source of clips, looked through by `source_index`, `download` and `bucket`."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_resources.errors import SettingError
from tests.cases.clip_files import HTML, clip
from tests.cases.looking import LookedThrough, looked_through, put
from tests.conftest import write_tar

if TYPE_CHECKING:
    from tests.hub_server import DatasetHub

VIDEO = {"max_width": 64, "max_height": 48, "num_frames": 5, "train_fps": 16}
REPO = "owner/clips"


@pytest.fixture(scope="module")
def data() -> bytes:
    """A second of 128x96 at 24 frames a second."""
    return clip(frames=24)


def looked(folder: Path, **source: Any) -> LookedThrough:
    found = source or {"type": "directory", "input_dir": "clips"}
    return looked_through(folder, source=found, video=VIDEO)


def merged(**captions: Any) -> list[dict[str, Any]]:
    return [{"path": name.replace("_", "."), "cap": cap} for name, cap in captions.items()]


def test_what_a_merged_table_says_is_held_against_the_file(tmp_path: Path, data: bytes) -> None:
    facts = {"resolution": {"width": 1280, "height": 720}, "fps": 24.0, "num_frames": 192}
    table = [{"path": "a.mp4", "cap": ["one"], **facts}, *merged(b_mp4=["two"], gone_mp4="three")]
    put(
        tmp_path / "clips",
        {
            "videos2caption.json": [*table, {"path": "../../secret.mp4", "cap": ["four"]}],
            "videos/a.mp4": data,
            "videos/b.mp4": HTML,
            "videos/c.mp4": data,
            "videos/first.jpg": b"a thumbnail",
        },
    )
    found = looked(tmp_path)
    row = found.kept["videos/a.mp4"]
    assert (row.caption, row.original_width, row.num_frames, row.width) == ("one", 128, 5, 64)
    assert row.notes == (
        "the table says 1280x720, 192 frames; taken from the file: 128x96, 24 frames",
    )
    assert found.codes == {
        "videos/b.mp4": "unreadable_video",
        "videos/c.mp4": "no_caption",
        "videos/gone.mp4": "source_missing",
        "videos2caption.json::3": "unsafe_name",
    }
    assert found.other_files == {".jpg": 1}
    put(tmp_path / "clips", {"videos/gone.mp4": data})
    again = looked(tmp_path)
    assert again.captions == {"videos/a.mp4": "one", "videos/gone.mp4": "three"}
    assert again.num_read == 1


def test_a_raw_folder_and_a_folder_with_texts_beside(tmp_path: Path, data: bytes) -> None:
    put(
        tmp_path / "clips",
        {
            "videos.txt": "1.mp4\nvideos/0.mp4\n2.mp4",
            "prompt.txt": "one\nzero\n\n",
            **{f"videos/{number}.mp4": data for number in range(3)},
        },
    )
    found = looked(tmp_path)
    assert found.captions == {"videos/0.mp4": "zero", "videos/1.mp4": "one"}
    assert found.codes == {"videos/2.mp4": "no_caption"}
    put(tmp_path / "plain", {"a.mov": data, "a.txt": "a cat", "b.mp4": data})
    plain = looked(tmp_path, type="directory", input_dir="plain")
    assert (plain.captions, plain.codes) == ({"a.mov": "a cat"}, {"b.mp4": "no_caption"})


def test_clips_of_tars_are_read_where_they_lie(tmp_path: Path, data: bytes) -> None:
    members = {
        "a.mp4": data,
        "a.txt": b"one",
        "a.jpg": b"a first frame",
        "b.webm": data,
        "b.json": b'{"caption": "two"}',
        "c.mp4": HTML,
        "c.txt": b"three",
        "d.txt": b"four",
    }
    (tmp_path / "clips").mkdir()
    write_tar(tmp_path / "clips/0.tar", members)
    whole = (tmp_path / "clips/0.tar").read_bytes()
    (tmp_path / "clips/1.tar").write_bytes(whole[: 512 + len(data) // 2])
    found = looked(tmp_path, type="webdataset", input_path="clips/*.tar")
    assert found.captions == {"0.tar::a": "one", "0.tar::b": "two"}
    assert found.codes == {
        "0.tar::c": "unreadable_video",
        "1.tar::(file)": "truncated_archive",
    }
    assert found.other_files == {".txt without a clip": 1}


def test_rows_hold_clips_or_name_them(tmp_path: Path, data: bytes) -> None:
    put(tmp_path / "set", {"deep/a.mp4": data})
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = [
        {"bytes": data, "path": "x.mp4"},
        {"bytes": None, "path": "deep/a.mp4"},
        None,
        {"bytes": None, "path": "../../etc/passwd"},
        {"bytes": None, "path": "deep/gone.mp4"},
    ]
    table = pa.table({"video": pa.array(cells, kind), "caption": ["one", "two", "3", "4", "5"]})
    pq.write_table(table, tmp_path / "set/train.parquet", row_group_size=2)
    found = looked(tmp_path, type="huggingface", hf_dataset="./set")
    assert found.captions == {"train.parquet::0": "one", "train.parquet::1": "two"}
    assert found.codes == {
        "train.parquet::2": "no_image",
        "train.parquet::3": "unsafe_name",
        "train.parquet::4": "source_missing",
    }


def test_a_merged_folder_on_the_hub_loses_nothing(
    tmp_path: Path, data: bytes, hub: "DatasetHub"
) -> None:
    table = merged(a_mp4=["one"], gone_mp4=["two"])
    files = {
        "videos2caption.json": json.dumps(table).encode(),
        "videos/a.mp4": data,
        "videos/train 1.mp4": data,
        "README.md": b"# clips",
    }
    hub.add(REPO, files)
    source = {"type": "huggingface", "hf_dataset": REPO}
    found = looked(tmp_path, **source)
    assert found.captions == {"videos/a.mp4": "one"}
    assert found.codes == {"videos/gone.mp4": "source_missing", "videos/train 1.mp4": "no_caption"}
    hub.add(REPO, {**files, "videos/gone.mp4": data})
    again = looked(tmp_path, **source, hf_revision="main")
    assert again.captions == {"videos/a.mp4": "one", "videos/gone.mp4": "two"}
    # The table is asked for once to list, once to keep; then it is here.
    assert hub.fetched()["videos2caption.json"] == 2


def test_a_raw_folder_on_the_hub_is_refused_with_the_way_out(
    tmp_path: Path, hub: "DatasetHub"
) -> None:
    hub.add(REPO, {"videos.txt": b"0.mp4", "prompt.txt": b"zero", "videos/0.mp4": b"x"})
    with pytest.raises(SettingError, match="on this machine only; fetch it and run `diffprep vid"):
        looked(tmp_path, type="huggingface", hf_dataset=REPO)


def test_a_table_on_the_hub_and_a_folder_of_clips_with_metadata(
    tmp_path: Path, data: bytes, hub: "DatasetHub"
) -> None:
    buffer = io.BytesIO()
    cells = [{"bytes": data, "path": None}]
    pq.write_table(pa.table({"video": cells, "prompt": ["one"]}), buffer)
    hub.add(REPO, {"data/train-00000-of-00001.parquet": buffer.getvalue()})
    found = looked(tmp_path, type="huggingface", hf_dataset=REPO)
    assert list(found.captions.values()) == ["one"]
    rows = b'{"file_name": "a.mp4", "text": "two"}\n'
    hub.add("owner/loose", {"train/a.mp4": data, "train/metadata.jsonl": rows})
    loose = looked_through(
        tmp_path,
        "loose",
        source={"type": "huggingface", "hf_dataset": "owner/loose"},
        video=VIDEO,
    )
    assert loose.captions == {"train/a.mp4": "two"}
