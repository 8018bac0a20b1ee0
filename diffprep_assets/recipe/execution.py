"""What decides only how fast a dataset is made, never its bytes; in no hash and no fingerprint."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

_DEVICE = re.compile(r"(cpu|mps|(cuda|xpu)(:\d{1,3})?)")


def check_device(value: str) -> str:
    """The name itself. Raises ValueError for what torch would not take for a device."""
    if not _DEVICE.fullmatch(value):
        raise ValueError("must be cpu, cuda, a numbered one like cuda:1, xpu or mps")
    return value


Device = Annotated[str, AfterValidator(check_device)]


class ExecutionSettings(BaseModel):
    """Settings of one run on one machine. A recipe may hold the first two, under `model`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    device: Device | None = Field(
        default=None,
        description="where encoders run; null takes the devices of dagster_project.toml",
    )
    batch_size: int = Field(
        default=8, ge=1, le=4096, description="pictures or captions encoded at once"
    )
    cpu_workers: int | None = Field(
        default=None,
        ge=1,
        description="processes that read and decode; null takes dagster_project.toml's",
    )


RECIPE_KEYS = ("device", "batch_size")
