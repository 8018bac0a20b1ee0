import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from diffprep_resources.encoders.base import EncoderFamily, EncoderSettings
from diffprep_resources.encoders.families import family_for
from diffprep_resources.errors import ModelError
from diffprep_resources.hub.models import ModelHub

Build = Callable[..., EncoderFamily]


def index_of(folder: Path, class_name: object) -> Path:
    (folder / "model_index.json").write_text(json.dumps({"_class_name": class_name}))
    return folder


def test_another_pipeline_class_is_refused_naming_those_that_work(tmp_path: Path) -> None:
    settings = EncoderSettings(model_path=str(index_of(tmp_path, "StableDiffusionXLPipeline")))
    with pytest.raises(ModelError, match=r"StableDiffusionXLPipeline.*work: FluxPipeline"):
        family_for(settings, hub=ModelHub())


def test_a_local_model_path_decides_the_family_even_when_all_is_overridden(
    tmp_path: Path, tiny_flux: Path
) -> None:
    settings = EncoderSettings(
        model_path=str(index_of(tmp_path, "Flux2Pipeline")),
        vae_path=str(tiny_flux),
        t5_path=str(tiny_flux),
        clip_path=str(tiny_flux),
    )
    with pytest.raises(ModelError, match="Flux2Pipeline"):
        family_for(settings, hub=ModelHub())


def test_a_folder_without_model_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model_path.*no model_index.json"):
        family_for(EncoderSettings(model_path=str(tmp_path)), hub=ModelHub())
    with pytest.raises(ModelError, match="_class_name must be text"):
        family_for(EncoderSettings(model_path=str(index_of(tmp_path, 3))), hub=ModelHub())


def test_a_relative_model_path_starts_at_the_hubs_base_folder(tiny_flux: Path) -> None:
    hub = ModelHub(base_folder=tiny_flux.parent)
    found = family_for(EncoderSettings(model_path=tiny_flux.name), hub=hub)
    assert found.latent_channels == 16


@pytest.mark.parametrize("offline", ["0", "1"])
def test_local_folders_are_found_identified_and_loaded_without_the_network(
    family: Build,
    pixels: Callable[..., np.ndarray],
    no_network: None,
    monkeypatch: pytest.MonkeyPatch,
    offline: str,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline == "1")
    built = family()
    built.fetch()
    assert set(built.identities()) == {"vae", "t5", "clip"}
    built.latents_encoder("cpu").encode(pixels(1), sample_ids=[0])
    built.text_encoder("cpu").encode(["a red circle"])


def test_identities_and_layouts_import_no_torch(tiny_flux: Path, tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from diffprep_resources.encoders.base import EncoderSettings
from diffprep_resources.encoders.families import family_for
from diffprep_resources.errors import ModelError
from diffprep_resources.hub.models import ModelHub
found = family_for(EncoderSettings(model_path=sys.argv[1]), hub=ModelHub(Path(sys.argv[2])))
assert found.latents_layout(64, 32)["latents"] == ("bfloat16", (16, 4, 8))
assert found.text_layout()["prompt_embeds"] == ("bfloat16", (512, 32))
print(*(identity.fingerprint for identity in found.identities().values()))
(Path(sys.argv[3]) / "model_index.json").write_text('{"_class_name": "SomePipeline"}')
try:
    family_for(EncoderSettings(model_path=sys.argv[3]), hub=ModelHub())
    raise SystemExit("not refused")
except ModelError:
    pass
loaded = {"torch", "diffusers", "transformers", "huggingface_hub"} & set(sys.modules)
assert not loaded, loaded
"""
    arguments = [str(tiny_flux), str(tmp_path / "digests.json"), str(tmp_path)]
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.split()) == 3
