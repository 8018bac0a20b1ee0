import json
from collections import Counter

from rich.console import Console

from diffprep_assets.run_report import STAGES, UNITS, RunReport
from diffprep_resources.progress.base import SampleCounts, StageSummary


def shown(report: RunReport) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        for line in report.lines():
            console.print(line)
    return capture.get()


def report(*, done: int, error: tuple[str, str] | None = None) -> RunReport:
    counts = SampleCounts(8, 7, encoded=7 if done else 0, rejects=Counter(non_finite=1))
    summary = StageSummary("shard", "shards", done=done, fresh=2 - done, samples=counts)
    return RunReport(
        dataset="set",
        recipe_hash="abc",
        generation=0,
        error=error,
        summaries={"shard": summary},
        listed=10,
        written=7,
        rejects={"too_small": 2, "non_finite": 1},
        output_dir="/data/set",
    )


def test_a_stage_that_did_not_run_is_in_the_object_with_noughts():
    content = json.loads(json.dumps(RunReport("set", None, error=("recipe", "wrong")).as_json()))
    assert tuple(content["stages"]) == STAGES
    for stage, values in content["stages"].items():
        units = {UNITS[stage]} if stage in UNITS else set()
        assert values.keys() == {*units, "samples", "seconds"}, stage
        assert not any(values["samples"].values())
    assert content["ok"] is False
    assert content["error"] == {"stage": "recipe", "message": "wrong"}
    assert content["generation"] is None


def test_the_object_has_what_each_stage_did():
    content = report(done=2).as_json()
    assert content["ok"] is True
    assert content["error"] is None
    stage = content["stages"]["shard"]
    assert stage["shards"] == {"done": 2, "fresh": 0, "failed": 0}
    assert stage["samples"] == {"in": 8, "out": 7, "encoded": 7, "reused": 0, "rejected": 1}
    assert content["rejects"] == {"non_finite": 1, "too_small": 2}


def test_people_are_told_the_rejects_and_that_nothing_was_to_do():
    text = shown(report(done=0))
    assert "All is fresh: nothing was encoded" in text
    assert "3 of 10 samples rejected" in text
    assert "too_small 2" in text
    assert "7 samples, valid, in /data/set" in text
    assert "All is fresh" not in shown(report(done=1))


def test_a_failed_run_does_not_call_its_dataset_valid():
    text = shown(report(done=0, error=("shard", "no room")))
    assert "valid" not in text
    assert "All is fresh" not in text
