"""The FLUX.1 family: a 16-channel AutoencoderKL, T5-XXL, and CLIP-L."""

from collections.abc import Mapping
from dataclasses import dataclass

from diffprep_resources.encoders.base import (
    EncoderFamily,
    EncoderRole,
    EncoderSettings,
    LatentsEncoder,
    ModelIdentity,
    RowLayout,
    TextEncoder,
    TokenCounter,
)
from diffprep_resources.encoders.components import Component, ComponentFinder, ComponentPlace
from diffprep_resources.encoders.text import (
    FluxTextEncoder,
    FluxTokenCounter,
    TextFacts,
    text_facts,
)
from diffprep_resources.encoders.vae import KlLatentsEncoder, VaeFacts, vae_facts
from diffprep_resources.hub.base import Repository
from diffprep_resources.hub.models import ModelHub

# Pipelines with the very same three encoders.
PIPELINES = ("FluxPipeline", "FluxControlPipeline", "FluxFillPipeline", "FluxKontextPipeline")

VAE_PLACE = ComponentPlace(
    role="vae",
    label="VAE",
    path_setting="vae_path",
    subfolder="vae",
    weights_name="diffusion_pytorch_model",
)
_PLACES = (
    VAE_PLACE,
    ComponentPlace(
        role="t5",
        label="T5 encoder",
        path_setting="t5_path",
        subfolder="text_encoder_2",
        weights_name="model",
        tokenizer_subfolder="tokenizer_2",
        tokenizer_sets=(frozenset({"tokenizer.json"}), frozenset({"spiece.model"})),
    ),
    ComponentPlace(
        role="clip",
        label="CLIP encoder",
        path_setting="clip_path",
        subfolder="text_encoder",
        weights_name="model",
        tokenizer_subfolder="tokenizer",
        tokenizer_sets=(frozenset({"tokenizer.json"}), frozenset({"vocab.json", "merges.txt"})),
    ),
)

_MODULES = (
    "diffusers.models.autoencoders.autoencoder_kl",
    "transformers.models.clip.modeling_clip",
    "transformers.models.t5.modeling_t5",
)


@dataclass(frozen=True, slots=True)
class FluxFamily(EncoderFamily):
    """FLUX.1's encoders as the settings name them, found but not loaded."""

    settings: EncoderSettings
    components: Mapping[EncoderRole, Component]
    vae: VaeFacts
    text: TextFacts

    @classmethod
    def find(
        cls, settings: EncoderSettings, *, hub: ModelHub, main: Repository | None
    ) -> "FluxFamily":
        """Looks at configs and file lists only. Raises ModelError naming the encoder."""
        finder = ComponentFinder(settings, hub, main=main)
        components: dict[EncoderRole, Component] = {}
        for place in _PLACES:
            components[place.role] = finder.find(place)
        return cls(
            settings=settings,
            components=components,
            vae=vae_facts(components["vae"].weights),
            text=text_facts(t5=components["t5"].weights, clip=components["clip"].weights),
        )

    def identities(self) -> dict[EncoderRole, ModelIdentity]:
        return {role: component.identity() for role, component in self.components.items()}

    @property
    def modules(self) -> tuple[str, ...]:
        return _MODULES

    @property
    def size_multiple(self) -> int:
        return 2 * self.vae.downsampling

    @property
    def latent_channels(self) -> int:
        return self.vae.latent_channels

    @property
    def latents_scale(self) -> tuple[float, float]:
        return self.vae.scaling_factor, self.vae.shift_factor

    def latents_layout(self, width: int, height: int, *, num_frames: int = 1) -> RowLayout:
        return self.vae.latents_layout(width, height, num_frames=num_frames, settings=self.settings)

    def text_layout(self) -> RowLayout:
        return self.text.text_layout(settings=self.settings)

    def fetch(self) -> None:
        for component in self.components.values():
            component.weights.folder()
            if component.tokenizer is not None:
                component.tokenizer.folder()

    def download_bytes(self) -> dict[EncoderRole, int]:
        return {role: component.missing_bytes() for role, component in self.components.items()}

    def token_counter(self) -> TokenCounter:
        return FluxTokenCounter(
            t5=self.components["t5"],
            clip=self.components["clip"],
            facts=self.text,
            settings=self.settings,
        )

    def weights_bytes(self, *roles: EncoderRole) -> int:
        return sum(self.components[role].weights.size_bytes() for role in roles)

    def latents_encoder(self, device: str) -> LatentsEncoder:
        return KlLatentsEncoder(
            self.components["vae"], facts=self.vae, settings=self.settings, device=device
        )

    def text_encoder(self, device: str) -> TextEncoder:
        return FluxTextEncoder(
            t5=self.components["t5"],
            clip=self.components["clip"],
            facts=self.text,
            settings=self.settings,
            device=device,
        )
