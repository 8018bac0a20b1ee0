"""Pictures gathered from the rows of parts."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from diffprep_assets.curate.duplicate_pictures import DuplicatePictures
from diffprep_assets.curate.part_rules import PartRows
from diffprep_assets.layout import Layout
from diffprep_assets.picture_hash.table import hash_table
from diffprep_assets.recipe.curation import Dedup


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "set", tmp_path / "out")


def rows(part: str, keys: Sequence[str], side: int = 100) -> PartRows:
    """Samples of pictures whose name begins with their digest."""
    table = pa.table(
        {
            "source_key": pa.array(keys, pa.string()),
            "group": pa.array([key.partition("::")[0] for key in keys], pa.string()),
            "image_digest": pa.array([key[0] * 32 for key in keys], pa.string()),
            "original_width": pa.array([side] * len(keys), pa.int32()),
            "original_height": pa.array([side] * len(keys), pa.int32()),
        }
    )
    return PartRows(part, table)


def hashes(layout: Layout, part: str, **values: int | None) -> None:
    with hash_table(layout.picture_hash(part), metadata={}) as table:
        for group, value in values.items():
            table.add(group, "", value)


def found(pictures: DuplicatePictures) -> dict[str, bool]:
    return {key: picture.keep for key, picture in pictures.found().items()}


def test_a_picture_of_several_captions_is_one_row_and_written_if_a_caption_is(
    layout: Layout,
) -> None:
    written = pa.array(["xb::c1"])
    pictures = DuplicatePictures(Dedup(method="digest"), layout=layout, written=written)
    pictures.add(rows("p00000", ["xa", "xb::c0", "xb::c1", "y"]), range(4))
    pictures.add(rows("p00001", ["xc", "xd"], side=900), [1])
    assert found(pictures) == {"xa": False, "xb": True, "xd": False}


def test_hashes_are_joined_by_picture_and_may_be_missing(layout: Layout) -> None:
    nobody = pa.array([], pa.string())
    pictures = DuplicatePictures(Dedup(), layout=layout, written=nobody)
    hashes(layout, "p00000", a=0b1100, b=None, c=0b1111, d=2**64 - 1)
    hashes(layout, "p00001", e=0b1101)
    pictures.add(rows("p00000", ["a", "b", "c", "d"]), [0, 1, 3])
    pictures.add(rows("p00001", ["e"], side=200), [0])
    assert found(pictures) == {"a": False, "e": True}


def test_no_pictures_have_no_duplicates(layout: Layout) -> None:
    nobody = pa.array([], pa.string())
    pictures = DuplicatePictures(Dedup(method="digest"), layout=layout, written=nobody)
    assert found(pictures) == {}
    pictures.add(rows("p00000", []), [])
    assert found(pictures) == {}
