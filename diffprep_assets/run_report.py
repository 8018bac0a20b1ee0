"""What a run came to: one JSON object, or a table for people."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.markup import escape
from rich.table import Table

from diffprep_assets.recipe.formats import ENCODE_STAGES, SHARD_STAGE
from diffprep_assets.rejects import Reject
from diffprep_assets.shard.truncation import Truncation
from diffprep_resources.progress.base import StageSummary, Unit

# Those that every pre-encoded dataset has.
STAGES = (
    *("source_index", "download", "bucket", "curate", "shard_plan", "encode_latents"),
    *("encode_text", "shard", "energon_prepare", "validate"),
)
UNITS: dict[str, Unit] = {
    **dict.fromkeys(("download", "bucket", "source_columns", "picture_hash"), "parts"),
    **dict.fromkeys((*ENCODE_STAGES, *SHARD_STAGE.values()), "shards"),
}


@dataclass(frozen=True, slots=True)
class RunReport:
    """One `diffprep run`. `error` is (stage, message); None: the dataset is whole and valid.

    `stages` are the recipe's, in flow order. `rejects` counts by code, `first_rejects` names the
    first few of each. `skipped` ones are written, and no trainer gets them. `other_files` counts
    source files that hold no samples, `notes` what was done to samples that were kept.
    """

    dataset: str
    recipe_hash: str | None
    generation: int | None = None
    error: tuple[str, str] | None = None
    summaries: Mapping[str, StageSummary] = field(default_factory=dict)
    listed: int = 0
    written: int = 0
    skipped: int = 0
    rejects: Mapping[str, int] = field(default_factory=dict)
    first_rejects: Mapping[str, Sequence[Reject]] = field(default_factory=dict)
    truncated: Sequence[Truncation] = ()
    other_files: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)
    output_dir: str | None = None
    empty_splits: Sequence[str] = ()
    stages: Sequence[str] = STAGES

    @property
    def ok(self) -> bool:
        return self.error is None

    @property
    def served(self) -> int:
        """Samples that a trainer gets."""
        return self.written - self.skipped

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints; every stage is in it, also one that did not run."""
        return {
            "dataset": self.dataset,
            "ok": self.ok,
            "error": None
            if self.error is None
            else {"stage": self.error[0], "message": self.error[1]},
            "generation": self.generation,
            "recipe_hash": self.recipe_hash,
            "stages": {
                stage: _stage_json(
                    self.summaries.get(stage) or StageSummary(stage, UNITS.get(stage))
                )
                for stage in self.stages
            },
            "listed": self.listed,
            "written": self.written,
            "skipped": self.skipped,
            "served": self.served,
            "rejects": dict(sorted(self.rejects.items())),
            "output_dir": self.output_dir,
        }

    def _summary(self, stage: str) -> StageSummary:
        return self.summaries.get(stage) or StageSummary(stage, UNITS.get(stage))

    def lines(self) -> list[Table | str]:
        """What a person is told at the end."""
        lines: list[Table | str] = [self.as_table(), *self.reject_lines()]
        lines += [escape(f"{item.sentence}.") for item in self.truncated if item.truncated]
        lines += [
            f"Split {split} is empty: its share of these samples rounds to none (a sample that was "
            "planned earlier keeps its split)."
            for split in self.empty_splits
        ]
        for words, counts in (
            ("Noted on samples that were kept", self.notes),
            ("Other files of the source, not read", self.other_files),
        ):
            if counts:
                named = ", ".join(f"{in_one_line(key)} {n:,}" for key, n in _most(counts))
                lines.append(escape(f"{words}: {named}"))
        if self.ok and all(
            summary.unit is None or (not summary.done and not summary.failed)
            for summary in self.summaries.values()
        ):
            lines.append("All is fresh: nothing was encoded, no shard was written.")
        if self.ok:
            skipped = f", {self.skipped:,} of them skipped" if self.skipped else ""
            lines.append(f"{self.written:,} samples, valid, in {self.output_dir}{skipped}")
        return lines

    def reject_lines(self) -> Iterator[str]:
        """The counts by reason, most frequent first, with the first few of each."""
        if not self.rejects:
            return
        rejected = sum(self.rejects.values())
        yield f"{rejected:,} of {self.listed:,} samples rejected:"
        for code, count in sorted(self.rejects.items(), key=lambda item: (-item[1], item[0])):
            yield f"  {code} {count:,}"
            named = self.first_rejects.get(code, ())
            for reject in named:
                yield f"    {escape(reject.source_key)}: {escape(in_one_line(reject.message))}"
            if named and count > len(named):
                yield f"    and {count - len(named):,} more"
        yield f"`diffprep rejects {self.dataset}` lists them all."

    def as_table(self) -> Table:
        """A line per stage that ran."""
        table = Table(title=self.dataset, title_justify="left", box=None, padding=(0, 2, 0, 0))
        table.add_column("stage", no_wrap=True)
        for name in ("made", "fresh", "failed", "samples", "encoded", "rejected", "seconds"):
            table.add_column(name, justify="right", no_wrap=True)
        for summary in self.summaries.values():
            samples = summary.samples
            made = fresh = failed = worked = ""
            if summary.unit is not None:
                made, fresh = f"{summary.done:,}", f"{summary.fresh:,}"
                failed, worked = f"{len(summary.failed):,}", f"{samples.encoded:,}"
            rejected = sum(samples.rejects.values())
            table.add_row(
                summary.stage,
                *(made, fresh, failed, f"{samples.samples_out:,}", worked),
                *(f"{rejected:,}", f"{summary.seconds:.1f}"),
            )
        return table


def _most(counts: Mapping[str, int], named: int = 8) -> list[tuple[str, int]]:
    """The most frequent first; the rest as one."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[named:])
    return ordered[:named] + ([("others", rest)] if rest else [])


def in_one_line(text: str) -> str:
    """The text without line breaks and control characters, since it may come from a source."""
    return "".join(char if char.isprintable() else " " for char in text)


def _stage_json(summary: StageSummary) -> dict[str, Any]:
    samples = summary.samples
    content: dict[str, Any] = {}
    if summary.unit is not None:
        content[summary.unit] = {
            "done": summary.done,
            "fresh": summary.fresh,
            "failed": len(summary.failed),
        }
    content["samples"] = {
        "in": samples.samples_in,
        "out": samples.samples_out,
        "encoded": samples.encoded,
        "reused": samples.reused,
        "rejected": sum(samples.rejects.values()),
    }
    content["seconds"] = round(summary.seconds, 3)
    return content
