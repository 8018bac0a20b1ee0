from pathlib import Path

import pytest

from diffprep_assets.layout import Layout
from diffprep_assets.leftovers import clear_leftovers
from diffprep_resources.storage.atomic import temporary_beside, write_bytes
from diffprep_resources.storage.locks import hold


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "work", "set", tmp_path / "out")


def half_written(layout: Layout) -> list[Path]:
    """What killed writers left, beside whole files."""
    left = []
    for path in (
        *(layout.source_index, layout.download("p00000"), layout.bucket("p00000")),
        *(layout.latents("s"), layout.text("s"), layout.shard_file("s"), layout.shard_record("s")),
    ):
        write_bytes(path, b"whole")
        left.append(temporary_beside(path))
        left[-1].write_bytes(b"ha")
    return left


def test_what_is_half_written_goes_and_nothing_else(layout: Layout):
    left = half_written(layout)
    clear_leftovers(layout)
    assert not any(path.exists() for path in left)
    assert sorted(path.name for path in layout.folder.rglob("*.*") if path.is_file()) == [
        *("p00000.parquet", "p00000.parquet", "s.json", "s.safetensors", "s.safetensors"),
        *("s.tar", "source_index.parquet"),
    ]
    clear_leftovers(layout)


def test_while_a_step_is_at_work_its_files_stay(layout: Layout):
    left = half_written(layout)
    with hold(layout.dataset_lock, holder="a step", shared=True):
        clear_leftovers(layout)
        assert all(path.exists() for path in left)
    clear_leftovers(layout)
    assert not any(path.exists() for path in left)


def test_a_dataset_that_was_never_made_has_none(layout: Layout):
    clear_leftovers(layout)
    assert not layout.folder.exists()
