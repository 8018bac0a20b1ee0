"""UMT5 as Wan's text encoder. Float32.

What it must equal is diffusers' WanPipeline.encode_prompt(max_sequence_length=t5_max_length) on the
same files: run with the attention mask, cut at each caption's own tokens, zeros after them. (The
pipeline's own default is 226 tokens; trainers use 512.)
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffprep_resources.captions.cleaning import cleaned
from diffprep_resources.encoders.base import (
    EncoderRole,
    EncoderSettings,
    RowLayout,
    TextEncoder,
    TokenCounter,
)
from diffprep_resources.encoders.components import Component, Files
from diffprep_resources.encoders.loading import load_model, use_exact_arithmetic
from diffprep_resources.encoders.text import load_tokenizer
from diffprep_resources.errors import ModelError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class WanTextFacts:
    """What the config says: the width of the embeddings."""

    width: int

    def layout(self, *, max_length: int) -> RowLayout:
        """`prompt_embeds` is zeros from `prompt_length` tokens on; these include the end token, so
        that there is one at least."""
        return {
            "prompt_embeds": ("float32", (max_length, self.width)),
            "prompt_length": ("int32", (1,)),
        }


def wan_text_facts(files: Files) -> WanTextFacts:
    """Facts of a UMT5 encoder. Raises ModelError for another model."""
    config = files.config()
    if config.get("model_type") != "umt5":
        raise ModelError(
            f"UMT5 encoder: {files}: model_type must be umt5, got {config.get('model_type')!r}"
        )
    return WanTextFacts(config.get("d_model", 512))


class WanTokenCounter(TokenCounter):
    """UMT5's tokenizer, after the cleaning. Calls from several threads wait for each other."""

    def __init__(self, component: Component, *, settings: EncoderSettings) -> None:
        self._tokenizer = load_tokenizer("T5TokenizerFast", component)
        self._limits: dict[EncoderRole, int] = {"t5": settings.t5_max_length}
        self._settings = settings
        # A tokenizer keeps the last call's padding and truncation: one call at a time.
        self._tokenizing = threading.Lock()

    @property
    def token_limits(self) -> dict[EncoderRole, int]:
        return self._limits

    def token_counts(self, captions: Sequence[str]) -> dict[EncoderRole, list[int]]:
        with self._tokenizing:
            batch = self._tokenizer(
                self._cleaned(captions), padding=False, truncation=False, verbose=False
            )
        return {"t5": [len(ids) for ids in batch["input_ids"]]}

    def tokens(self, captions: Sequence[str]) -> tuple["torch.Tensor", "torch.Tensor"]:
        """Ids and mask, int64 [B, L], padded or cut to the limit."""
        with self._tokenizing:
            batch = self._tokenizer(
                self._cleaned(captions),
                padding="max_length",
                max_length=self._limits["t5"],
                truncation=True,
                return_tensors="pt",
            )
        return batch.input_ids, batch.attention_mask

    def _cleaned(self, captions: Sequence[str]) -> list[str]:
        return [cleaned(caption, cleaning=self._settings.caption_cleaning) for caption in captions]


class WanTextEncoder(TextEncoder):
    """UMT5 on one device."""

    def __init__(
        self, component: Component, *, facts: WanTextFacts, settings: EncoderSettings, device: str
    ) -> None:
        from transformers import UMT5EncoderModel

        use_exact_arithmetic()
        self._facts = facts
        self._settings = settings
        self._device = device
        self._tokens = WanTokenCounter(component, settings=settings)
        model = load_model(
            UMT5EncoderModel.from_pretrained,
            folder=component.weights.folder(),
            dtype="float32",
            label="UMT5 encoder",
        )
        self._model: Any = model.to(device)

    def row_layout(self) -> RowLayout:
        return self._facts.layout(max_length=self._settings.t5_max_length)

    @property
    def token_limits(self) -> dict[EncoderRole, int]:
        return self._tokens.token_limits

    def token_counts(self, captions: Sequence[str]) -> dict[EncoderRole, list[int]]:
        return self._tokens.token_counts(captions)

    def encode(
        self, captions: Sequence[str], *, float32: bool = False
    ) -> dict[str, "torch.Tensor"]:
        """It is float32 with or without `float32`."""
        import torch

        ids_BL, mask_BL = self._tokens.tokens(captions)
        with torch.inference_mode():
            output = self._model(ids_BL.to(self._device), mask_BL.to(self._device))
            prompt_BLD = output.last_hidden_state.to("cpu")
            # Not times the mask: what is not finite after the caption's end would stay so.
            prompt_BLD = prompt_BLD.masked_fill(mask_BL[:, :, None] == 0, 0.0)
        # Cloned outside of inference mode: ordinary tensors, each with a storage of its own.
        return {
            "prompt_embeds": prompt_BLD.contiguous().clone(),
            "prompt_length": mask_BL.sum(dim=1, keepdim=True).to(torch.int32),
        }

    def close(self) -> None:
        self._model = None
