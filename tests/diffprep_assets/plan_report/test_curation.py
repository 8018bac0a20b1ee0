"""What a plan says of curation."""

from pathlib import Path

import pytest

from diffprep_assets.curate.table import Verdict, write_verdicts
from diffprep_assets.layout import Layout
from diffprep_assets.plan_report.curation import left_out, verdict_facts
from diffprep_assets.plan_report.facts import VerdictFacts
from diffprep_assets.plan_report.words import verdict_words
from diffprep_assets.rejects import Reject, write_rejects


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, "set", tmp_path / "out")


def verdict(number: int, code: str, rule: str) -> Verdict:
    return Verdict(f"{number}.jpg", "p00000", False, code, f"message {number}", rule)


def test_verdicts_are_counted_by_rule_and_code_most_first(layout: Layout):
    rows = [
        verdict(0, "filter_where", "filters.where"),
        Verdict("1.jpg", "p00000", True, group="dup:0.jpg"),
        *(verdict(n, "duplicate", "dedup") for n in range(2, 7)),
        verdict(7, "filter_null", "filters.where"),
        verdict(8, "filter_null", "filters.where"),
    ]
    write_verdicts(layout.curate, rows, metadata={})
    found = verdict_facts(layout, named=2)
    assert [(one.rule, one.code, one.samples) for one in found] == [
        ("dedup", "duplicate", 5),
        ("filters.where", "filter_null", 2),
        ("filters.where", "filter_where", 1),
    ]
    assert found[0].first == (
        {"source_key": "2.jpg", "message": "message 2"},
        {"source_key": "3.jpg", "message": "message 3"},
    )
    assert {(one.left_out, one.skipped) for one in found} == {(5, 0), (2, 0), (1, 0)}


def test_without_a_table_there_are_no_verdicts(layout: Layout):
    assert verdict_facts(layout, named=3) == ()


def test_those_left_out_after_bucket_are_known_by_part_and_by_shard(layout: Layout):
    rejects = [
        Reject("bucket", "too_small", "m", "0.jpg", "p00000"),
        Reject("curate", "duplicate", "m", "1.jpg", "p00000"),
        Reject("shard_plan", "split_leak", "m", "2.jpg", "p00001"),
        Reject("encode_latents", "unreadable_image", "m", "3.jpg", None, "g0-64-64x64-000000", 3),
    ]
    write_rejects(layout.rejects, rejects)
    found = left_out(layout.rejects)
    assert found.of_part("p00000") == {"1.jpg", "3.jpg"}
    assert found.of_part("p00001") == {"2.jpg", "3.jpg"}
    assert found.members == {"g0-64-64x64-000000": 1}
    assert left_out(layout.folder / "nothing.parquet").of_part("p00000") == frozenset()


@pytest.mark.parametrize(
    ("left", "skipped", "words"),
    [
        (3, 0, "dedup (duplicate): 3 left out"),
        (2, 1, "dedup (duplicate): 2 left out and 1 written and skipped"),
        (0, 3, "dedup (duplicate): 3 written and skipped"),
    ],
)
def test_a_rule_says_what_becomes_of_its_samples(left: int, skipped: int, words: str):
    assert verdict_words(VerdictFacts("dedup", "duplicate", 3, left, skipped)) == words
