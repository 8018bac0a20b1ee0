"""Which files of a folder laid out like a Hub dataset belong to a configuration and split.

By the Hub's conventions (huggingface.co/docs/hub/datasets-data-files-configuration): `configs` in
the README's front matter; else `data/<split>-00000-of-00001.*`; else the split's name in a file's
or folder's name; else every file is `train`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from diffprep_resources.errors import SettingError
from diffprep_resources.sources.hub_patterns import matching

DataFiles = str | Sequence[str] | Mapping[str, str | Sequence[str]]

_SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_SHARDED = re.compile(r"data/([^/]+)-\d{5}-of-\d{5}[^/]*")
_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HubChoice:
    """What a recipe asks of a Hub dataset: `hf_split`, `hf_name`, `hf_data_files`."""

    split: str = "train"
    name: str | None = None
    data_files: DataFiles | None = None


def files_of_split(paths: Sequence[str], choice: HubChoice, *, readme: str) -> list[str]:
    """The files, among a dataset's `paths`, of the split asked for, sorted.

    Raises SettingError where there are none, naming the configurations or splits that there are.
    """
    if choice.data_files is not None:
        return _named_files(paths, choice, data_files=choice.data_files, where="hf_data_files")
    config = _config(paths, choice, readme=readme)
    base = str(config.get("data_dir") or "").strip("/").removeprefix("./")
    prefix = f"{base}/" if base not in ("", ".") else ""
    below = [path.removeprefix(prefix) for path in paths if path.startswith(prefix)]
    if config.get("data_files"):
        where = "data_files in README.md"
        found = _named_files(below, choice, data_files=config["data_files"], where=where)
    else:
        splits = files_by_split(below)
        if choice.split not in splits:
            raise _no_split(choice.split, known=splits, paths=paths)
        found = sorted(splits[choice.split])
    return [prefix + path for path in found]


def _named_files(
    paths: Sequence[str], choice: HubChoice, *, data_files: object, where: str
) -> list[str]:
    patterns = patterns_of(data_files, split=choice.split)
    if patterns is None:
        raise _no_split(choice.split, known=split_names(data_files), paths=paths)
    found = matching(paths, patterns, where=where)
    if not found:
        raise SettingError(f"{where} matches no file: {patterns}; there is {_some(paths)}")
    return found


def _config(paths: Sequence[str], choice: HubChoice, *, readme: str) -> Mapping[str, object]:
    """The configuration asked for: from the card, else a folder of that name, else everything."""
    configs = card_configs(readme)
    name = choice.name
    if name is None:
        if len(configs) > 1 and not _is_default(next(iter(configs.values()))):
            raise SettingError(
                f"source.hf_name must be one of {list(configs)}, got nothing; one has to be chosen"
            )
        return next(iter(configs.values()), {})
    if name in configs:
        return configs[name]
    if any(path.startswith(f"{name}/") for path in paths):
        return {"data_dir": name}
    folders = {path.split("/")[0] for path in paths if "/" in path}
    allowed = sorted(configs) or sorted(folders)
    raise SettingError(f"source.hf_name must be one of {allowed}, got {name!r}")


def _no_split(split: str, *, known: Iterable[str], paths: Sequence[str]) -> SettingError:
    return SettingError(
        f"source.hf_split must be one of {sorted(known)}, got {split!r}; there is {_some(paths)}"
    )


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 8} more" if len(paths) > 8 else ""
    return f"{', '.join(sorted(paths)[:8])}{more}" if paths else "nothing"


def card_configs(readme: str) -> dict[str, dict[str, object]]:
    """The configurations that a dataset card names, the default one first; none is common.

    Raises SettingError where the front matter is not YAML.
    """
    match = _FRONT_MATTER.match(readme)
    if match is None:
        return {}
    try:
        card = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingError(
            f"source.hf_dataset: the front matter of its README.md is not YAML: {error}; it names "
            "splits and files, so mend it there, or in a copy"
        ) from error
    configs = card.get("configs") if isinstance(card, dict) else None
    entries = configs if isinstance(configs, list) else [configs]
    named = [entry for entry in entries if isinstance(entry, dict)]
    named.sort(key=lambda entry: not _is_default(entry))
    return {_config_name(entry): entry for entry in named}


def _config_name(entry: Mapping[str, object]) -> str:
    return str(entry.get("config_name", "default"))


def _is_default(entry: Mapping[str, object]) -> bool:
    return bool(entry.get("default")) or _config_name(entry) == "default"


def patterns_of(data_files: object, *, split: str) -> list[str] | None:
    """The patterns of one split, or None where the split is not among those named.

    A pattern or list of patterns without splits is the split asked for.
    """
    if isinstance(data_files, str):
        return [data_files]
    if isinstance(data_files, Mapping):
        return patterns_of(data_files[split], split=split) if split in data_files else None
    entries = list(data_files) if isinstance(data_files, Sequence) else []
    patterns = [entry for entry in entries if isinstance(entry, str)]
    listed = [entry for entry in entries if isinstance(entry, Mapping)]
    for entry in listed:
        if str(entry.get("split", "train")) == split:
            patterns += patterns_of(entry.get("path"), split=split) or []
    return patterns or None


def split_names(data_files: object) -> list[str]:
    """The splits that a configuration's data_files name."""
    if isinstance(data_files, Mapping):
        return sorted(map(str, data_files))
    entries = data_files if isinstance(data_files, list) else []
    return sorted(
        {str(entry.get("split", "train")) for entry in entries if isinstance(entry, dict)}
    )


def files_by_split(paths: Iterable[str]) -> dict[str, list[str]]:
    """The files of each split, by their names alone."""
    paths = list(paths)
    sharded: dict[str, list[str]] = {}
    named: dict[str, list[str]] = {}
    for path in paths:
        match = _SHARDED.fullmatch(path)
        if match is not None:
            sharded.setdefault(match[1], []).append(path)
        split = _split_in(path)
        if split is not None:
            named.setdefault(split, []).append(path)
    return sharded or named or ({"train": paths} if paths else {})


def _split_in(path: str) -> str | None:
    """The split that the file's name tells, else the nearest folder's."""
    for part in reversed(path.split("/")):
        for split, words in _SPLIT_WORDS.items():
            for word in words:
                if re.search(rf"(?:^|[-._ 0-9]){word}(?:[-._ 0-9]|$)", part):
                    return split
    return None
