"""What a change of a skip list, or a rewrite, came to: for people, and as one JSON object."""

from collections.abc import Iterator
from typing import Any

from diffprep_assets.changes import plural
from diffprep_assets.dataset import Dataset
from diffprep_assets.run_report import UNITS, RunReport, in_one_line
from diffprep_assets.shard_plan.skipped import SkipSizes, run_warning, share_warning, skip_sizes
from diffprep_assets.shard_plan.table import read_shards
from diffprep_assets.skip_lists.matches import ListMatches

NAMED = 3
FRESH_START = (
    "A data loader that runs already, or goes on from a saved state, does not see it: start afresh."
)


def match_lines(name: str, found: ListMatches) -> Iterator[str]:
    """What a list names, and where those samples are."""
    samples = len(found.samples)
    yield (
        f"{name}: {found.entries:,} {'entry names' if found.entries == 1 else 'entries name'} "
        f"{samples:,} {plural('sample', samples)}: {len(found.skipped):,} written and skipped, "
        f"{found.left_out:,} left out"
        + (f", {len(found.served):,} still served" if found.served else "")
    )
    if found.unmatched:
        named = ", ".join(in_one_line(entry) for entry in found.unmatched[:NAMED])
        more = len(found.unmatched) - NAMED
        entries = "entry names" if len(found.unmatched) == 1 else "entries name"
        yield (
            f"{len(found.unmatched):,} {entries} nothing: {named}"
            f"{f' and {more:,} more' if more > 0 else ''}"
        )


def run_lines(report: RunReport) -> Iterator[str]:
    """What the run wrote."""
    shards = sum(
        summary.done for stage, summary in report.summaries.items() if UNITS.get(stage) == "shards"
    )
    if not shards:
        yield "No shard was written."


def skip_lines(dataset: Dataset) -> Iterator[str]:
    """How much of the plan is skipped now."""
    sizes = sizes_now(dataset)
    yield (
        f"{sizes.skipped:,} of {sizes.samples:,} written samples are skipped now"
        f"{'. ' + FRESH_START if sizes.skipped else ''}"
    )


def warnings_now(dataset: Dataset) -> list[str]:
    """What to know of what is skipped now."""
    sizes = sizes_now(dataset)
    return [words for words in (run_warning(sizes), share_warning(sizes)) if words]


def sizes_now(dataset: Dataset) -> SkipSizes:
    return skip_sizes(dataset, read_shards(dataset.layout.shards))


def match_json(found: ListMatches) -> dict[str, Any]:
    """The matches in numbers, with the entries that named nothing."""
    return {
        "entries": found.entries,
        "samples": len(found.samples),
        "skipped": len(found.skipped),
        "left_out": found.left_out,
        "served": len(found.served),
        "unmatched": list(found.unmatched),
    }
