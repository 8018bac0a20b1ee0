"""Which devices a stage may use."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager


class DevicePool(ABC):
    """The devices of this machine, leased so that two stages never share an accelerator."""

    @property
    @abstractmethod
    def devices(self) -> Sequence[str]:
        """All devices: `cpu`, `cuda:0`, ... At least one."""

    @abstractmethod
    def lease(self, device: str | None = None) -> AbstractContextManager[Sequence[str]]:
        """Devices for the block: `device` alone, or else one, waited for, and all others free."""
