"""`diffprep rewrite`: skipped samples leave their shards, which are written anew."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from diffprep_assets.changes import plural
from diffprep_assets.console import AsJson, Name, ProjectDir, err, explained, out
from diffprep_assets.curate.inputs import verdicts_are_fresh
from diffprep_assets.dataset import Dataset
from diffprep_assets.project import find_project
from diffprep_assets.quantities import bytes_text
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.run_and_show import brought_up_to_date
from diffprep_assets.shard.record import read_record
from diffprep_assets.shard_plan.inputs import input_versions, plan_fingerprint
from diffprep_assets.shard_plan.table import read_head, read_shards
from diffprep_assets.skip_lists.report import run_lines, skip_lines
from diffprep_assets.source_index.table import read_index
from diffprep_resources.errors import DiffprepError, SettingError

OUT_OF_DATE = "whom a list or rule that changed since the last run is against leaves too"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What a rewrite would do to a plan's shards: `skipped` samples leave `shards`, of which
    `emptied` hold nothing else and go; `bytes` are those of the others, over all formats. Not
    `up_to_date`: lists, rules or source changed since, and a rewrite takes what they say along."""

    skipped: int
    shards: int
    emptied: int
    bytes: int
    up_to_date: bool

    @property
    def sentence(self) -> str:
        written = self.shards - self.emptied
        words = (
            f"{self.skipped:,} skipped {plural('sample', self.skipped)} leave; {written:,} "
            f"{plural('shard', written)}, {bytes_text(self.bytes)}, written anew"
        )
        words = f"{words}, {self.emptied:,} removed" if self.emptied else words
        words = words if self.skipped else "no sample is skipped"
        return words if self.up_to_date else f"{words}; {OUT_OF_DATE}"


@explained
def rewrite(
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say it, and write nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """Write shards anew without their skipped samples; encodes nothing."""
    found = find_project(Path.cwd(), project)
    dataset = Dataset(load_recipe(found.recipe_path(name), base=found.folder), found.storage_root)
    if read_head(dataset.layout.shard_plan) is None:
        raise DiffprepError(
            f"{dataset.name}: nothing was planned yet; run `diffprep run {dataset.name}` first"
        )
    planned = rewrite_of(dataset)
    if dry_run:
        _say(planned, dataset.name, as_json=as_json)
        return
    if (planned.skipped or not planned.up_to_date) and not yes:
        _ask(planned, dataset.name)
    # A killed rewrite is finished by the next one, also when the plan holds no skipped sample.
    report = brought_up_to_date(found, name, execution={"drop_skipped": True}, as_json=as_json)
    if as_json:
        content = {"dataset": dataset.name, **asdict(planned), "dry_run": False}
        print(json.dumps({**content, "run": report.as_json()}))
        return
    for line in (planned.sentence, *run_lines(report), *skip_lines(dataset)):
        out.print(line, soft_wrap=True, highlight=False)


def rewrite_of(dataset: Dataset) -> Rewrite:
    """What a rewrite would do to the plan that is on disk."""
    layout = dataset.layout
    shards = [shard for shard in read_shards(layout.shards) if shard.num_skipped]
    emptied = [shard for shard in shards if shard.num_skipped == shard.num_samples]
    kept = [shard.shard for shard in shards if shard.num_skipped < shard.num_samples]
    return Rewrite(
        skipped=sum(shard.num_skipped for shard in shards),
        shards=len(shards),
        emptied=len(emptied),
        bytes=_bytes(dataset, kept),
        up_to_date=_is_up_to_date(dataset),
    )


def _is_up_to_date(dataset: Dataset) -> bool:
    """Whether the plan is of the verdicts that a run would make of the files as they are."""
    index = read_index(dataset.layout.source_index)
    if index is None:
        return True
    parts = index.parts.parts
    head = read_head(dataset.layout.shard_plan)
    return (
        verdicts_are_fresh(dataset, parts)
        and head is not None
        and head["fingerprint"] == plan_fingerprint(dataset, input_versions(dataset, parts))
    )


def _bytes(dataset: Dataset, shards: Sequence[str]) -> int:
    layouts = [dataset.layout.of(format) for format in dataset.recipe.output.formats]
    records = (read_record(layout.shard_record(shard)) for layout in layouts for shard in shards)
    return sum(record.size_bytes for record in records if record is not None)


def _say(planned: Rewrite, dataset: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"dataset": dataset, **asdict(planned), "dry_run": True}))
        return
    out.print(f"{dataset}: {planned.sentence}", soft_wrap=True, highlight=False)


def _ask(planned: Rewrite, dataset: str) -> None:
    """Raises SettingError unless a person says yes."""
    if not sys.stdin.isatty():
        raise SettingError(
            f"{dataset}: {planned.sentence}; say --yes, since nobody can be asked here"
        )
    err.print(f"{planned.sentence}. Nothing is encoded again.", soft_wrap=True)
    if not typer.confirm("Write them anew?", err=True):
        raise SettingError("nothing was written")
