"""`diffprep diffusion-encoded`, `diffusion-raw`: the commands of Primus's guide, with its flags and
priorities."""

from pathlib import Path
from typing import Annotated

import typer

from diffprep_assets.console import AsJson, BatchSize, Device, ProjectDir, err, explained
from diffprep_assets.primus_flags import flags_given, recipe_from_flags
from diffprep_assets.project import find_project
from diffprep_assets.run_and_show import run_and_show

PRIMUS_FLAGS = {
    "source": (
        "source_type",
        "input_dir",
        "hf_dataset",
        "hf_name",
        "hf_split",
        "hf_revision",
        "hf_data_files",
        "input_path",
    ),
    "output": (
        "output_dir",
        "shard_size",
        "max_samples",
        "compress",
        "train_split",
        "finalize",
    ),
    "model": (
        "model_path",
        "vae_path",
        "t5_path",
        "clip_path",
        "precision",
        "t5_max_length",
        "vae_latent_mode",
        "device",
        "batch_size",
    ),
    "image": ("image_size", "center_crop", "variable_size", "max_size"),
    "auth": ("hf_token_file",),
}
PRIMUS_RAW_FLAGS = {
    **{section: keys for section, keys in PRIMUS_FLAGS.items() if section != "model"},
    "output": (*PRIMUS_FLAGS["output"], "image_format", "image_quality"),
}


@explained
def diffusion_encoded(  # noqa: PLR0913 (a flag each)
    config: Annotated[Path | None, typer.Option(help="YAML with the four sections")] = None,
    source_type: Annotated[
        str | None, typer.Option(help="directory, huggingface, webdataset")
    ] = None,
    input_dir: Annotated[str | None, typer.Option()] = None,
    hf_dataset: Annotated[str | None, typer.Option()] = None,
    hf_name: Annotated[str | None, typer.Option()] = None,
    hf_split: Annotated[str | None, typer.Option()] = None,
    hf_revision: Annotated[str | None, typer.Option()] = None,
    hf_data_files: Annotated[str | None, typer.Option()] = None,
    input_path: Annotated[str | None, typer.Option()] = None,
    output_dir: Annotated[str | None, typer.Option()] = None,
    shard_size: Annotated[int | None, typer.Option()] = None,
    max_samples: Annotated[int | None, typer.Option()] = None,
    compress: Annotated[bool | None, typer.Option("--compress/--no-compress")] = None,
    train_split: Annotated[float | None, typer.Option()] = None,
    finalize: Annotated[bool | None, typer.Option("--finalize/--no-finalize")] = None,
    model_path: Annotated[str | None, typer.Option()] = None,
    vae_path: Annotated[str | None, typer.Option()] = None,
    t5_path: Annotated[str | None, typer.Option()] = None,
    clip_path: Annotated[str | None, typer.Option()] = None,
    precision: Annotated[str | None, typer.Option()] = None,
    t5_max_length: Annotated[int | None, typer.Option()] = None,
    vae_latent_mode: Annotated[str | None, typer.Option()] = None,
    device: Device = None,
    batch_size: BatchSize = None,
    image_size: Annotated[int | None, typer.Option()] = None,
    center_crop: Annotated[bool | None, typer.Option("--center-crop/--no-center-crop")] = None,
    variable_size: Annotated[
        bool | None, typer.Option("--variable-size/--no-variable-size")
    ] = None,
    max_size: Annotated[int | None, typer.Option()] = None,
    hf_token_file: Annotated[str | None, typer.Option()] = None,
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """Primus's command: flags over the YAML over defaults, kept as a recipe, and run."""
    given = dict(locals())
    found = find_project(Path.cwd(), project)
    flags = flags_given(PRIMUS_FLAGS, given)
    written = recipe_from_flags(found, config=config, flags=flags, working_folder=Path.cwd())
    err.print(f"recipe: {written}", soft_wrap=True, highlight=False)
    run_and_show(found, str(written), {}, execution={}, as_json=as_json)


@explained
def diffusion_raw(  # noqa: PLR0913 (a flag each)
    config: Annotated[Path | None, typer.Option(help="YAML with a recipe's sections")] = None,
    source_type: Annotated[
        str | None, typer.Option(help="directory, huggingface, webdataset")
    ] = None,
    input_dir: Annotated[str | None, typer.Option()] = None,
    hf_dataset: Annotated[str | None, typer.Option()] = None,
    hf_name: Annotated[str | None, typer.Option()] = None,
    hf_split: Annotated[str | None, typer.Option()] = None,
    hf_revision: Annotated[str | None, typer.Option()] = None,
    hf_data_files: Annotated[str | None, typer.Option()] = None,
    input_path: Annotated[str | None, typer.Option()] = None,
    output_dir: Annotated[str | None, typer.Option()] = None,
    shard_size: Annotated[int | None, typer.Option()] = None,
    max_samples: Annotated[int | None, typer.Option()] = None,
    compress: Annotated[bool | None, typer.Option("--compress/--no-compress")] = None,
    train_split: Annotated[float | None, typer.Option()] = None,
    finalize: Annotated[bool | None, typer.Option("--finalize/--no-finalize")] = None,
    image_format: Annotated[str | None, typer.Option(help="jpg, png, webp")] = None,
    image_quality: Annotated[int | None, typer.Option(help="of jpg and webp, 1 to 100")] = None,
    image_size: Annotated[int | None, typer.Option()] = None,
    center_crop: Annotated[bool | None, typer.Option("--center-crop/--no-center-crop")] = None,
    variable_size: Annotated[
        bool | None, typer.Option("--variable-size/--no-variable-size")
    ] = None,
    max_size: Annotated[int | None, typer.Option()] = None,
    hf_token_file: Annotated[str | None, typer.Option()] = None,
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """Primus's command for pictures and captions without encoding, kept as a recipe, and run."""
    given = dict(locals())
    found = find_project(Path.cwd(), project)
    written = recipe_from_flags(
        found,
        config=config,
        flags={**flags_given(PRIMUS_RAW_FLAGS, given), "output.formats": ["raw"]},
        working_folder=Path.cwd(),
        command="diffusion-raw",
    )
    err.print(f"recipe: {written}", soft_wrap=True, highlight=False)
    run_and_show(found, str(written), {}, execution={}, as_json=as_json)
