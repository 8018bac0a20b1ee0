import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffprep_assets.curate.dedup import Duplicate, duplicates

BASE = 0x0123_4567_89AB_CDEE
SCHEMA = pa.schema(
    {
        "key": pa.string(),
        "image_digest": pa.string(),
        "hash": pa.uint64(),
        "area": pa.int64(),
        "planned": pa.bool_(),
    }
)


def picture(key, *, digest=None, bits=None, area=100, planned=False):
    """A row; `bits` of BASE are turned in its hash, None is a picture without one."""
    value = None if bits is None else BASE ^ sum(1 << bit for bit in bits)
    return (key, digest or f"digest of {key}", value, area, planned)


def table(*rows) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def kept(found: list[Duplicate]) -> list[str]:
    return [each.key for each in found if each.keep]


def test_of_near_ones_the_largest_is_kept_and_the_others_say_whose_they_are():
    found = duplicates(
        table(
            picture("b.jpg", bits=[1, 2, 3], area=100),
            picture("c.jpg", bits=[], area=400),
            picture("a.jpg", bits=range(10, 15), area=900),
        ),
        max_distance=4,
    )
    assert found == [
        Duplicate("b.jpg", "b.jpg", False, "near-duplicate of c.jpg, 3 of 64 bits differ"),
        Duplicate("c.jpg", "b.jpg", True, None),
    ]


def test_of_equally_large_ones_that_with_the_smallest_key_is_kept():
    rows = [picture(key, digest="same") for key in ("b.jpg", "B.jpg", "a/z.jpg", "\u00e4.jpg")]
    found = duplicates(table(*rows), max_distance=None)
    assert kept(found) == ["B.jpg"]
    assert {each.component for each in found} == {"B.jpg"}
    assert found[1].message == "the same bytes as B.jpg"


def test_flat_pictures_are_duplicates_by_their_bytes_only():
    rows = [picture("a", digest="x"), picture("b", digest="y"), picture("c", digest="x")]
    assert [each.key for each in duplicates(table(*rows), max_distance=4)] == ["a", "c"]


def test_digests_alone_leave_near_ones_where_they_are():
    rows = [picture("a", bits=[]), picture("b", bits=[]), picture("c", bits=[1], digest="x")]
    assert duplicates(table(*rows), max_distance=None) == []
    without = table(*rows, picture("d", digest="x")).drop_columns(["hash"])
    assert [each.key for each in duplicates(without, max_distance=None)] == ["c", "d"]


def test_of_a_chain_all_are_one_component_and_what_is_near_none_that_is_kept_stays():
    rows = [
        picture("a", bits=[], area=500),
        picture("b", bits=[1, 2, 3]),
        picture("c", bits=range(1, 7)),
        picture("d", bits=range(1, 7), digest="digest of c"),
    ]
    found = {each.key: each for each in duplicates(table(*rows), max_distance=4)}
    assert {each.component for each in found.values()} == {"a"}
    assert kept(list(found.values())) == ["a", "c"]
    assert found["b"].message == "near-duplicate of a, 3 of 64 bits differ"
    assert found["d"].message == "the same bytes as c"


def test_a_planned_one_stays_until_replacing_is_asked_for():
    rows = table(picture("a", bits=[], area=900), picture("b", bits=[1], planned=True))
    assert kept(duplicates(rows, max_distance=4)) == ["b"]
    assert kept(duplicates(rows, max_distance=4, replace=True)) == ["a"]


def test_planned_ones_that_turn_out_to_be_duplicates_both_stay():
    rows = table(
        picture("a", bits=[1], planned=True),
        picture("b", bits=[2], area=900, planned=True),
        picture("c", bits=[3], area=1_000),
    )
    found = duplicates(rows, max_distance=4)
    assert kept(found) == ["a", "b"]
    assert found[2].message == "near-duplicate of b, 2 of 64 bits differ"
    assert kept(duplicates(rows, max_distance=4, replace=True)) == ["c"]


def test_no_pictures_have_no_duplicates():
    assert duplicates(SCHEMA.empty_table(), max_distance=4) == []


def test_a_picture_given_twice_is_refused():
    with pytest.raises(ValueError, match="a key comes twice"):
        duplicates(table(picture("a"), picture("a")), max_distance=4)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(0, 20).map("digest {}".format),
        st.one_of(st.none(), st.sets(st.integers(0, 63), max_size=5)),
        st.integers(1, 3),
        st.booleans(),
    ),
    unique_by=lambda row: row[0],
    min_size=1,
    max_size=25,
)


def expected(rows: list[tuple], most: int | None, replace: bool) -> dict[str, tuple[str, bool]]:
    """Component and verdict by key: all pairs are compared, the first in line stays."""

    def near(one: tuple, other: tuple) -> bool:
        hashed = most is not None and None not in (one[2], other[2])
        return one[1] == other[1] or (hashed and (one[2] ^ other[2]).bit_count() <= most)

    group = {row[0]: {row[0]} for row in rows}
    for one, other in itertools.combinations(rows, 2):
        if near(one, other):
            both = group[one[0]] | group[other[0]]
            group.update(dict.fromkeys(both, both))
    kept: list[tuple] = []
    for row in sorted(rows, key=lambda row: (replace or not row[4], -row[3], row[0])):
        fixed = row[4] and not replace
        if fixed or not any(near(row, other) for other in kept):
            kept.append(row)
    return {row[0]: (min(group[row[0]]), row in kept) for row in rows if len(group[row[0]]) > 1}


@given(ROWS, st.sampled_from((None, 0, 2, 4)), st.booleans(), st.randoms(use_true_random=False))
def test_components_and_verdicts_are_those_of_all_pairs_in_any_order(drawn, most, replace, random):
    hash_of_digest = {digest: bits for _, digest, bits, _, _ in drawn}
    rows = [
        picture(f"{key:02d}", digest=digest, bits=hash_of_digest[digest], area=area, planned=plan)
        for key, digest, _, area, plan in drawn
    ]
    random.shuffle(rows)
    found = duplicates(table(*rows), max_distance=most, replace=replace)
    assert found == sorted(found, key=lambda each: (each.component, each.key))
    verdicts = {each.key: (each.component, each.keep) for each in found}
    assert verdicts == expected(rows, most, replace)
    assert all((each.message is None) == each.keep for each in found)


def test_thousands_of_pictures_with_one_hash_are_one_component():
    rows = table(*(picture(f"{number:05d}", bits=[], area=number) for number in range(5_000)))
    found = duplicates(rows, max_distance=4)
    assert kept(found) == ["04999"]
    assert np.unique([each.component for each in found]).tolist() == ["00000"]
