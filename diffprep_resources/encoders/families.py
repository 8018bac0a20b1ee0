"""Which family of encoders a recipe's `model_path` has, by the class in its model_index.json."""

from collections.abc import Callable

from diffprep_resources.encoders import flux, wan
from diffprep_resources.encoders.base import ClipEncoderFamily, EncoderFamily, EncoderSettings
from diffprep_resources.errors import ModelError
from diffprep_resources.hub.base import Repository
from diffprep_resources.hub.models import ModelHub

MODEL_INDEX = "model_index.json"

_FAMILIES: dict[str, Callable[..., EncoderFamily]] = {
    **{name: flux.FluxFamily.find for name in flux.PIPELINES},
    **{name: wan.WanFamily.find for name in wan.PIPELINES},
}


def family_for(settings: EncoderSettings, *, hub: ModelHub) -> EncoderFamily:
    """The encoders that `settings` name: found and checked, but neither fetched nor loaded.

    `model_path` is not needed when all three encoders and their tokenizers come from elsewhere: the
    Hub is then not asked for it, and the family is FLUX.1's unless a local `model_path` says
    otherwise. Raises ModelError for a pipeline class that does not work, before any download.
    """
    main = _main_repository(settings, hub=hub)
    class_name = "FluxPipeline" if main is None else _class_name(main)
    if class_name not in _FAMILIES:
        raise ModelError(
            f"model.model_path: {settings.model_path} is a {class_name}, which is not supported; "
            f"these pipelines work: {', '.join(_FAMILIES)}"
        )
    return _FAMILIES[class_name](settings, hub=hub, main=main)


def clip_family(encoders: EncoderFamily) -> ClipEncoderFamily:
    """The same encoders, which are of a model that makes clips. Raises ModelError for others."""
    if not isinstance(encoders, ClipEncoderFamily):
        raise ModelError(
            f"model.model_path: these are encoders of pictures; with a section video it must be a "
            f"model that makes clips: {', '.join(wan.PIPELINES)}"
        )
    return encoders


def _main_repository(settings: EncoderSettings, *, hub: ModelHub) -> Repository | None:
    """`model_path`, opened; None when every encoder is overridden and it is no local repository."""
    overrides = {
        "VAE": settings.vae_path,
        "T5 encoder": settings.t5_path,
        "CLIP encoder": settings.clip_path,
    }
    needing = [label for label, path in overrides.items() if not path]
    if not needing:
        folder = hub.local_folder(settings.model_path)
        if folder is None or not (folder / MODEL_INDEX).is_file():
            return None
    used_for = f"{', '.join(needing) or 'encoders'} (model.model_path)"
    return hub.repository(settings.model_path, used_for=used_for)


def _class_name(repository: Repository) -> str:
    if MODEL_INDEX not in repository.names(""):
        raise ModelError(
            f"model.model_path: {repository.reference} has no {MODEL_INDEX}; it must be a "
            "diffusers repository. model.vae_path, t5_path and clip_path name single encoders"
        )
    class_name = repository.read_json(MODEL_INDEX).get("_class_name")
    if not isinstance(class_name, str):
        raise ModelError(
            f"model.model_path: {repository.reference}/{MODEL_INDEX}: _class_name must be text, "
            f"got {class_name!r}"
        )
    return class_name
