"""Names of datasets, and what Dagster makes of them."""

import re
from collections.abc import Iterable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_name(name: str) -> str:
    """The name itself. Raises ValueError unless it can name a dataset."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"a recipe's file name names its dataset and must start with a letter or digit and "
            f"hold only letters, digits and _ . -, got '{name}'"
        )
    return name


def asset_group_name(name: str) -> str:
    """The dataset's name in Dagster's asset groups and ops, which know [A-Za-z0-9_]+ only."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def colliding_names(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of names that Dagster cannot tell apart, like `my-ds` and `my.ds`; sorted.

    A name that is given twice (two files, `demo.yaml` and `demo.yml`) collides with itself.
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(asset_group_name(name), []).append(name)
    return [tuple(group) for _, group in sorted(groups.items()) if len(group) > 1]
