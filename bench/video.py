"""Frames a second per core from clip to pixels, and peak memory, against decoding alone.

Decoding alone stops at the last frame that is needed, on one thread, and does nothing with what it
gets. Each kind of work runs in a process of its own. Prints rates, ratios and peaks:

    python bench/video.py [--repeats 3] [--seconds 8]
"""

import argparse
import io
import itertools
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av import logging as av_logging
from av.video.stream import VideoStream
from PIL import Image

from diffprep_resources.clips.choose import ClipSampling
from diffprep_resources.clips.pixels import read_pixels
from diffprep_resources.clips.probe import probe_clip
from diffprep_resources.compute.memory import memory_peak
from diffprep_resources.encoders.threads import one_thread_on_cpu

WIDTH, HEIGHT, FPS = 832, 480, 24
SIZES = {"480p": (854, 480), "4K": (3840, 2160)}
SAMPLING = ClipSampling(length_tolerance=Fraction(1000))

Work = Callable[[Path, Sequence[int]], int]


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds by the median, frames that were decoded, and the process's peak in MB."""

    seconds: float
    frames: int
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, (width, height) in SIZES.items():
            path = Path(folder) / f"{name}.mp4"
            film(str(path), width=width, height=height, frames=options.seconds * FPS)
            print(f"{name}, {options.seconds} s, {path.stat().st_size / 1e6:.1f} MB:", flush=True)
            compare(path, repeats=options.repeats)


def compare(path: Path, *, repeats: int) -> None:
    imports, floor, ours, probed, whole = (
        in_a_process(work, path, repeats)
        for work in (imports_only, decode_alone, pixels, probe, decode_whole)
    )
    print(
        f"  decoding alone {floor.frames / floor.seconds:.0f} frames a second, to "
        f"{WIDTH}x{HEIGHT} pixels {floor.frames / ours.seconds:.0f} "
        f"({ours.seconds / floor.seconds:.2f} times the seconds)\n"
        f"  peak over the imports' {imports.peak_mb:.0f} MB: decoding "
        f"{floor.peak_mb - imports.peak_mb:.0f}, ours {ours.peak_mb - imports.peak_mb:.0f}, of "
        f"which {ours.frames * WIDTH * HEIGHT * 3 / 2**20:.0f} are the result\n"
        f"  probe {probed.seconds * 1000:.0f} ms, decoding the whole clip "
        f"{whole.seconds * 1000:.0f} ms ({whole.seconds / probed.seconds:.0f} times)",
        flush=True,
    )


def in_a_process(work: Work, path: Path, repeats: int) -> Measured:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measured, (work, path, repeats))


def measured(work: Work, path: Path, repeats: int) -> Measured:
    one_thread_on_cpu("cpu")
    wanted = probe_clip(path, sampling=SAMPLING, source_key="").wanted_pts
    frames, seconds = 0, []
    for _ in range(repeats):
        begin = time.process_time()
        frames = work(path, wanted)
        seconds.append(time.process_time() - begin)
    return Measured(statistics.median(seconds), frames, memory_peak("cpu") / 2**20)


def imports_only(_path: Path, _wanted: Sequence[int]) -> int:
    """A tiny clip, through all that is imported on the way."""
    buffer = io.BytesIO()
    film(buffer, width=64, height=48, frames=120)
    return pixels(buffer, probe_clip(buffer, sampling=SAMPLING, source_key="").wanted_pts)


def pixels(source: Path | io.BytesIO, wanted: Sequence[int]) -> int:
    return len(read_pixels(source, wanted_pts=wanted, width=WIDTH, height=HEIGHT))


def probe(path: Path, _wanted: Sequence[int]) -> int:
    return len(probe_clip(path, sampling=SAMPLING, source_key="").facts.times.pts)


def decode_alone(path: Path, wanted: Sequence[int]) -> int:
    last = max(wanted)
    return 1 + sum(1 for _ in itertools.takewhile(lambda pts: pts != last, decoded(path)))


def decode_whole(path: Path, _wanted: Sequence[int]) -> int:
    return sum(1 for _ in decoded(path))


def decoded(path: Path) -> Iterator[int | None]:
    with av.open(str(path), "r") as container:
        container.streams.video[0].thread_type = "NONE"
        for frame in container.decode(video=0):
            yield frame.pts


def film(file: str | io.BytesIO, *, width: int, height: int, frames: int) -> None:
    """A pan over a cloudy, grainy picture, as heavy to decode as a filmed one."""
    av_logging.set_level(av_logging.PANIC)
    random = np.random.default_rng(0)
    coarse = Image.fromarray(random.integers(0, 256, (40, 60, 3), dtype=np.uint8))
    size = (width + 2 * frames, height)
    scene = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC))
    scene = scene // 2 + random.integers(0, 24, scene.shape, dtype=np.uint8)
    shape = (height, width, 3)
    with av.open(file, "w", format="mp4") as container:
        options = {"preset": "veryfast", "crf": "24"}
        stream = container.add_stream("libx264", rate=FPS, options=options)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            grain = np.frombuffer(random.bytes(height * width * 3), np.uint8) & 7
            shown = scene[:, 2 * number : 2 * number + width] + grain.reshape(shape)
            frame = av.VideoFrame.from_ndarray(shown.astype(np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


if __name__ == "__main__":
    main()
