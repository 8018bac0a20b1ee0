"""Whether the published FastVideo rows are just those of the plan, under its captions."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow.parquet as pq

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.provenance import plan_shards, read_provenance
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import read_record
from diffprep_assets.shard_plan.members import members_of_shard
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.validate.report import Check, Failure
from diffprep_resources.errors import DiffprepError

NAME = "plan"


def plan_check(dataset: Dataset, shards: Sequence[PlannedShard]) -> Check:
    """Every planned sample is a row under its id and caption, rejected while encoding, or skipped;
    and there are no others. Reads ids and captions alone."""
    layout = dataset.layout.of("fastvideo")
    content = read_provenance(layout.dataset_json)
    if content is None:
        return Check(NAME, "nothing to compare with: output.finalize is false")
    names = {shard: name for name, shard in plan_shards(content).items()}
    failures: list[Failure] = []
    rows = 0
    for shard in shards:
        name = names.get(shard.shard)
        try:
            expected = _expected(layout, shard.shard)
            found = dict(_rows(layout, name)) if name else {}
        except (DiffprepError, OSError) as error:
            failures.append(Failure(f"cannot be compared: {error}", name))
            continue
        rows += len(found)
        failures += _differences(name or shard.shard, expected, found)
    return Check(
        NAME, f"{rows:,} rows of {len(shards):,} shards are those planned", tuple(failures)
    )


def _expected(layout: Layout, shard: str) -> dict[str, str]:
    """Caption by id of the samples that a trainer should get."""
    record = read_record(layout.shard_record(shard))
    rejected = {reject.sample_id for reject in record.rejects} if record else set()
    return {
        member.planned.key: member.caption
        for member in members_of_shard(layout, shard)
        if member.planned.sample_id not in rejected and member.planned.skipped is None
    }


def _rows(layout: Layout, name: str) -> Iterator[tuple[str, str]]:
    for path in sorted((layout.output_dir / name).glob("*.parquet")):
        table = pq.read_table(path, columns=["id", "caption"])
        yield from zip(*(column.to_pylist() for column in table.columns), strict=True)


def _differences(
    name: str, expected: Mapping[str, str], found: Mapping[str, str]
) -> Iterator[Failure]:
    for key in sorted(expected.keys() - found.keys()):
        yield Failure("is planned, and no row", name, key)
    for key in sorted(found.keys() - expected.keys()):
        yield Failure("is a row that the plan leaves out", name, key)
    for key in sorted(expected.keys() & found.keys()):
        if expected[key] != found[key]:
            yield Failure(f"caption {found[key]!r} is not the plan's {expected[key]!r}", name, key)
