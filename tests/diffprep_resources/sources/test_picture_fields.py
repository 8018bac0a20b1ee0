"""Fields of loose pictures, from JSON files and metadata files."""

import json
from pathlib import Path

from diffprep_resources.sources.base import FileStamp, PlainText
from diffprep_resources.sources.directory import DirectorySource
from diffprep_resources.sources.fields import FieldKeys
from diffprep_resources.sources.hub_folder import HubFolderSource
from diffprep_resources.sources.hub_layout import HubChoice


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def values(source: DirectorySource | HubFolderSource, *names: str) -> dict[str, tuple]:
    stamps = source.field_stamps(source.stamps(file.path for file in source.listing().files))
    return {found.source_key: found.values for found in source.fields(stamps, names)}


def test_json_beside_a_text_caption_is_found_and_stamped(tmp_path: Path) -> None:
    write(tmp_path, **{"images/a.png": "", "captions/a.txt": "words", "captions/a.json": "{}"})
    (tmp_path / "captions/a.json").write_text('{"score": 5, "json": {"score": 6}}')
    source = DirectorySource(tmp_path)
    assert values(source, "score", "json.score") == {"images/a.png": (5, 6)}
    stamps = list(source.stamps(["images/a.png"]))
    assert stamps[0].caption_path == "captions/a.txt"
    before = list(source.field_stamps(stamps))
    (tmp_path / "captions/a.json").write_text('{"score": 55555}')
    assert list(source.field_stamps(stamps)) != before
    assert values(source, "json.score") == {"images/a.png": (55555,)}


def test_a_metadata_file_above_holds_fields_where_no_json_does(tmp_path: Path) -> None:
    rows = ["file_name,score,note", "a.png,5,x", "deep/b.png,,", "a.png,7,y", "c.png,9,z"]
    write(tmp_path, **{"metadata.csv": "\n".join(rows), "a.png": "", "deep/b.png": ""})
    write(tmp_path, **{"c.png": "", "c.json": '{"score": 1}', "a.txt": "words"})
    source = DirectorySource(tmp_path)
    assert values(source, "score", "note") == {
        "a.png": ("5", "x"),
        "c.png": (1, None),
        "deep/b.png": (None, None),
    }
    assert isinstance(values(source, "score")["a.png"][0], PlainText)
    names = source.field_names(source.field_stamps(source.stamps(["a.png"])))
    assert names == {"file_name", "score", "note"}


def test_a_hub_folder_of_pictures_has_the_fields_of_its_metadata(tmp_path: Path) -> None:
    rows = [{"file_name": f"{n}.png", "text": "t", "meta": {"score": n / 2}} for n in range(3)]
    write(tmp_path, **{"train/metadata.jsonl": "\n".join(map(json.dumps, rows))})
    write(tmp_path, **{f"train/{n}.png": "" for n in range(3)})
    source = HubFolderSource(str(tmp_path), choice=HubChoice(), keys=FieldKeys())
    expected = {f"train/{n}.png": (n / 2, "t") for n in range(3)}
    assert values(source, "meta.score", "text") == expected


def test_files_that_cannot_be_read_give_no_values(tmp_path: Path) -> None:
    write(tmp_path, **{"a.png": "", "a.json": "{broken", "b.png": "", "b.json": "[1, 2]"})
    write(tmp_path, **{"c.png": "", "c.txt": "words"})
    source = DirectorySource(tmp_path)
    assert set(values(source, "score").values()) == {(None,)}
    gone = FileStamp("d.png", 0, 0, 0, caption_path="d.json")
    assert [found.values for found in source.fields([gone], ["score"])] == [(None,)]
