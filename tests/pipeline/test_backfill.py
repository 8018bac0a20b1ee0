"""A backfill launched as the UI launches it, carried out by a real daemon."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

STAGES = ("encode_latents", "encode_text", "shard", "energon_prepare", "validate")
WAIT_S = 180.0
Ask = Callable[..., dict[str, Any]]

LAUNCH = """
mutation($launched: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $launched) {
    __typename ... on LaunchBackfillSuccess { backfillId }
  }
}"""
STATUS = """
query($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } }
}"""


@pytest.fixture
def ask(project: "ProjectFolder") -> Iterator[Ask]:
    """GraphQL to `dagster dev` in the project: webserver, daemon and code server."""
    project.write_pictures(range(8))
    project.write_recipe()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [Path(sys.executable).parent / "dagster", "dev", "-p", str(port)]
    command += ["-m", "diffprep_assets.definitions"]
    server = subprocess.Popen(
        command,
        cwd=project.folder,
        env={**os.environ, "PWD": str(project.folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def ask(query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        address = f"http://127.0.0.1:{port}/graphql"
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["data"]

    try:
        until(lambda: answers(ask))
        yield ask
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.5)


def answers(ask: Ask) -> bool:
    """Whether the code is loaded: the webserver is up before."""
    try:
        asset = ask('{assetNodeOrError(assetKey: {path: ["set", "shard"]}) {__typename}}')
        return asset["assetNodeOrError"]["__typename"] == "AssetNode"
    except (urllib.error.URLError, ConnectionError):
        return False


@pytest.mark.long
def test_a_backfill_over_fresh_and_stale_shards_completes_and_redoes_the_stale_one(
    project: "ProjectFolder", ask: Ask
):
    assert project.run().ok
    before = stamps(project)
    (project.pictures / "captions/p001.txt").write_text("another caption")
    dataset_up_to_plan(project)

    keys = ["g0-64-64x64-000000", "g0-64-64x64-000001"]
    launched = {
        "partitionNames": keys,
        "assetSelection": [{"path": ["set", stage]} for stage in STAGES],
    }
    backfill = ask(LAUNCH, launched=launched)["launchPartitionBackfill"]["backfillId"]
    status = ""

    def ended() -> bool:
        nonlocal status
        status = ask(STATUS, id=backfill)["partitionBackfillOrError"]["status"]
        return status.startswith(("COMPLETED", "FAILED", "CANCELED"))

    until(ended)
    assert status == "COMPLETED_SUCCESS"
    after = stamps(project)
    assert after[keys[0]] != before[keys[0]]
    assert after[keys[1]] == before[keys[1]]
    report = project.run()
    assert report.ok
    assert report.summaries["encode_text"].fresh == 2


def stamps(project: "ProjectFolder") -> dict[str, int]:
    """When each finished tar was written."""
    folder = project.layout().shard_file("x").parent
    return {path.stem: path.stat().st_mtime_ns for path in folder.glob("*.tar")}


def dataset_up_to_plan(project: "ProjectFolder") -> None:
    """The first two of the three runs, as by hand."""
    from diffprep_assets.dataset_graph import dataset_graph
    from diffprep_assets.jobs import RANGE_END, RANGE_START, runs_of
    from diffprep_assets.partitions import stage_key
    from diffprep_resources.compute.engines import Engines
    from diffprep_resources.gpu_pool.file_lease import FileLeasePool
    from diffprep_resources.progress.silent import SilentProgress

    graph = dataset_graph(project.dataset(), project.project)
    pool = FileLeasePool(devices=["cpu"], lock_folder=project.folder / "leases", wait_s=1)
    resources = {"engines": Engines(pool), "progress": SilentProgress()}
    definitions = dg.Definitions(assets=graph.assets, resources=resources)
    job = definitions.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.get() as instance:
        for unit, stages in runs_of(graph.dataset.recipe, plan_only=True):
            tags = {RANGE_START: "p00000", RANGE_END: "p00000"} if unit else {}
            assets = [stage_key("set", stage) for stage in stages]
            result = job.execute_in_process(instance=instance, asset_selection=assets, tags=tags)
            assert result.success
