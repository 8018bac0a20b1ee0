"""The web UI in a real browser: what is shown, and what a click does."""

import re
import time
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus
from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.conftest import WebUi

# One server for the module: its tests stay in one process.
pytestmark = pytest.mark.xdist_group("web_ui")

STAGES = (
    *("source_index", "download", "bucket", "curate", "shard_plan", "shard_members"),
    *("encode_latents", "encode_text", "shard", "energon_prepare", "validate"),
)
NUM_EDGES = 12
SHARDS = [f"g0-64-64x64-{number:06d}" for number in range(3)]
RUN_S = 180


def test_the_graph_shows_every_stage_and_edge(web: "WebUi"):
    page = web.open("/locations/diffprep_assets.definitions/asset-groups/set", until="validate")
    for stage in STAGES:
        expect(page.get_by_text(stage, exact=True).first).to_be_visible()
    widest: Any = page.evaluate(
        "() => Math.max(...[...document.querySelectorAll('svg')].map("
        "svg => [...svg.querySelectorAll('path')].filter("
        "path => path.getAttribute('d').includes('C') && path.getBBox().width > 10).length))"
    )
    assert widest == NUM_EDGES


def test_the_plans_page_shows_its_pictures_buckets_rejects_and_recipe(web: "WebUi"):
    page = web.open("/assets/set/shard_plan", until="bucket_chart")
    chart = page.locator("img[src^='data:image/png']")
    expect(chart).to_be_visible()
    page.locator("tr", has_text="pictures").get_by_text("Show Markdown").click()
    sheet = page.locator("img[src^='data:image/jpeg']")
    expect(sheet).to_be_visible()
    assert sheet.evaluate("image => image.naturalWidth") > 400
    page.get_by_role("button", name="Close").click()
    for text in ("unreadable_image", "rejects.parquet", "shard_plan.parquet", "center_crop"):
        expect(page.get_by_text(text).first).to_be_visible()
    expect(page.get_by_text(web.project.dataset().loaded.recipe_hash).first).to_be_visible()


def test_the_log_of_a_run_is_shown(web: "WebUi"):
    page = web.partition("encode_latents", SHARDS[0], until="Latest materialization")
    page.get_by_role("link", name=re.compile("^[0-9a-f]{8}$")).first.click()
    # Of a long log only the rows in the window exist.
    expect(page.get_by_text("encode_latents: 3 of 3 shards to make").first).to_be_visible()


@pytest.mark.long
def test_a_changed_recipe_makes_a_shard_stale_and_its_rerun_from_the_page_fresh(web: "WebUi"):
    page = web.partition("encode_text", SHARDS[1], until="Materialized")
    expect(page.get_by_text("Unsynced")).to_have_count(0)
    web.project.write_recipe_over(model={"t5_max_length": 16})
    web.reload_definitions()
    page = web.partition("encode_text", SHARDS[1], until="Unsynced")
    page.get_by_text("Unsynced").hover()
    expect(page.get_by_text("code version").first).to_be_visible()

    web.launch("encode_text", [SHARDS[1]])
    web.partition_becomes("encode_text", SHARDS[1], "Materialized", gone="Unsynced")
    web.partition("encode_text", SHARDS[0], until="Unsynced")


@pytest.mark.long
def test_a_failed_shard_shows_its_reason(web: "WebUi", drawing: Any):
    picture = drawing(9, version=1)
    (web.project.pictures / "images" / picture.name).write_bytes(picture.data)
    web.project.write_recipe_over(image={"background": "#000000"})
    web.reload_definitions()
    web.launch("encode_latents", [SHARDS[2]])
    page = web.partition_becomes("encode_latents", SHARDS[2], "View logs")
    expect(page.get_by_text("Failed (1)")).to_be_visible()
    page.get_by_text("View logs").click()
    expect(page.get_by_text(f"{SHARDS[2]}: source changed since bucket").first).to_be_visible()


@pytest.mark.long
def test_a_range_of_shards_launched_from_the_page_ends_well(web: "WebUi"):
    web.project.write_recipe_over(model={"t5_max_length": 20})
    web.reload_definitions()
    web.launch("encode_text", SHARDS[:2])
    web.page.get_by_text("View", exact=True).click()
    deadline = time.monotonic() + RUN_S
    while not (ended := backfills_that_ended()):
        assert time.monotonic() < deadline
        time.sleep(1)
    assert ended == [BulkActionStatus.COMPLETED_SUCCESS]
    web.page.reload()
    expect(web.page.get_by_text("100% completed").first).to_be_visible()
    for key in SHARDS[:2]:
        web.partition_becomes("encode_text", key, "Materialized", gone="Unsynced")
    web.partition("encode_text", SHARDS[2], until="Unsynced")


def backfills_that_ended() -> list[BulkActionStatus]:
    with dg.DagsterInstance.get() as instance:
        found = [backfill.status for backfill in instance.get_backfills()]
    return [status for status in found if status.name.startswith(("COMPLETED", "FAILED"))]
