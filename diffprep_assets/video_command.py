"""`diffprep video-encoded`: the one command of FastVideo's guide, with its flags."""

from pathlib import Path
from typing import Annotated, Any

import typer

from diffprep_assets.console import AsJson, Device, ProjectDir, err, explained
from diffprep_assets.primus_flags import recipe_from_flags
from diffprep_assets.project import find_project
from diffprep_assets.run_and_show import run_and_show
from diffprep_assets.video_flags import notes_on, video_flags

COMMAND = "video-encoded"


def plain_name(word: str) -> str:
    """An option's name without `preprocess.` and with dashes: how it is told apart from others."""
    return word.removeprefix("preprocess.").replace("_", "-")


# FastVideo's names are taken with underscores or dashes, with `preprocess.` or without.
CONTEXT = {"token_normalize_func": plain_name}


def _of(name: str, words: str = "") -> Any:
    """An option under FastVideo's own name, and without its section."""
    return typer.Option(f"--preprocess.{name}", f"--{plain_name(name)}", help=words)


@explained
def video_encoded(  # noqa: PLR0913 (a flag each)
    config: Annotated[Path | None, typer.Option(help="YAML with a recipe's sections")] = None,
    model_path: Annotated[
        str | None, typer.Option("--model_path", "--model-path", help="a folder, or owner/name")
    ] = None,
    mode: Annotated[str | None, typer.Option(help="preprocess")] = None,
    workload_type: Annotated[
        str | None, typer.Option("--workload_type", "--workload-type", help="t2v, i2v")
    ] = None,
    video_loader_type: Annotated[
        str | None, _of("video_loader_type", "torchcodec, torchvision: PyAV decodes")
    ] = None,
    dataset_type: Annotated[str | None, _of("dataset_type", "merged, hf")] = None,
    dataset_path: Annotated[str | None, _of("dataset_path")] = None,
    dataset_output_dir: Annotated[str | None, _of("dataset_output_dir")] = None,
    preprocess_video_batch_size: Annotated[
        int | None, _of("preprocess_video_batch_size", "clips encoded at once")
    ] = None,
    dataloader_num_workers: Annotated[
        int | None, _of("dataloader_num_workers", "without effect")
    ] = None,
    max_height: Annotated[int | None, _of("max_height")] = None,
    max_width: Annotated[int | None, _of("max_width")] = None,
    num_frames: Annotated[int | None, _of("num_frames", "4k + 1")] = None,
    train_fps: Annotated[str | None, _of("train_fps")] = None,
    speed_factor: Annotated[str | None, _of("speed_factor")] = None,
    samples_per_file: Annotated[int | None, _of("samples_per_file")] = None,
    flush_frequency: Annotated[int | None, _of("flush_frequency", "without effect")] = None,
    video_length_tolerance_range: Annotated[str | None, _of("video_length_tolerance_range")] = None,
    drop_short_ratio: Annotated[str | None, _of("drop_short_ratio", "only 1")] = None,
    do_temporal_sample: Annotated[
        bool | None,
        typer.Option(
            "--preprocess.do_temporal_sample/--no-do-temporal-sample",
            "--do-temporal-sample",
        ),
    ] = None,
    training_cfg_rate: Annotated[float | None, _of("training_cfg_rate", "only 0")] = None,
    seed: Annotated[int | None, _of("seed", "of do_temporal_sample")] = None,
    shard_size: Annotated[int | None, typer.Option()] = None,
    max_samples: Annotated[int | None, typer.Option()] = None,
    train_split: Annotated[str | None, typer.Option()] = None,
    t5_max_length: Annotated[int | None, typer.Option()] = None,
    formats: Annotated[
        str | None, typer.Option(help="fastvideo, energon_video, or both with a comma")
    ] = None,
    device: Device = None,
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """FastVideo's command: flags over the YAML over defaults, kept as a recipe, and run."""
    given = dict(locals())
    found = find_project(Path.cwd(), project)
    flags = video_flags(given, config=config, folder=Path.cwd())
    written = recipe_from_flags(
        found, config=config, flags=flags, working_folder=Path.cwd(), command=COMMAND
    )
    err.print(f"recipe: {written}", soft_wrap=True, highlight=False)
    for note in notes_on(given):
        err.print(f"note: {note}", soft_wrap=True, highlight=False)
    run_and_show(found, str(written), {}, execution={}, as_json=as_json)
