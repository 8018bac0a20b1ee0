"""What Dagster's log says after runs, in Dagster's own eyes. Holds its private parts in place."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from diffprep_assets.definitions import project_definitions
from diffprep_assets.freshness import FORMAT_VERSIONS
from diffprep_assets.jobs import RANGE_END, RANGE_START, RECIPE_HASH, failed_partitions
from diffprep_assets.partitions import parts_of, shards_of, stage_key
from diffprep_assets.run_report import STAGES
from diffprep_assets.shard_events import CODE_VERSION, DATA_VERSION, INPUT_VERSION

if TYPE_CHECKING:
    from tests.conftest import Drawing, ProjectFolder

PARTS = ("download", "bucket")
SHARDS = ("encode_latents", "encode_text", "shard")

MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION
FRESH = StaleStatus.FRESH


def shard_keys(*numbers: int) -> list[str]:
    return [f"g0-64-64x64-{number:06d}" for number in numbers]


def keys_of(stage: str, instance: dg.DagsterInstance) -> list[str | None]:
    """The registered partitions of a stage; None alone for a whole one."""
    if stage in PARTS:
        return [*instance.get_dynamic_partitions(parts_of("set").name or "")]
    if stage in SHARDS or stage == "shard_members":
        return [*instance.get_dynamic_partitions(shards_of("set").name or "")]
    return [None]


def statuses(project: "ProjectFolder") -> dict[tuple[str, str | None], StaleStatus]:
    """What Dagster thinks of every asset and partition."""
    repository = project_definitions(project.project).get_repository_def()
    with dg.DagsterInstance.get() as instance:
        resolver = CachingStaleStatusResolver(
            instance, repository.asset_graph, LoadingContextForTest(instance)
        )
        return {
            (stage, key): resolver.get_status(stage_key("set", stage), key)
            for stage in (*STAGES, "shard_members")
            for key in keys_of(stage, instance)
        }


def events(project: "ProjectFolder", stage: str) -> list[dg.AssetMaterialization]:
    """Every materialization of a stage, oldest first."""
    with dg.DagsterInstance.get() as instance:
        records = instance.fetch_materializations(
            stage_key("set", stage), limit=1000, ascending=True
        ).records
        return [found for record in records if (found := record.asset_materialization)]


def counted(project: "ProjectFolder") -> dict[str, Counter[str | None]]:
    return {stage: Counter(event.partition for event in events(project, stage)) for stage in STAGES}


def test_every_partition_has_one_event_and_is_fresh_and_a_second_run_adds_none(
    project: "ProjectFolder",
):
    project.write_pictures(range(9))
    project.write_recipe()
    report = project.run()
    assert report.error is None
    first = counted(project)
    for stage in STAGES:
        wanted = shard_keys(0, 1, 2) if stage in SHARDS else [None]
        assert first[stage] == Counter(["p00000"] if stage in PARTS else wanted), stage
    assert set(statuses(project).values()) == {FRESH}
    for stage in SHARDS:
        for event in events(project, stage):
            check_tags(event, stage=stage)
            check_metadata(event, recipe_hash=report.recipe_hash or "")
    with dg.DagsterInstance.get() as instance:
        runs = instance.get_runs()
        assert len(runs) == 3
        assert all(run.tags[RECIPE_HASH] == report.recipe_hash for run in runs)
        ranges = {(run.tags.get(RANGE_START), run.tags.get(RANGE_END)) for run in runs}
    assert ranges == {
        (None, None),
        ("p00000", "p00000"),
        ("g0-64-64x64-000000", "g0-64-64x64-000002"),
    }

    project.run()
    again = counted(project)
    assert {stage: again[stage] for stage in (*PARTS, *SHARDS)} == {
        stage: first[stage] for stage in (*PARTS, *SHARDS)
    }
    assert set(statuses(project).values()) == {FRESH}


def check_tags(event: dg.AssetMaterialization, *, stage: str) -> None:
    tags = event.tags or {}
    assert len(tags[DATA_VERSION]) == 32
    assert tags[CODE_VERSION].partition("-")[0] == FORMAT_VERSIONS[stage]
    reads = ["encode_latents", "encode_text"] if stage == "shard" else ["shard_members"]
    inputs = {name for name in tags if name.startswith(INPUT_VERSION)}
    assert inputs == {f"{INPUT_VERSION}set/{read}" for read in reads}


def check_metadata(event: dg.AssetMaterialization, *, recipe_hash: str) -> None:
    values: dict[str, Any] = {name: value.value for name, value in event.metadata.items()}
    assert values["recipe_hash"] == recipe_hash
    assert values["samples_in"] == values["samples_out"] == values["encoded"] > 0
    assert values["rejected"] == 0
    assert values["rejects"] == {}
    assert values["reused"] is False
    for name in ("bytes", "seconds", "samples_per_second"):
        assert isinstance(values[name], int | float), name
        assert values[name] > 0, name


def test_one_more_picture_gives_events_for_its_shard_alone_and_all_are_fresh_again(
    project: "ProjectFolder",
):
    project.write_pictures(range(9))
    project.write_recipe()
    project.run()
    before = counted(project)
    project.write_pictures([9])
    assert project.run().ok
    after = counted(project)
    for stage in SHARDS:
        assert after[stage] - before[stage] == Counter(shard_keys(2)), stage
    assert set(statuses(project).values()) == {FRESH}
    # An edited caption changes the members that the latents were made from, not the latents.
    (project.pictures / "captions" / "p001.txt").write_text("other words")
    assert project.run().ok
    last = counted(project)
    for stage in SHARDS:
        assert last[stage] - after[stage] == Counter(shard_keys(0)), stage
    assert events(project, "encode_latents")[-1].metadata["reused"].value is True
    assert events(project, "encode_text")[-1].metadata["reused"].value is False
    assert set(statuses(project).values()) == {FRESH}


def test_a_failed_shard_is_failed_with_its_reason_the_others_are_done_and_the_next_run_repairs(
    project: "ProjectFolder", drawing: Callable[..., "Drawing"]
):
    project.write_pictures(range(9))
    project.write_recipe()
    run_until_planned(project)
    # Edited after `bucket` saw it, as by somebody at work in the folder.
    (project.pictures / "images" / "p005.jpg").write_bytes(drawing(5, version=1).data)
    result = run_stages(project, SHARDS)
    assert not result.success
    failures = [event for event in result.all_events if event.is_step_failure]
    (failure,) = (f.step_failure_data.user_failure_data for f in failures)
    assert failure is not None
    reason = (
        "source changed since bucket: images/p005.jpg; run download and bucket again, as "
        "`diffprep run` does"
    )
    assert failure.description == f"encode_latents: 1 failed: g0-64-64x64-000001: {reason}"
    assert failure.metadata["g0-64-64x64-000001"].value == reason

    assert failed_partitions("set", "encode_latents") == set(shard_keys(1))
    assert failed_partitions("set", "encode_text") == set()
    assert counted(project)["encode_latents"] == Counter(shard_keys(0, 2))
    assert counted(project)["encode_text"] == Counter(shard_keys(0, 1, 2))
    assert counted(project)["shard"] == Counter()

    report = project.run()
    assert report.error is None
    assert report.summaries["encode_latents"].done == 1
    assert report.summaries["encode_latents"].fresh == 2
    assert failed_partitions("set", "encode_latents") == set()
    assert set(statuses(project).values()) == {FRESH}


def run_until_planned(project: "ProjectFolder") -> None:
    assert run_stages(project, ("source_index",)).success
    assert run_stages(project, ("download", "bucket", "curate", "shard_plan")).success


def run_stages(
    project: "ProjectFolder", stages: tuple[str, ...], tags: dict[str, str] | None = None
) -> dg.ExecuteInProcessResult:
    """One Dagster run of these stages, over all their partitions."""
    with dg.DagsterInstance.get() as instance:
        keys = [key for key in keys_of(stages[0], instance) if key is not None]
        ends = {RANGE_START: keys[0], RANGE_END: keys[-1]} if keys else {}
        job = project_definitions(project.project).resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            instance=instance,
            asset_selection=[stage_key("set", stage) for stage in stages],
            tags={**ends, **(tags or {})},
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )


def test_what_a_lost_log_or_a_backfill_must_hear_is_told_again_as_reused(
    project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch
):
    project.write_pictures(range(5))
    project.write_recipe()
    project.run()
    versions = [(event.tags or {})[DATA_VERSION] for event in events(project, "encode_text")]
    monkeypatch.setenv("DAGSTER_HOME", str(project.folder / "another_home"))
    report = project.run()
    assert report.summaries["shard"].fresh == 2
    for stage in SHARDS:
        told = events(project, stage)
        assert [event.partition for event in told] == shard_keys(0, 1)
        assert all(event.metadata["reused"].value is True for event in told)
    assert set(statuses(project).values()) == {FRESH}

    # A backfill counts a partition without an event as failed.
    assert run_stages(project, SHARDS, {"dagster/backfill": "abcdef"}).success
    told = events(project, "encode_text")
    assert [event.partition for event in told] == shard_keys(0, 1) * 2
    assert all(event.metadata["reused"].value is True for event in told)
    assert [(event.tags or {})[DATA_VERSION] for event in told] == versions * 2
    assert set(statuses(project).values()) == {FRESH}


def test_a_stage_whose_input_is_missing_says_which_and_what_to_run(project: "ProjectFolder"):
    project.write_pictures(range(5))
    project.write_recipe()
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("set_parts", ["p00000"])
    assert "source_index is missing" in failure_of(run_stages(project, ("download",)))
    run_until_planned(project)
    said = failure_of(run_stages(project, ("shard",)))
    assert "shard g0-64-64x64-000000: encode_latents is missing" in said
    assert "diffprep run set" in said
    said = failure_of(run_stages(project, ("energon_prepare",)))
    assert "shard is missing or stale for 2 shards: g0-64-64x64-000000" in said
    assert '--partition-range "$(diffprep range set shards)"' in said
    assert "energon_prepare is missing" in failure_of(run_stages(project, ("validate",)))


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """What the failed step says, whole."""
    assert not result.success
    (event,) = (event for event in result.all_events if event.is_step_failure)
    data = event.step_failure_data
    if data.user_failure_data is not None:
        return data.user_failure_data.description or ""
    error = data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message if error else ""
