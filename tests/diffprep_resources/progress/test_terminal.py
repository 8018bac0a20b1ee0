import io

from rich.console import Console

from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.progress.terminal import TerminalProgress


def test_a_terminal_shows_stage_count_and_rejects_and_the_bar_ends_full():
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    progress = TerminalProgress(console)
    with progress.stage("encode_latents", log=print, unit="shards", total_samples=8) as shown:
        shown.partition_done(SampleCounts(4, 3, encoded=3), fresh=False)
        shown.advance(4)
        shown.advance(4)
    text = written.getvalue()
    assert "encode_latents" in text
    assert "8/8" in text
    assert progress.summaries["encode_latents"].done == 1


def test_a_stage_without_work_ends_full_too():
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    with TerminalProgress(console).stage("shard", log=print, unit="shards", total_samples=0):
        pass
    assert "1/1" in written.getvalue()
