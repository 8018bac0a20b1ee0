"""`diffprep video-index`: videos2caption.json of a raw folder, told from the clips themselves."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from diffprep_assets.changes import plural
from diffprep_assets.console import AsJson, err, explained, out
from diffprep_assets.run_report import in_one_line
from diffprep_resources.errors import SampleReject, SettingError
from diffprep_resources.sources.local_tables import LocalTables
from diffprep_resources.sources.video_index import indexed
from diffprep_resources.sources.video_tables import (
    MERGED_TABLE,
    RAW_PROMPTS,
    RAW_VIDEOS,
    VideoEntry,
    table_entries,
)
from diffprep_resources.storage.atomic import write_bytes


@explained
def video_index(
    folder: Annotated[
        Path, typer.Argument(help=f"holds videos/, {RAW_VIDEOS} and {RAW_PROMPTS}, line for line")
    ],
    force: Annotated[
        bool, typer.Option("--force", help=f"replace the {MERGED_TABLE} that is there")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write videos2caption.json of a raw folder: what each clip is, and its caption."""
    path = folder / MERGED_TABLE
    if path.exists() and not force:
        raise SettingError(f"{path} is there already; --force replaces it")
    root = os.fsencode(folder.absolute())
    entries = table_entries(RAW_PROMPTS, LocalTables(root).read)
    rows: list[dict[str, Any]] = []
    left_out: list[tuple[VideoEntry, SampleReject]] = []
    for entry, found in indexed(entries, root=root):
        if isinstance(found, SampleReject):
            left_out.append((entry, found))
        else:
            rows.append(found)
    if not rows:
        _tell(left_out)
        raise SettingError(f"{folder}: none of the {len(entries):,} clips can be read")
    write_bytes(path, (json.dumps(rows, indent=1, ensure_ascii=False) + "\n").encode())
    if as_json:
        print(json.dumps({"path": str(path), "clips": len(rows), "left_out": _objects(left_out)}))
        return
    _tell(left_out)
    out.print(
        f"[green]wrote[/] {escape(str(path))}: {len(rows):,} {plural('clip', len(rows))}",
        soft_wrap=True,
        highlight=False,
    )


def _tell(left_out: list[tuple[VideoEntry, SampleReject]]) -> None:
    for entry, reject in left_out:
        words = f"{in_one_line(entry.path)}: {reject.code}: {in_one_line(reject.message)}"
        err.print(f"[yellow]left out[/] {escape(words)}", soft_wrap=True, highlight=False)


def _objects(left_out: list[tuple[VideoEntry, SampleReject]]) -> list[dict[str, str]]:
    return [
        {"path": entry.path, "code": reject.code, "message": reject.message}
        for entry, reject in left_out
    ]
