from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline

from diffprep_resources.encoders.vae_codec import VaeCodec, find_vae
from diffprep_resources.errors import ModelError
from diffprep_resources.hub.models import ModelHub


def test_both_ways_are_those_of_diffusers(
    tiny_flux: Path, pipeline: FluxPipeline, pixels: Callable[..., np.ndarray]
) -> None:
    codec = VaeCodec(find_vae(str(tiny_flux), hub=ModelHub()), device="cpu")
    picture = pixels(1)[0] / 127.5 - 1
    with torch.no_grad():
        batch = torch.tensor(picture, dtype=torch.float32).permute(2, 0, 1)[None]
        mean = pipeline.vae.encode(batch).latent_dist.mean
        decoded = pipeline.vae.decode(mean, return_dict=False)[0]
    z = codec.mean(picture)
    np.testing.assert_allclose(z, mean[0].numpy(), atol=1e-5)
    wanted = decoded[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(codec.decoded(z), wanted, atol=1e-4)
    stored = (z - codec.facts.shift_factor) * codec.facts.scaling_factor
    np.testing.assert_allclose(codec.unscaled(stored), z, atol=1e-5)


def test_the_vae_is_found_in_a_repository_and_in_its_own_folder(tiny_flux: Path) -> None:
    whole, bare = (find_vae(str(path), hub=ModelHub()) for path in (tiny_flux, tiny_flux / "vae"))
    assert whole.identity().fingerprint == bare.identity().fingerprint


def test_other_files_than_those_on_record_are_refused(copy_of_flux: Path) -> None:
    found = find_vae(str(copy_of_flux), hub=ModelHub())
    recorded = asdict(found.identity().weights)
    find_vae(str(copy_of_flux), hub=ModelHub(), recorded=recorded)
    weights = copy_of_flux / "vae" / "config.json"
    weights.write_text(weights.read_text() + "\n")
    with pytest.raises(ModelError, match=r"not the one that encoded.*--vae"):
        find_vae(str(copy_of_flux), hub=ModelHub(), recorded=recorded)
