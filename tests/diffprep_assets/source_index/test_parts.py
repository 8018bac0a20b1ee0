import pytest

from diffprep_assets.source_index.parts import SourceParts, assigned_parts
from diffprep_assets.source_index.table import SourceIndex, read_index, write_index
from diffprep_resources.errors import SettingError

EMPTY = SourceParts()


def pictures(*names: str) -> list[tuple[str, int | None]]:
    return [(name, 1) for name in sorted(names)]


def no_count(file) -> int:
    raise AssertionError(f"{file.path} was opened to be counted")


def assigned(old, listed, *, files_per_part=3, max_samples=None, count=no_count):
    return assigned_parts(
        old, listed, files_per_part=files_per_part, max_samples=max_samples, count=count
    )


def by_part(parts: SourceParts) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for file in parts.files:
        result.setdefault(file.part, []).append(file.path)
    return result


def test_files_fill_parts_in_sorted_order():
    assert by_part(assigned(EMPTY, pictures(*"abcdefg"))) == {
        "p00000": ["a", "b", "c"],
        "p00001": ["d", "e", "f"],
        "p00002": ["g"],
    }


def test_a_file_keeps_its_part_and_new_ones_fill_the_last():
    first = assigned(EMPTY, pictures(*"bcde"))
    then = assigned(first, pictures(*"abcdez"))
    assert by_part(then) == {"p00000": ["b", "c", "d"], "p00001": ["a", "e", "z"]}


def test_a_removed_file_keeps_its_place_and_comes_back_to_its_part():
    first = assigned(EMPTY, pictures(*"abcd"))
    without = assigned(first, pictures(*"abd"))
    assert [file.path for file in without.files if not file.present] == ["c"]
    added = assigned(without, pictures(*"abcdx"))
    assert by_part(added) == {"p00000": ["a", "b", "c"], "p00001": ["d", "x"]}


def test_a_part_whose_files_are_all_gone_is_no_part():
    first = assigned(EMPTY, pictures(*"abcd"))
    assert assigned(first, pictures(*"abc")).parts == ["p00000"]


def test_max_samples_registers_only_the_parts_needed():
    parts = assigned(EMPTY, pictures(*"abcdefg"), max_samples=4)
    assert by_part(parts) == {"p00000": ["a", "b", "c"], "p00001": ["d"]}
    assert parts.limits == {}
    more = assigned(parts, pictures(*"abcdefg"), max_samples=6)
    assert by_part(more)["p00001"] == ["d", "e", "f"]


def test_max_samples_cuts_a_tar_short_and_opens_no_tar_that_is_not_needed():
    counts = {"0.tar": 10, "1.tar": 10}
    tars = [("0.tar", None), ("1.tar", None), ("2.tar", None)]
    parts = assigned(
        EMPTY, tars, files_per_part=1, max_samples=15, count=lambda file: counts[file.path]
    )
    assert parts.parts == ["p00000", "p00001"]
    assert parts.limits == {"p00001": 5}


def test_without_max_samples_no_file_is_opened():
    assert assigned(EMPTY, [("0.tar", None)], files_per_part=1).parts == ["p00000"]


@pytest.mark.parametrize("before", [None, 5])
def test_max_samples_below_what_is_planned_is_refused(before):
    first = assigned(EMPTY, [("0.parquet", 4), ("1.parquet", 4)], max_samples=before)
    with pytest.raises(SettingError, match="max_samples is 4, but"):
        assigned(first, [("0.parquet", 4), ("1.parquet", 4)], max_samples=4)


def test_an_index_written_and_read_is_the_same(tmp_path):
    parts = assigned(EMPTY, [("0.tar", None), ("1.tar", 3)], files_per_part=1)
    index = SourceIndex(parts, "abc", {".txt": 3})
    write_index(tmp_path / "i.parquet", index)
    assert read_index(tmp_path / "i.parquet") == index
    assert index.paths() == {"p00000": ["0.tar"], "p00001": ["1.tar"]}
    assert read_index(tmp_path / "none.parquet") is None
