from collections.abc import Callable
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from typer.testing import CliRunner, Result

from diffprep_assets.cli import app
from diffprep_assets.partitions import shards_of

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder


@pytest.fixture
def shards(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`diffprep range set shards` with further words, of a dataset of ten shards."""
    project.write_recipe()
    monkeypatch.chdir(project.folder)
    with dg.DagsterInstance.get() as instance:
        keys = [f"s{number}" for number in range(10)]
        instance.add_dynamic_partitions(shards_of("set").name or "", keys)
    return lambda *words: CliRunner().invoke(app, ["range", "set", "shards", *words])


def test_without_a_slice_it_is_all(shards: Callable[..., Result]):
    assert shards().stdout == "s0...s9\n"


@pytest.mark.parametrize("of", [1, 3, 4, 10])
def test_slices_are_even_and_leave_no_shard_out(shards: Callable[..., Result], of: int):
    covered = []
    for number in range(1, of + 1):
        first, last = shards("--slice", f"{number}/{of}").stdout.strip().split("...")
        covered.append(range(int(first[1:]), int(last[1:]) + 1))
    assert [shard for each in covered for shard in each] == list(range(10))
    assert max(map(len, covered)) - min(map(len, covered)) <= 1


@pytest.mark.parametrize("wrong", ["0/3", "4/3", "1", "1/0", "a/b", "1/2/3", "-1/2"])
def test_a_slice_that_is_none_is_refused(shards: Callable[..., Result], wrong: str):
    result = shards("--slice", wrong)
    assert result.exit_code == 2
    assert "--slice must be NUMBER/OF" in result.stderr


def test_more_slices_than_shards_are_refused(shards: Callable[..., Result]):
    result = shards("--slice", "1/11")
    assert result.exit_code == 2
    assert "set has 10 shards, fewer than 11" in result.stderr
