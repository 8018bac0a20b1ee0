"""Which samples lists name."""

from diffprep_assets.curate.skip_files import SkipEntry, SkipList
from diffprep_assets.curate.skips import SkipCounts, SkipIndex, wanted_ids

DIGEST = "0" * 32


def skip_list(*entries: SkipEntry) -> SkipList:
    return SkipList(entries, "")


LISTS = {
    "mine": skip_list(
        SkipEntry("a.jpg", "source_key"),
        SkipEntry("typo.jpg", "source_key"),
        SkipEntry("0000000005", "sample_id", "blurred"),
        SkipEntry("0000000099", "sample_id"),
    ),
    "more": skip_list(SkipEntry("a.jpg", "source_key"), SkipEntry(DIGEST, "digest")),
}


def test_samples_are_named_by_key_picture_id_or_digest() -> None:
    index = SkipIndex(LISTS, keys_of_ids={5: "e.jpg::c1"})
    keys = ["a.jpg::c0", "a.jpg::c1", "b.jpg", "e.jpg::c0", "e.jpg::c1", "f.jpg"]
    groups = ["a.jpg", "a.jpg", "b.jpg", "e.jpg", "e.jpg", "f.jpg"]
    digests = [None, None, "1" * 32, None, None, DIGEST]
    found = dict(index.rejections(keys, groups, digests))
    assert {keys[place]: why.rule for place, why in found.items()} == {
        "a.jpg::c0": "skip_list:mine",
        "a.jpg::c1": "skip_list:mine",
        "e.jpg::c1": "skip_list:mine",
        "f.jpg": "skip_list:more",
    }
    assert [found[place].message for place in (0, 4)] == ["listed in mine", "blurred"]
    assert {why.code for why in found.values()} == {"skip_list"}


def test_entries_that_name_no_sample_are_counted_and_told() -> None:
    index = SkipIndex(LISTS, keys_of_ids={5: "gone.jpg"})
    list(index.rejections(["a.jpg"], ["a.jpg"], [DIGEST]))
    assert index.counts() == {
        "mine": SkipCounts(4, 2, ("typo.jpg", "0000000099")),
        "more": SkipCounts(2, 0, ()),
    }


def test_only_ids_are_asked_of_the_plan() -> None:
    assert wanted_ids(LISTS) == {5, 99}
