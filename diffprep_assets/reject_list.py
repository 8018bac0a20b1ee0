"""`diffprep rejects`: every sample left out, by reason, for people or as one JSON object."""

import json
from dataclasses import asdict

from diffprep_assets.console import err
from diffprep_assets.dataset import Dataset
from diffprep_assets.recipe.problems import nearest
from diffprep_assets.rejects import Reject, read_rejects
from diffprep_assets.run_report import in_one_line
from diffprep_resources.errors import REJECT_CODES, DiffprepError, SettingError


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
    for reject in found:
        print(_line(reject))
    if not found:
        err.print(f"{dataset.name}: no rejects" + (f" with code {reason}" if reason else ""))


def _line(reject: Reject) -> str:
    """Code, stage, where, which and why, apart by tabs."""
    where = reject.shard or reject.part or ""
    again = " (--retry-rejects tries it again)" if reject.transient else ""
    words = (reject.code, reject.stage, where, reject.source_key, reject.message + again)
    return "\t".join(map(in_one_line, words))
