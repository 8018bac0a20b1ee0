import io
import os
import random
import tarfile
from pathlib import Path

import pytest

from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.tar_headers import TarMember, tar_members


def scan(path: Path) -> tuple[list[TarMember], SampleReject | None]:
    members: list[TarMember] = []
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for member in tar_members(descriptor):
            members.append(member)
    except SampleReject as reject:
        return members, reject
    finally:
        os.close(descriptor)
    return members, None


def make_tar(path: Path, names: dict[str, bytes], *, format: int = tarfile.USTAR_FORMAT) -> None:
    with tarfile.open(path, "w", format=format) as tar:
        for name, data in names.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_equal_those_that_tarfile_finds(tmp_path: Path, format: int) -> None:
    names = {f"{'folder/' * depth}{depth}.jpg": os.urandom(depth * 300) for depth in range(25)}
    names |= {"caf\u00e9.jpg": b"x", "empty.txt": b"", "block.jpg": bytes(512)}
    if format != tarfile.USTAR_FORMAT:
        names["long/" * 60 + "\u732b" * 80 + ".jpg"] = b"long"
    make_tar(tmp_path / "a.tar", names, format=format)
    members, damage = scan(tmp_path / "a.tar")
    assert damage is None
    with tarfile.open(tmp_path / "a.tar") as tar:
        expected = [(info.name, info.offset_data, info.size) for info in tar]
    assert [(member.name, member.offset, member.size) for member in members] == expected
    assert [member.name for member in members] == list(names)


def test_folders_and_links_have_their_kind(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.jpg").write_bytes(b"data")
    os.link(tmp_path / "d/a.jpg", tmp_path / "d/hard.jpg")
    (tmp_path / "d/soft.jpg").symlink_to("a.jpg")
    os.mkfifo(tmp_path / "d/pipe")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in ["d", "d/a.jpg", "d/hard.jpg", "d/soft.jpg", "d/pipe"]:
            tar.add(tmp_path / name, name, recursive=False)
    members, damage = scan(tmp_path / "a.tar")
    assert damage is None
    assert [member.kind for member in members] == ["folder", "file", "link", "link", "special"]


def test_a_sparse_member_written_by_gnu_tar_is_told_apart_and_the_next_is_found(
    tmp_path: Path,
) -> None:
    header = bytearray(tarfile.TarInfo("s.jpg").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = b"S"
    header[482] = 1
    header[124:136] = b"%011o\0" % 512
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    plain = tarfile.TarInfo("b.jpg").tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "a.tar").write_bytes(header + bytes(512) + b"d" * 512 + plain + bytes(1024))
    members, damage = scan(tmp_path / "a.tar")
    assert damage is None
    assert [(m.name, m.kind, m.offset) for m in members] == [
        ("s.jpg", "sparse file", 1024),
        ("b.jpg", "file", 2048),
    ]


def test_tars_joined_end_to_end_read_as_one(tmp_path: Path) -> None:
    make_tar(tmp_path / "a.tar", {"a.jpg": b"A"})
    make_tar(tmp_path / "b.tar", {"b.jpg": b"B"})
    joined = (tmp_path / "a.tar").read_bytes() + (tmp_path / "b.tar").read_bytes()
    (tmp_path / "ab.tar").write_bytes(joined)
    members, damage = scan(tmp_path / "ab.tar")
    assert damage is None
    assert [joined[m.offset : m.offset + m.size] for m in members] == [b"A", b"B"]


@pytest.mark.parametrize("cut", range(0, 3 * 1024 + 1, 128))
def test_a_tar_cut_anywhere_gives_the_members_before_the_cut_and_says_so(
    tmp_path: Path, cut: int
) -> None:
    make_tar(tmp_path / "a.tar", {f"{number}.jpg": b"x" * 500 for number in range(3)})
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:cut])
    members, damage = scan(tmp_path / "a.tar")
    assert len(members) == (cut + 12) // 1024
    assert damage is not None
    assert damage.code == ("unreadable_file" if 0 < cut < 300 else "truncated_archive")


def test_a_damaged_header_ends_the_members_with_its_place(tmp_path: Path) -> None:
    make_tar(tmp_path / "a.tar", {f"{number}.jpg": b"x" for number in range(3)})
    data = bytearray((tmp_path / "a.tar").read_bytes())
    data[1024 + 30] ^= 1
    (tmp_path / "a.tar").write_bytes(data)
    members, damage = scan(tmp_path / "a.tar")
    assert [member.name for member in members] == ["0.jpg"]
    assert damage is not None
    assert (damage.code, "byte 1024" in damage.message) == ("unreadable_file", True)


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"<html>" * 200, "not a tar"), (b"<html>", "not a tar"), (b"\x1f\x8b\x08" * 99, "gzip")],
)
def test_what_is_no_tar_is_named(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "a.tar").write_bytes(data)
    members, damage = scan(tmp_path / "a.tar")
    assert members == []
    assert damage is not None
    assert said in damage.message


def test_sizes_that_are_negative_or_beyond_the_file_end_the_scan(tmp_path: Path) -> None:
    header = tarfile.TarInfo("a.jpg").tobuf(tarfile.GNU_FORMAT)
    for size in [b"\xff" * 12, b"\x80" + b"\xff" * 11, b"777777777777"]:
        for kind in b"0xLS":
            broken = bytearray(header)
            broken[124:136], broken[156] = size, kind
            broken[148:156] = b" " * 8
            broken[148:156] = b"%06o\0 " % sum(broken)
            (tmp_path / "a.tar").write_bytes(broken + bytes(4096))
            members, damage = scan(tmp_path / "a.tar")
            assert members == []
            assert damage is not None


def test_randomly_damaged_tars_end_and_stay_inside_the_file(tmp_path: Path) -> None:
    chance = random.Random(0)
    names = {"a/b.jpg": b"1" * 700, "long/" * 40 + "c.jpg": b"2", "a/b.json": b'{"caption": "x"}'}
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        make_tar(tmp_path / "a.tar", names, format=format)
        whole = (tmp_path / "a.tar").read_bytes().rstrip(b"\0") + bytes(1024)
        for _ in range(300):
            data = bytearray(whole)
            for _ in range(chance.randrange(1, 6)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            start = chance.randrange(len(data))
            data[start : start + chance.randrange(64)] = b""
            (tmp_path / "a.tar").write_bytes(data)
            members, _ = scan(tmp_path / "a.tar")
            assert all(0 <= m.offset <= m.offset + m.size <= len(data) for m in members)
