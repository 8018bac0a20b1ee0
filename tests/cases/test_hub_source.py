"""Datasets on the Hub, whole runs against a server that speaks its protocol."""

import csv
import io
import json
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_assets.rejects import read_rejects
from diffprep_assets.source_index.listing import listed_index
from diffprep_assets.source_index.table import read_index, write_index
from tests.conftest import draw, write_tar

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Drawing, ProjectFolder
    from tests.hub_server import DatasetHub

REPO = "owner/pictures"
WAYS = ("auth.hf_token_file", "--hf-token-file", "HF_TOKEN", "hf auth login")


def parquet(drawings: "list[Drawing]") -> bytes:
    images = [{"bytes": drawing.data, "path": drawing.name} for drawing in drawings]
    buffer = io.BytesIO()
    pq.write_table(pa.table({"image": images, "text": [d.caption for d in drawings]}), buffer)
    return buffer.getvalue()


def tables(numbers: "range", *, files: int = 2) -> dict[str, bytes]:
    """The repository of a dataset in parquet, with a test split that nobody asks for."""
    drawings = [draw(number) for number in numbers]
    found = {
        f"data/train-{file:05d}-of-{files:05d}.parquet": parquet(drawings[file::files])
        for file in range(files)
    }
    found["data/test-00000-of-00001.parquet"] = parquet([draw(99)])
    return {**found, ".gitattributes": b"*", "README.md": b"# pictures"}


def metadata(kind: str, drawings: "list[Drawing]") -> bytes:
    rows = [{"file_name": d.name, "text": d.caption} for d in drawings]
    if kind == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if kind == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, ["file_name", "text"])
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def recipe(project: "ProjectFolder", **source: Any) -> None:
    project.write_recipe(
        source={"type": "huggingface", "hf_dataset": REPO, **source},
        output={"max_reject_rate": 1},
    )


def written(project: "ProjectFolder", read_samples: Callable[..., Any]) -> dict[str, str]:
    """The captions of the published dataset, by source key, through energon."""
    samples = read_samples(project.layout().output_dir)
    return {key: sample["caption"] for key, sample in samples.items()}


def downloaded(project: "ProjectFolder") -> dict[str, bytes]:
    folder = project.layout().download("x").parent
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {key.as_posix(): path.read_bytes() for key, path in files.items() if len(key.parts) > 1}


def test_a_hub_dataset_as_parquet_is_pinned_and_fetched_once(
    project: "ProjectFolder", hub: "DatasetHub", read_samples: Callable[..., Any], tmp_path: "Path"
) -> None:
    files = tables(range(5))
    commit = hub.add(REPO, files)
    recipe(project)
    report = project.run()
    assert report.error is None
    first, second = "data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"
    expected = {f"{first}::{row}": draw(n).caption for row, n in enumerate((0, 2, 4))}
    expected |= {f"{second}::{row}": draw(n).caption for row, n in enumerate((1, 3))}
    assert written(project, read_samples) == expected
    index = read_index(project.layout().source_index)
    assert index is not None
    assert index.revision == commit
    published = json.loads(project.layout().dataset_json.read_bytes())
    assert published["source"]["revision"] == commit
    # Only what is needed came, once, and the only copy is below download/.
    fetched = hub.fetched()
    assert {first, second} <= set(fetched) <= {first, second, "README.md"}
    assert set(fetched.values()) == {1}
    assert downloaded(project) == {
        f"p00000/{first}": files[first],
        f"p00001/{second}": files[second],
    }
    sizes = [path.stat().st_size for path in (tmp_path / "hf").rglob("*") if path.is_file()]
    assert not [size for size in sizes if size > 4096]
    hub.requests.clear()
    again = project.run()
    assert again.error is None
    assert {stage.done for stage in again.summaries.values()} == {0}
    assert set(hub.fetched()) <= {"README.md"}


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_hub_dataset_as_image_folder_with_metadata(
    project: "ProjectFolder", hub: "DatasetHub", read_samples: Callable[..., Any], kind: str
) -> None:
    drawings = [draw(number) for number in range(5)]
    files = {f"train/{d.name}": d.data for d in drawings}
    files |= {f"train/metadata.{kind}": metadata(kind, drawings[:4]), "test/x.jpg": draw(9).data}
    hub.add(REPO, files)
    recipe(project)
    report = project.run()
    assert report.error is None
    assert written(project, read_samples) == {f"train/{d.name}": d.caption for d in drawings[:4]}
    rejects = {reject.source_key: reject.code for reject in read_rejects(project.layout().rejects)}
    assert rejects == {f"train/{drawings[4].name}": "no_caption"}
    assert set(downloaded(project)) == {
        f"shared/train/metadata.{kind}",
        *(f"p00000/train/{d.name}" for d in drawings),
    }


def test_an_image_folder_on_this_machine_reads_alike(
    project: "ProjectFolder", read_samples: Callable[..., Any]
) -> None:
    drawings = [draw(number) for number in range(3)]
    folder = project.folder / "hub" / "train"
    folder.mkdir(parents=True)
    for picture in drawings:
        (folder / picture.name).write_bytes(picture.data)
    (folder / "metadata.jsonl").write_bytes(metadata("jsonl", drawings))
    recipe(project, hf_dataset="hub")
    assert project.run().error is None
    assert written(project, read_samples) == {f"train/{d.name}": d.caption for d in drawings}


def test_a_hub_dataset_as_tars(
    project: "ProjectFolder",
    hub: "DatasetHub",
    read_samples: Callable[..., Any],
    tmp_path: "Path",
) -> None:
    drawings = [draw(number) for number in range(4)]
    files = {}
    for number in range(2):
        members: dict[str, bytes] = {}
        for picture in drawings[number::2]:
            members[picture.name] = picture.data
            members[f"{picture.stem}.txt"] = picture.caption.encode()
        write_tar(tmp_path / "x.tar", members)
        files[f"shards/{number}.tar"] = (tmp_path / "x.tar").read_bytes()
    hub.add(REPO, files)
    recipe(project)
    assert project.run().error is None
    expected = {f"shards/{n}.tar::{d.stem}": d.caption for n in range(2) for d in drawings[n::2]}
    assert written(project, read_samples) == expected


def test_data_files_patterns_and_splits_choose(project: "ProjectFolder", hub: "DatasetHub") -> None:
    hub.add(REPO, tables(range(4)))
    recipe(project, hf_data_files=["data/train-00001-*.parquet"])
    assert project.run().written == 2
    assert set(hub.fetched()) - {"README.md"} == {"data/train-00001-of-00002.parquet"}
    project.write_recipe(
        "other", source={"type": "huggingface", "hf_dataset": REPO, "hf_split": "test"}
    )
    assert project.run("other").written == 1
    project.write_recipe(
        "none", source={"type": "huggingface", "hf_dataset": REPO, "hf_split": "val"}
    )
    error = project.run("none").error
    assert error is not None
    assert "source.hf_split must be one of ['test', 'train'], got 'val'" in error[1]


def test_max_samples_fetches_no_file_that_is_not_needed(
    project: "ProjectFolder", hub: "DatasetHub"
) -> None:
    hub.add(REPO, tables(range(6), files=3))
    recipe(project)
    project.write_recipe_over(output={"max_samples": 3})
    report = project.run()
    assert (report.error, report.written) == (None, 3)
    assert sorted(set(hub.fetched()) - {"README.md"}) == [
        f"data/train-{number:05d}-of-00003.parquet" for number in range(2)
    ]
    assert set(hub.fetched().values()) == {1}


def test_no_revision_keeps_the_first_commit_and_a_branch_follows(
    project: "ProjectFolder", hub: "DatasetHub"
) -> None:
    old = tables(range(4))
    first = hub.add(REPO, old)
    recipe(project)
    assert project.run().written == 4
    changed = {**old, "data/train-00001-of-00002.parquet": parquet([draw(7)])}
    second = hub.add(REPO, changed)
    hub.requests.clear()
    kept = project.run()
    assert (kept.error, kept.written, set(hub.fetched()) - {"README.md"}) == (None, 4, set())
    recipe(project, hf_revision="main")
    moved = project.run()
    assert (moved.error, moved.written) == (None, 3)
    index = read_index(project.layout().source_index)
    assert index is not None
    assert index.revision == second
    # What did not change between the commits is neither fetched nor encoded again.
    assert set(hub.fetched()) - {"README.md"} == {"data/train-00001-of-00002.parquet"}
    assert moved.summaries["bucket"].samples.encoded == 1
    assert moved.summaries["encode_latents"].samples.encoded == 1
    recipe(project, hf_revision=first)
    assert project.run().written == 4


def test_a_broken_download_goes_on_where_it_broke(
    project: "ProjectFolder", hub: "DatasetHub"
) -> None:
    files = tables(range(4), files=1)
    hub.add(REPO, files)
    recipe(project)
    hub.faults["GET /storage/"] = ["cut", "cut"]
    report = project.run()
    assert (report.error, report.written) == (None, 4)
    size = len(files["data/train-00000-of-00001.parquet"])
    assert hub.ranges == [f"bytes={size // 2}-", f"bytes={size // 2 + (size - size // 2) // 2}-"]
    assert set(downloaded(project)) == {"p00000/data/train-00000-of-00001.parquet"}


@pytest.mark.parametrize(
    ("where", "fault"),
    [
        ("/api/datasets", 429),
        ("/api/datasets", 503),
        ("/tree/", 500),
        ("/tree/", "reset"),
        ("HEAD /datasets", 502),
        ("GET /datasets", 429),
        ("GET /storage/", 503),
        ("GET /storage/", "reset"),
        ("GET /storage/", "junk"),
    ],
)
def test_a_passing_fault_of_the_hub_is_waited_out(
    project: "ProjectFolder", hub: "DatasetHub", where: str, fault: object
) -> None:
    hub.add(REPO, tables(range(2), files=1))
    recipe(project)
    hub.faults[where] = [fault]
    dataset = project.dataset()
    index = listed_index(dataset)
    write_index(dataset.layout.source_index, index)
    stamps = list(dataset.source.stamps(index.paths()["p00000"]))
    samples = list(dataset.source.samples(stamps))
    assert [sample.image for sample in samples] == [draw(0).data, draw(1).data]
    assert hub.faults[where] == []


def test_a_hub_that_stays_down_is_an_error_and_never_a_missing_file(
    project: "ProjectFolder", hub: "DatasetHub", monkeypatch: pytest.MonkeyPatch
) -> None:
    from diffprep_resources.hub import polite

    monkeypatch.setattr(polite, "TRIES", 2)
    hub.add(REPO, tables(range(2), files=1))
    recipe(project)
    hub.faults["GET /storage/"] = [503] * 20
    report = project.run()
    assert report.error is not None
    assert report.error[0] == "download"
    assert "HTTP 503" in report.error[1]
    assert REPO in report.error[1]
    assert report.rejects == {}
    hub.faults.clear()
    assert project.run().written == 2


def test_a_gated_dataset_stops_before_the_first_byte_of_data(
    project: "ProjectFolder", hub: "DatasetHub"
) -> None:
    hub.add(REPO, {k: v for k, v in tables(range(2)).items() if k != "README.md"})
    hub.gated.add(REPO)
    recipe(project)
    report = project.run()
    assert report.error is not None
    assert report.error[0] == "source_index"
    for part in ("source.hf_dataset", REPO, "gated", "403", f"{hub.url}/datasets/{REPO}", *WAYS):
        assert part in report.error[1]
    assert not hub.fetched()


def test_a_missing_dataset_is_named(project: "ProjectFolder", hub: "DatasetHub") -> None:
    recipe(project)
    report = project.run()
    assert report.error is not None
    for part in (REPO, "404", *WAYS):
        assert part in report.error[1]


def test_offline_what_was_fetched_serves(
    project: "ProjectFolder", hub: "DatasetHub", monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    hub.add(REPO, tables(range(4)))
    recipe(project, hf_revision="main")
    assert project.run().written == 4
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    project.write_recipe_over(image={"image_size": 80})
    report = project.run()
    assert (report.error, report.written, hub.requests) == (None, 4, [])
    project.write_recipe(
        "other", source={"type": "huggingface", "hf_dataset": REPO, "hf_split": "test"}
    )
    error = project.run("other").error
    assert error is not None
    assert "HF_HUB_OFFLINE is set" in error[1]


def test_bytes_that_are_not_kept_go_and_come_back_when_needed(
    project: "ProjectFolder", hub: "DatasetHub"
) -> None:
    hub.add(REPO, tables(range(4)))
    recipe(project, keep_downloads=False)
    assert project.run().written == 4
    assert downloaded(project) == {}
    hub.requests.clear()
    again = project.run()
    assert {stage.done for stage in again.summaries.values()} == {0}
    assert set(hub.fetched()) <= {"README.md"}
    project.write_recipe_over(model={"precision": "bf16"})
    encoded = project.run()
    assert (encoded.error, encoded.written) == (None, 4)
    assert encoded.summaries["encode_latents"].samples.encoded == 4
    assert len(set(hub.fetched()) - {"README.md"}) == 2
    assert downloaded(project) == {}


def test_status_fetches_nothing(project: "ProjectFolder", hub: "DatasetHub") -> None:
    from diffprep_assets.forecast import forecast

    hub.add(REPO, tables(range(4)))
    recipe(project)
    project.write_recipe_over(output={"max_samples": 3})
    stages = forecast(project.dataset()).stages
    assert stages["download"].to_encode == 0
    assert not stages["download"].is_fresh
    assert set(hub.fetched()) <= {"README.md"}
    assert project.run().written == 3
    assert all(stage.is_fresh for stage in forecast(project.dataset()).stages.values())


def test_a_token_is_sent_to_the_hub_alone_and_stands_nowhere(
    project: "ProjectFolder",
    hub: "DatasetHub",
    capfd: pytest.CaptureFixture[str],
    tmp_path: "Path",
) -> None:
    token = "hf_verysecretverysecret"
    hub.add(REPO, tables(range(2)))
    hub.needs_token = token
    file = tmp_path / "token"
    file.write_text(token)
    file.chmod(0o600)
    recipe(project)
    project.write_recipe_over(auth={"hf_token_file": str(file)})
    hub.faults["GET /storage/"] = [500]
    report = project.run()
    assert (report.error, report.written) == (None, 2)
    assert hub.storage_tokens == {None}
    hub.needs_token = "hf_another"
    refused = project.run()
    assert refused.error is not None
    shown = capfd.readouterr()
    texts = [shown.out, shown.err, json.dumps(refused.as_json()), "".join(refused.error)]
    assert not [text for text in texts if token in text]
    holding = [
        path
        for path in project.folder.rglob("*")
        if path.is_file() and path != file and token.encode() in path.read_bytes()
    ]
    assert holding == []


def test_the_token_file_goes_before_the_variable_and_the_variable_before_the_login(
    project: "ProjectFolder",
    hub: "DatasetHub",
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: "Path",
) -> None:
    hub.add(REPO, tables(range(1)))
    file, login = tmp_path / "token", tmp_path / "hf" / "token"
    file.write_text("hf_file")
    file.chmod(0o600)
    login.parent.mkdir(exist_ok=True)
    login.write_text("hf_login")
    recipe(project)

    def used() -> set[str | None]:
        hub.tokens.clear()
        project.dataset().source.listing()
        return hub.tokens

    assert used() == {"Bearer hf_login"}
    monkeypatch.setenv("HF_TOKEN", "hf_variable")
    assert used() == {"Bearer hf_variable"}
    project.write_recipe_over(auth={"hf_token_file": str(file)})
    assert used() == {"Bearer hf_file"}
    file.chmod(0o644)
    report = project.run()
    assert report.error is not None
    assert "must have mode 600 or 400, got 644" in report.error[1]


def test_encoders_on_the_hub_come_through_passing_faults(
    project: "ProjectFolder", hub: "DatasetHub", tiny_encoders: "Path"
) -> None:
    files = {
        path.relative_to(tiny_encoders).as_posix(): path.read_bytes()
        for path in tiny_encoders.rglob("*")
        if path.is_file()
    }
    commit = hub.add("owner/flux", files)
    project.write_pictures(range(2))
    project.write_recipe(model={"model_path": "owner/flux"})
    hub.faults = {
        "GET /api/models": [429, 503, "reset"],
        "HEAD /owner/flux": [503],
        "GET /owner/flux": [429, "reset", "cut"],
    }
    report = project.run()
    assert (report.error, report.written) == (None, 2)
    assert hub.faults == {"GET /api/models": [], "HEAD /owner/flux": [], "GET /owner/flux": []}
    published = json.loads(project.layout().dataset_json.read_bytes())
    assert published["models"]["vae"]["weights"]["revision"] == commit


def test_a_pickled_source_fetches_and_reads_alike(
    project: "ProjectFolder", hub: "DatasetHub"
) -> None:
    hub.add(REPO, tables(range(2), files=1))
    recipe(project)
    dataset = project.dataset()
    write_index(dataset.layout.source_index, listed_index(dataset))
    source = pickle.loads(pickle.dumps(dataset.source))
    stamps = list(source.stamps(["data/train-00000-of-00001.parquet"]))
    assert stamps == list(dataset.source.stamps(["data/train-00000-of-00001.parquet"]))
    assert not source.are_here(stamps)
    samples = list(source.samples(stamps))
    assert [sample.image for sample in samples] == [draw(0).data, draw(1).data]
    assert source.read_image(samples[1].location) == draw(1).data
    assert source.are_here(stamps)
