"""The engines as a Dagster resource."""

from pathlib import Path

import dagster as dg
from pydantic import Field

from diffprep_resources.compute.engines import Engines
from diffprep_resources.gpu_pool.file_lease import FileLeasePool


class EnginesResource(dg.ConfigurableResource[Engines]):
    """Engines on this machine's devices."""

    devices: list[str] = Field(default=[], description="empty: every CUDA device, else the CPU")
    lock_folder: str = Field(description="folder of the devices' lease files")
    cpu_workers: int | None = Field(default=None, description="null: one for each core")
    wait_minutes: float = Field(default=60, description="how long to wait for a free device")

    def create_resource(self, context: dg.InitResourceContext) -> Engines:
        return Engines(
            FileLeasePool(
                devices=self.devices or ["auto"],
                lock_folder=Path(self.lock_folder),
                wait_s=self.wait_minutes * 60,
            ),
            cpu_workers=self.cpu_workers,
        )
