"""The Wan 2.1 family: a causal video VAE, UMT5 and, for image-to-video, CLIP's vision half.

Its encoders go by the roles of FLUX's: `vae`, `t5` (UMT5) and `clip` (the vision encoder), so that
the same settings name them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from diffprep_resources.encoders.base import (
    ClipEncoderFamily,
    EncoderRole,
    EncoderSettings,
    FirstFrameEncoder,
    LatentsEncoder,
    ModelIdentity,
    RowLayout,
    TextEncoder,
    TokenCounter,
)
from diffprep_resources.encoders.components import Component, ComponentFinder, ComponentPlace
from diffprep_resources.encoders.wan_image import WanImageEncoder, WanImageFacts, wan_image_facts
from diffprep_resources.encoders.wan_text import (
    WanTextEncoder,
    WanTextFacts,
    WanTokenCounter,
    wan_text_facts,
)
from diffprep_resources.encoders.wan_vae import (
    WanFirstFrameEncoder,
    WanLatentsEncoder,
    WanVaeFacts,
    wan_vae_facts,
)
from diffprep_resources.errors import ModelError, SettingError
from diffprep_resources.hub.base import Repository
from diffprep_resources.hub.models import ModelHub

PIPELINES = ("WanPipeline", "WanImageToVideoPipeline")

VAE_PLACE = ComponentPlace(
    role="vae",
    label="VAE",
    path_setting="vae_path",
    subfolder="vae",
    weights_name="diffusion_pytorch_model",
)
_TEXT_PLACE = ComponentPlace(
    role="t5",
    label="UMT5 encoder",
    path_setting="t5_path",
    subfolder="text_encoder",
    weights_name="model",
    tokenizer_subfolder="tokenizer",
    tokenizer_sets=(frozenset({"tokenizer.json"}), frozenset({"spiece.model"})),
)
_IMAGE_PLACE = ComponentPlace(
    role="clip",
    label="CLIP vision encoder",
    path_setting="clip_path",
    subfolder="image_encoder",
    weights_name="model",
    tokenizer_subfolder="image_processor",
    tokenizer_label="preprocessor_config.json",
    tokenizer_sets=(frozenset({"preprocessor_config.json"}),),
)

_MODULES = (
    "diffusers.models.autoencoders.autoencoder_kl_wan",
    "transformers.models.umt5.modeling_umt5",
)
_IMAGE_MODULE = "transformers.models.clip.modeling_clip"


@dataclass(frozen=True, slots=True)
class WanFamily(ClipEncoderFamily):
    """Wan's encoders as the settings name them, found but not loaded. `image` is None where
    nothing is asked of a first frame, and where the model has no encoder for it (Wan 2.2)."""

    settings: EncoderSettings
    components: Mapping[EncoderRole, Component]
    vae: WanVaeFacts
    text: WanTextFacts
    image: WanImageFacts | None

    @classmethod
    def find(
        cls, settings: EncoderSettings, *, hub: ModelHub, main: Repository | None
    ) -> "WanFamily":
        """Looks at configs and file lists only. Raises ModelError naming the encoder, and
        SettingError for another precision than float32."""
        if settings.dtype != "float32":
            raise SettingError(
                "model.precision must be fp32 for Wan, whose trainers read float32, got "
                f"{settings.precision}"
            )
        places = [VAE_PLACE, _TEXT_PLACE]
        if settings.workload == "i2v" and _has_image_encoder(settings, main=main):
            places.append(_IMAGE_PLACE)
        finder = ComponentFinder(settings, hub, main=main)
        components: dict[EncoderRole, Component] = {}
        for place in places:
            components[place.role] = finder.find(place)
        clip = components.get("clip")
        return cls(
            settings=settings,
            components=components,
            vae=wan_vae_facts(components["vae"].weights),
            text=wan_text_facts(components["t5"].weights),
            image=None if clip is None else wan_image_facts(clip.weights),
        )

    def identities(self) -> dict[EncoderRole, ModelIdentity]:
        return {role: component.identity() for role, component in self.components.items()}

    @property
    def modules(self) -> tuple[str, ...]:
        return _MODULES if self.image is None else (*_MODULES, _IMAGE_MODULE)

    @property
    def size_multiple(self) -> int:
        return self.vae.size_multiple

    @property
    def frames_multiple(self) -> int:
        return self.vae.downsampling_t

    @property
    def latent_channels(self) -> int:
        return self.vae.latent_channels

    @property
    def latents_scale(self) -> tuple[float, float]:
        return 1.0, 0.0

    @property
    def latents_statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self.vae.latents_mean, self.vae.latents_std

    @property
    def has_image_features(self) -> bool:
        return self.image is not None

    def latents_layout(self, width: int, height: int, *, num_frames: int = 1) -> RowLayout:
        return self.vae.layout("latents", width, height, num_frames=num_frames)

    def first_frame_layout(self, width: int, height: int, *, num_frames: int) -> RowLayout:
        return self.vae.layout("first_frame_latents", width, height, num_frames=num_frames)

    def image_layout(self, width: int, height: int, *, num_frames: int) -> RowLayout:
        return self._image_facts().layout()

    def text_layout(self) -> RowLayout:
        return self.text.layout(max_length=self.settings.t5_max_length)

    def fetch(self) -> None:
        for component in self.components.values():
            component.weights.folder()
            if component.tokenizer is not None:
                component.tokenizer.folder()

    def download_bytes(self) -> dict[EncoderRole, int]:
        return {role: component.missing_bytes() for role, component in self.components.items()}

    def token_counter(self) -> TokenCounter:
        return WanTokenCounter(self.components["t5"], settings=self.settings)

    def weights_bytes(self, *roles: EncoderRole) -> int:
        return sum(self.components[role].weights.size_bytes() for role in roles)

    def latents_encoder(self, device: str) -> LatentsEncoder:
        return WanLatentsEncoder(
            self.components["vae"], facts=self.vae, tiling=self.settings.vae_tiling, device=device
        )

    def first_frame_encoder(self, device: str) -> FirstFrameEncoder:
        return WanFirstFrameEncoder(
            self.components["vae"], facts=self.vae, tiling=self.settings.vae_tiling, device=device
        )

    def image_encoder(self, device: str) -> FirstFrameEncoder:
        facts = self._image_facts()
        return WanImageEncoder(self.components["clip"], facts=facts, device=device)

    def text_encoder(self, device: str) -> TextEncoder:
        return WanTextEncoder(
            self.components["t5"], facts=self.text, settings=self.settings, device=device
        )

    def _image_facts(self) -> WanImageFacts:
        if self.image is None:
            raise ModelError(
                f"model.model_path: {self.settings.model_path} has no image_encoder that is asked "
                f"for (workload {self.settings.workload}); name one in model.clip_path"
            )
        return self.image


def _has_image_encoder(settings: EncoderSettings, *, main: Repository | None) -> bool:
    """Whether the model's index names an image encoder, or the settings do."""
    if settings.clip_path:
        return True
    index = {} if main is None else main.read_json("model_index.json")
    if index.get("expand_timesteps"):
        raise ModelError(
            f"model.model_path: {settings.model_path} takes a first frame in another way (its "
            "index says expand_timesteps), which is not supported; workload t2v works"
        )
    entry = index.get("image_encoder")
    return isinstance(entry, list) and any(entry)
