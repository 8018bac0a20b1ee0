"""The demo's clips: shapes that move across a soft background, and captions that say how."""

import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from diffprep_resources.demo.words import BACKGROUNDS, COLOURS

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

SIZES = ((256, 144), (192, 192), (144, 256), (320, 180))
RATES = (Fraction(24), Fraction(24_000, 1001), Fraction(25), Fraction(30))
_SHAPES = ("circle", "square", "diamond")
# Direction as shares of the picture's width and height over the whole clip.
_MOVES = {
    "moving to the right": (1, 0),
    "moving to the left": (-1, 0),
    "falling": (0, 1),
    "rising": (0, -1),
}
_SHORTEST_S, _LONGEST_S = 1.5, 4.0


@dataclass(frozen=True, slots=True)
class DrawnClip:
    """One clip, upright. `turn` is the number of degrees by which its file says to turn it."""

    caption: str
    width: int
    height: int
    fps: Fraction
    num_frames: int
    shape: str
    colour: str
    background: str
    move: str
    turn: int = 0

    def frames(self) -> Iterator[Image.Image]:
        """The frames in order, RGB."""
        ground = _background(self)
        for number in range(self.num_frames):
            picture = ground.copy()
            share = number / max(1, self.num_frames - 1)
            _draw(picture, self, share=share)
            yield picture


def draw_clips(folder: Path, *, count: int = 24, seed: int = 0) -> None:
    """FastVideo's merged folder: `videos/` and `videos2caption.json`. The same numbers draw the
    same clips."""
    videos = folder / "videos"
    videos.mkdir(parents=True, exist_ok=True)
    entries = []
    for index in range(count):
        drawn = draw_clip(index, seed=seed)
        path = videos / f"clip-{index:04d}.mp4"
        save_clip(drawn, path)
        entries.append(
            {
                "path": path.name,
                "resolution": {"width": drawn.width, "height": drawn.height},
                "size": path.stat().st_size,
                "fps": round(float(drawn.fps), 3),
                "duration": round(float(drawn.num_frames / drawn.fps), 3),
                "num_frames": drawn.num_frames,
                "cap": [drawn.caption],
            }
        )
    table = json.dumps(entries, indent=1) + "\n"
    (folder / "videos2caption.json").write_text(table, "utf-8")


def draw_clip(index: int, *, seed: int = 0) -> DrawnClip:
    """The clip of that number: 1.5 to 4 seconds, of one of four sizes and rates; of eight, one is
    turned by its file."""
    rng = random.Random(f"{seed}:clip:{index}")
    width, height = rng.choice(SIZES)
    fps = rng.choice(RATES)
    shape, move = rng.choice(_SHAPES), rng.choice(list(_MOVES))
    colour, background = rng.choice(list(COLOURS)), rng.choice(list(BACKGROUNDS))
    return DrawnClip(
        caption=f"a {colour} {shape} {move} on a {background} background",
        width=width,
        height=height,
        fps=fps,
        num_frames=round(rng.uniform(_SHORTEST_S, _LONGEST_S) * fps),
        shape=shape,
        colour=colour,
        background=background,
        move=move,
        turn=rng.choice((90, 180, 270)) if rng.random() < 1 / 8 else 0,
    )


def save_clip(drawn: DrawnClip, path: Path) -> None:
    """Write an H.264 mp4 that a player shows as drawn."""
    import av
    from av import logging as av_logging

    # x264 would write its statistics to the log.
    av_logging.set_level(av_logging.PANIC)
    with av.open(str(path), "w", format="mp4") as container:
        stream = _stream(container, drawn)
        for number, picture in enumerate(drawn.frames()):
            # A display matrix turns counterclockwise, and so does Pillow.
            stored = picture.rotate(-drawn.turn, expand=True)
            frame = av.VideoFrame.from_image(stored)
            frame.pts, frame.time_base = number, 1 / drawn.fps
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _stream(container: "OutputContainer", drawn: DrawnClip) -> "VideoStream":
    # With mbtree, x264 165 writes other bytes from run to run (seen at 192x192).
    options = {"crf": "18", "mbtree": "0"}
    stream = container.add_stream("libx264", rate=drawn.fps, options=options)
    turned = drawn.turn % 180 != 0
    stream.width, stream.height = (
        (drawn.height, drawn.width) if turned else (drawn.width, drawn.height)
    )
    stream.pix_fmt = "yuv420p"
    # One thread: several split a frame in other places on another machine.
    stream.codec_context.thread_count = 1
    if drawn.turn:
        stream.set_display_rotation(drawn.turn)
    return stream


def _background(drawn: DrawnClip) -> Image.Image:
    light, dark = BACKGROUNDS[drawn.background]
    ends = Image.new("RGB", (1, 2))
    ends.putpixel((0, 0), light)
    ends.putpixel((0, 1), dark)
    return ends.resize((drawn.width, drawn.height), Image.Resampling.BICUBIC)


def _draw(picture: Image.Image, drawn: DrawnClip, *, share: float) -> None:
    """The shape at `share` of its way, from one edge to the other."""
    radius = min(drawn.width, drawn.height) / 6
    across, down = _MOVES[drawn.move]
    middle = (
        drawn.width / 2 + across * (share - 0.5) * (drawn.width - 2 * radius),
        drawn.height / 2 + down * (share - 0.5) * (drawn.height - 2 * radius),
    )
    draw = ImageDraw.Draw(picture)
    fill = COLOURS[drawn.colour]
    if drawn.shape == "circle":
        draw.circle(middle, radius, fill=fill)
        return
    first = math.pi / 4 if drawn.shape == "square" else 0.0
    corners = [
        (
            middle[0] + radius * math.sin(first + math.pi / 2 * step),
            middle[1] - radius * math.cos(first + math.pi / 2 * step),
        )
        for step in range(4)
    ]
    draw.polygon(corners, fill=fill)
