"""The VAE that a published dataset was encoded with."""

from pathlib import Path

from diffprep_assets.project import Project
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_resources.encoders.components import Component
from diffprep_resources.encoders.vae_codec import VaeCodec, find_vae
from diffprep_resources.encoders.wan_codec import WanCodec
from diffprep_resources.errors import ModelError
from diffprep_resources.gpu_pool.file_lease import present_devices
from diffprep_resources.hub.models import ModelHub

CLIP_ENCODINGS = ("fastvideo", "preencoded_video")


def codec_of(
    folder: DatasetFolder, *, vae: str | None, project: Project | None, device: str | None
) -> VaeCodec:
    """The VAE that `vae` names (a diffusers repository, or the VAE's folder), else the one that
    dataset.json has on record, whose files must be the same still. It runs on `device`, else on the
    project's first, else on a GPU if there is one. Raises ModelError, SettingError."""
    component = _component(folder, vae=vae, project=project)
    return VaeCodec(component, device=_present(device, project))


def clip_codec_of(
    folder: DatasetFolder, *, vae: str | None, project: Project | None, device: str | None
) -> WanCodec:
    """The same of a dataset of clips."""
    component = _component(folder, vae=vae, project=project)
    recipe = (folder.provenance or {}).get("recipe") or {}
    tiling = bool((recipe.get("video") or {}).get("vae_tiling"))
    return WanCodec(component, tiling=tiling, device=_present(device, project))


def _present(device: str | None, project: Project | None) -> str:
    wanted = [device] if device else list(project.devices if project else ()) or ["auto"]
    return next(present_devices(wanted))


def _component(folder: DatasetFolder, *, vae: str | None, project: Project | None) -> Component:
    if vae is not None:
        return find_vae(vae, hub=ModelHub(base_folder=Path.cwd()))
    recorded = ((folder.provenance or {}).get("models") or {}).get("vae")
    if recorded is None:
        raise ModelError(
            f"{folder.layout.output_dir} has no dataset.json that names its VAE; name it with --vae"
        )
    weights = recorded["weights"]
    hub = ModelHub(base_folder=project.folder if project else Path.cwd())
    try:
        return find_vae(weights["reference"], hub=hub, recorded=weights)
    except ModelError as error:
        raise ModelError(f"{error} (--vae names the VAE's repository or folder)") from error
