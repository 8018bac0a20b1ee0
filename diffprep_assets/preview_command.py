"""`diffprep preview PATH`: what a trainer will see of a dataset, beside what it was made of."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from diffprep_assets.console import AsJson, Device, ProjectDir, Vae, explained, out
from diffprep_assets.preview.looks import Look, looks
from diffprep_assets.preview.originals import originals_of
from diffprep_assets.preview.sampling import chosen_places, published_folder
from diffprep_assets.preview.sheet import missing_words, page, sheet_jpeg, table
from diffprep_assets.preview.vae_of import CLIP_ENCODINGS, clip_codec_of, codec_of
from diffprep_assets.project import project_if_any
from diffprep_resources.errors import DiffprepError, SettingError
from diffprep_resources.storage.atomic import write_bytes


@explained
def preview(  # noqa: PLR0913 (an option each)
    path: Annotated[Path, typer.Argument(help="the dataset's folder")],
    file: Annotated[
        Path | None, typer.Argument(help="page to write, with --html; else NAME-preview.html")
    ] = None,
    html: Annotated[bool, typer.Option("--html", help="write a page with all pictures")] = False,
    samples: Annotated[int, typer.Option(min=1, help="how many samples to look at")] = 12,
    seed: Annotated[int, typer.Option(min=0, help="another one shows other samples")] = 0,
    vae: Vae = None,
    device: Device = None,
    project: ProjectDir = None,
    as_json: AsJson = False,
) -> None:
    """Show samples of a dataset, decoded where they are latents, beside their source pictures."""
    if file is not None and not html:
        raise SettingError(f"{file} is the page to write with --html; give --html too")
    folder = published_folder(path)
    here = project_if_any(Path.cwd(), project)
    codec = None
    if folder.encoding in CLIP_ENCODINGS:
        codec = clip_codec_of(folder, vae=vae, project=here, device=device)
    elif folder.encoding == "preencoded":
        codec = codec_of(folder, vae=vae, project=here, device=device)
    elif vae is not None:
        raise SettingError(f"--vae decodes latents, and {path} holds pictures; leave --vae out")
    decoder = None if codec is None else codec.name
    places = chosen_places(folder, count=samples, seed=seed)
    if not places:
        raise DiffprepError(f"{path} holds no sample that a trainer would read")
    originals = originals_of(folder, project=here)
    shown = list(looks(folder, places, codec=codec, originals=originals))
    name = str((folder.provenance or {}).get("dataset") or path.resolve().name)
    written = (file or Path(f"{name}-preview.html")).with_suffix(".jpg")
    files = {"sheet": written}
    write_bytes(written, sheet_jpeg(shown))
    if html:
        files["html"] = file or Path(f"{name}-preview.html")
        total = sum(count or 0 for count in folder.counts.values())
        facts = {"name": name, "path": str(path), "vae": decoder, "seed": seed, "total": total}
        write_bytes(files["html"], page(shown, facts=facts).encode())
    if as_json:
        print(json.dumps({"dataset": name, "vae": decoder, **_json(shown, files)}))
        return
    out.print(table(shown, width=out.width))
    for words in missing_words(shown):
        out.print(words, soft_wrap=True, highlight=False, markup=False)
    for written in files.values():
        out.print(f"wrote {written}", soft_wrap=True, highlight=False, markup=False)


def _json(shown: Sequence[Look], files: dict[str, Path]) -> dict[str, Any]:
    rows = [
        {
            "shard": look.sample.shard,
            "key": look.sample.key,
            "split": look.sample.split,
            "source_key": look.sample.source_key,
            "caption": look.sample.caption,
            "size": look.size,
            "psnr": None if look.psnr is None else round(look.psnr, 2),
            "source_missing": look.original.missing or None,
        }
        for look in shown
    ]
    return {"samples": rows, "files": {kind: str(path) for kind, path in files.items()}}
