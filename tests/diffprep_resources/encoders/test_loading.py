from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from diffprep_resources.encoders.base import EncoderFamily
from diffprep_resources.errors import ModelError

Build = Callable[..., EncoderFamily]

FILES = {
    "vae": "vae/diffusion_pytorch_model.safetensors",
    "t5": "text_encoder_2/model.safetensors",
    "clip": "text_encoder/model.safetensors",
}


def load(built: EncoderFamily, role: str) -> None:
    if role == "vae":
        built.latents_encoder("cpu")
    else:
        built.text_encoder("cpu")


@pytest.mark.parametrize("role", ["vae", "t5", "clip"])
def test_a_missing_weight_is_refused_not_left_random(
    family: Build, copy_of_flux: Path, role: str
) -> None:
    path = copy_of_flux / FILES[role]
    tensors = load_file(path)
    dropped = next(
        name for name in sorted(tensors) if name.endswith("weight") and "norm" not in name
    )
    del tensors[dropped]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(ModelError, match="lacks 1 of the weights"):
        load(family(model_path=str(copy_of_flux)), role)


@pytest.mark.parametrize("role", ["vae", "t5", "clip"])
def test_cut_off_weights_are_refused_naming_the_encoder(
    family: Build, copy_of_flux: Path, role: str
) -> None:
    path = copy_of_flux / FILES[role]
    path.write_bytes(path.read_bytes()[:-1000])
    label = {"vae": "VAE", "t5": "T5 encoder", "clip": "CLIP encoder"}[role]
    with pytest.raises(ModelError, match=f"{label}: cannot load"):
        load(family(model_path=str(copy_of_flux)), role)


def test_a_broken_tokenizer_is_refused_naming_the_encoder(
    family: Build, copy_of_flux: Path
) -> None:
    (copy_of_flux / "tokenizer_2" / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match="T5 encoder: cannot load the tokenizer"):
        family(model_path=str(copy_of_flux)).text_encoder("cpu")


def test_closed_encoders_let_go_of_their_weights(family: Build) -> None:
    import gc
    import weakref

    encoder = family().text_encoder("cpu")
    model = weakref.ref(encoder._models["float32"][0])  # pyright: ignore[reportAttributeAccessIssue] "_models" is unknown on the interface
    encoder.close()
    gc.collect()
    assert model() is None
