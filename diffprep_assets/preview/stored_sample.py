"""One sample of a published dataset, and where it lies."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffprep_assets.validate.tar_walk import WalkedSample


@dataclass(frozen=True, slots=True)
class Place:
    """Where one sample lies: the shard's name in the output folder, and its members there."""

    shard: str
    row: WalkedSample


@dataclass(frozen=True, slots=True)
class StoredSample:
    """One sample as it lies in its shard. `arrays` are float32 [C, h, w]: latents, and in resample
    mode mean and logvar; of clips [C, t, h, w], normalised latents or raw ones as vae_latent. Or
    `picture` is a picture file's bytes, of raw and MDS. `metadata` is its json member, or the like
    columns; empty where there are none."""

    shard: str
    key: str
    split: str
    caption: str
    arrays: Mapping[str, np.ndarray]
    metadata: Mapping[str, Any]
    picture: bytes | None = None

    @property
    def source_key(self) -> str:
        """In the source; of FastVideo's rows only the clip's file name is known."""
        return str(self.metadata.get("source_key") or self.metadata.get("file_name", ""))
