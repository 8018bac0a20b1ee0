import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_resources.errors import SettingError, SourceChangedError
from diffprep_resources.sources.base import SourceSample
from diffprep_resources.sources.fields import field_keys
from diffprep_resources.sources.hub_layout import HubChoice
from diffprep_resources.sources.huggingface import HuggingFaceSource

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def put(root: Path, name: str, rows: int | None = None, **columns: Any) -> Path:
    """A parquet file of the columns; struct images where `image` is a list of dicts."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {
        key: value if isinstance(value, pa.Array) else pa.array(value)
        for key, value in columns.items()
    }
    pq.write_table(pa.table(arrays), path, row_group_size=rows, use_dictionary=False)
    return path


def images(*values: bytes | None) -> pa.Array:
    return pa.array([None if v is None else {"bytes": v, "path": None} for v in values], IMAGE)


def read(source: HuggingFaceSource) -> dict[str, SourceSample]:
    samples = list(source.samples(source.stamps(f.path for f in source.listing().files)))
    found = {sample.source_key: sample for sample in samples}
    assert len(found) == len(samples)
    return found


def values(root: Path, **keys: Any) -> list[tuple[bytes | None, object]]:
    source = HuggingFaceSource(root, keys=field_keys(**keys))
    return [(sample.image, sample.caption) for sample in read(source).values()]


def test_rows_of_a_dataset_that_datasets_itself_wrote_come_back(tmp_path: Path) -> None:
    import datasets
    from PIL import Image

    Image.new("RGB", (8, 6), "red").save(tmp_path / "red.png")
    Image.new("RGB", (4, 4), "blue").save(tmp_path / "blue.png")
    files = [tmp_path / "red.png", tmp_path / "blue.png"]
    pictures = [*({"bytes": file.read_bytes(), "path": file.name} for file in files), None]
    made = datasets.Dataset.from_dict({"image": pictures, "text": ["r", "b", None]})
    folder = tmp_path / "set/data"
    folder.mkdir(parents=True)
    made.cast_column("image", datasets.Image()).to_parquet(
        str(folder / "train-00000-of-00001.parquet")
    )
    name = "data/train-00000-of-00001.parquet"
    found = read(HuggingFaceSource(tmp_path / "set"))
    assert list(found) == [f"{name}::0", f"{name}::1", f"{name}::2"]
    red, blue, null = found.values()
    assert (red.image, red.caption) == ((tmp_path / "red.png").read_bytes(), "r")
    assert (blue.image, blue.caption) == ((tmp_path / "blue.png").read_bytes(), "b")
    assert null.reject is not None
    assert null.reject.code == "no_image"


def test_files_are_listed_with_their_row_counts_and_others_are_counted(tmp_path: Path) -> None:
    put(tmp_path, "data/train-00001-of-00002.parquet", image=images(b"1"), text=["x"])
    put(tmp_path, "data/train-00000-of-00002.parquet", image=images(b"1", b"2"), text=["x", "y"])
    put(tmp_path, "data/test-00000-of-00001.parquet", image=images(b"1"), text=["x"])
    (tmp_path / "README.md").write_text("# A dataset")
    (tmp_path / ".gitattributes").write_text("")
    listing = HuggingFaceSource(tmp_path).listing()
    assert [(file.path, file.num_samples) for file in listing.files] == [
        ("data/train-00000-of-00002.parquet", 2),
        ("data/train-00001-of-00002.parquet", 1),
    ]
    assert listing.other_files == {".md": 1, "parquet of another split": 1}


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())]
)
def test_plain_binary_columns_hold_pictures_too(tmp_path: Path, kind: pa.DataType) -> None:
    put(tmp_path, "a.parquet", jpg=pa.array([b"1", None, b"3"]).cast(kind), caption=["x", "y", "z"])
    assert values(tmp_path) == [(b"1", "x"), (None, None), (b"3", "z")]


def test_captions_are_handed_on_as_they_are(tmp_path: Path) -> None:
    put(
        tmp_path,
        "a.parquet",
        image=images(b"1", b"2", b"3"),
        text=[["a", None, ""], None, []],
        meta=[{"caption": "deep", "n": 5}, None, {"caption": None, "n": 6}],
        json=['{"prompt": "from json"}', "no json", None],
        number=[1, 2, None],
    )
    assert [caption for _, caption in values(tmp_path)] == [["a", None, ""], None, []]
    for key, expected in [
        ("meta.caption", ["deep", None, None]),
        ("meta.n", [5, None, 6]),
        ("meta", ["deep", None, None]),
        ("json.prompt", ["from json", None, None]),
        ("number", [1, 2, None]),
    ]:
        assert [caption for _, caption in values(tmp_path, caption_key=key)] == expected


def test_the_first_key_with_a_usable_column_is_taken_for_every_row(tmp_path: Path) -> None:
    put(
        tmp_path,
        "a.parquet",
        image=[1, 2],
        png=[b"a", b"b"],
        caption=[None, "c"],
        text=["t", "t"],
    )
    assert values(tmp_path) == [(b"a", None), (b"b", "c")]


def test_a_column_whose_name_holds_a_dot_is_found(tmp_path: Path) -> None:
    table = pa.table({"odd.name": ["o"], "odd": [{"name": "inner"}], "image": images(b"a")})
    pq.write_table(table, tmp_path / "a.parquet")
    assert values(tmp_path, caption_key="odd.name") == [(b"a", "o")]


def test_a_dataset_without_a_known_column_is_refused_with_its_columns(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", pixels=[b"1"], words=["x"])
    with pytest.raises(SettingError, match=r"pictures.*\['pixels', 'words'\].*image_key"):
        HuggingFaceSource(tmp_path).listing()
    with pytest.raises(SettingError, match=r"captions.*\['pixels', 'words'\].*caption_key"):
        HuggingFaceSource(tmp_path, keys=field_keys(image_key="pixels")).listing()
    put(tmp_path, "a.parquet", image=[[1.0]], text=["x"])
    with pytest.raises(SettingError, match="image is list"):
        HuggingFaceSource(tmp_path).listing()


def test_pictures_named_by_path_are_read_from_the_dataset_folder_only(tmp_path: Path) -> None:
    root = tmp_path / "set"
    cells = [
        "img/1.jpg",
        "2.jpg",
        "gone.jpg",
        "../secret.jpg",
        "/etc/passwd",
        "https://x.org/a.jpg",
    ]
    rows = [{"bytes": None, "path": cell} for cell in cells]
    put(
        root,
        "data/a.parquet",
        image=pa.array([*rows, {"bytes": None, "path": None}], IMAGE),
        text=["x"] * 7,
    )
    (root / "img").mkdir()
    (root / "img/1.jpg").write_bytes(b"one")
    (root / "data/2.jpg").write_bytes(b"two")
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    source = HuggingFaceSource(root)
    found = list(read(source).values())
    assert [sample.image for sample in found[:2]] == [b"one", b"two"]
    assert [sample.reject.code for sample in found[2:] if sample.reject] == [
        "source_missing",
        "unsafe_name",
        "unsafe_name",
        "source_missing",
        "no_image",
    ]
    assert source.read_image(found[1].location) == b"two"


def test_a_file_with_an_unreadable_footer_is_one_reject_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    put(tmp_path, "b.parquet", image=images(b"1"), text=["x"])
    whole = (tmp_path / "b.parquet").read_bytes()
    for name, data in [("a", b""), ("c", whole[:-20]), ("d", b"<html>" * 99)]:
        (tmp_path / f"{name}.parquet").write_bytes(data)
    source = HuggingFaceSource(tmp_path)
    assert [file.num_samples for file in source.listing().files] == [None, 1, None, None]
    found = read(source)
    assert found["b.parquet::0"].image == b"1"
    assert {k: s.reject.code for k, s in found.items() if s.reject} == {
        f"{name}.parquet::(file)": "unreadable_file" for name in "acd"
    }
    assert source.num_samples("a.parquet") == 1


def test_damaged_data_rejects_its_rows_and_the_next_row_group_is_read(tmp_path: Path) -> None:
    pictures = [bytes([n]) * 5000 for n in range(60)]
    path = put(tmp_path, "a.parquet", 20, image=images(*pictures), text=[str(n) for n in range(60)])
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset : column.data_page_offset + 40] = b"\xff" * 40
    path.write_bytes(data)
    found = read(HuggingFaceSource(tmp_path))
    assert list(found) == [f"a.parquet::{n}" for n in range(60)]
    good = [n for n, sample in enumerate(found.values()) if sample.reject is None]
    assert good == [*range(20), *range(40, 60)]
    assert found["a.parquet::45"].image == pictures[45]
    assert {s.reject.code for s in found.values() if s.reject} == {"unreadable_file"}


def test_a_later_file_without_the_columns_is_a_reject_or_rows_without_captions(
    tmp_path: Path,
) -> None:
    put(tmp_path, "a.parquet", image=images(b"1"), text=["x"])
    put(tmp_path, "b.parquet", other=["x"])
    put(tmp_path, "c.parquet", image=images(b"3"))
    found = read(HuggingFaceSource(tmp_path))
    reject = found["b.parquet::(file)"].reject
    assert reject is not None
    assert "['other']" in reject.message
    assert (found["c.parquet::0"].image, found["c.parquet::0"].caption) == (b"3", None)


def test_text_that_is_not_utf8_is_a_reject_of_its_row(tmp_path: Path) -> None:
    raw = pa.array([b"fine", b"caf\xe9"])
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    put(tmp_path, "a.parquet", image=images(b"1", b"2"), text=text)
    first, second = read(HuggingFaceSource(tmp_path)).values()
    assert first.caption == "fine"
    assert second.reject is not None
    assert second.reject.code == "caption_encoding"


def test_pictures_are_read_at_random_from_several_files_and_row_groups(tmp_path: Path) -> None:
    chance = random.Random(0)
    for name in ("a", "b"):
        pictures = [f"{name}{n}".encode() * 50 for n in range(70)]
        put(tmp_path, f"{name}.parquet", 32, image=images(*pictures), text=["x"] * 70)
    source = HuggingFaceSource(tmp_path)
    samples = list(read(source).values())
    for sample in chance.sample(samples, k=len(samples)):
        assert source.read_image(sample.location) == sample.image


def test_a_table_that_changed_is_reported(tmp_path: Path) -> None:
    path = put(tmp_path, "a.parquet", image=images(b"1", b"2"), text=["x", "y"])
    source = HuggingFaceSource(tmp_path)
    last = read(source)["a.parquet::1"].location
    put(tmp_path, "a.parquet", image=images(b"1"), text=["x"])
    with pytest.raises(SourceChangedError, match=r"row 1 of a\.parquet"):
        source.read_image(last)
    path.unlink()
    with pytest.raises(SourceChangedError, match=r"a\.parquet"):
        HuggingFaceSource(tmp_path).read_image(last)


def test_folders_that_hold_no_such_dataset_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="nowhere"):
        HuggingFaceSource(tmp_path / "nowhere").listing()
    (tmp_path / "a.jpg").write_bytes(b"")
    with pytest.raises(SettingError, match=r"parquet.*\.jpg"):
        HuggingFaceSource(tmp_path).listing()
    put(tmp_path, "train.parquet", image=images(b"1"), text=["x"])
    with pytest.raises(SettingError, match="hf_split"):
        HuggingFaceSource(tmp_path, choice=HubChoice(split="test")).listing()


def test_randomly_damaged_tables_give_rows_or_rejects(tmp_path: Path) -> None:
    chance = random.Random(0)
    path = put(tmp_path, "a.parquet", 8, image=images(*[b"x" * 90] * 24), text=["words"] * 24)
    whole = path.read_bytes()
    source = HuggingFaceSource(tmp_path)
    (stamp,) = source.stamps(["a.parquet"])
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        samples = list(source.samples([stamp]))
        assert samples
        assert len({sample.source_key for sample in samples}) == len(samples)
        assert all((sample.image is None) == (sample.reject is not None) for sample in samples)
