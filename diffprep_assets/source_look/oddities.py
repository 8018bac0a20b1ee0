"""What looks odd in a source, a sentence each."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.changes import plural
from diffprep_assets.run_report import in_one_line
from diffprep_assets.source_look.clip_settings import VideoChoice
from diffprep_assets.source_look.look import Look
from diffprep_assets.source_look.settings import ImageChoice
from diffprep_resources.sources.names import NOUNS

TINY = 256
NAMED = 3
FEW_WORDS = 2


def oddities(look: Look, choice: ImageChoice | VideoChoice) -> list[str]:
    """Most serious first; none where nothing looks odd."""
    return [*_rejects(look), *_pictures(look, choice), *_captions(look), *_files(look)]


def _rejects(look: Look) -> Iterator[str]:
    """Samples that `bucket` would reject, by code."""
    if not look.rows:
        yield (
            "no sample was opened: the pieces that the remote files are read in are too large for "
            "a look; the sizes in the recipe are a guess"
        )
    codes = Counter(row.code for row in look.rows if row.code is not None)
    for code, count in codes.most_common():
        if code == "no_caption" and look.is_loose and look.without_caption:
            # Told for all files, where captions are counted by name.
            continue
        rows = [row for row in look.rows if row.code == code]
        words = f"{count:,} of {len(look.rows):,} looked at would be rejected as {code}"
        yield f"{words}: {_named(rows)} ({in_one_line(rows[0].message or '')[:100]})"


def _pictures(look: Look, choice: ImageChoice | VideoChoice) -> Iterator[str]:
    sizes, noun = look.sizes, NOUNS[look.media]
    tiny = [size for size in sizes if min(size) < TINY]
    if tiny:
        width, height = min(tiny, key=min)
        yield (
            f"tiny {look.media}: {len(tiny):,} of {len(sizes):,} looked at have a side under "
            f"{TINY} pixels, the smallest {width}x{height}"
        )
    yield from _unfit(look, choice)
    copies = Counter(row.image_digest for row in look.rows if row.image_digest is not None)
    repeated = {digest: count for digest, count in copies.items() if count > 1}
    if repeated:
        first = next(iter(repeated))
        rows = [row for row in look.rows if row.image_digest == first]
        extra = sum(repeated.values()) - len(repeated)
        verb = "is an exact copy" if extra == 1 else "are exact copies"
        yield f"{extra:,} of those looked at {verb} of another: {_named(rows)}"
    for words, count in sorted(look.colors.items()):
        yield f"{count:,} {plural(noun, count)} of {words}"
    notes = Counter(note for row in look.rows for note in row.notes if not _is_told(note))
    for note, count in notes.most_common(6):
        yield f"{count:,} {plural(noun, count)}: {in_one_line(note)}"


def _unfit(look: Look, choice: ImageChoice | VideoChoice) -> Iterator[str]:
    """Those that could be read and that the settings chosen reject."""
    if isinstance(choice, VideoChoice):
        for code, count in choice.left_out(look.kept).items():
            yield f"{count:,} of {len(look.kept):,} looked at would be rejected as {code}"
        return
    for code, count in choice.left_out(look.sizes).items():
        yield f"{count:,} of {len(look.sizes):,} looked at do not fit the sizes chosen ({code})"


def _is_told(note: str) -> bool:
    """Whether the note's fact has a sentence of its own."""
    return "captions taken" in note or note.startswith("CMYK")


def _captions(look: Look) -> Iterator[str]:
    if look.without_caption:
        yield (
            f"{look.without_caption:,} of {look.captions_looked_for:,} have no caption, and would "
            f"be rejected"
        )
    captions = [row.caption for row in look.kept if row.caption is not None]
    lines = sum("\n" in caption for caption in captions)
    if lines:
        yield (
            f"{lines:,} of {len(captions):,} captions have several lines; each is one caption "
            f"unless captions.lines is each"
        )
    several = sum(any("captions taken" in note for note in row.notes) for row in look.kept)
    if several:
        yield (
            f"{several:,} of {len(captions):,} have several captions; the first is taken unless "
            f"captions.choose says otherwise"
        )
    repeated = Counter(captions).most_common(1)
    if repeated and len(captions) >= 20 and repeated[0][1] > max(2, len(captions) // 100):
        text = in_one_line(repeated[0][0])[:60]
        yield f"{repeated[0][1]:,} of {len(captions):,} captions are the same: {text!r}"
    if captions and median(len(caption.split()) for caption in captions) <= FEW_WORDS:
        yield "captions are very short: file names or classes rather than sentences?"


def _files(look: Look) -> Iterator[str]:
    if len(look.suffixes) > 1:
        yield f"mixed suffixes: {_counts(look.suffixes)}"
    if look.paired_twice:
        count = len(look.paired_twice)
        yield (
            f"{count:,} {plural('name', count)} of several {look.media}, which share one caption: "
            f"{', '.join(map(in_one_line, look.paired_twice[:NAMED]))}"
        )
    if look.other_files:
        yield f"not read: {_counts(look.other_files)}"


def _counts(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ordered[:8])


def _named(rows: Sequence[BucketRow]) -> str:
    named = ", ".join(in_one_line(row.source_key) for row in rows[:NAMED])
    return named + (", ..." if len(rows) > NAMED else "")
