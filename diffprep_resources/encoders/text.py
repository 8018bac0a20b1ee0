"""FLUX.1's two text encoders: T5's last hidden state and CLIP's pooled output.

What they must equal is diffusers' FluxPipeline.encode_prompt on the same files: T5 padded to its
full length and run without an attention mask, CLIP padded to its tokenizer's length.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffprep_resources.encoders.base import (
    DtypeName,
    EncoderRole,
    EncoderSettings,
    RowLayout,
    TextEncoder,
    TokenCounter,
)
from diffprep_resources.encoders.components import Component, Files
from diffprep_resources.encoders.loading import load_model, quiet_libraries, use_exact_arithmetic
from diffprep_resources.errors import ModelError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What the two configs say: widths of the embeddings, and CLIP's number of positions."""

    t5_width: int
    clip_width: int
    clip_positions: int

    def text_layout(self, *, settings: EncoderSettings) -> RowLayout:
        return {
            "prompt_embeds": (settings.dtype, (settings.t5_max_length, self.t5_width)),
            "pooled_prompt_embeds": (settings.dtype, (self.clip_width,)),
        }


def text_facts(*, t5: Files, clip: Files) -> TextFacts:
    """Facts of a T5 and a CLIP text model. Raises ModelError for other models."""
    t5_config = _config_of(t5, label="T5 encoder", model_types=("t5",))
    clip_config = _config_of(clip, label="CLIP encoder", model_types=("clip_text_model", "clip"))
    # A whole CLIP (text and vision) keeps its text half here; CLIPTextModel loads that half.
    clip_text = clip_config.get("text_config") or clip_config
    return TextFacts(
        t5_width=t5_config.get("d_model", 512),
        clip_width=clip_text.get("hidden_size", 512),
        clip_positions=clip_text.get("max_position_embeddings", 77),
    )


def _config_of(files: Files, *, label: str, model_types: tuple[str, ...]) -> dict[str, Any]:
    config = files.config()
    if config.get("model_type") not in model_types:
        raise ModelError(
            f"{label}: {files}: model_type must be {' or '.join(model_types)}, "
            f"got {config.get('model_type')!r}"
        )
    return config


class FluxTokenCounter(TokenCounter):
    """T5's and CLIP's tokenizers. Calls from several threads wait for each other."""

    def __init__(
        self, *, t5: Component, clip: Component, facts: TextFacts, settings: EncoderSettings
    ) -> None:
        self._tokenizers = {
            "t5": load_tokenizer("T5TokenizerFast", t5),
            "clip": load_tokenizer("CLIPTokenizer", clip),
        }
        # A tokenizer without a stated length claims 10^30; the model's positions bound it.
        clip_limit = min(self._tokenizers["clip"].model_max_length, facts.clip_positions)
        self._limits: dict[EncoderRole, int] = {"t5": settings.t5_max_length, "clip": clip_limit}
        # A tokenizer keeps the last call's padding and truncation: one call at a time.
        self._tokenizing = threading.Lock()

    @property
    def token_limits(self) -> dict[EncoderRole, int]:
        return self._limits

    def token_counts(self, captions: Sequence[str]) -> dict[EncoderRole, list[int]]:
        counts: dict[EncoderRole, list[int]] = {}
        for role in self._limits:
            with self._tokenizing:
                batch = self._tokenizers[role](
                    list(captions), padding=False, truncation=False, verbose=False
                )
            counts[role] = [len(ids) for ids in batch["input_ids"]]
        return counts

    def token_ids(self, role: EncoderRole, captions: Sequence[str]) -> "torch.Tensor":
        """int64 [B, L], padded or cut to the encoder's limit."""
        with self._tokenizing:
            batch = self._tokenizers[role](
                list(captions),
                padding="max_length",
                max_length=self._limits[role],
                truncation=True,
                return_tensors="pt",
            )
        return batch.input_ids


class FluxTextEncoder(TextEncoder):
    """T5 and CLIP on one device, in the stored dtype."""

    def __init__(
        self,
        *,
        t5: Component,
        clip: Component,
        facts: TextFacts,
        settings: EncoderSettings,
        device: str,
    ) -> None:
        use_exact_arithmetic()
        self._folders = {"t5": t5.weights.folder(), "clip": clip.weights.folder()}
        self._facts = facts
        self._settings = settings
        self._device = device
        self._tokens = FluxTokenCounter(t5=t5, clip=clip, facts=facts, settings=settings)
        self._models: dict[DtypeName, tuple[Any, Any]] = {}
        self._pair(settings.dtype)

    def row_layout(self) -> RowLayout:
        return self._facts.text_layout(settings=self._settings)

    @property
    def token_limits(self) -> dict[EncoderRole, int]:
        return self._tokens.token_limits

    def token_counts(self, captions: Sequence[str]) -> dict[EncoderRole, list[int]]:
        return self._tokens.token_counts(captions)

    def encode(
        self, captions: Sequence[str], *, float32: bool = False
    ) -> dict[str, "torch.Tensor"]:
        import torch

        stored = getattr(torch, self._settings.dtype)
        t5_ids_BL = self._tokens.token_ids("t5", captions)
        clip_ids_BL = self._tokens.token_ids("clip", captions)
        t5, clip = self._pair("float32" if float32 else self._settings.dtype)
        with torch.inference_mode():
            prompt_BLD = t5(t5_ids_BL.to(self._device))[0].to("cpu", stored)
            pooled_BD = clip(clip_ids_BL.to(self._device)).pooler_output.to("cpu", stored)
        # Cloned outside of inference mode: ordinary tensors, each with a storage of its own.
        return {
            "prompt_embeds": prompt_BLD.contiguous().clone(),
            "pooled_prompt_embeds": pooled_BD.contiguous().clone(),
        }

    def close(self) -> None:
        self._models.clear()

    def _pair(self, dtype: DtypeName) -> tuple[Any, Any]:
        """T5 and CLIP in this dtype, loaded from their files at the first use."""
        if dtype not in self._models:
            from transformers import CLIPTextModel, T5EncoderModel

            t5, clip = (
                load_model(
                    kind.from_pretrained, folder=self._folders[role], dtype=dtype, label=label
                ).to(self._device)
                for kind, role, label in (
                    (T5EncoderModel, "t5", "T5 encoder"),
                    (CLIPTextModel, "clip", "CLIP encoder"),
                )
            )
            self._models[dtype] = (t5, clip)
        return self._models[dtype]


def load_tokenizer(class_name: str, component: Component) -> Any:
    """The tokenizer of a text encoder, from its local folder."""
    import transformers

    if component.tokenizer is None:
        raise ModelError(f"{component.place.label}: it has no tokenizer")
    folder = component.tokenizer.folder()
    try:
        with quiet_libraries():
            kind = getattr(transformers, class_name)
            return kind.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        label = component.place.label
        raise ModelError(f"{label}: cannot load the tokenizer in {folder}: {error}") from error
