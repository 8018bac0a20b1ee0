"""Which part each source file belongs to, for life."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from diffprep_resources.errors import SettingError


@dataclass(frozen=True, slots=True)
class RemoteFacts:
    """What the listing said of a remote file and of its caption or metadata file: sizes in bytes
    (-1 where not known), and versions, which change with the content."""

    size: int
    version: str
    caption_path: str | None = None
    caption_size: int | None = None
    caption_version: str | None = None


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A source file that ever was listed. `num_samples` is None where only reading can tell;
    `remote` is None for a local file."""

    part: str
    path: str
    num_samples: int | None
    present: bool = True
    remote: RemoteFacts | None = None


@dataclass(frozen=True, slots=True)
class SourceParts:
    """Files sorted by (part, path). `limits` gives the samples to take of a part cut short by
    `max_samples`; a part without one is taken whole."""

    files: tuple[IndexedFile, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def parts(self) -> list[str]:
        """Parts that hold a file that is still there, in order."""
        return sorted({file.part for file in self.files if file.present})


def part_key(number: int) -> str:
    return f"p{number:05d}"


def assigned_parts(
    old: SourceParts,
    listed: Iterable[tuple[str, int | None]],
    *,
    files_per_part: int,
    max_samples: int | None,
    count: Callable[[IndexedFile], int],
) -> SourceParts:
    """Parts of all listed files, given as (path, samples) sorted by path.

    A known file keeps its part; new ones fill the last part that had fewer than `files_per_part`
    places given, then new parts. With `max_samples`, only files needed for that many samples are
    taken; `count` opens a file whose number of samples the listing did not tell.
    Raises SettingError when `max_samples` is below what is taken already.
    """
    now = dict(listed)
    known = [
        replace(file, present=file.path in now, num_samples=now.get(file.path, file.num_samples))
        for file in old.files
    ]
    if max_samples is None:
        return SourceParts(tuple(_in_order(known + _placed(known, now, files_per_part))))
    known = [_counted(file, count) for file in known]
    taken = sum(_taken_by_part(known, old.limits).values())
    if max_samples < taken:
        raise SettingError(
            f"output.max_samples is {max_samples}, but {taken} samples are planned already; a "
            f"planned dataset does not shrink: raise max_samples or remove it, or give the "
            f"smaller dataset a recipe of its own"
        )
    files = list(known)
    total = sum(_taken_by_part(files, {}).values())
    for file in _placed(known, now, files_per_part):
        if total >= max_samples:
            break
        files.append(_counted(file, count))
        total += files[-1].num_samples or 0
    return SourceParts(tuple(_in_order(files)), _limits(files, max_samples))


def _placed(
    known: Sequence[IndexedFile], now: Mapping[str, int | None], files_per_part: int
) -> list[IndexedFile]:
    """The new files with their parts, in listed order."""
    names = {file.path for file in known}
    places: dict[str, int] = {}
    for file in known:
        places[file.part] = places.get(file.part, 0) + 1
    number = int(max(places)[1:]) if places else 0
    given = places.get(part_key(number), 0)
    new = []
    for path, num_samples in now.items():
        if path in names:
            continue
        if given >= files_per_part:
            number, given = number + 1, 0
        given += 1
        new.append(IndexedFile(part_key(number), path, num_samples))
    return new


def _counted(file: IndexedFile, count: Callable[[IndexedFile], int]) -> IndexedFile:
    if file.num_samples is not None or not file.present:
        return file
    return replace(file, num_samples=count(file))


def _taken_by_part(files: Sequence[IndexedFile], limits: Mapping[str, int]) -> dict[str, int]:
    taken: dict[str, int] = {}
    for file in files:
        if file.present:
            taken[file.part] = taken.get(file.part, 0) + (file.num_samples or 0)
    return {part: min(number, limits.get(part, number)) for part, number in taken.items()}


def _limits(files: Sequence[IndexedFile], max_samples: int) -> dict[str, int]:
    left = max_samples
    limits: dict[str, int] = {}
    for part, wanted in sorted(_taken_by_part(files, {}).items()):
        if wanted > left:
            limits[part] = left
        left -= min(wanted, left)
    return limits


def _in_order(files: Iterable[IndexedFile]) -> list[IndexedFile]:
    return sorted(files, key=lambda file: (file.part, file.path))
