import io
import json
import random
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from diffprep_resources.errors import SettingError, SourceChangedError
from diffprep_resources.sources.base import SourceSample
from diffprep_resources.sources.fields import field_keys
from diffprep_resources.sources.webdataset import WebDatasetSource, fixed_folder


def make_tar(path: Path, *members: tuple[str, bytes | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in members:
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def open_source(tmp_path: Path, **keys: Any) -> WebDatasetSource:
    return WebDatasetSource(f"{tmp_path}/*.tar", keys=field_keys(**keys))


def read(source: WebDatasetSource) -> dict[str, SourceSample]:
    samples = list(source.samples(source.stamps(f.path for f in source.listing().files)))
    found = {sample.source_key: sample for sample in samples}
    assert len(found) == len(samples)
    return found


def captions(tmp_path: Path, **keys: Any) -> dict[str, object]:
    return {key: sample.caption for key, sample in read(open_source(tmp_path, **keys)).items()}


def codes(source: WebDatasetSource) -> dict[str, str]:
    return {key: s.reject.code for key, s in read(source).items() if s.reject is not None}


def test_pictures_pair_with_their_text_wherever_it_stands_in_the_tar(tmp_path: Path) -> None:
    make_tar(
        tmp_path / "s.tar",
        ("b.txt", "of b"),
        ("./x/a.JPG", "A"),
        ("b.png", "B"),
        ("x//a.TXT", "of a"),
    )
    source = open_source(tmp_path)
    found = read(source)
    assert {key: (s.image, s.caption) for key, s in found.items()} == {
        "s.tar::x/a": (b"A", b"of a"),
        "s.tar::b": (b"B", b"of b"),
    }
    for sample in found.values():
        assert source.read_image(sample.location) == sample.image
    assert source.num_samples("s.tar") == 2


def test_the_same_keys_and_captions_as_webdataset_itself_reads(tmp_path: Path) -> None:
    from webdataset.compat import WebDataset

    members = [
        (f"d/{n:03}.{suffix}", f"{n}{suffix}") for n in range(5) for suffix in ("jpg", "TXT")
    ]
    path = make_tar(tmp_path / "s.tar", *members)
    expected = {
        f"s.tar::{sample['__key__']}": (sample["jpg"], sample["txt"])
        for sample in WebDataset(str(path), shardshuffle=False)
    }
    found = read(open_source(tmp_path))
    assert {key: (s.image, s.caption) for key, s in found.items()} == expected


def test_dotted_names_pair_by_their_whole_stem(tmp_path: Path) -> None:
    make_tar(
        tmp_path / "s.tar",
        ("1.5.jpg", ""),
        ("1.5.txt", "one and a half"),
        ("1.6.jpg", ""),
        ("aaa.bbb.jpg", ""),
        ("aaa.txt", "of aaa"),
        ("aaa.jpg", ""),
        ("aaa.bbb.txt", "of aaa.bbb"),
        ("v.photo.png", ""),
        ("v.txt", "by the first dot"),
    )
    assert captions(tmp_path) == {
        "s.tar::1.5": b"one and a half",
        "s.tar::1.6": None,
        "s.tar::aaa.bbb": b"of aaa.bbb",
        "s.tar::aaa": b"of aaa",
        "s.tar::v.photo": b"by the first dot",
    }


def test_captions_inside_json_by_default_keys_and_by_dotted_path(tmp_path: Path) -> None:
    value = json.dumps({"meta": {"caption": "deep"}, "caption": "top", "n": 3, "many": ["a", None]})
    make_tar(tmp_path / "s.tar", ("a.jpg", ""), ("a.json", value))
    assert captions(tmp_path) == {"s.tar::a": "top"}
    assert captions(tmp_path, caption_key="json.meta.caption") == {"s.tar::a": "deep"}
    assert captions(tmp_path, caption_key="json.n") == {"s.tar::a": 3}
    assert captions(tmp_path, caption_key="json.many") == {"s.tar::a": ["a", None]}
    assert captions(tmp_path, caption_key="json.missing") == {"s.tar::a": None}
    assert captions(tmp_path, caption_key="json.meta") == {"s.tar::a": None}
    assert captions(tmp_path, caption_key="json") == {"s.tar::a": "top"}
    assert captions(tmp_path, caption_key="many") == {"s.tar::a": ["a", None]}


def test_a_text_member_comes_before_json_unless_the_recipe_asks_for_json(tmp_path: Path) -> None:
    make_tar(tmp_path / "s.tar", ("a.jpg", ""), ("a.txt", "t"), ("a.json", '{"caption": "j"}'))
    assert captions(tmp_path) == {"s.tar::a": b"t"}
    assert captions(tmp_path, caption_keys=["json.caption", "txt"]) == {"s.tar::a": "j"}
    assert captions(tmp_path, caption_keys=["json.missing", "txt"]) == {"s.tar::a": b"t"}


def test_a_caption_field_with_two_suffixes_is_found_by_its_key(tmp_path: Path) -> None:
    make_tar(
        tmp_path / "s.tar",
        ("a.jpg", ""),
        ("a.caption.txt", "c"),
        ("a.meta.json", '{"x": {"y": "m"}}'),
    )
    assert captions(tmp_path, caption_key="caption.txt") == {"s.tar::a": b"c"}
    assert captions(tmp_path, caption_key="meta.json.x.y") == {"s.tar::a": "m"}


def test_json_that_is_none_is_a_reject(tmp_path: Path) -> None:
    make_tar(
        tmp_path / "s.tar", ("a.jpg", ""), ("a.json", "{"), ("b.jpg", ""), ("b.json", b'"\xe9"')
    )
    assert codes(open_source(tmp_path)) == {
        "s.tar::a": "no_caption",
        "s.tar::b": "caption_encoding",
    }


def test_two_formats_of_one_stem_are_two_samples_that_share_the_caption(tmp_path: Path) -> None:
    make_tar(tmp_path / "s.tar", ("a.jpg", "J"), ("a.png", "P"), ("a.txt", "both"), ("a.JPG", "U"))
    found = read(open_source(tmp_path))
    assert {key: (s.image, s.caption) for key, s in found.items()} == {
        "s.tar::a": (b"J", b"both"),
        "s.tar::a.png": (b"P", b"both"),
        "s.tar::a.jpg": (b"U", b"both"),
    }


def test_a_second_member_of_the_same_name_is_rejected_and_the_first_is_used(tmp_path: Path) -> None:
    make_tar(tmp_path / "s.tar", ("a.jpg", "1"), ("a.txt", "x"), ("a.jpg", "2"), ("a.jpg", "3"))
    source = open_source(tmp_path)
    found = read(source)
    assert found["s.tar::a"].image == b"1"
    assert sorted(codes(source).values()) == ["duplicate_key", "duplicate_key"]


def test_only_the_chosen_image_keys_are_pictures(tmp_path: Path) -> None:
    make_tar(
        tmp_path / "s.tar",
        ("a.input.png", "I"),
        ("a.target.png", "T"),
        ("a.txt", "x"),
        ("b.jpg", ""),
        ("b.gif", ""),
    )
    source = open_source(tmp_path, image_key="target.png")
    assert {key: s.image for key, s in read(source).items()} == {"s.tar::a.target": b"T"}
    assert source.other_members("s.tar") == {
        ".gif not among the image keys": 1,
        ".jpg not among the image keys": 1,
        ".png not among the image keys": 1,
    }
    assert sorted(read(open_source(tmp_path))) == [
        "s.tar::a.input",
        "s.tar::a.target",
        "s.tar::b",
        "s.tar::b.gif",
    ]


def test_junk_folders_and_links_are_counted_and_not_read(tmp_path: Path) -> None:
    path = make_tar(
        tmp_path / "s.tar",
        ("__MACOSX/._a.jpg", "junk"),
        ("__MACOSX/b.jpg", "junk"),
        ("._a.jpg", "junk"),
        ("a.jpg", "A"),
        ("a.txt", "x"),
        ("a.cls", "7"),
        ("alone.txt", "x"),
        ("film.mp4", "x"),
    )
    with tarfile.open(path, "a") as tar:
        folder = tarfile.TarInfo("folder.jpg")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        link = tarfile.TarInfo("link.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    source = open_source(tmp_path)
    found = read(source)
    assert list(found) == ["s.tar::a", "s.tar::link"]
    assert found["s.tar::link"].reject is not None
    assert "a link to /etc/passwd, which is no file of this tar" in str(found["s.tar::link"].reject)
    assert source.other_members("s.tar") == {
        ".mp4 without a picture": 1,
        ".txt without a picture": 1,
        "hidden or __MACOSX": 3,
    }


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/x.jpg", "a/../../x.jpg", "..\\x.jpg", "C:\\x.jpg", "C:/x.jpg"]
)
def test_a_member_that_would_leave_its_folder_is_a_reject(tmp_path: Path, name: str) -> None:
    make_tar(tmp_path / "s.tar", (name, "evil"), ("a.jpg", "A"), ("a.txt", "x"))
    source = open_source(tmp_path)
    found = read(source)
    assert found.pop("s.tar::a").image == b"A"
    ((key, sample),) = found.items()
    assert sample.reject is not None
    assert sample.reject.code == "unsafe_name"
    assert "/" not in key.removeprefix("s.tar::")


def test_an_unsafe_picture_with_its_caption_is_one_reject(tmp_path: Path) -> None:
    make_tar(tmp_path / "s.tar", ("../x.jpg", ""), ("../x.txt", ""), ("a" * 5000 + ".jpg", ""))
    assert list(codes(open_source(tmp_path)).values()) == ["unsafe_name", "unsafe_name"]


def test_a_cut_tar_gives_the_samples_before_the_cut_and_one_reject(tmp_path: Path) -> None:
    members = [(f"{n}.{suffix}", "x" * 3000) for n in range(10) for suffix in ("jpg", "txt")]
    path = make_tar(tmp_path / "s.tar", *members)
    make_tar(tmp_path / "t.tar", ("a.jpg", "A"), ("a.txt", "x"))
    path.write_bytes(path.read_bytes()[: 3584 * 9 - 100])
    source = open_source(tmp_path)
    found = read(source)
    good = [key for key, sample in found.items() if sample.reject is None]
    assert good == ["s.tar::0", "s.tar::1", "s.tar::2", "s.tar::3", "t.tar::a"]
    assert codes(source) == {"s.tar::(file)": "truncated_archive"}
    assert source.num_samples("s.tar") == 5


def test_a_picture_whose_caption_is_beyond_the_cut_says_so(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "s.tar", ("a.jpg", "A"), ("a.txt", "x"))
    path.write_bytes(path.read_bytes()[:1024])
    assert codes(open_source(tmp_path)) == {
        "s.tar::a": "truncated_archive",
        "s.tar::(file)": "truncated_archive",
    }


def test_files_that_are_no_tars_are_one_reject_each_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "empty.tar").write_bytes(b"")
    (tmp_path / "html.tar").write_bytes(b"<html>" * 1000)
    make_tar(tmp_path / "s.tar", ("a.jpg", "A"), ("a.txt", "x"))
    source = open_source(tmp_path)
    assert read(source)["s.tar::a"].image == b"A"
    assert codes(source) == {
        "empty.tar::(file)": "truncated_archive",
        "html.tar::(file)": "unreadable_file",
    }


def test_names_that_are_not_utf8_get_a_storable_key(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "s.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in ["caf\udce9.jpg", "caf\udce9.txt"]:
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
    assert captions(tmp_path) == {"s.tar::caf\\xe9": b"x"}


def test_paths_are_relative_to_the_fixed_folder_of_the_glob(tmp_path: Path) -> None:
    make_tar(tmp_path / "a/1/s.tar", ("x.jpg", "A"), ("x.txt", "x"))
    make_tar(tmp_path / "a/2/s.tar", ("x.jpg", "B"), ("x.txt", "x"))
    (tmp_path / "a/2/notes.md").write_text("x")
    (tmp_path / "a/2/link.tar").symlink_to("../1/s.tar")
    listing = WebDatasetSource(f"{tmp_path}/a/**/*").listing()
    assert [file.path for file in listing.files] == ["1/s.tar", "2/s.tar"]
    assert listing.other_files == {".md": 1, "link to a tar listed already": 1}


def test_the_fixed_folder_of_patterns(tmp_path: Path) -> None:
    (tmp_path / "odd[1]").mkdir()
    (tmp_path / "odd[1]/s[2].tar").write_bytes(b"")
    assert fixed_folder("/data/x/a-*.tar") == ("/data/x", "a-*.tar")
    assert fixed_folder("/data/*/s.tar") == ("/data", "*/s.tar")
    assert fixed_folder("/data/s.tar") == ("/data", "s.tar")
    assert fixed_folder(str(tmp_path)) == (str(tmp_path), "*.[tT][aA][rR]")
    assert fixed_folder(f"{tmp_path}/odd[1]/*.tar") == (f"{tmp_path}/odd[1]", "*.tar")
    one = WebDatasetSource(f"{tmp_path}/odd[1]/s[2].tar").listing()
    assert [file.path for file in one.files] == ["s[2].tar"]


def test_a_glob_without_tars_and_compressed_tars_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(SettingError, match=r"at least one .tar file.*\.md"):
        WebDatasetSource(f"{tmp_path}/*").listing()
    (tmp_path / "s.tar.gz").write_bytes(b"")
    with pytest.raises(SettingError, match=r"s\.tar\.gz.*decompress"):
        WebDatasetSource(f"{tmp_path}/*").listing()


def test_a_tar_that_shrank_is_reported_as_changed(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "s.tar", ("a.jpg", "A" * 2000), ("a.txt", "x"))
    source = open_source(tmp_path)
    location = read(source)["s.tar::a"].location
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(SourceChangedError, match="ends before"):
        source.read_image(location)
    path.unlink()
    with pytest.raises(SourceChangedError, match="gone"):
        source.read_image(location)
    assert source.num_samples("s.tar") == 1


def test_a_rewritten_tar_is_indexed_anew(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "s.tar", ("a.jpg", "A"), ("a.txt", "x"))
    source = open_source(tmp_path)
    assert source.num_samples("s.tar") == 1
    make_tar(path, ("a.jpg", "A"), ("a.txt", "x"), ("b.jpg", "B" * 20000))
    assert source.num_samples("s.tar") == 2


@pytest.mark.parametrize("seed", range(6))
def test_every_picture_of_a_random_tar_is_a_sample_or_a_reject(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    stems = ["a", "a.b", "a.png", "d/a", "../a", "a#2", "(file)", "d/x (1)", "a.jpg"]
    suffixes = [".jpg", ".JPG", ".png", ".txt", ".json", ".cls", ""]
    names = [chance.choice(stems) + chance.choice(suffixes) for _ in range(80)]
    make_tar(tmp_path / "s.tar", *[(name, f'"{n}"') for n, name in enumerate(names)])
    source = open_source(tmp_path)
    found = read(source)
    pictures = [
        (n, name) for n, name in enumerate(names) if name.lower().endswith((".jpg", ".png"))
    ]
    safe = Counter(name for _, name in pictures if not name.startswith(".."))
    rejects = Counter(codes(source).values())
    good = [sample for sample in found.values() if sample.reject is None]
    assert len(good) == len(safe)
    assert rejects["duplicate_key"] == sum(safe.values()) - len(safe)
    assert rejects["unsafe_name"] == any(name.startswith("..") for name in names)
    assert len(found) == source.num_samples("s.tar") == len(good) + rejects.total()
    first = {name: f'"{n}"'.encode() for n, name in reversed(pictures)}
    assert sorted(s.image or b"" for s in good) == sorted(
        data for name, data in first.items() if name in safe
    )
