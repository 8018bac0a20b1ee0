import json
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq

from diffprep_assets.recipe.stage_fields import split_key
from diffprep_assets.shard_plan.plan import (
    EMPTY_PLAN,
    Bucket,
    Candidate,
    Plan,
    PlanSettings,
    planned_shards,
)
from diffprep_assets.shard_plan.planning import Curation, updated_plan
from diffprep_assets.shard_plan.split_groups import MixedGroups
from diffprep_assets.shard_plan.table import (
    mixed_in_plan,
    read_plan,
    read_shards,
    samples_of_shard,
    write_plan,
    write_shards,
)

SHARES = {"train": Fraction(1, 2), "val": Fraction(1, 4), "test": Fraction(1, 4)}
SETTINGS = PlanSettings("a", {512: 4}, None, SHARES, 0)


def candidate(key: str, *, group: str = "", columns: str = "") -> Candidate:
    bucket = Bucket(512, 512, 512)
    return Candidate(key, group or key, "p00000", "d", "c", bucket, (0, 0, 9, 9), columns)


def planned(*samples: Candidate, old: Plan = EMPTY_PLAN, skipped: Iterable[str] = ()) -> Plan:
    curation = Curation(dict.fromkeys(skipped, "dedup"), frozenset(range(10)))
    return updated_plan(old, samples, SETTINGS, curation)


def test_a_plan_with_skips_columns_and_leaks_comes_back_as_it_was(tmp_path: Path):
    first = planned(*map(candidate, "abcdef"))
    by_split = {row.split: row.sample.source_key for row in first.samples}
    joined = {by_split["train"], by_split["val"]}
    now = [candidate(key, group="x" if key in joined else "", columns=key) for key in "abcdef"]
    plan = planned(*now, candidate("new", group="x"), old=first, skipped=[by_split["test"]])
    digest = write_plan(tmp_path / "plan.parquet", plan, fingerprint="f")
    assert (len(plan.leaks), plan.leaks[0].splits) == (1, ("train", "val"))
    assert read_plan(tmp_path / "plan.parquet") == plan
    shards = planned_shards(plan.samples)
    write_shards(tmp_path / "shards.parquet", shards, plan_digest=digest)
    assert read_shards(tmp_path / "shards.parquet") == shards
    assert [shard.num_skipped for shard in shards if shard.split == "test"] == [1]
    assert all(shard.columns_digest and shard.observed_digest for shard in shards)


def old_plan(folder: Path) -> tuple[Path, Plan]:
    """A plan as it was written before there were skips: without their columns."""
    plan = planned(*map(candidate, "abcde"), old=planned(*map(candidate, "abcdef")))
    path = folder / "plan.parquet"
    fields = {"output.splits": ["1/2", "1/4", "1/4"], "output.split_seed": 0}
    write_plan(path, plan, fingerprint="f", settings=fields)
    table = pq.read_table(path).drop_columns(["skipped", "columns_digest"])
    head = json.loads(table.schema.metadata[b"diffprep"])
    del head["leaks"], head["state"]["split_key"]
    pq.write_table(table.replace_schema_metadata({"diffprep": json.dumps(head)}), path)
    return path, plan


def test_a_plan_from_before_there_were_skips_is_read_and_keeps_its_digests(tmp_path: Path):
    path, plan = old_plan(tmp_path)
    read = read_plan(path)
    assert (read.samples, read.leaks) == (plan.samples, ())
    shard = planned_shards(plan.samples)[0]
    assert samples_of_shard(path, shard.shard) == [
        row for row in plan.samples if row.shard == shard.shard
    ]
    # As the first version that wrote plans had them.
    assert [one.members_digest for one in planned_shards(read.samples)] == [
        "f25ed1a5cc8c92afccc756943f0423dd",
        "173585dc2eba81ab1864b77e3dd25543",
        "545f8ea3840a1fca72d03c287ee2acaf",
    ]
    assert all(one.observed_digest == one.members_digest for one in planned_shards(plan.samples))
    assert write_plan(path, plan, fingerprint="f") == "b3033662a3436a360d42ff3fbcd7e180"


def test_a_plan_from_before_knows_by_which_settings_its_splits_were_dealt(tmp_path: Path):
    path, _ = old_plan(tmp_path)
    dealt_by = {"output.splits": ["1/2", "1/4", "1/4"], "output.split_seed": 0}
    assert read_plan(path).state.split_key == split_key({**dealt_by, "curate.group_key": None})


def test_mixed_groups_are_those_of_samples_that_are_served(tmp_path: Path):
    first = planned(*map(candidate, "abcdef"))
    by_split = {row.split: row.sample.source_key for row in first.samples}
    pair = [by_split["train"], by_split["val"]]
    now = [candidate(key, group="x" if key in pair else "") for key in "abcdef"]
    path = tmp_path / "plan.parquet"
    write_plan(path, planned(*now, old=first), fingerprint="f")
    assert mixed_in_plan(path) == MixedGroups(1, {"x": ("train", "val")})
    write_plan(path, planned(*now, old=first, skipped=[pair[0]]), fingerprint="f")
    assert mixed_in_plan(path) == MixedGroups()
    assert mixed_in_plan(old_plan(tmp_path)[0]) == MixedGroups()
