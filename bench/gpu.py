"""Share of wall time in the encoders on a GPU, by batch size: FLUX.1's sizes, random weights.

Pictures of about two megapixels to 1,024 px, captions to 512 tokens, bf16. Prints pictures and
captions a second through the stages, beside the same encoders fed from memory. Needs a CUDA
device with 24 GB, 12 GB of disk for the weights and 4 MB for each sample's text:

    python bench/gpu.py [--samples 256] [--batch-sizes 1 4 8 16] [--device cuda:0]
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from inputs import Bench, photographs
from throughput import batches

from diffprep_resources.encoders.base import EncoderFamily

SIDE = 1024
GIGABYTE = 1e9

VAE = {
    "latent_channels": 16,
    "down_block_types": ("DownEncoderBlock2D",) * 4,
    "up_block_types": ("UpDecoderBlock2D",) * 4,
    "block_out_channels": (128, 256, 512, 512),
    "layers_per_block": 2,
    "norm_num_groups": 32,
    "sample_size": SIDE,
    "scaling_factor": 0.3611,
    "shift_factor": 0.1159,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
}
CLIP = {
    "vocab_size": 49_408,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "projection_dim": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 77,
}
T5 = {
    "vocab_size": 32_128,
    "d_model": 4096,
    "d_kv": 64,
    "d_ff": 10_240,
    "num_layers": 24,
    "num_heads": 64,
    "feed_forward_proj": "gated-gelu",
}


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 4, 8, 16])
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("There is no CUDA device here, so nothing was measured; run this on one with a GPU.")
        return
    device = torch.device(options.device)
    name, memory = torch.cuda.get_device_name(device), torch.cuda.mem_get_info(device)[1]
    print(f"{name}, {memory / GIGABYTE:.0f} GB; {options.samples} samples, {SIDE} px, bf16")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        write_full_size(bench.folder / "encoders", options.device)
        captions = photographs(bench.pictures, count=options.samples, megapixels=(1.8, 2.2))
        for batch_size in options.batch_sizes:
            compare(bench, captions, batch_size=batch_size, device=options.device)


def write_full_size(folder: Path, device: str) -> None:
    """FLUX.1's encoders over the tiny ones, with the weights that the classes start with."""
    import torch
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
    from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

    makers: dict[str, Callable[[], torch.nn.Module]] = {
        "vae": lambda: AutoencoderKL(**VAE),
        "text_encoder": lambda: CLIPTextModel(CLIPTextConfig(**CLIP)),
        "text_encoder_2": lambda: T5EncoderModel(T5Config(**T5)),
    }
    torch.manual_seed(0)
    for subfolder, make in makers.items():
        with torch.device(device):
            model = make().to(torch.bfloat16)
        model.save_pretrained(folder / subfolder)
        del model
        torch.cuda.empty_cache()


def compare(bench: Bench, captions: list[str], *, batch_size: int, device: str) -> None:
    """One batch size: the stages of a run, and the encoders alone on as many batches."""
    vae_s, vae_load_s = alone(bench, "latents", captions, batch_size=batch_size, device=device)
    text_s, text_load_s = alone(bench, "text", captions, batch_size=batch_size, device=device)
    bench.recipe(
        "bench",
        image={"image_size": SIDE, "center_crop": True},
        model={"t5_max_length": 512, "batch_size": batch_size},
        output={"shard_size": 64},
    )
    report = bench.run("bench", device=device)
    bench.forget("bench")
    for stage, what, encoder_s, load_s in (
        ("encode_latents", "pictures", vae_s, vae_load_s),
        ("encode_text", "captions", text_s, text_load_s),
    ):
        wall_s = report.summaries[stage].seconds
        working_s = max(wall_s - load_s, 1e-9)
        print(
            f"batch {batch_size}, {stage}: {wall_s:.1f} s with {load_s:.1f} s of loading, "
            f"{len(captions) / working_s:.1f} {what} a second after that; encoders alone "
            f"{encoder_s:.1f} s, {encoder_s / working_s:.0%} of the wall time"
        )
    print(f"batch {batch_size}, shard: {report.summaries['shard'].seconds:.1f} s")


def alone(
    bench: Bench, kind: str, captions: list[str], *, batch_size: int, device: str
) -> tuple[float, float]:
    """Seconds of one encoder fed from memory, and seconds of loading it."""
    import torch

    work = list(batches(captions, size=batch_size))
    begin = time.monotonic()
    encode = loaded(bench.encoders(t5_max_length=512), kind, batch_size=batch_size, device=device)
    load_s = time.monotonic() - begin
    encode(work[0])
    torch.cuda.synchronize(device)
    begin = time.monotonic()
    for batch in work:
        encode(batch)
    torch.cuda.synchronize(device)
    seconds = time.monotonic() - begin
    del encode
    torch.cuda.empty_cache()
    return seconds, load_s


def loaded(
    family: EncoderFamily, kind: str, *, batch_size: int, device: str
) -> Callable[[list[str]], object]:
    """An encoder; the pictures' one takes the same noise for every batch of captions."""
    if kind == "text":
        return family.text_encoder(device).encode
    latents = family.latents_encoder(device)
    pixels = np.random.default_rng(0).integers(0, 256, (batch_size, SIDE, SIDE, 3), dtype=np.uint8)
    return lambda _: latents.encode(pixels, sample_ids=range(batch_size))


if __name__ == "__main__":
    main()
