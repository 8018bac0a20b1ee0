import os
import random
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from diffprep_resources.errors import SettingError, SourceChangedError
from diffprep_resources.sources.base import Location, SourceSample
from diffprep_resources.sources.directory import DirectorySource
from diffprep_resources.sources.fields import field_keys


def put(root: Path, **files: bytes | str) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def read(source: DirectorySource) -> dict[str, SourceSample]:
    paths = [file.path for file in source.listing().files]
    return {sample.source_key: sample for sample in source.samples(source.stamps(paths))}


def captions(root: Path, **keys: Any) -> dict[str, object]:
    source = DirectorySource(root, keys=field_keys(**keys))
    return {key: sample.caption for key, sample in read(source).items()}


def test_images_and_captions_pair_by_stem_and_folder(tmp_path: Path) -> None:
    put(tmp_path, **{"images/a/b.jpg": "A", "images/b.jpg": "B"})
    put(tmp_path, **{"captions/a/b.txt": "deep", "captions/b.txt": "top"})
    assert captions(tmp_path) == {"images/a/b.jpg": b"deep", "images/b.jpg": b"top"}


def test_captions_beside_the_pictures_are_found_and_the_captions_folder_wins(
    tmp_path: Path,
) -> None:
    put(tmp_path, **{"images/a.jpg": "", "images/a.txt": "beside", "captions/a.json": '"folder"'})
    put(tmp_path, **{"images/b.jpg": "", "images/b.txt": "beside"})
    assert captions(tmp_path) == {"images/a.jpg": "folder", "images/b.jpg": b"beside"}


def test_without_an_images_folder_the_captions_folder_still_pairs(tmp_path: Path) -> None:
    put(tmp_path, **{"x/a.jpg": "", "captions/x/a.txt": "yes"})
    assert captions(tmp_path) == {"x/a.jpg": b"yes"}


def test_a_picture_beside_the_images_folder_does_not_take_an_images_caption(tmp_path: Path) -> None:
    put(tmp_path, **{"a.jpg": "", "images/a.jpg": "", "captions/a.txt": "of images/a"})
    assert captions(tmp_path) == {"a.jpg": None, "images/a.jpg": b"of images/a"}


def test_caption_suffixes_are_tried_in_order_in_any_case(tmp_path: Path) -> None:
    put(tmp_path, **{"a.jpg": "", "a.JSON": '{"caption": "j"}', "a.caption": "c", "a.TXT": "t"})
    put(tmp_path, **{"b.jpg": "", "b.json": '{"caption": "j"}', "b.Caption": "c"})
    put(tmp_path, **{"c.jpg": "", "c.Json": '{"text": "j"}'})
    put(tmp_path, **{"d.jpg": "", "d.txt": "lower", "d.TXT": "upper"})
    assert captions(tmp_path) == {"a.jpg": b"t", "b.jpg": b"c", "c.jpg": "j", "d.jpg": b"lower"}


def test_a_json_caption_is_looked_up_by_the_caption_keys(tmp_path: Path) -> None:
    put(tmp_path, **{"a.jpg": "", "a.json": '{"meta": {"caption": ["x", null]}, "n": 7}'})
    put(tmp_path, **{"a.txt": "plain"})
    assert captions(tmp_path) == {"a.jpg": b"plain"}
    assert captions(tmp_path, caption_key="json.meta.caption") == {"a.jpg": ["x", None]}
    assert captions(tmp_path, caption_key="json.n") == {"a.jpg": 7}
    assert captions(tmp_path, caption_key="json.missing") == {"a.jpg": None}


def test_suffixes_in_any_case_and_odd_names_are_pictures(tmp_path: Path) -> None:
    names = ["IMG_1.JPG", "a.jpeg", "b.PNG", "c.WebP", "x (1).jpg", "aaa.bbb.jpg", "e.AvIf"]
    names += ["\U0001f600.gif", "\u732b.tif", "two\nlines.bmp", "back\\slash.jxl"]
    for name in names:
        put(tmp_path, **{name: name, name.rpartition(".")[0] + ".txt": "of " + name})
    found = read(DirectorySource(tmp_path))
    assert sorted(found) == sorted(names)
    for name in names:
        assert (found[name].image, found[name].caption) == (name.encode(), f"of {name}".encode())


def test_two_formats_of_one_stem_are_two_samples_that_share_the_caption(tmp_path: Path) -> None:
    put(tmp_path, **{"a.jpg": "J", "a.png": "P", "a.txt": "both"})
    found = read(DirectorySource(tmp_path))
    assert {key: (s.image, s.caption) for key, s in found.items()} == {
        "a.jpg": (b"J", b"both"),
        "a.png": (b"P", b"both"),
    }


def test_other_files_are_counted_by_suffix_and_hidden_ones_are_not_seen(tmp_path: Path) -> None:
    put(tmp_path, **{"a.jpg": "", "a.txt": "", "notes.jpg.txt": "", "b.MP4": "", "c.mp4": ""})
    put(tmp_path, **{"LICENSE": "", "alone.json": "", ".h.jpg": "", ".git/x.jpg": ""})
    put(tmp_path, **{"images/b.png": "", "captions/b.txt": "", "captions/alone.txt": ""})
    listing = DirectorySource(tmp_path).listing()
    assert [file.path for file in listing.files] == ["a.jpg", "images/b.png"]
    assert listing.other_files == {
        ".mp4": 2,
        "no suffix": 1,
        ".txt without a picture": 2,
        ".json without a picture": 1,
    }


def test_links_to_files_are_followed_and_loops_of_folders_end(tmp_path: Path) -> None:
    root = tmp_path / "in"
    put(tmp_path, **{"out/o.jpg": "O", "in/sub/s.jpg": "S"})
    (root / "l.jpg").symlink_to(tmp_path / "out/o.jpg")
    (root / "sub/up").symlink_to(root)
    (root / "above").symlink_to(tmp_path)
    (root / "again").symlink_to(root / "sub")
    (root / "other").symlink_to(tmp_path / "out")
    source = DirectorySource(root)
    assert {key: s.image for key, s in read(source).items()} == {
        "l.jpg": b"O",
        "other/o.jpg": b"O",
        "sub/s.jpg": b"S",
    }
    assert source.listing().other_files == {"linked folder listed already": 3}


def test_a_broken_link_is_a_reject_and_a_pipe_is_counted(tmp_path: Path) -> None:
    (tmp_path / "gone.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "self.jpg").symlink_to("self.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")
    source = DirectorySource(tmp_path)
    rejects = {key: s.reject and s.reject.code for key, s in read(source).items()}
    assert rejects == {"gone.jpg": "source_missing", "self.jpg": "source_missing"}
    assert source.listing().other_files == {"not a regular file": 1}


def test_names_that_are_not_utf8_are_read_and_paired_under_a_storable_key(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path)
    for name, content in [(b"caf\xe9.jpg", b"J"), (b"caf\xe9.txt", b"latin"), (b"\\xe9.jpg", b"L")]:
        with open(root + b"/" + name, "wb") as file:
            file.write(content)
    source = DirectorySource(tmp_path)
    found = read(source)
    assert sorted(found) == ["\\x5cxe9.jpg", "caf\\xe9.jpg"]
    assert found["caf\\xe9.jpg"].caption == b"latin"
    assert source.read_image(found["\\x5cxe9.jpg"].location) == b"L"


def test_stamps_change_with_picture_and_caption_and_name_the_caption(tmp_path: Path) -> None:
    put(tmp_path, **{"a.jpg": "12345", "a.txt": "abc"})
    source = DirectorySource(tmp_path)
    (before,) = source.stamps(["a.jpg"])
    assert (before.size, before.caption_path, before.caption_size) == (5, "a.txt", 3)
    time.sleep(0.02)
    put(tmp_path, **{"a.txt": "xyz"})
    (after,) = source.stamps(["a.jpg"])
    assert after.caption_mtime_ns > before.caption_mtime_ns
    assert after.mtime_ns == before.mtime_ns
    put(tmp_path, **{"captions/a.txt": "new"})
    (moved,) = DirectorySource(tmp_path).stamps(["a.jpg"])
    assert moved.caption_path == "captions/a.txt"


def test_a_file_gone_after_listing_is_passed_over_and_gone_after_its_stamp_a_reject(
    tmp_path: Path,
) -> None:
    put(tmp_path, **{"a.jpg": "A", "b.jpg": "B", "b.txt": "b"})
    source = DirectorySource(tmp_path)
    stamps = list(source.stamps(["a.jpg", "b.jpg", "never.jpg"]))
    assert [stamp.path for stamp in stamps] == ["a.jpg", "b.jpg"]
    (tmp_path / "a.jpg").unlink()
    first, second = source.samples(stamps)
    assert first.reject is not None
    assert (first.reject.code, first.reject.transient) == ("source_missing", True)
    assert (second.image, second.caption) == (b"B", b"b")
    with pytest.raises(SourceChangedError, match=r"a\.jpg"):
        source.read_image(Location("a.jpg"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_read_permission_is_a_reject(tmp_path: Path) -> None:
    put(tmp_path, **{"a.jpg": "A"})
    (tmp_path / "a.jpg").chmod(0)
    sample = read(DirectorySource(tmp_path))["a.jpg"]
    assert sample.reject is not None
    assert sample.reject.code == "unreadable_file"


def test_a_picture_beyond_the_byte_limit_is_a_reject_before_it_is_read(tmp_path: Path) -> None:
    with open(tmp_path / "huge.jpg", "wb") as file:
        file.truncate(40 << 30)
    put(tmp_path, **{"a.jpg": "A"})
    with open(tmp_path / "a.txt", "wb") as file:
        file.truncate(40 << 30)
    codes = {key: s.reject and s.reject.code for key, s in read(DirectorySource(tmp_path)).items()}
    assert codes == {"huge.jpg": "too_large", "a.jpg": "too_large"}


def test_a_missing_folder_is_refused_and_an_empty_one_lists_nothing(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="nowhere"):
        DirectorySource(tmp_path / "nowhere").listing()
    assert DirectorySource(tmp_path).listing().files == []


@pytest.mark.parametrize("seed", range(4))
def test_every_file_of_a_random_tree_is_a_sample_or_is_counted(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    folders = ["", "images/", "captions/", "images/s.1/", "captions/s.1/", "z/"]
    suffixes = [".jpg", ".PNG", ".txt", ".json", ".caption", ".mp4", "", ".jpg.txt"]
    for _ in range(120):
        stem = f"{chance.randrange(12)}" + chance.choice(["", ".a", " (1)"])
        put(tmp_path, **{chance.choice(folders) + stem + chance.choice(suffixes): '"x"'})
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    pictures = {str(p.relative_to(tmp_path)) for p in files if p.suffix in (".jpg", ".PNG")}
    source = DirectorySource(tmp_path)
    listing = source.listing()
    stamps = list(source.stamps(file.path for file in listing.files))
    samples = list(source.samples(stamps))
    assert Counter(s.source_key for s in samples) == Counter(pictures)
    assert [s.source_key for s in samples] == sorted(pictures)
    kinds = Counter(p.suffix.lower() for p in files)
    assert listing.other_files.get(".mp4", 0) == kinds[".mp4"]
    used = {stamp.caption_path for stamp in stamps} - {None}
    alone = sum(count for kind, count in listing.other_files.items() if "without" in kind)
    assert len(used) + alone <= kinds[".txt"] + kinds[".json"] + kinds[".caption"]
    for sample in samples:
        assert (sample.caption is not None) == any(
            stamp.caption_path for stamp in stamps if stamp.path == sample.source_key
        )


def make_many(root: Path, *, num_files: int) -> None:
    for number in range(num_files // 2):
        folder = f"{root}/{number % 10}"
        os.makedirs(folder, exist_ok=True)
        for suffix in ("jpg", "txt"):
            os.close(os.open(f"{folder}/{number}.{suffix}", os.O_CREAT))


@pytest.mark.parametrize("num_files", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_many_files_list_in_seconds_and_in_little_memory(tmp_path: Path, num_files: int) -> None:
    make_many(tmp_path, num_files=num_files)
    start = time.process_time()
    listing = DirectorySource(tmp_path).listing()
    assert time.process_time() - start < 5e-5 * num_files
    assert (len(listing.files), listing.other_files) == (num_files // 2, {})
    tracemalloc.start()
    DirectorySource(tmp_path).listing()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 600 * num_files
