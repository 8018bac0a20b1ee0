"""What turns pictures, clips and captions into tensors: settings, identities, and the encoders'
interface.

Shapes: B batch, T frames, H and W pixel sides, C channels, L tokens, D width of an embedding.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import xxhash

from diffprep_resources.captions.cleaning import CaptionCleaning

if TYPE_CHECKING:
    import numpy as np
    import torch

EncoderRole = Literal["vae", "t5", "clip"]
Precision = Literal["bf16", "fp16", "fp32"]
VaeLatentMode = Literal["presampled", "resample"]
DtypeName = Literal["bfloat16", "float16", "float32", "int32"]
Workload = Literal["t2v", "i2v"]

# Per tensor of one sample: torch's name of the stored dtype, and the shape without the batch.
RowLayout = Mapping[str, tuple[DtypeName, tuple[int, ...]]]

DTYPE_NAMES: dict[Precision, DtypeName] = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
}


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """What a recipe says about its encoders. Picklable.

    `model_path` is a diffusers repository (a folder, or owner/name on the Hub). Each of the other
    paths overrides one encoder: a repository with the usual subfolder, or the bare encoder folder.
    For clips, `workload: i2v` asks for what image-to-video training reads of the first frame,
    `caption_cleaning` is done before a caption is encoded, and `vae_tiling` encodes frames in
    overlapping tiles: less memory, and other latents.
    """

    model_path: str = "black-forest-labs/FLUX.1-dev"
    vae_path: str | None = None
    t5_path: str | None = None
    clip_path: str | None = None
    precision: Precision = "bf16"
    t5_max_length: int = 512
    vae_latent_mode: VaeLatentMode = "presampled"
    seed: int = 0
    workload: Workload = "t2v"
    caption_cleaning: CaptionCleaning = "none"
    vae_tiling: bool = False

    @property
    def dtype(self) -> DtypeName:
        """In which the encoders compute and in which their results are stored."""
        return DTYPE_NAMES[self.precision]


@dataclass(frozen=True, slots=True)
class FilesIdentity:
    """Which files. `revision` is the Hub's commit, or the digest of the local files that decide.

    `reference` and `subfolder` tell a person where they came from.
    """

    kind: Literal["local", "hub"]
    reference: str
    revision: str
    subfolder: str

    @property
    def deciding(self) -> list[str]:
        """A commit says which files only with its subfolder; a digest whatever the folder."""
        return [self.kind, self.revision, self.subfolder if self.kind == "hub" else ""]


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which weights, config and (for a text encoder) tokenizer an encoder has."""

    role: EncoderRole
    weights: FilesIdentity
    tokenizer: FilesIdentity | None = None

    @property
    def fingerprint(self) -> str:
        """32 hex characters; equal files give equal ones, in whatever folder they lie."""
        deciding = [self.role, *self.weights.deciding]
        if self.tokenizer is not None:
            deciding += self.tokenizer.deciding
        return xxhash.xxh3_128_hexdigest("\n".join(deciding).encode())


class LatentsEncoder(ABC):
    """Pictures or clips to latents on one device. Weights are loaded; nothing needs warming up."""

    @abstractmethod
    def row_layout(self, width: int, height: int, *, num_frames: int = 1) -> RowLayout:
        """Tensors of one sample of this size in pixels. SettingError for a size it cannot take."""

    @abstractmethod
    def encode(
        self, pixels: "np.ndarray", *, sample_ids: Sequence[int], float32: bool = False
    ) -> dict[str, "torch.Tensor"]:
        """Tensors of `row_layout`, stacked (B, ...), on the CPU, contiguous, in the stored dtype.

        `pixels` is uint8 sRGB, (B, H, W, 3) of pictures, (B, T, H, W, 3) of clips; `sample_ids` has
        B entries and seeds the noise of each row, any number for a row of padding. With `float32`
        the computation runs in float32 and only its result is cast: for rows that overflow in half
        precision. Values may be non-finite.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the weights."""


class FirstFrameEncoder(ABC):
    """First frames to what image-to-video training is conditioned on; on one device."""

    @abstractmethod
    def row_layout(self, width: int, height: int, *, num_frames: int) -> RowLayout:
        """Tensors of one first frame of a clip of that size and length."""

    @abstractmethod
    def encode(
        self, pixels_BHWC: "np.ndarray", *, num_frames: int, float32: bool = False
    ) -> dict[str, "torch.Tensor"]:
        """Tensors of `row_layout`, stacked (B, ...), as LatentsEncoder.encode gives them.

        `pixels_BHWC` is uint8 sRGB; `num_frames` is the length of the clip that each begins.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of the weights."""


class TokenCounter(ABC):
    """The tokenizers of the text encoders, which need no weights."""

    @property
    @abstractmethod
    def token_limits(self) -> dict[EncoderRole, int]:
        """Most tokens each encoder takes, its special tokens included; the rest is cut off."""

    @abstractmethod
    def token_counts(self, captions: Sequence[str]) -> dict[EncoderRole, list[int]]:
        """Tokens of each caption before anything is cut off, special tokens included."""


class TextEncoder(TokenCounter):
    """Captions to embeddings on one device. Weights are loaded; nothing needs warming up."""

    @abstractmethod
    def row_layout(self) -> RowLayout:
        """Tensors of one caption."""

    @abstractmethod
    def encode(
        self, captions: Sequence[str], *, float32: bool = False
    ) -> dict[str, "torch.Tensor"]:
        """Tensors of `row_layout`, stacked (B, ...), as LatentsEncoder.encode gives them."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the weights."""


class EncoderFamily(ABC):
    """The encoders of one kind of pipeline. Picklable: built with the plan, used by workers.

    Everything but the two methods that load weights works without torch.
    """

    @abstractmethod
    def identities(self) -> dict[EncoderRole, ModelIdentity]:
        """Which weights each encoder has. Digests local files; fetches no weights."""

    @property
    @abstractmethod
    def modules(self) -> tuple[str, ...]:
        """What its encoders import. It takes seconds, so the workers of a machine share it."""

    @property
    @abstractmethod
    def size_multiple(self) -> int:
        """Pictures must have sides that are multiples of this, in pixels."""

    @property
    @abstractmethod
    def latent_channels(self) -> int: ...

    @property
    @abstractmethod
    def latents_scale(self) -> tuple[float, float]:
        """The VAE's (scaling_factor, shift_factor): stored latents are scale * (z - shift)."""

    @abstractmethod
    def latents_layout(self, width: int, height: int, *, num_frames: int = 1) -> RowLayout:
        """What LatentsEncoder.row_layout gives, from the config alone."""

    @abstractmethod
    def text_layout(self) -> RowLayout:
        """What TextEncoder.row_layout gives, from the configs alone."""

    @abstractmethod
    def fetch(self) -> None:
        """Bring all files here, so that several workers do not fetch the same ones side by side."""

    @abstractmethod
    def download_bytes(self) -> dict[EncoderRole, int]:
        """Bytes that `fetch` would bring here now, by encoder, tokenizers included; 0 where all is
        here. Raises ModelError where a file is refused."""

    @abstractmethod
    def token_counter(self) -> TokenCounter:
        """The text encoders' tokenizers alone, their small files fetched. Raises ModelError."""

    @abstractmethod
    def weights_bytes(self, *roles: EncoderRole) -> int:
        """Size of these encoders' weight files, which `fetch` brought here."""

    @abstractmethod
    def latents_encoder(self, device: str) -> LatentsEncoder:
        """The VAE, its weights loaded onto `device` ("cpu", "cuda:0"). Raises ModelError."""

    @abstractmethod
    def text_encoder(self, device: str) -> TextEncoder:
        """The text encoders, their weights loaded onto `device`. Raises ModelError."""


class ClipEncoderFamily(EncoderFamily):
    """The encoders of a pipeline that makes clips. They compute and store in float32."""

    @property
    @abstractmethod
    def frames_multiple(self) -> int:
        """Clips must have a multiple of this number of frames, and one more."""

    @property
    @abstractmethod
    def latents_statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of each latent channel: a trainer's normalised latents are
        (latents - mean) / deviation. Stored latents are as the VAE gives them."""

    @property
    @abstractmethod
    def has_image_features(self) -> bool:
        """Whether there is an encoder for `image_encoder`: not in every image-to-video model."""

    @abstractmethod
    def first_frame_layout(self, width: int, height: int, *, num_frames: int) -> RowLayout:
        """What first_frame_encoder's row_layout gives, from the config alone."""

    @abstractmethod
    def image_layout(self, width: int, height: int, *, num_frames: int) -> RowLayout:
        """What image_encoder's row_layout gives, from the config alone."""

    @abstractmethod
    def first_frame_encoder(self, device: str) -> FirstFrameEncoder:
        """The VAE over a first frame followed by nothing, loaded onto `device`. ModelError."""

    @abstractmethod
    def image_encoder(self, device: str) -> FirstFrameEncoder:
        """The encoder of a first frame's features, loaded onto `device`. ModelError."""
