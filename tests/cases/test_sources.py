"""WebDataset tars, the Hub, parquet and what else holds pictures: each line of the known cases.

Whole runs from the Hub, with breaks, gates and tokens, are in test_hub_source.py.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_assets.source_index.table import read_index
from diffprep_resources.errors import SettingError
from tests.cases.looking import LookedThrough, looked_through, put
from tests.cases.picture_files import encoded, noise
from tests.conftest import write_tar

if TYPE_CHECKING:
    from tests.hub_server import DatasetHub

PICTURE = encoded(noise(40, 30), "JPEG")
OTHER = encoded(noise(40, 30, seed=1), "JPEG")
REPO = "owner/pictures"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"


# -- WebDataset tars --------------------------------------------------------------------------


def of_tars(folder: Path, name: str = "set", **sections: Any) -> LookedThrough:
    source = {"type": "webdataset", "input_path": "tars/*.tar"}
    return looked_through(folder, name, source=source, **sections)


def tar_of(folder: Path, members: Mapping[str, bytes], name: str = "a.tar") -> LookedThrough:
    write_tar(folder / "tars" / name, members)
    return of_tars(folder)


def add(tar: tarfile.TarFile, name: str, kind: bytes, target: str = "", data: bytes = b"") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(data)
    tar.addfile(info, io.BytesIO(data))


def test_members_with_folders_dots_capitals_and_junk_are_paired_right_though_not_adjacent(
    tmp_path: Path,
) -> None:
    found = tar_of(
        tmp_path,
        {
            "late.txt": b"before its picture",
            "deep/er/a.jpg": PICTURE,
            "a.jpg": PICTURE,
            "aaa.bbb.jpg": PICTURE,
            "000.photo.jpg": PICTURE,
            "UPPER.JPG": PICTURE,
            "./dot.jpg": PICTURE,
            "two//slashes.jpg": PICTURE,
            "__MACOSX/._a.jpg": b"junk",
            "__MACOSX/a.jpg": b"junk",
            "._a.jpg": b"junk",
            ".hidden/a.jpg": PICTURE,
            "deep/.DS_Store": b"junk",
            "a.txt": b"at the top",
            "deep/er/a.txt": b"deep down",
            "aaa.txt": b"not of aaa.bbb",
            "aaa.bbb.txt": b"of aaa.bbb",
            "000.txt": b"by its first dot",
            "UPPER.TXT": b"capitals",
            "dot.txt": b"of ./dot",
            "two/slashes.txt": b"of two//slashes",
            "\u732b.jpg": PICTURE,
            "\u732b.txt": b"a cat",
            "alone.jpg": PICTURE,
            "late.jpg": PICTURE,
            "orphan.txt": b"without a picture",
            "clip.mp4": b"a video",
        },
    )
    assert found.captions == {
        "a.tar::deep/er/a": "deep down",
        "a.tar::a": "at the top",
        "a.tar::aaa.bbb": "of aaa.bbb",
        "a.tar::000.photo": "by its first dot",
        "a.tar::UPPER": "capitals",
        "a.tar::dot": "of ./dot",
        "a.tar::two/slashes": "of two//slashes",
        "a.tar::\u732b": "a cat",
        "a.tar::late": "before its picture",
    }
    assert found.codes == {"a.tar::alone": "no_caption"}
    # What is neither a picture nor a caption of one is counted, not lost in silence.
    assert found.other_files == {
        "hidden or __MACOSX": 5,
        ".txt without a picture": 1,
        ".mp4 without a picture": 1,
    }


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.9])
def test_of_a_tar_cut_in_the_middle_what_is_before_the_cut_is_used_and_the_rest_is_one_reject(
    tmp_path: Path, kept: float
) -> None:
    members = {
        name: data
        for n in range(8)
        for name, data in ((f"{n}.jpg", PICTURE), (f"{n}.txt", b"picture %d" % n))
    }
    path = tmp_path / "tars" / "a.tar"
    write_tar(path, members)
    write_tar(tmp_path / "tars" / "b.tar", members)
    path.write_bytes(path.read_bytes()[: int(8 * 3072 * kept) + 40])
    found = of_tars(tmp_path)
    whole = [key for key in found.kept if key.startswith("a.tar")]
    assert len(whole) == int(8 * kept)
    assert [found.captions[f"a.tar::{n}"] for n in range(len(whole))] == [
        f"picture {n}" for n in range(len(whole))
    ]
    assert set(found.codes.values()) == {"truncated_archive"}
    assert "a.tar::(file)" in found.codes
    assert len([key for key in found.kept if key.startswith("b.tar")]) == 8


def test_a_member_that_would_lead_outside_is_a_reject_and_nothing_is_written_there(
    tmp_path: Path,
) -> None:
    names = ("../../x.jpg", "/etc/x.jpg", "a/../../y.jpg", "..\\z.jpg", "C:\\w.jpg", "../n.txt")
    before = sorted(tmp_path.parent.iterdir())
    found = tar_of(tmp_path, {**dict.fromkeys(names, PICTURE), "a.jpg": PICTURE, "a.txt": b"a"})
    assert list(found.kept) == ["a.tar::a"]
    assert list(found.codes.values()) == ["unsafe_name"] * len(names)
    assert sorted(tmp_path.parent.iterdir()) == before
    assert not list(tmp_path.rglob("*.jpg"))
    assert all("/" not in key.partition("::")[2] for key in found.codes)


def test_links_in_a_tar_stand_for_the_file_they_lead_to_or_say_why_not(tmp_path: Path) -> None:
    (tmp_path / "tars").mkdir()
    long = "long/" * 30 + "a.jpg"
    with tarfile.open(tmp_path / "tars" / "a.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        add(tar, "d/a.jpg", tarfile.REGTYPE, data=PICTURE)
        add(tar, "d/a.txt", tarfile.REGTYPE, data=b"shared")
        add(tar, "d/hard.jpg", tarfile.LNKTYPE, "d/a.jpg")
        add(tar, "d/hard.txt", tarfile.LNKTYPE, "d/a.txt")
        add(tar, "e/soft.jpg", tarfile.SYMTYPE, "../d/hard.jpg")
        add(tar, "e/soft.txt", tarfile.SYMTYPE, "late.txt")
        add(tar, "e/late.txt", tarfile.REGTYPE, data=b"stands later")
        add(tar, long, tarfile.REGTYPE, data=OTHER)
        add(tar, long.replace(".jpg", ".txt"), tarfile.REGTYPE, data=b"long name")
        add(tar, "far.jpg", tarfile.LNKTYPE, long)
        add(tar, "far.txt", tarfile.REGTYPE, data=b"far")
        add(tar, "out.jpg", tarfile.SYMTYPE, "/etc/passwd")
        add(tar, "up.jpg", tarfile.SYMTYPE, "../../x.jpg")
        add(tar, "round.jpg", tarfile.SYMTYPE, "round.jpg")
        add(tar, "folder.jpg", tarfile.DIRTYPE)
        add(tar, "device.jpg", tarfile.CHRTYPE)
        add(tar, "pipe.jpg", tarfile.FIFOTYPE)
    found = of_tars(tmp_path)
    assert found.captions == {
        "a.tar::d/a": "shared",
        "a.tar::d/hard": "shared",
        "a.tar::e/soft": "stands later",
        f"a.tar::{long[:-4]}": "long name",
        "a.tar::far": "far",
    }
    assert found.rows["a.tar::e/soft"].image_digest == found.rows["a.tar::d/a"].image_digest
    assert found.pixel("a.tar::far") == found.pixel(f"a.tar::{long[:-4]}")
    names = ("out", "up", "round", "device", "pipe")
    assert found.codes == {f"a.tar::{name}": "unreadable_file" for name in names}
    assert "a link to /etc/passwd" in (found.rows["a.tar::out"].message or "")


@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_long_and_foreign_names_of_every_tar_format_are_read(tmp_path: Path, layout: int) -> None:
    folder = "deep/" * (18 if layout == tarfile.USTAR_FORMAT else 60)
    names = [f"{folder}a", "caf\xe9 \u732b", "b" * 90]
    (tmp_path / "tars").mkdir()
    with tarfile.open(tmp_path / "tars" / "a.tar", "w", format=layout) as tar:
        for name in names:
            add(tar, f"{name}.jpg", tarfile.REGTYPE, data=PICTURE)
            add(tar, f"{name}.txt", tarfile.REGTYPE, data=name.encode())
    assert of_tars(tmp_path).captions == {f"a.tar::{name}": name for name in names}


def test_a_sparse_member_is_a_reject_that_says_so(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("s.jpg").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = b"S"
    header[124:136] = b"%011o\0" % 512
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    write_tar(tmp_path / "tars" / "a.tar", {"b.jpg": PICTURE, "b.txt": b"b"})
    path = tmp_path / "tars" / "a.tar"
    path.write_bytes(bytes(header) + b"d" * 512 + path.read_bytes())
    found = of_tars(tmp_path)
    assert (found.codes, list(found.kept)) == ({"a.tar::s": "unreadable_file"}, ["a.tar::b"])
    assert "a sparse file" in (found.rows["a.tar::s"].message or "")


@pytest.mark.parametrize("suffix", [".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"])
def test_a_compressed_tar_is_refused_with_the_reason(tmp_path: Path, suffix: str) -> None:
    put(tmp_path / "tars", {f"a{suffix}": b"compressed"})
    source = {"type": "webdataset", "input_path": "tars/*"}
    with pytest.raises(SettingError, match=r"uncompressed tars.*decompress it"):
        looked_through(tmp_path, source=source)


def test_a_compressed_tar_under_a_plain_name_is_one_reject_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    write_tar(tmp_path / "tars" / "good.tar", {"a.jpg": PICTURE, "a.txt": b"a"})
    plain = (tmp_path / "tars" / "good.tar").read_bytes()
    for name, compress in (("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress)):
        put(tmp_path / "tars", {f"{name}.tar": compress(plain)})
    put(tmp_path / "tars", {"zstd.tar": b"\x28\xb5\x2f\xfd" + bytes(600)})
    found = of_tars(tmp_path)
    assert list(found.kept) == ["good.tar::a"]
    for name in ("gzip", "bzip2", "xz", "zstd"):
        assert found.codes[f"{name}.tar::(file)"] == "unreadable_file"
        assert f"compressed with {name}" in (found.rows[f"{name}.tar::(file)"].message or "")


def test_empty_files_empty_tars_and_what_is_no_tar_are_told_apart(tmp_path: Path) -> None:
    write_tar(tmp_path / "tars" / "good.tar", {"a.jpg": PICTURE, "a.txt": b"a"})
    write_tar(tmp_path / "tars" / "no_members.tar", {})
    write_tar(tmp_path / "tars" / "no_pictures.tar", {"a.txt": b"a", "b.json": b"{}"})
    put(tmp_path / "tars", {"nothing.tar": b"", "html.tar": b"<html>" * 200, "lfs.tar": POINTER})
    found = of_tars(tmp_path)
    assert list(found.kept) == ["good.tar::a"]
    assert found.codes == {
        "nothing.tar::(file)": "truncated_archive",
        "html.tar::(file)": "unreadable_file",
        "lfs.tar::(file)": "unreadable_file",
    }
    assert "git lfs pull" in (found.rows["lfs.tar::(file)"].message or "")


def test_one_key_in_two_tars_is_two_samples_and_twice_in_one_tar_a_reject(tmp_path: Path) -> None:
    (tmp_path / "tars").mkdir()
    with tarfile.open(tmp_path / "tars" / "a.tar", "w") as tar:
        for data, text in ((PICTURE, b"first"), (OTHER, b"second")):
            add(tar, "x.jpg", tarfile.REGTYPE, data=data)
            add(tar, "x.txt", tarfile.REGTYPE, data=text)
        add(tar, "x.png", tarfile.REGTYPE, data=encoded(noise(40, 30), "PNG"))
    write_tar(tmp_path / "tars" / "b.tar", {"x.jpg": OTHER, "x.txt": b"of b"})
    found = of_tars(tmp_path)
    assert found.captions == {
        "a.tar::x": "first",
        "a.tar::x.png": "first",
        "b.tar::x": "of b",
    }
    assert found.codes == {"a.tar::x.jpg": "duplicate_key"}


# -- parquet ----------------------------------------------------------------------------------


def of_parquet(folder: Path, table: pa.Table, **sections: Any) -> LookedThrough:
    (folder / "hub").mkdir(exist_ok=True)
    pq.write_table(table, folder / "hub" / "train.parquet", row_group_size=2)
    return of_hub_folder(folder, **sections)


def of_hub_folder(folder: Path, name: str = "set", **sections: Any) -> LookedThrough:
    source = {"type": "huggingface", "hf_dataset": "hub", **sections.pop("source", {})}
    return looked_through(folder, name, source=source, **sections)


def test_nulls_in_a_column_of_images_are_rejects_of_their_rows(tmp_path: Path) -> None:
    images = [
        {"bytes": PICTURE, "path": "a.jpg"},
        None,
        {"bytes": None, "path": None},
        {"bytes": b"", "path": ""},
        {"bytes": PICTURE, "path": None},
    ]
    found = of_parquet(tmp_path, pa.table({"image": images, "text": list("abcde")}))
    assert found.captions == {"train.parquet::0": "a", "train.parquet::4": "e"}
    assert found.codes == {
        "train.parquet::1": "no_image",
        "train.parquet::2": "no_image",
        "train.parquet::3": "unreadable_image",
    }


IMAGE_COLUMNS: dict[str, Callable[[], pa.Array]] = {
    "structs": lambda: pa.array([{"bytes": PICTURE, "path": "x"}] * 3),
    "bytes alone": lambda: pa.array([{"bytes": PICTURE}] * 3),
    "paths alone": lambda: pa.array([{"path": "pictures/x.jpg"}] * 3),
    "binary": lambda: pa.array([PICTURE] * 3, pa.binary()),
    "large binary": lambda: pa.array([PICTURE] * 3, pa.large_binary()),
    "fixed binary": lambda: pa.array([PICTURE] * 3, pa.binary(len(PICTURE))),
    "dictionary": lambda: pa.array([PICTURE] * 3, pa.binary()).dictionary_encode(),
    "names": lambda: pa.array(["pictures/x.jpg"] * 3),
}


@pytest.mark.parametrize("kind", IMAGE_COLUMNS)
def test_pictures_in_parquet_may_be_structs_bytes_or_paths(tmp_path: Path, kind: str) -> None:
    put(tmp_path / "hub", {"pictures/x.jpg": PICTURE})
    found = of_parquet(tmp_path, pa.table({"image": IMAGE_COLUMNS[kind](), "text": list("abc")}))
    assert (list(found.captions.values()), found.codes) == (["a", "b", "c"], {})
    assert found.upright("train.parquet::2").size == (40, 30)


def test_paths_in_parquet_that_lead_outside_to_the_web_or_nowhere_are_rejects(
    tmp_path: Path,
) -> None:
    put(tmp_path, {"secret.jpg": PICTURE})
    paths = ["../secret.jpg", "/etc/passwd", "https://a.b/c.jpg", "none.jpg", "a\0b.jpg", "."]
    found = of_parquet(tmp_path, pa.table({"image": paths, "text": ["t"] * len(paths)}))
    assert list(found.codes.values()) == [
        *("unsafe_name", "unsafe_name", "source_missing", "source_missing", "unsafe_name"),
        "unreadable_file",
    ]


CAPTION_COLUMNS: dict[str, tuple[list[Any], str]] = {
    "texts": (["a cat", "a dog"], "a cat"),
    "numbers": ([7, 8], "7"),
    "lists": ([[None, "", "a cat"], ["a dog"]], "a cat"),
    "structs": ([{"caption": "a cat"}, {"caption": "a dog"}], "a cat"),
    "bytes": ([b"a cat", b"a dog"], "a cat"),
    "dictionary of json": (['{"caption": "x"}', "y"], '{"caption": "x"}'),
}


@pytest.mark.parametrize("kind", CAPTION_COLUMNS)
def test_captions_in_parquet_may_be_texts_numbers_lists_or_structs(
    tmp_path: Path, kind: str
) -> None:
    values, first = CAPTION_COLUMNS[kind]
    found = of_parquet(tmp_path, pa.table({"image": [PICTURE] * 2, "text": values}))
    assert found.captions["train.parquet::0"] == first


def test_a_missing_or_wrong_column_is_refused_with_the_columns_there_are(tmp_path: Path) -> None:
    wrong = {
        "no column holds the pictures": {"picture": [PICTURE], "text": ["a"]},
        "image is int64": {"image": [3], "text": ["a"]},
        "no column holds the captions": {"image": [PICTURE], "label": [3]},
    }
    for said, columns in wrong.items():
        with pytest.raises(SettingError, match=said) as caught:
            of_parquet(tmp_path, pa.table(columns))
        assert "data_format." in str(caught.value)
        assert all(name in str(caught.value) for name in columns)
    chosen = {"data_format": {"image_key": "picture", "caption_key": "meta.deep"}}
    table = pa.table({"picture": [PICTURE], "meta": [{"deep": "a cat"}]})
    assert list(of_parquet(tmp_path, table, **chosen).captions.values()) == ["a cat"]


def test_a_file_of_another_shape_is_one_reject_and_the_others_go_on(tmp_path: Path) -> None:
    good = pa.table({"image": [PICTURE], "text": ["a"]})
    (tmp_path / "hub").mkdir()
    for name, table in {
        "a": good,
        "b": pa.table({"image": [1], "text": ["wrong type"]}),
        "c": pa.table({"other": [1]}),
        "d": good.slice(0, 0),
        "e": pa.table({"image": [PICTURE], "words": ["no caption column"]}),
    }.items():
        pq.write_table(table, tmp_path / "hub" / f"train-{name}.parquet")
    put(tmp_path / "hub", {"train-f.parquet": b"no parquet", "train-g.parquet": POINTER})
    put(tmp_path / "hub", {"train-h.parquet": b"", "test.parquet": b"another split"})
    found = of_hub_folder(tmp_path)
    assert list(found.kept) == ["train-a.parquet::0"]
    assert found.codes == {
        "train-b.parquet::(file)": "unreadable_file",
        "train-c.parquet::(file)": "unreadable_file",
        "train-e.parquet::0": "no_caption",
        "train-f.parquet::(file)": "unreadable_file",
        "train-g.parquet::(file)": "unreadable_file",
        "train-h.parquet::(file)": "unreadable_file",
    }
    assert "git lfs pull" in (found.rows["train-g.parquet::(file)"].message or "")


def test_a_damaged_row_group_rejects_its_rows_and_the_others_are_read(tmp_path: Path) -> None:
    pictures = [encoded(noise(40, 30, seed=n), "JPEG") for n in range(6)]
    of_parquet(tmp_path, pa.table({"image": pictures, "text": list("abcdef")}))
    path = tmp_path / "hub" / "train.parquet"
    group = pq.read_metadata(path).row_group(1).column(0)
    start = group.dictionary_page_offset or group.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + group.total_compressed_size] = os.urandom(1) * (
        group.total_compressed_size
    )
    path.write_bytes(content)
    found = of_hub_folder(tmp_path)
    assert list(found.kept) == [f"train.parquet::{n}" for n in (0, 1, 4, 5)]
    assert set(found.codes) == {"train.parquet::2", "train.parquet::3"}
    assert set(found.codes.values()) == {"unreadable_file"}


def test_pointers_that_git_lfs_left_in_a_folder_say_how_to_get_the_files(tmp_path: Path) -> None:
    put(tmp_path / "hub", {"train/a.jpg": POINTER, "train/b.jpg": PICTURE})
    put(tmp_path / "hub", {"train/metadata.jsonl": POINTER})
    found = of_hub_folder(tmp_path)
    assert set(found.codes.values()) == {"no_caption"}
    assert all("git lfs pull" in (row.message or "") for row in found.rows.values())


# -- the Hub ----------------------------------------------------------------------------------


IMAGE_FIELDS = [("bytes", pa.binary()), ("path", pa.string())]


def parquet(*numbers: int) -> bytes:
    images = [{"bytes": encoded(noise(40, 30, seed=n), "JPEG"), "path": "x"} for n in numbers]
    texts = [f"picture {n}" for n in numbers]
    arrays = [pa.array(images, pa.struct(IMAGE_FIELDS)), pa.array(texts, pa.string())]
    buffer = io.BytesIO()
    pq.write_table(pa.table(arrays, ["image", "text"]), buffer)
    return buffer.getvalue()


def of_hub(folder: Path, **source: Any) -> LookedThrough:
    return looked_through(folder, source={"type": "huggingface", "hf_dataset": REPO, **source})


def image_folder() -> dict[str, bytes]:
    rows = [{"file_name": f"{'ab'[n]}.jpg", "text": f"picture {n}"} for n in (0, 1)]
    lines = "\n".join(map(json.dumps, rows)).encode()
    return {"train/a.jpg": PICTURE, "train/b.jpg": OTHER, "train/metadata.jsonl": lines}


def tars(folder: Path) -> dict[str, bytes]:
    members = {"a.jpg": PICTURE, "a.txt": b"picture 0", "b.jpg": OTHER, "b.txt": b"picture 1"}
    write_tar(folder / "x.tar", members)
    return {"shards/000.tar": (folder / "x.tar").read_bytes()}


@pytest.mark.parametrize("kind", ["parquet", "images", "tars"])
def test_a_hub_dataset_as_parquet_image_folder_or_tars_works_and_its_commit_is_recorded(
    tmp_path: Path, hub: "DatasetHub", kind: str
) -> None:
    files = {"parquet": {"data/train-00000-of-00001.parquet": parquet(0, 1)}}
    files |= {"images": image_folder(), "tars": tars(tmp_path)}
    commit = hub.add(REPO, files[kind])
    found = of_hub(tmp_path)
    assert sorted(filter(None, found.captions.values())) == ["picture 0", "picture 1"]
    index = read_index(found.dataset.layout.source_index)
    assert index is not None
    assert (index.revision, index.origin) == (commit, f"hf://datasets/{REPO}")
    # A later commit is not taken, as the recipe names no branch.
    hub.add(REPO, {"data/train-00000-of-00001.parquet": parquet(7)})
    assert of_hub(tmp_path).captions == found.captions
    # The same folder on this machine reads alike.
    local = tmp_path / "clone"
    put(local / "hub", files[kind])
    assert of_hub_folder(local).captions == found.captions


def test_a_renamed_repository_is_followed(tmp_path: Path, hub: "DatasetHub") -> None:
    commit = hub.add("owner/renamed", {"train.parquet": parquet(0)})
    hub.moved[REPO] = "owner/renamed"
    found = of_hub(tmp_path)
    assert list(found.captions.values()) == ["picture 0"]
    index = read_index(found.dataset.layout.source_index)
    assert index is not None
    assert index.revision == commit


def test_a_repository_revision_split_or_configuration_that_is_not_there_is_named(
    tmp_path: Path, hub: "DatasetHub"
) -> None:
    card = b"---\nconfigs:\n- config_name: small\n  data_files: s/*\n- config_name: big\n---\n"
    hub.add(REPO, {"train.parquet": parquet(0), "test.parquet": parquet(1)})
    hub.add("owner/configs", {"README.md": card, "s/train.parquet": parquet(0)})
    wrong: dict[str, dict[str, Any]] = {
        "it does not exist, is private": {"hf_dataset": "owner/none"},
        "no such revision": {"hf_revision": "v9"},
        "hf_split must be one of ['test', 'train'], got 'val'": {"hf_split": "val"},
        "hf_name must be one of ['small', 'big']": {"hf_dataset": "owner/configs"},
        "hf_name must be one of ['big', 'small'], got 'huge'": {
            "hf_dataset": "owner/configs",
            "hf_name": "huge",
        },
        "hf_data_files matches no file": {"hf_data_files": ["data/*.parquet"]},
        "relative to the dataset's folder, got '../x'": {"hf_data_files": ["../x"]},
    }
    for said, source in wrong.items():
        with pytest.raises(Exception, match=r"(source\.|hf_)") as caught:
            of_hub(tmp_path, **source)
        assert said in str(caught.value)
    small = of_hub(tmp_path, hf_dataset="owner/configs", hf_name="small")
    assert list(small.captions.values()) == ["picture 0"]


def test_a_loading_script_is_refused_and_never_fetched(tmp_path: Path, hub: "DatasetHub") -> None:
    script = b"import os\nopen('/tmp/ran', 'w')\n"
    hub.add(REPO, {"pictures.py": script, "data.zip": b"PK", "README.md": b"# pictures"})
    with pytest.raises(SettingError, match=r"a loading script \(pictures\.py\), which is not run"):
        of_hub(tmp_path)
    assert "pictures.py" not in hub.fetched()
    put(tmp_path / "hub", {"pictures.py": script, "data.zip": b"PK"})
    with pytest.raises(SettingError, match="loading script"):
        of_hub_folder(tmp_path)


def test_an_empty_split_is_a_clean_failure(tmp_path: Path, hub: "DatasetHub") -> None:
    hub.add(REPO, {"train.parquet": parquet()})
    found = of_hub(tmp_path)
    assert (found.rows, found.codes) == ({}, {})
    hub.add("owner/empty", {"README.md": b"# nothing"})
    with pytest.raises(SettingError, match="must hold parquet files, tars or pictures"):
        of_hub(tmp_path, hf_dataset="owner/empty")


def test_names_on_the_hub_that_would_lead_outside_are_counted_and_not_fetched(
    tmp_path: Path, hub: "DatasetHub"
) -> None:
    names = ("../../evil.parquet", "a/../../evil.parquet", "/etc/evil.parquet")
    hub.add(REPO, {"train.parquet": parquet(0), **dict.fromkeys(names, parquet(1))})
    found = of_hub(tmp_path)
    assert list(found.captions.values()) == ["picture 0"]
    assert found.other_files["unsafe name"] == len(names)
    assert set(hub.fetched()) == {"train.parquet"}
    assert not [path for path in tmp_path.parent.rglob("*evil*")]


def test_a_name_in_metadata_that_leads_outside_gives_nothing(tmp_path: Path) -> None:
    put(tmp_path, {"hub/train/a.jpg": PICTURE, "secret.jpg": PICTURE})
    lines = b'{"file_name": "../../secret.jpg", "text": "s"}\n{"file_name": "a.jpg", "text": "a"}\n'
    put(tmp_path, {"hub/train/metadata.jsonl": lines + b"no json\n[1]\n\n"})
    found = of_hub_folder(tmp_path)
    assert (found.captions, found.codes) == ({"train/a.jpg": "a"}, {})


def test_metadata_is_read_as_people_and_their_systems_write_it(tmp_path: Path) -> None:
    names = ("sub/b.jpg", "twice.jpg", "caf\u00e9.jpg")
    put(tmp_path / "hub", dict.fromkeys(names, PICTURE))
    rows = [
        {"file_name": "sub\\b.jpg", "text": "backslashes of Windows"},
        {"file_name": "twice.jpg", "text": "one"},
        {"file_name": "twice.jpg", "text": "another"},
        {"file_name": "cafe\u0301.jpg", "text": "an accent as macOS writes it"},
    ]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows)
    expected = {
        "sub/b.jpg": "backslashes of Windows",
        "twice.jpg::c0": "one",
        "twice.jpg::c1": "another",
        "caf\u00e9.jpg": "an accent as macOS writes it",
    }
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        put(tmp_path / "hub", {"metadata.jsonl": lines.encode(encoding)})
        found = of_hub_folder(tmp_path, encoding, captions={"choose": "all"})
        assert (found.captions, found.codes) == (expected, {})


def test_a_csv_of_metadata_may_hold_long_captions_and_other_encodings(tmp_path: Path) -> None:
    put(tmp_path / "hub", {"a.jpg": PICTURE, "b.jpg": PICTURE})
    long = "word " * 40_000 + "end"
    cells = f'file_name,text\na.jpg,"{long}"\nb.jpg,"a caf\u00e9, ""open""\nnow"\n'
    put(tmp_path / "hub", {"metadata.csv": cells.encode("cp1252")})
    found = of_hub_folder(tmp_path)
    assert found.captions == {"a.jpg": long, "b.jpg": 'a caf\u00e9, "open"\nnow'}
    assert found.rows["b.jpg"].notes == ("caption read as cp1252",)
    put(tmp_path / "hub", {"metadata.csv": b"file_name,text\na.jpg,\x9d\x81\nb.jpg,fine\n"})
    assert of_hub_folder(tmp_path, "uncertain").codes == {"a.jpg": "caption_encoding"}
    huge = b"file_name,text\na.jpg," + b"x" * (17 << 20)
    for number, csv in enumerate((b"file_name;text\na.jpg;a\n", b"", huge)):
        put(tmp_path / "hub", {"metadata.csv": csv})
        found = of_hub_folder(tmp_path, f"wrong{number}")
        assert found.codes == {"a.jpg": "no_caption", "b.jpg": "no_caption"}
        assert "metadata.csv: " in str(found.rows["b.jpg"].message)


def test_a_folder_named_like_a_metadata_file_is_none(tmp_path: Path) -> None:
    put(tmp_path / "hub", {"a.jpg": PICTURE, "a.txt": "a cat"})
    (tmp_path / "hub" / "metadata.jsonl").mkdir()
    assert of_hub_folder(tmp_path).captions == {"a.jpg": "a cat"}


def test_names_composed_and_decomposed_are_one_name(tmp_path: Path) -> None:
    members = {"caf\u00e9.jpg": PICTURE, "cafe\u0301.txt": b"a terrace"}
    put(tmp_path / "pictures", members)
    found = looked_through(tmp_path)
    assert (found.captions, found.other_files) == ({"caf\u00e9.jpg": "a terrace"}, {})
    assert tar_of(tmp_path, members).captions == {"a.tar::caf\u00e9": "a terrace"}


def test_keys_in_capitals_find_the_members_of_a_tar(tmp_path: Path) -> None:
    write_tar(tmp_path / "tars" / "a.tar", {"1.JPG": PICTURE, "1.en.TXT": b"a cat"})
    found = of_tars(tmp_path, data_format={"image_key": "JPG", "caption_key": "en.TXT"})
    assert found.captions == {"a.tar::1": "a cat"}


def test_an_entry_of_a_list_of_pictures_can_be_chosen(tmp_path: Path) -> None:
    table = pa.table({"images": [[{"bytes": OTHER}, {"bytes": PICTURE}], []], "text": ["a", "b"]})
    found = of_parquet(tmp_path, table, data_format={"image_key": "images.1"})
    assert found.captions == {"train.parquet::0": "a"}
    assert found.codes == {"train.parquet::1": "no_image"}
    assert found.upright("train.parquet::0").size == (40, 30)
    with pytest.raises(SettingError, match=r"an entry of a list of these, such as images\.0"):
        of_parquet(tmp_path, table, data_format={"image_key": "images"})


def test_no_pickle_is_loaded_from_any_source(tmp_path: Path) -> None:
    bomb = b"cos\nsystem\n(S'touch /tmp/diffprep_pickle'\ntR."
    write_tar(
        tmp_path / "tars" / "a.tar",
        {"a.jpg": PICTURE, "a.pyd": bomb, "a.pickle": bomb, "a.pth": bomb, "a.txt": bomb},
    )
    found = of_tars(tmp_path)
    assert found.captions == {"a.tar::a": bomb.decode()}
    zeros = struct.pack("<Q", 0)
    put(tmp_path / "pictures", {"a.jpg": PICTURE, "a.txt": zeros, "a.pkl": bomb})
    assert looked_through(tmp_path, "folder").codes == {"a.jpg": "no_caption"}
    assert not Path("/tmp/diffprep_pickle").exists()
