from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline
from transformers import CLIPTextModel, CLIPTokenizer, T5EncoderModel, T5TokenizerFast  # pyright: ignore[reportAttributeAccessIssue] "T5TokenizerFast" is an alias made at run time

from diffprep_resources.demo.encoders import build_tiny_flux
from diffprep_resources.demo.vae import trained_vae
from diffprep_resources.demo.words import vocabulary


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "flux"
    build_tiny_flux(folder)
    return folder


def test_diffusers_loads_it_as_a_whole_flux_pipeline(folder: Path) -> None:
    pipeline = FluxPipeline.from_pretrained(folder, local_files_only=True)
    assert isinstance(pipeline.text_encoder, CLIPTextModel)
    assert isinstance(pipeline.text_encoder_2, T5EncoderModel)
    assert isinstance(pipeline.tokenizer, CLIPTokenizer)
    assert isinstance(pipeline.tokenizer_2, T5TokenizerFast)
    assert pipeline.vae.config.latent_channels == 16
    assert pipeline.vae_scale_factor == 8
    assert pipeline.vae.config.shift_factor == trained_vae().config.shift_factor  # pyright: ignore[reportAttributeAccessIssue] "config" has what the class was made with
    pipeline.set_progress_bar_config(disable=True)
    (pictures,) = pipeline(
        "a ring", height=32, width=32, num_inference_steps=1, output_type="np", return_dict=False
    )
    assert np.shape(pictures) == (1, 32, 32, 3)


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(
    folder: Path, tmp_path: Path
) -> None:
    torch.manual_seed(99)
    build_tiny_flux(tmp_path / "same")
    build_tiny_flux(tmp_path / "other", seed=1)
    names = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert len(names) >= 12
    for name in names:
        same = (folder / name).read_bytes() == (tmp_path / "same" / name).read_bytes()
        other = (folder / name).read_bytes() == (tmp_path / "other" / name).read_bytes()
        assert same, name
        assert other == (name.suffix != ".safetensors"), name


def test_it_is_small_and_holds_no_pickle(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 4_000_000
    assert {path.suffix for path in files} == {".json", ".safetensors"}


def test_each_demo_word_is_one_token_and_other_text_is_taken_too(folder: Path) -> None:
    clip = CLIPTokenizer.from_pretrained(folder / "tokenizer", local_files_only=True)
    t5 = T5TokenizerFast.from_pretrained(folder / "tokenizer_2", local_files_only=True)
    for word in vocabulary():
        assert len(clip(word).input_ids) == 3, word
        assert len(t5(word).input_ids) == 2, word
    assert (
        clip.decode(clip("caf\u00e9 \u4e2d").input_ids, skip_special_tokens=True)
        == "caf\u00e9 \u4e2d"
    )
    assert t5.decode(t5("Zebra, 42!").input_ids, skip_special_tokens=True) == "Zebra, 42!"
    assert (t5.pad_token_id, t5.eos_token_id, t5.unk_token_id) == (0, 1, 2)
    assert clip.eos_token_id == max(clip.get_vocab().values())
