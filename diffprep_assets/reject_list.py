"""`diffprep rejects`: every sample left out, by reason, for people or as one JSON object."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby

from rich.markup import escape
from rich.table import Table

from diffprep_assets.console import err, out
from diffprep_assets.dataset import Dataset
from diffprep_assets.recipe.problems import nearest
from diffprep_assets.rejects import Reject, read_rejects
from diffprep_assets.run_report import in_one_line
from diffprep_resources.errors import REJECT_CODES, DiffprepError, SettingError

RETRY = "--retry-rejects tries it again"


def show_rejects(dataset: Dataset, *, reason: str | None, as_json: bool) -> None:
    """Print the rejects of the last run that planned or published.

    Raises SettingError for an unknown reason, DiffprepError when there was no such run.
    """
    if reason is not None and reason not in REJECT_CODES:
        near = nearest(reason, REJECT_CODES)
        raise SettingError(
            f"--reason must be one of {', '.join(REJECT_CODES)}; got {reason!r}"
            + (f"; did you mean {near}?" if near else "")
        )
    if not dataset.layout.rejects.exists():
        raise DiffprepError(
            f"{dataset.name}: nothing was planned yet; run `diffprep run {dataset.name}` first"
        )
    found = [
        reject
        for reject in read_rejects(dataset.layout.rejects)
        if reason is None or reject.code == reason
    ]
    found.sort(key=lambda reject: (reject.code, reject.source_key))
    if as_json:
        content = [asdict(reject) for reject in found]
        print(json.dumps({"dataset": dataset.name, "rejects": content}))
        return
    if found and out.is_terminal:
        for line in _shown(found):
            out.print(line, highlight=False)
    else:
        for reject in found:
            print(_line(reject))
    if not found:
        err.print(f"{dataset.name}: no rejects" + (f" with code {reason}" if reason else ""))


def _shown(found: list[Reject]) -> Iterator[Table | str]:
    """For a terminal: a table for each code, and how many there are of each."""
    for code, group in groupby(found, key=lambda reject: reject.code):
        rejects = list(group)
        yield f"[bold red]{code}[/] {len(rejects):,}"
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=2)
        table.add_column(overflow="fold", style="bold")
        table.add_column(overflow="fold")
        for reject in rejects:
            again = f" ({RETRY})" if reject.transient else ""
            stage = f"{reject.stage} of {reject.shard}: " if reject.shard else ""
            words = escape(in_one_line(f"{stage}{reject.message}{again}"))
            table.add_row("", escape(in_one_line(reject.source_key)), words)
        yield table
        yield ""
    yield f"{len(found):,} left out; docs/rejects.md says what to do about each code."


def _line(reject: Reject) -> str:
    """Code, stage, where, which and why, apart by tabs."""
    where = reject.shard or reject.part or ""
    again = f" ({RETRY})" if reject.transient else ""
    words = (reject.code, reject.stage, where, reject.source_key, reject.message + again)
    return "\t".join(map(in_one_line, words))
