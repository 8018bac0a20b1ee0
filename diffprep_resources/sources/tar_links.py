"""Links among the members of a tar: each stands for the file that it leads to in the same tar.

GNU tar writes a hard link for the second name of a file, so that captions or pictures that were
linked on disk are links in the tar.
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from diffprep_resources.sources.tar_headers import TarMember

MAX_STEPS = 8


def followed(members: Sequence[TarMember]) -> Iterator[TarMember]:
    """The members in their order, a link as the file that it leads to, under its own name.

    A link that leads out of the tar, to nothing or in a circle stays a link.
    """
    by_name: dict[str, TarMember] = {}
    if any(member.kind == "link" for member in members):
        for member in members:
            by_name.setdefault(posixpath.normpath(member.name), member)
    for member in members:
        file = _file_of(member, by_name) if member.kind == "link" else None
        yield member if file is None else replace(file, name=member.name)


def _file_of(link: TarMember, by_name: Mapping[str, TarMember]) -> TarMember | None:
    member: TarMember | None = link
    for _ in range(MAX_STEPS):
        if member is None or member.kind != "link":
            break
        member = by_name.get(posixpath.normpath(member.target or ""))
    return member if member is not None and member.kind == "file" else None
