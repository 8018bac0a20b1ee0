import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffprep_assets.energon_prepare.names import (
    NamedContent,
    base_name,
    choose_name,
    highest_rewrites,
    is_tar_name,
    mds_base_name,
    split_name,
    tar_name,
)
from diffprep_assets.shard.record import ShardRecord

RECORD = ShardRecord("g1-512-352x704-000003", "f", 512, 352, 704, 3, 1, 10240, 1024, "digest")


def choose(
    given_names: Mapping[str, str],
    *,
    digest: str,
    last: int | None = None,
    broken: tuple[str, ...] = (),
    on_disk: tuple[str, ...] = (),
) -> str:
    return choose_name(
        "000003",
        digest=digest,
        given={name: NamedContent(held, 1) for name, held in given_names.items()},
        last_rewrites=last,
        fits=lambda name: name not in broken,
        taken=lambda name: name in on_disk,
    )


def test_one_bucket_stands_at_the_root_and_several_in_their_folders() -> None:
    assert base_name(RECORD, nested=False) == "000003"
    assert base_name(RECORD, nested=True) == "512/352x704/000003"


def test_a_folder_of_clips_also_says_how_many_frames_they_have() -> None:
    clips = replace(RECORD, frames=77)
    assert base_name(clips, nested=False) == "000003"
    assert base_name(clips, nested=True) == "352x704x77/000003"
    assert is_tar_name("352x704x77/000003-1.tar")
    assert split_name("352x704x77/000003-1.tar") == ("352x704x77/000003", 1)
    assert not is_tar_name("704x77/000003.tar")


def test_a_shard_gets_its_number_first_and_a_count_after_each_rewrite() -> None:
    assert choose({}, digest="a") == "000003.tar"
    assert choose({"000003.tar": "a"}, digest="b", last=0) == "000003-1.tar"
    assert choose({"000003-1.tar": "b"}, digest="c", last=1) == "000003-2.tar"


def test_unchanged_content_keeps_its_name() -> None:
    assert choose({"000003-4.tar": "a"}, digest="a", last=4) == "000003-4.tar"


def test_content_that_comes_back_after_its_name_is_forgotten_gets_a_new_name() -> None:
    assert choose({"000003-1.tar": "b"}, digest="a", last=1) == "000003-2.tar"


def test_a_damaged_file_is_not_taken_for_its_content() -> None:
    names = {"000003.tar": "a"}
    assert choose(names, digest="a", last=0, broken=("000003.tar",)) == "000003-1.tar"


def test_a_name_that_somebody_else_put_there_is_passed_over() -> None:
    assert choose({}, digest="a", on_disk=("000003.tar", "000003-1.tar")) == "000003-2.tar"


def test_another_shards_equal_content_lends_no_name() -> None:
    assert choose({"000004.tar": "a"}, digest="a") == "000003.tar"


def test_counts_only_rise() -> None:
    assert highest_rewrites(["000001-2.tar", "a/2x2/000000.tar"], known={"000001": 5}) == {
        "000001": 5,
        "a/2x2/000000": 0,
    }


@given(st.integers(0, 10**7), st.integers(0, 99), st.booleans())
def test_a_name_gives_back_its_base_and_count(number: int, rewrites: int, nested: bool) -> None:
    base = f"512/352x704/{number:06d}" if nested else f"{number:06d}"
    name = tar_name(base, rewrites=rewrites)
    assert split_name(name) == (base, rewrites)
    assert is_tar_name(name)


@pytest.mark.parametrize(
    "name", ["../000000.tar", "/000000.tar", "a/000000.tar", "000000.tar/x", "000000.tar\n", 7]
)
def test_a_name_that_is_not_of_this_form_never_becomes_a_path(name: object) -> None:
    assert not is_tar_name(name)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_over_any_history_no_name_ever_holds_two_contents(history: list[int]) -> None:
    state: dict[str, str] = {}
    last: dict[str, int] = {}
    held: dict[str, str] = {}
    for content in history:
        name = choose(state, digest=str(content), last=last.get("000003"))
        assert held.setdefault(name, str(content)) == str(content)
        assert re.fullmatch(r"000003(-\d+)?\.tar", name)
        state = {name: str(content)}
        last = highest_rewrites(state, known=last)


def test_an_mds_shard_lies_in_the_folder_of_its_split_tier_and_aspect() -> None:
    base = mds_base_name(RECORD, split="val")
    assert base == "val/512/0.500/shard.000003"
    names = [tar_name(base, rewrites=count) for count in (0, 2)]
    assert names == [f"{base}.mds", f"{base}-2.mds"]
    assert [split_name(name) for name in names] == [(base, 0), (base, 2)]
    assert all(is_tar_name(name) for name in names)


@pytest.mark.parametrize(
    "name",
    [
        "val/512/0.500/../shard.000003.mds",
        "other/512/0.500/shard.000003.mds",
        "val/512/0.5/shard.000003.mds",
        "/val/512/0.500/shard.000003.mds",
        "val/512/0.500/shard.000003.tar",
        "val/512/0.500/000003.mds",
    ],
)
def test_no_other_name_of_an_mds_shard_becomes_a_path(name: str) -> None:
    assert not is_tar_name(name)
