from typing import TYPE_CHECKING, Any

import pytest

from diffprep_assets.freshness import FORMAT_VERSIONS
from diffprep_assets.run_report import STAGES
from diffprep_assets.stage_versions import code_version

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

# Which stages a changed setting makes stale by itself, before anything has run.
CHANGES = [
    ("image.background", "#000000", {"encode_latents", "energon_prepare"}),
    ("model.t5_max_length", 16, {"encode_text", "energon_prepare"}),
    ("model.vae_path", "elsewhere", {"encode_latents"}),
    ("image.center_crop", True, {"bucket", "energon_prepare"}),
    ("output.shard_size", 2, {"shard_plan", "energon_prepare"}),
    ("source.keep_downloads", False, set()),
    ("model.batch_size", 2, set()),
    ("schedule", "0 3 * * *", set()),
]


def versions(project: "ProjectFolder", changes: dict[str, Any] | None = None) -> dict[str, str]:
    loaded = project.dataset(changes=changes).loaded
    return {stage: code_version(stage, loaded) for stage in STAGES}


@pytest.mark.parametrize(("key", "value", "stale"), CHANGES)
def test_a_setting_changes_the_version_of_the_stages_that_read_it(
    project: "ProjectFolder", key: str, value: object, stale: set[str]
):
    project.write_recipe()
    before, after = versions(project), versions(project, {key: value})
    assert {stage for stage in STAGES if before[stage] != after[stage]} == stale


def test_a_version_begins_with_the_stages_format(project: "ProjectFolder"):
    project.write_recipe()
    for stage, version in versions(project).items():
        assert version.partition("-")[0] == FORMAT_VERSIONS[stage]
