import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import CLIPConfig, CLIPModel, CLIPTextConfig

from diffprep_resources.encoders.base import EncoderFamily, EncoderRole
from diffprep_resources.errors import ModelError

Build = Callable[..., EncoderFamily]

USUAL: dict[EncoderRole, str] = {"vae": "vae", "t5": "text_encoder_2", "clip": "text_encoder"}
TOKENIZERS: dict[EncoderRole, str] = {"t5": "tokenizer_2", "clip": "tokenizer"}


def encodings(built: EncoderFamily, pixels: Callable[..., np.ndarray]) -> dict[str, torch.Tensor]:
    """What each encoder makes of one fixed input, by role."""
    text = built.text_encoder("cpu").encode(["a red circle"])
    latents = built.latents_encoder("cpu").encode(pixels(1), sample_ids=[0])
    return {
        "vae": latents["latents"],
        "t5": text["prompt_embeds"],
        "clip": text["pooled_prompt_embeds"],
    }


@pytest.mark.parametrize("form", ["repository", "bare folder"])
@pytest.mark.parametrize("role", ["vae", "t5", "clip"])
def test_an_override_replaces_one_encoder_and_no_other(
    family: Build,
    other_flux: Path,
    pixels: Callable[..., np.ndarray],
    role: EncoderRole,
    form: str,
) -> None:
    path = other_flux if form == "repository" else other_flux / USUAL[role]
    usual, other = family(), family(model_path=str(other_flux))
    mixed = family(**{f"{role}_path": str(path)})
    wanted = encodings(usual, pixels) | {role: encodings(other, pixels)[role]}
    for name, tensor in encodings(mixed, pixels).items():
        assert torch.equal(tensor, wanted[name])
    prints = {name: found.fingerprint for name, found in mixed.identities().items()}
    expected = {name: found.fingerprint for name, found in usual.identities().items()}
    expected[role] = other.identities()[role].fingerprint
    assert prints == expected


def test_equal_files_have_one_identity_wherever_they_lie(
    family: Build, copy_of_flux: Path, tmp_path: Path
) -> None:
    bare = {}
    for role, subfolder in USUAL.items():
        bare[f"{role}_path"] = str(shutil.copytree(copy_of_flux / subfolder, tmp_path / role))
        if role in TOKENIZERS:
            tokenizer = copy_of_flux / TOKENIZERS[role]
            shutil.copytree(tokenizer, tmp_path / role, dirs_exist_ok=True)
    identities = [
        built.identities()
        for built in (family(), family(model_path=str(copy_of_flux)), family(**bare))
    ]
    for role in USUAL:
        assert len({found[role].fingerprint for found in identities}) == 1
    assert len({found.fingerprint for found in identities[0].values()}) == 3


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("vae/config.json", "vae"),
        ("vae/diffusion_pytorch_model.safetensors", "vae"),
        ("text_encoder_2/model.safetensors", "t5"),
        ("tokenizer_2/tokenizer.json", "t5"),
        ("text_encoder/config.json", "clip"),
        ("tokenizer/tokenizer_config.json", "clip"),
        ("model_index.json", None),
        ("scheduler/scheduler_config.json", None),
    ],
)
def test_a_changed_file_changes_the_identity_of_its_encoder_only(
    family: Build, copy_of_flux: Path, name: str, changed: str | None
) -> None:
    before = family(model_path=str(copy_of_flux)).identities()
    with (copy_of_flux / name).open("ab") as file:
        file.write(b" ")
    after = family(model_path=str(copy_of_flux)).identities()
    differing = [role for role in before if before[role].fingerprint != after[role].fingerprint]
    assert differing == ([] if changed is None else [changed])


def test_files_that_are_not_loaded_play_no_part(family: Build, copy_of_flux: Path) -> None:
    before = family(model_path=str(copy_of_flux)).identities()
    (copy_of_flux / "vae" / "diffusion_pytorch_model.fp16.safetensors").write_bytes(b"x")
    (copy_of_flux / "text_encoder" / "README.md").write_text("hello")
    (copy_of_flux / "text_encoder_2" / "pytorch_model.bin").write_bytes(b"x")
    assert family(model_path=str(copy_of_flux)).identities() == before


def test_all_encoders_overridden_need_no_model_path(
    family: Build, tiny_flux: Path, no_network: None, pixels: Callable[..., np.ndarray]
) -> None:
    overrides = {f"{role}_path": str(tiny_flux / name) for role, name in USUAL.items()}
    built = family(model_path="black-forest-labs/FLUX.1-dev", **overrides)
    wanted = encodings(family(), pixels)
    for name, tensor in encodings(built, pixels).items():
        assert torch.equal(tensor, wanted[name])


def test_a_bare_folder_without_tokenizer_takes_model_paths(
    family: Build, tiny_flux: Path, tmp_path: Path
) -> None:
    bare = shutil.copytree(tiny_flux / "text_encoder_2", tmp_path / "t5")
    built = family(t5_path=str(bare))
    assert built.identities()["t5"].fingerprint == family().identities()["t5"].fingerprint
    tokenizer = built.identities()["t5"].tokenizer
    assert tokenizer is not None
    assert tokenizer.reference == str(tiny_flux)


def test_no_tokenizer_anywhere_says_where_it_was_looked_for(
    family: Build, copy_of_flux: Path
) -> None:
    shutil.rmtree(copy_of_flux / "tokenizer_2")
    with pytest.raises(ModelError, match=r"T5 encoder: no tokenizer found.*tokenizer_2"):
        family(model_path=str(copy_of_flux))


def test_the_text_half_of_a_whole_clip_is_loaded(
    family: Build, tiny_flux: Path, tmp_path: Path
) -> None:
    text = CLIPTextConfig.from_pretrained(tiny_flux / "text_encoder")
    vision = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32}
    whole = CLIPModel(CLIPConfig(text_config=text.to_dict(), vision_config=vision))
    tiny = load_file(tiny_flux / "text_encoder" / "model.safetensors")
    names = {name.removeprefix("text_model."): tensor for name, tensor in tiny.items()}
    missing = whole.text_model.load_state_dict(names, strict=False).missing_keys
    assert missing == []
    whole.save_pretrained(tmp_path / "clip")
    shutil.copytree(tiny_flux / "tokenizer", tmp_path / "clip", dirs_exist_ok=True)
    got = family(clip_path=str(tmp_path / "clip")).text_encoder("cpu").encode(["a red circle"])
    wanted = family().text_encoder("cpu").encode(["a red circle"])
    assert torch.equal(got["pooled_prompt_embeds"], wanted["pooled_prompt_embeds"])


def test_sharded_weights_are_loaded_and_a_missing_shard_is_named(
    family: Build, copy_of_flux: Path
) -> None:
    folder = copy_of_flux / "text_encoder_2"
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {
        "model-00001-of-00002.safetensors": names[::2],
        "model-00002-of-00002.safetensors": names[1::2],
    }
    for shard, held in shards.items():
        save_file({name: tensors[name] for name in held}, folder / shard, metadata={"format": "pt"})
    index = {
        "metadata": {"total_size": 1},
        "weight_map": {name: shard for shard, held in shards.items() for name in held},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    got = family(model_path=str(copy_of_flux)).text_encoder("cpu").encode(["a red circle"])
    wanted = family().text_encoder("cpu").encode(["a red circle"])
    assert torch.equal(got["prompt_embeds"], wanted["prompt_embeds"])
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match="lacks model-00002-of-00002"):
        family(model_path=str(copy_of_flux))


def test_a_shard_name_that_leads_elsewhere_is_refused(family: Build, copy_of_flux: Path) -> None:
    folder = copy_of_flux / "text_encoder_2"
    index = {"weight_map": {"shared.weight": "../text_encoder/model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="plain name"):
        family(model_path=str(copy_of_flux))


def test_pickled_weights_are_refused_and_named(family: Build, copy_of_flux: Path) -> None:
    folder = copy_of_flux / "vae"
    (folder / "diffusion_pytorch_model.safetensors").rename(folder / "diffusion_pytorch_model.bin")
    with pytest.raises(ModelError, match=r"VAE: .*it has diffusion_pytorch_model.bin"):
        family(model_path=str(copy_of_flux))


def test_an_override_without_the_encoder_names_setting_and_folder(
    family: Build, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=r"VAE: .*no vae/config.json.*model.vae_path"):
        family(vae_path=str(tmp_path))


def test_a_family_travels_to_another_process(
    family: Build, pixels: Callable[..., np.ndarray]
) -> None:
    built = family()
    again = pickle.loads(pickle.dumps(built))
    assert again.identities() == built.identities()
    wanted = encodings(built, pixels)
    for name, tensor in encodings(again, pixels).items():
        assert torch.equal(tensor, wanted[name])
