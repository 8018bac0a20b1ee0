"""What a run would do, said beforehand; tests/survival/test_every_field.py tries every field."""

from typing import TYPE_CHECKING

import pytest

from diffprep_assets import forecast as forecast_module
from diffprep_assets.forecast import Forecast, forecast
from diffprep_assets.run_report import STAGES
from diffprep_assets.shard.record import mark_bad_keys
from diffprep_resources.errors import SettingError

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

SHARDS = ("encode_latents", "encode_text", "shard")


def states(found: Forecast) -> dict[str, dict[str, int]]:
    """Partitions by state, of the stages that are not fresh."""
    return {
        stage: dict(state.counts()) for stage, state in found.stages.items() if not state.is_fresh
    }


def reasons(found: Forecast, stage: str) -> dict[str, int]:
    return dict(found.stages[stage].why)


def test_before_the_first_run_all_is_missing_and_its_size_is_known(project: "ProjectFolder"):
    project.write_pictures(range(5))
    project.write_recipe()
    found = forecast(project.dataset())
    assert tuple(found.stages) == STAGES
    assert states(found) == {stage: {"missing": 2 if stage in SHARDS else 1} for stage in STAGES}
    assert [found.stages[stage].to_encode for stage in ("bucket", *SHARDS)] == [5] * 4
    assert reasons(found, "shard") == {"never made": 2}
    # Nothing was written for that, but the digests of the encoders' files.
    assert not project.layout().folder.exists()


def test_with_many_new_files_the_shards_are_those_of_the_plan_as_it_is(
    project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch
):
    project.write_pictures(range(5))
    project.write_recipe()
    project.run()
    project.write_pictures(range(9))
    known = forecast(project.dataset())
    assert known.unread_files == 0
    assert known.stages["encode_latents"].to_encode == 4
    monkeypatch.setattr(forecast_module, "FILES_TO_OPEN", 8)
    unknown = forecast(project.dataset())
    # All nine files were written again, five of them with the same bytes.
    assert unknown.unread_files == 9
    assert reasons(unknown, "shard_plan") == {"9 files to open": 1}
    assert unknown.stages["encode_latents"].is_fresh


def test_damage_to_finished_shards_is_seen_and_named(project: "ProjectFolder"):
    project.write_pictures(range(6))
    project.write_recipe(output={"shard_size": 2})
    project.run()
    assert states(forecast(project.dataset())) == {}
    layout = project.layout()
    gone, cut, bad = (f"g0-64-64x64-{number:06d}" for number in range(3))
    layout.shard_file(gone).unlink()
    layout.shard_file(cut).write_bytes(b"x")
    mark_bad_keys(layout.shard_bad(bad), ["0000000004"])
    found = forecast(project.dataset())
    assert found.stages["shard"].counts()["stale"] == 3
    words = reasons(found, "shard")
    assert words["its file is missing or cut short"] == 2
    assert words["found damaged by validate"] == 1


def test_files_of_the_output_that_changed_are_noticed(project: "ProjectFolder"):
    project.write_pictures(range(2))
    project.write_recipe()
    project.run()
    (project.layout().output_dir / "README.md").write_text("mine")
    found = forecast(project.dataset())
    assert states(found).keys() == {"energon_prepare", "validate"}
    assert reasons(found, "energon_prepare") == {"files of the output folder changed": 1}


def test_a_source_that_is_not_there_is_refused(project: "ProjectFolder"):
    project.write_recipe()
    with pytest.raises(SettingError, match="pictures"):
        forecast(project.dataset())
