"""The Hub's server, a FLUX-like repository for it, and scripts of the real huggingface_hub."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub_server import DatasetHub, serving


@pytest.fixture
def hub_server() -> Iterator[DatasetHub]:
    with serving() as hub:
        yield hub


@pytest.fixture
def flux_files() -> dict[str, bytes]:
    """A FLUX-like repository: true configs, weights that are never loaded, and files not wanted."""

    def config(**fields: object) -> bytes:
        return json.dumps(fields).encode()

    return {
        "README.md": b"# hello",
        "model_index.json": config(_class_name="FluxPipeline"),
        "flux1-dev.safetensors": b"huge",
        "transformer/diffusion_pytorch_model.safetensors": b"huge",
        "vae/config.json": config(
            _class_name="AutoencoderKL", latent_channels=16, block_out_channels=[8, 8, 8, 8]
        ),
        "vae/diffusion_pytorch_model.safetensors": b"vae",
        "vae/diffusion_pytorch_model.fp16.safetensors": b"huge",
        "text_encoder/config.json": config(model_type="clip_text_model", hidden_size=768),
        "text_encoder/model.safetensors": b"clip",
        "text_encoder/pytorch_model.bin": b"huge",
        "tokenizer/vocab.json": b'{"a": 0}',
        "tokenizer/merges.txt": b"#version: 0.2",
        "text_encoder_2/config.json": config(model_type="t5", d_model=4096),
        "text_encoder_2/model.safetensors.index.json": config(
            weight_map={"a": "model-1.safetensors", "b": "model-2.safetensors"}
        ),
        "text_encoder_2/model-1.safetensors": b"t5 one",
        "text_encoder_2/model-2.safetensors": b"t5 two",
        "tokenizer_2/spiece.model": b"pieces",
        "tokenizer_2/tokenizer_config.json": b"{}",
    }


@pytest.fixture
def run_script(
    hub_server: DatasetHub, tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs Python against the server: huggingface_hub reads its address at import.

    The script has `family_for`, `EncoderSettings` and `hub` (a ModelHub) at hand.
    """
    prelude = (
        "from diffprep_resources.encoders.base import EncoderSettings\n"
        "from diffprep_resources.encoders.families import family_for\n"
        "from diffprep_resources.errors import DiffprepError\n"
        "from diffprep_resources.hub.models import ModelHub\n"
        "from pathlib import Path\n"
        "import sys\n"
        "hub = ModelHub(token_file=Path(sys.argv[1]) if sys.argv[1:] else None)\n"
    )

    def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        return subprocess.run(
            [sys.executable, "-c", prelude + script, *arguments],
            env=clean
            | {"HF_ENDPOINT": hub_server.url, "HF_HOME": str(tmp_path / "hf"), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
