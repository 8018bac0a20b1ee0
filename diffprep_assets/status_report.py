"""The forecast for people and for scripts."""

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from diffprep_assets.changes import plural
from diffprep_assets.forecast import Forecast

COUNTED = {
    "bucket": ("file", "open"),
    "picture_hash": ("picture", "hash"),
    "encode_latents": ("picture", "encode"),
    "encode_text": ("caption", "encode"),
    "encode_first_frame": ("first frame", "encode"),
    "encode_clip": ("first frame", "encode"),
    "shard_raw": ("picture", "store"),
    "shard_mds": ("picture", "store"),
}
SHOWN_REASONS = 6
STYLES = {"fresh": "green", "stale": "yellow", "missing": "cyan", "failed": "bold red"}


def status_json(
    dataset: str, found: Forecast, failed: Mapping[str, set[str]] | None = None
) -> dict[str, Any]:
    """The object that `status --json` prints. A partition that failed and is still missing or
    stale counts as failed. Whole stages count as one."""
    stages = {}
    for stage, state in found.stages.items():
        broken = {key for key in (failed or {}).get(stage, ()) if state.states.get(key) != "fresh"}
        kept = [value for key, value in state.states.items() if key not in broken]
        stages[stage] = {
            "fresh": kept.count("fresh"),
            "stale": kept.count("stale"),
            "missing": kept.count("missing"),
            "failed": len(broken & state.states.keys()),
            "why": [
                {"reason": reason, "shards": count} for reason, count in state.why.most_common()
            ],
        }
    return {"dataset": dataset, "stages": stages}


def status_table(status: Mapping[str, Any]) -> Table:
    """A line per stage, with the reasons of what is not fresh; unused columns are left out."""
    table = Table(title=status["dataset"], title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("stage", no_wrap=True)
    columns = [name for name in STYLES if any(row[name] for row in status["stages"].values())]
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True, style=STYLES[column])
    table.add_column("why", overflow="fold")
    for stage, row in status["stages"].items():
        why = [
            f"{entry['reason']} ({entry['shards']:,})" if entry["shards"] > 1 else entry["reason"]
            for entry in row["why"][:SHOWN_REASONS]
        ]
        if len(row["why"]) > SHOWN_REASONS:
            why.append(f"and {len(row['why']) - SHOWN_REASONS} more reasons")
        numbers = [f"{row[column]:,}" if row[column] else "" for column in columns]
        table.add_row(stage, *numbers, escape("\n".join(why)))
    return table


def work_lines(found: Forecast) -> list[str]:
    """What a run would do, a line per stage that has something to do."""
    lines = []
    for stage, state in found.stages.items():
        counts = state.counts()
        to_do = counts["stale"] + counts["missing"]
        if not to_do:
            continue
        words = f"{stage}: {to_do:,} of {len(state.states):,}"
        if stage in COUNTED:
            noun, verb = COUNTED[stage]
            words += f", {state.to_encode:,} {plural(noun, state.to_encode)} to {verb}"
        lines.append(words)
    if found.unread_files:
        lines.append(
            f"{found.unread_files:,} files are to be opened first; the shards above are those of "
            f"the plan as it is"
        )
    if lines and not found.has_verdicts:
        lines.append(
            "curate comes first; the shards above are those of the verdicts that it gave before"
        )
    return lines or ["nothing: all is fresh"]
