import dagster as dg
import pytest
from pydantic import ValidationError

from diffprep_assets.recipe.execution import RECIPE_KEYS, ExecutionSettings


class EncodeExecution(ExecutionSettings, dg.Config):
    """As an asset's launch config takes it."""


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", "cuda:12", "xpu:1", "mps"])
def test_devices_that_torch_knows(device: str):
    assert ExecutionSettings(device=device).device == device


@pytest.mark.parametrize("device", ["", "gpu", "cuda:", "cuda:x", "0", "cpu:1", "CUDA"])
def test_other_devices_are_refused(device: str):
    with pytest.raises(ValidationError, match="must be cpu, cuda, a numbered one like cuda:1"):
        ExecutionSettings(device=device)


def test_dagsters_launchpad_takes_the_same_settings():
    seen: list[EncodeExecution] = []

    @dg.asset
    def encoded(config: EncodeExecution) -> None:
        seen.append(config)

    run_config = {"ops": {"encoded": {"config": {"batch_size": 2, "device": "cpu"}}}}
    assert dg.materialize([encoded], run_config=run_config).success
    assert (seen[0].batch_size, seen[0].device, seen[0].cpu_workers) == (2, "cpu", None)
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.materialize([encoded], run_config={"ops": {"encoded": {"config": {"batchsize": 2}}}})


def test_the_recipes_execution_keys_are_settings():
    assert set(RECIPE_KEYS) <= set(ExecutionSettings.model_fields)
