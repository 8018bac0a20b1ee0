"""Paths as a recipe writes them: relative to the project, or of a place that is no folder here."""

import fnmatch
import glob
import os
import re
from pathlib import Path

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_remote(text: str) -> bool:
    """Whether the text is an address like s3://bucket/key rather than a path."""
    return bool(_REMOTE.match(text))


def absolute(text: str, *, base: Path) -> Path:
    """The path, `~` expanded, taken from `base` if relative. Symbolic links stay as they are."""
    return Path(base, os.path.expanduser(text)).absolute()


def folder_or_name(text: str, *, base: Path) -> str:
    """An absolute path if the text looks like one or is a folder below `base`, else the text.

    For what may be a repository name (`owner/name`) as well as a local folder.
    """
    looks_like_path = text.startswith(("/", "./", "../", "~")) or text in (".", "..")
    path = absolute(text, base=base)
    return str(path) if looks_like_path or path.is_dir() else text


def fixed_folder(pattern: Path) -> Path:
    """The folder of a glob that holds no wildcard: `/data/a` of `/data/a/x-*/*.tar`."""
    parts = pattern.parts
    for index, part in enumerate(parts):
        if glob.has_magic(part):
            return Path(*parts[:index])
    return pattern.parent


def overlap(first: Path, second: Path) -> str | None:
    """How the first folder lies to the second once links are followed, or None if apart."""
    one, other = first.resolve(), second.resolve()
    if one == other:
        return "is the same folder as"
    if one.is_relative_to(other):
        return "lies inside"
    return "contains" if other.is_relative_to(one) else None


def may_hold(pattern: Path, folder: Path) -> bool:
    """Whether files of the glob may lie in this folder, below it, or in a folder that it is in.

    Of one tar that is named in full, only whether it lies in the folder or below.
    """
    fixed = fixed_folder(pattern)
    if not glob.has_magic(str(pattern)):
        return overlap(folder, fixed) in ("is the same folder as", "contains")
    names = folder.resolve().parts
    known = fixed.resolve().parts
    if any(part != name for part, name in zip(known, names, strict=False)):
        return False
    for part, name in zip(pattern.parts[len(fixed.parts) : -1], names[len(known) :], strict=False):
        if part == "**":
            return True
        if not fnmatch.fnmatchcase(name, part):
            return False
    return True
