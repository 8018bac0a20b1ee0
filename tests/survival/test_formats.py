"""A stage that writes other bytes from now on has a higher format version: what it made is redone,
with what depends on it and no more, and the forecast names the stage."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from diffprep_assets.freshness import FORMAT_VERSIONS
from diffprep_assets.run_report import STAGES, RunReport

if TYPE_CHECKING:
    from tests.conftest import Drawing
    from tests.survival.conftest import Workplace

ENDS = {"energon_prepare", "validate"}
# Partitions made and samples worked on; files opened, for `bucket`.
REDONE: dict[str, dict[str, tuple[int, int]]] = {
    "source_index": {},
    # The files are looked at again; none is another.
    "download": {"download": (1, 3), "bucket": (1, 0)},
    "bucket": {"bucket": (1, 3)},
    "curate": {},
    "shard_plan": {},
    "encode_latents": {"encode_latents": (2, 3), "shard": (2, 3)},
    "encode_text": {"encode_text": (2, 3), "shard": (2, 3)},
    "shard": {"shard": (2, 3)},
    "energon_prepare": {},
    "validate": {},
}


@pytest.fixture(scope="session")
def made(
    workplaces: Callable[[str], "Workplace"], drawing: Callable[..., "Drawing"]
) -> "Workplace":
    """Three pictures in two shards."""
    workplace = workplaces("formats")
    for folder in ("images", "captions"):
        (workplace.pictures / folder).mkdir(parents=True)
    for picture in (drawing(number) for number in range(3)):
        (workplace.pictures / "images" / picture.name).write_bytes(picture.data)
        text = workplace.pictures / "captions" / f"{picture.stem}.txt"
        text.write_text(picture.caption, "utf-8")
    workplace.write_recipe(output={"shard_size": 2})
    assert workplace.run().error is None
    workplace.save("made")
    return workplace


@pytest.mark.parametrize("stage", STAGES)
def test_a_raised_format_version_redoes_what_depends_on_the_stage(
    made: "Workplace",
    worked_on: Callable[[RunReport], dict[str, tuple[int, int]]],
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
):
    made.restore("made")
    before = made.tar_digests()
    version = FORMAT_VERSIONS[stage]
    monkeypatch.setitem(FORMAT_VERSIONS, stage, f"{version}b")
    predicted = made.forecast().stages
    told = {name for name, state in predicted.items() if not state.is_fresh}
    report = made.run()
    redone = worked_on(report)
    assert redone == REDONE[stage]
    assert redone.keys() <= told
    assert all(predicted[name].why for name in told)
    if stage not in {"source_index", "download", "validate"}:
        assert f"{stage}.format {version} -> {version}b" in predicted[stage].why
    assert all(state.is_fresh for state in made.forecast().stages.values())
    # These versions are names only: the bytes are what they were.
    assert made.tar_digests() == before
