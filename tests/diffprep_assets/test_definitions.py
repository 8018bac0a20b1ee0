"""The code location: the drawn graph, descriptions, groups, and a quick import."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from diffprep_assets.definitions import project_definitions
from diffprep_assets.run_report import STAGES

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

# DESIGN 3, as drawn.
FLOW = {
    "source_index": set(),
    "download": {"source_index"},
    "bucket": {"download"},
    "curate": {"bucket"},
    "shard_plan": {"bucket", "curate"},
    "shard_members": {"shard_plan"},
    "encode_latents": {"shard_members"},
    "encode_text": {"shard_members"},
    "shard": {"encode_latents", "encode_text"},
    "energon_prepare": {"shard"},
    "validate": {"energon_prepare"},
}
PARTITIONS = {
    **dict.fromkeys(("download", "bucket"), "set_parts"),
    **dict.fromkeys(("shard_members", "encode_latents", "encode_text", "shard"), "set_shards"),
}


@pytest.fixture
def definitions(project: "ProjectFolder") -> dg.Definitions:
    project.write_recipe(schedule=None)
    return project_definitions(project.project)


def specs(definitions: dg.Definitions) -> dict[str, dg.AssetSpec]:
    found = {}
    for spec in definitions.resolve_all_asset_specs():
        dataset, stage = spec.key.path
        assert dataset == "set"
        found[stage] = spec
    return found


def test_the_edges_are_the_drawn_flow(definitions: dg.Definitions):
    edges = {
        stage: {dep.asset_key.path[-1] for dep in spec.deps}
        for stage, spec in specs(definitions).items()
    }
    assert edges == FLOW
    assert set(FLOW) == {*STAGES, "shard_members"}


def test_every_asset_has_a_description_a_group_a_kind_and_its_partitions(
    definitions: dg.Definitions,
):
    for stage, spec in specs(definitions).items():
        assert len(spec.description or "") > 20, stage
        assert spec.group_name == "set"
        assert spec.kinds, stage
        partitions = spec.partitions_def
        name = partitions.name if isinstance(partitions, dg.DynamicPartitionsDefinition) else None
        assert name == PARTITIONS.get(stage), stage


def test_stages_run_once_over_many_partitions_and_gpu_stages_are_of_the_pool(
    project: "ProjectFolder",
):
    settings = project.folder / "dagster_project.toml"
    settings.write_text(settings.read_text() + '[gpu_op_tags]\nlimit = "one"\n')
    project.write_recipe()
    repository = project_definitions(project.project).get_repository_def()
    for key in repository.asset_graph.materializable_asset_keys:
        node = repository.asset_graph.get(key)
        assert node.backfill_policy == dg.BackfillPolicy.single_run()
        gpu = key.path[-1] in {"encode_latents", "encode_text"}
        assert (node.pools or set()) == ({"gpu"} if gpu else set())
        op = repository.assets_defs_by_key[key].op
        assert ("limit" in op.tags) == gpu


def test_checks_of_validate_block(definitions: dg.Definitions):
    checks = definitions.get_repository_def().asset_graph.asset_check_keys
    assert {key.name for key in checks} >= {"metadata", "sample_counts", "tensors", "loader"}
    assert {tuple(key.asset_key.path) for key in checks} == {("set", "validate")}
    graph = definitions.get_repository_def().asset_graph
    assert all(graph.get(key).blocking for key in checks)


def test_each_dataset_has_a_make_job_and_a_schedule_where_its_recipe_says_so(
    project: "ProjectFolder",
):
    project.write_recipe("plain")
    project.write_recipe("nightly", schedule="0 3 * * *")
    definitions = project_definitions(project.project)
    assert {job.name for job in definitions.jobs or ()} == {"plain_make", "nightly_make"}
    (schedule,) = list(definitions.schedules or ())
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert (schedule.job_name, schedule.cron_schedule) == ("nightly_make", "0 3 * * *")


def test_a_broken_recipe_is_shown_as_broken_and_the_others_load(project: "ProjectFolder"):
    project.write_recipe("good")
    project.write_recipe("bad", image={"image_sise": 64})
    found = {spec.key.path[0]: spec for spec in dg_specs(project)}
    assert found["bad"].key.path[1] == "broken_recipe"
    assert "image_sise" in (found["bad"].description or "")
    assert "bad.yaml" in (found["bad"].description or "")
    assert found["good"].key.path[1] != "broken_recipe"


def dg_specs(project: "ProjectFolder") -> list[dg.AssetSpec]:
    return list(project_definitions(project.project).resolve_all_asset_specs())


def test_recipes_that_are_one_name_to_dagster_are_shown_as_broken(project: "ProjectFolder"):
    for name in ("my-set", "my_set", "good"):
        project.write_recipe(name)
    found = {spec.key.path[0]: spec for spec in dg_specs(project)}
    assert found.keys() == {"my-set", "good"}
    assert found["my-set"].key.path[1] == "broken_recipe"
    assert "my-set and my_set; rename one" in (found["my-set"].description or "")


def test_fifty_recipes_load_and_each_broken_one_is_named_with_file_and_line(
    project: "ProjectFolder",
):
    for number in range(48):
        project.write_recipe(f"set{number:02d}")
    good = (project.folder / "recipes/set00.yaml").read_text()
    (project.folder / "recipes/bad.yaml").write_text(good.replace("image_size", "image_sise"))
    (project.folder / "recipes/not a name.yaml").write_text(good)
    broken = {
        spec.key.path[0]: spec.description or ""
        for spec in dg_specs(project)
        if spec.key.path[1] == "broken_recipe"
    }
    assert broken.keys() == {"bad", "not a name"}
    line = good[: good.index("image_size")].count("\n") + 1
    assert f"bad.yaml, line {line}: image.image_sise" in broken["bad"]
    assert "not a name.yaml" in broken["not a name"]
    repository = project_definitions(project.project).get_repository_def()
    datasets = {key.path[0] for key in repository.asset_graph.get_all_asset_keys()}
    assert len(datasets) == 50
    assert {job.name for job in repository.get_all_jobs()} >= {
        f"set{number:02d}_make" for number in range(48)
    }


def test_the_definitions_load_without_any_model_library(project: "ProjectFolder"):
    project.write_recipe()
    code = (
        "import sys\n"
        "from diffprep_assets.definitions import definitions\n"
        "definitions().get_repository_def()\n"
        "heavy = 'torch diffusers transformers megatron webdataset datasets safetensors.torch'\n"
        "print(*sorted(set(heavy.split()) & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_dagster_definitions_validate_passes_in_a_project(project: "ProjectFolder"):
    project.write_recipe()
    dagster = Path(sys.executable).with_name("dagster")
    done = subprocess.run(
        [dagster, "definitions", "validate", "-m", "diffprep_assets.definitions"],
        cwd=project.folder,
        env={**os.environ, "DAGSTER_HOME": str(project.folder / ".dagster")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
