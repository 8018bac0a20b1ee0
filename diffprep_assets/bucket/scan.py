"""Opens every new or changed sample of a part once: its size, digest, captions and bucket."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from fractions import Fraction
from itertools import groupby

import xxhash

from diffprep_assets.bucket.clip_geometry import (
    StoredClip,
    clip_target,
    frames_again,
    sampling_of,
)
from diffprep_assets.bucket.geometry import target_for
from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.freshness import digest_of
from diffprep_assets.recipe.schema import Captions, Image, Recipe
from diffprep_assets.recipe.video import Video
from diffprep_resources.captions.text import caption_texts
from diffprep_resources.clips.digest import clip_digest
from diffprep_resources.clips.opening import ClipSource
from diffprep_resources.clips.probe import ClipFacts, clip_facts, frames_taken
from diffprep_resources.clips.stated import stated_note
from diffprep_resources.clips.times import sample_indices
from diffprep_resources.errors import SampleReject, SourceChangedError
from diffprep_resources.pictures.decode import PictureLimits, probe
from diffprep_resources.sources.base import FileStamp, Source, SourceSample

KeptRows = Mapping[str, list[BucketRow]]


@dataclass(frozen=True, slots=True)
class BucketRules:
    """What turns a picture, or with `video` a clip, and its captions into rows."""

    image: Image
    captions: Captions
    video: Video | None = None

    @classmethod
    def of(cls, recipe: Recipe) -> "BucketRules":
        return cls(recipe.image, recipe.captions, recipe.video)

    @property
    def limits(self) -> PictureLimits:
        return PictureLimits(max_pixels=self.image.max_pixels, min_side=self.image.min_side)


def scanned(
    stamps: Iterable[FileStamp], *, source: Source, rules: BucketRules, known: KeptRows
) -> Iterator[tuple[list[BucketRow], bool]]:
    """The rows of each picture in source order, and whether its bytes were read.

    `known` holds rows made by these very rules, by file; those of a file whose stamp is unchanged
    are taken over. One picture is in memory at a time. Raises SourceChangedError where a file that
    cannot be read is not as it was stamped: a source that goes meanwhile leaves no sample out.
    """

    def unchanged(stamp: FileStamp) -> bool:
        rows = known.get(stamp.path)
        return bool(rows) and rows[0].stamp == stamp_digest(stamp)

    for is_known, run in groupby(stamps, key=unchanged):
        if is_known:
            for stamp in run:
                for _, rows in groupby(known[stamp.path], key=lambda row: row.group):
                    yield list(rows), False
            continue
        changed = {stamp.path: stamp for stamp in run}
        digests = {path: stamp_digest(stamp) for path, stamp in changed.items()}
        for sample in source.samples(changed.values()):
            path = sample.location.path
            rows = rows_of(sample, source=source, rules=rules, stamp=digests[path])
            if rows[0].transient and [*source.stamps([path])] != [changed[path]]:
                raise SourceChangedError(
                    f"source changed since download: {sample.source_key}; run download again, as "
                    "`diffprep run` does"
                )
            yield rows, True


def stamp_digest(stamp: FileStamp) -> str:
    """Changes when a source file or its caption file changes on disk."""
    return digest_of(list(astuple(stamp)))[:16]


def rows_of(
    sample: SourceSample, *, source: Source, rules: BucketRules, stamp: str
) -> list[BucketRow]:
    """One row per caption taken of a picture or clip, or a single row that rejects it."""
    blank = BucketRow(
        source_key=sample.source_key,
        group=sample.source_key,
        path=sample.location.path,
        offset=sample.location.offset,
        length=sample.location.length,
        row=sample.location.row,
        stamp=stamp,
    )
    try:
        if rules.video is None:
            pictured = _with_picture(blank, sample, rules)
        else:
            blank, facts = _with_clip(blank, sample, source, rules.video)
            pictured = _with_frames(blank, facts, sample, rules.video)
        captions = caption_texts(
            sample.caption,
            choose=rules.captions.choose,
            lines=rules.captions.lines,
            allow_empty=rules.captions.allow_empty,
            seed_key=sample.source_key,
        )
    except SampleReject as reject:
        return [
            replace(blank, code=reject.code, message=reject.message, transient=reject.transient)
        ]
    pictured = replace(pictured, notes=(*pictured.notes, *captions.notes))
    if len(captions.texts) == 1:
        return [_with_caption(pictured, captions.texts[0])]
    return [
        replace(_with_caption(pictured, text), source_key=f"{sample.source_key}::c{number}")
        for number, text in enumerate(captions.texts)
    ]


def resized(rows: list[BucketRow], rules: BucketRules) -> list[BucketRow] | None:
    """The rows of one file under other size settings, without opening it.

    None when a row is a reject, or becomes one, or when a clip is to be longer than it was: then
    the file is looked at again.
    """
    try:
        if rules.video is None:
            return [_with_target(row, rules.image) for row in rows]
        again = [_with_other_frames(row, rules.video) for row in rows]
    except SampleReject:
        return None
    return [row for row in again if row is not None] if None not in again else None


def _with_target(row: BucketRow, image: Image) -> BucketRow:
    if row.code is not None or row.original_width is None or row.original_height is None:
        raise SampleReject("no_image", "a rejected sample has no target")
    target = target_for(row.original_width, row.original_height, image=image)
    return replace(row, **asdict(target))


def _with_picture(row: BucketRow, sample: SourceSample, rules: BucketRules) -> BucketRow:
    if sample.reject is not None:
        raise sample.reject
    if sample.image is None:
        raise SampleReject("no_image", "the sample has no picture")
    info = probe(sample.image, limits=rules.limits)
    sized = replace(
        row,
        image_digest=xxhash.xxh3_128_hexdigest(sample.image),
        original_width=info.width,
        original_height=info.height,
        notes=info.notes,
    )
    return _with_target(sized, rules.image)


def _with_clip(
    row: BucketRow, sample: SourceSample, source: Source, video: Video
) -> tuple[BucketRow, ClipFacts]:
    """The row with what the clip is: one that is too short or too long tells that too."""
    if sample.reject is not None:
        raise sample.reject
    with _opened(sample, source) as media:
        digest = clip_digest(media)
        facts = clip_facts(media, allow_hdr=video.allow_hdr)
    seen = replace(
        row,
        media="clip",
        image_digest=digest,
        original_width=facts.shape.width,
        original_height=facts.shape.height,
        sar=str(facts.shape.sar),
        fps=str(facts.times.mean_rate),
        duration_s=float(facts.times.duration_s),
        frames_found=len(sample_indices(facts.times, train_fps=video.train_fps)),
    )
    return seen, facts


def _with_frames(row: BucketRow, facts: ClipFacts, sample: SourceSample, video: Video) -> BucketRow:
    key = sample.source_key
    chosen = frames_taken(facts, sampling=sampling_of(video), source_key=key)
    differs = stated_note(facts, sample.stated)
    noted = replace(row, notes=(*facts.notes, *([differs] if differs else [])))
    return _with_clip_target(noted, chosen.pts, video)


@contextmanager
def _opened(sample: SourceSample, source: Source) -> Iterator[ClipSource]:
    """The clip's bytes for a block. Raises SampleReject source_missing or unreadable_file, both
    transient; an error of the disk or network itself propagates."""
    try:
        with source.open_media(sample.location) as media:
            yield media
    except (SourceChangedError, FileNotFoundError) as error:
        message = f"{sample.location.path} is gone, or shorter than it was"
        raise SampleReject("source_missing", message, transient=True) from error
    except (PermissionError, IsADirectoryError) as error:
        message = f"{sample.location.path}: {error.strerror}"
        raise SampleReject("unreadable_file", message, transient=True) from error


def _with_clip_target(row: BucketRow, wanted_pts: tuple[int, ...], video: Video) -> BucketRow:
    target = clip_target(
        row.original_width or 0,
        row.original_height or 0,
        sar=Fraction(row.sar or 1),
        sizes=video.sizes,
    )
    return replace(row, num_frames=len(wanted_pts), wanted_pts=wanted_pts, **asdict(target))


def _with_other_frames(row: BucketRow, video: Video) -> BucketRow | None:
    """The clip's row under other sizes and frame counts; None where the file must be opened."""
    if row.code is not None or row.media != "clip" or row.wanted_pts is None:
        return None
    stored = StoredClip(row.duration_s or 0.0, row.frames_found or 0, row.wanted_pts)
    wanted_pts = frames_again(stored, sampling=sampling_of(video))
    return None if wanted_pts is None else _with_clip_target(row, wanted_pts, video)


def _with_caption(row: BucketRow, text: str) -> BucketRow:
    return replace(row, caption=text, caption_digest=xxhash.xxh3_128_hexdigest(text.encode()))
