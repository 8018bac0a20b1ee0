"""What the looks at one sample share, whatever it holds: findings, caption, json member."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from diffprep_assets.shard.members import SampleMetadata
from diffprep_assets.shard_energon_video.members import ClipMetadata


@dataclass(frozen=True, slots=True)
class Profile:
    """What all samples of a dataset share: the names of their members."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SampleFindings:
    """What is wrong with a sample, its profile (None when it has none), the shape of what it holds,
    its json member."""

    problems: tuple[str, ...]
    profile: Profile | None = None
    shape: tuple[int, ...] = ()
    metadata: Mapping[str, object] | None = None


def profile_problems(profile: Profile, first: Profile) -> list[str]:
    """How a sample differs from the dataset's first in what must be equal throughout."""
    return [
        f"{field.name} {getattr(profile, field.name)} differ from the dataset's "
        f"{getattr(first, field.name)}"
        for field in fields(first)
        if getattr(profile, field.name) != getattr(first, field.name)
    ]


def caption_problems(members: Mapping[str, bytes], name: str) -> list[str]:
    """What is wrong with the caption's member, if it is there."""
    try:
        members.get(name, b"").decode("utf-8")
    except UnicodeDecodeError as error:
        return [f"{name} is not UTF-8: {error}"]
    return []


def json_member(
    members: Mapping[str, bytes],
    problems: list[str],
    *,
    ours: bool,
    kind: type[SampleMetadata] | type[ClipMetadata] = SampleMetadata,
) -> Mapping[str, object] | None:
    """The json member's content; None when there is none, or none that is sound (a problem). Ours
    has just the fields of `kind`."""
    if "json" not in members:
        return None
    try:
        content = json.loads(members["json"])
    except ValueError as error:
        problems.append(f"json cannot be read: {error}")
        return None
    types = {field.name: field.type for field in fields(kind)}
    if not isinstance(content, dict):
        problems.append(f"json must hold an object, got {type(content).__name__}")
        return None
    if ours and {key: type(value) for key, value in content.items()} != types:
        got = {key: type(value).__name__ for key, value in sorted(content.items())}
        problems.append(f"json must hold exactly {', '.join(types)}; got {got}")
        return None
    return content
