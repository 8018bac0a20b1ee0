"""What curation is made of, and whether the verdicts on disk are of it."""

from collections.abc import Iterable
from pathlib import Path

from diffprep_assets.bucket.worker import bucket_version
from diffprep_assets.curate.skip_files import content_digest
from diffprep_assets.curate.table import read_head
from diffprep_assets.dataset import Dataset
from diffprep_assets.freshness import fingerprint
from diffprep_assets.recipe.formats import part_stages
from diffprep_assets.recipe.stage_fields import curate_fields
from diffprep_resources.storage.parquet_tables import table_head

STAGE = "curate"


def skip_files(dataset: Dataset) -> dict[str, Path]:
    """Every skip list by the name that its rule has: those of the recipe as it writes their path,
    then the stored ones by their file's stem."""
    stored = sorted(dataset.layout.skip_lists.glob("*.parquet"))
    return dataset.loaded.skip_lists | {path.stem: path for path in stored}


def asks_for_rules(dataset: Dataset) -> bool:
    """Whether a rule, list or group is asked for; without one no sample is looked at."""
    curate = dataset.recipe.curate
    filters = curate.filters.model_dump(exclude_none=True)
    return bool(filters or curate.dedup or curate.group_key or skip_files(dataset))


def curate_fingerprint(dataset: Dataset, parts: Iterable[str]) -> str:
    """The fingerprint of the verdicts over the parts' tables and the skip lists as they lie on
    disk. The plan is not in it, though it is asked who is written."""
    layout = dataset.layout
    inputs: dict[str, str | None] = {}
    stages = set(part_stages(dataset.recipe))
    for part in parts:
        inputs[part] = bucket_version(layout.bucket(part))
        for stage, path in (
            ("source_columns", layout.source_columns(part)),
            ("picture_hash", layout.picture_hash(part)),
        ):
            if stage in stages:
                inputs[f"{stage}/{part}"] = (table_head(path) or {}).get("fingerprint")
    for name, path in skip_files(dataset).items():
        inputs[f"skip_list:{name}"] = content_digest(path) if path.is_file() else None
    return fingerprint(STAGE, settings=curate_fields(dataset.recipe), inputs=inputs)


def verdicts_are_fresh(dataset: Dataset, parts: Iterable[str]) -> bool:
    """Whether `curate` has nothing to do over the parts' tables and skip lists as they are."""
    head = read_head(dataset.layout.curate)
    return head is not None and head["fingerprint"] == curate_fingerprint(dataset, parts)
