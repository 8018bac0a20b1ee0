from fractions import Fraction
from pathlib import Path

import pytest

from diffprep_assets.bucket.table import BucketRow, bucket_table
from diffprep_assets.curate.skip_files import entry_of
from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.plan import EMPTY_PLAN, Bucket, Candidate, PlanSettings
from diffprep_assets.shard_plan.planning import Curation, updated_plan
from diffprep_assets.shard_plan.table import write_plan
from diffprep_assets.skip_lists.matches import ListMatches, list_matches
from diffprep_assets.source_index.parts import IndexedFile, SourceParts
from diffprep_assets.source_index.table import SourceIndex, write_index

SHARES = {"train": Fraction(1), "val": Fraction(0), "test": Fraction(0)}
SAMPLES = ("a::c0", "a::c1", "b", "c", "d")


def digest(picture: str) -> str:
    return f"{ord(picture):032x}"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Four pictures, the first with two captions. Sample 0 is skipped, d left out."""
    layout = Layout(tmp_path, "set", tmp_path / "out")
    parts = SourceParts((IndexedFile("p00000", "files", None),))
    layout.bucket("p00000").parent.mkdir(parents=True)
    write_index(layout.source_index, SourceIndex(parts))
    with bucket_table(layout.bucket("p00000"), metadata={}) as table:
        table.add(
            [BucketRow(key, key[0], key[0], "s", image_digest=digest(key[0])) for key in SAMPLES]
        )
    settings = PlanSettings("a", {64: 9}, None, SHARES, 0)
    samples = [
        Candidate(key, key[0], "p00000", digest(key[0]), "c", Bucket(64, 64, 64), (0, 0, 9, 9))
        for key in SAMPLES
    ]
    first = updated_plan(EMPTY_PLAN, samples[:-1], settings)
    curation = Curation({"a::c0": "skip_list:x", "d": "skip_list:x"}, frozenset({0}))
    write_plan(layout.shard_plan, updated_plan(first, samples, settings, curation), fingerprint="f")
    return layout


def found(layout: Layout, *entries: str) -> ListMatches:
    return list_matches(layout, [entry_of(entry) for entry in entries])


def test_a_list_names_samples_by_key_id_or_digest_and_says_where_they_are(layout: Layout):
    matches = found(layout, "b", "0", digest("c"), "d")
    assert matches.samples == {"a::c0", "b", "c", "d"}
    assert (matches.skipped, matches.served, matches.left_out) == ({"a::c0"}, {"b", "c"}, 1)
    assert (matches.entries, matches.unmatched) == (4, ())


def test_the_key_of_a_picture_names_all_its_captions(layout: Layout):
    assert found(layout, "a").samples == {"a::c0", "a::c1"}
    assert found(layout, "a::c1").samples == {"a::c1"}


def test_entries_that_name_nothing_are_told_in_the_order_of_the_list(layout: Layout):
    matches = found(layout, "z", "b", "4711", digest("z"))
    assert matches.unmatched == ("z", "0000004711", digest("z"))


def test_before_there_is_a_plan_a_list_names_what_the_source_has(layout: Layout):
    layout.shard_plan.unlink()
    matches = found(layout, "b", "0")
    assert (matches.samples, matches.left_out) == ({"b"}, 1)
    layout.source_index.unlink()
    assert found(layout, "b").unmatched == ("b",)
