import io
from collections import Counter

from rich.console import Console

from diffprep_resources.compute.memory import Memory
from diffprep_resources.progress.base import SampleCounts
from diffprep_resources.progress.terminal import TerminalProgress


def terminal() -> tuple[io.StringIO, TerminalProgress]:
    written = io.StringIO()
    return written, TerminalProgress(Console(file=written, force_terminal=True, width=120))


def test_a_terminal_shows_stage_count_rejects_and_memory_and_the_bar_ends_full():
    written, progress = terminal()
    logged: list[str] = []
    with progress.stage(
        "encode_latents", log=logged.append, unit="shards", total_samples=8
    ) as shown:
        shown.memory = lambda: [Memory("cuda:0", 31 * 10**9, 140 * 10**9)]
        shown.advance(4, 1)
        counts = SampleCounts(8, 7, encoded=7, rejects=Counter(non_finite=1))
        shown.partition_done(counts, fresh=False)
    text = written.getvalue()
    assert "encode_latents" in text
    assert "8/8" in text
    assert "1 rejected" in text
    assert progress.summaries["encode_latents"].done == 1
    assert logged[-1].startswith("encode_latents: 1 shard made, 0 fresh, 7 samples, 1 rejected")


def test_a_stage_without_work_says_that_all_is_fresh():
    written, progress = terminal()
    with progress.stage("shard", log=lambda _: None, unit="shards", total_samples=0) as shown:
        shown.partition_done(SampleCounts(240, 240, reused=240), fresh=True)
    assert "240/240" in written.getvalue()
    assert "all fresh" in written.getvalue()
