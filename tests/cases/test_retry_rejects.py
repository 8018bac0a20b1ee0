"""--retry-rejects tries passing rejects again, and nothing else."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_assets.layout import Layout
from diffprep_assets.publishing.totals import check_counts
from diffprep_assets.rejects import read_rejects
from diffprep_assets.status_report import status_json
from diffprep_resources.errors import DiffprepError
from diffprep_resources.storage.row_file import read_header, row_file, row_reader

if TYPE_CHECKING:
    from tests.conftest import Drawing, ProjectFolder


def reject_in_row_file(path: Path, number: int, *, transient: bool) -> int:
    """Rewrite a row file as if the encoder had failed on one row; returns its sample_id."""
    header = read_header(path)
    assert header is not None
    sample_id = header.metadata["sample_ids"][number]
    with row_reader(path) as reader:
        rows = [reader.row(row) for row in range(len(header.metadata["sample_ids"]))]
    layout = {
        name: (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        for name, tensor in rows[0].items()
    }
    reject = {
        "sample_id": sample_id,
        "source_key": "?",
        "stage": "encode_text",
        "code": "encoder_failed",
        "message": "RuntimeError: a passing fault",
        "transient": transient,
        "fingerprint": header.metadata["fingerprints"][number],
    }
    with row_file(path, rows=layout, num_rows=len(rows), metadata=header.metadata) as writer:
        for row, tensors in enumerate(rows):
            for name, tensor in tensors.items():
                if row != number:
                    writer.write_tensor(name, row, tensor)
        writer.close(rejects=[reject])
    return sample_id


def remove_tar(layout: Layout, shard: str) -> None:
    for path in (layout.shard_record(shard), layout.shard_file(shard), layout.shard_samples(shard)):
        path.unlink()


def codes(layout: Layout) -> list[str]:
    return [reject.code for reject in read_rejects(layout.rejects)]


@pytest.mark.parametrize("kept", ["keep", "prune"])
def test_a_passing_failure_of_an_encoder_is_tried_again(
    project: "ProjectFolder", kept: str
) -> None:
    project.write_pictures(range(4))
    project.write_recipe(output={"intermediates": "keep", "max_reject_rate": 1})
    assert project.run().ok
    layout = project.layout()
    (shard,) = [path.stem for path in layout.shard_file("x").parent.glob("*.tar")]
    reject_in_row_file(layout.text(shard), 2, transient=True)
    remove_tar(layout, shard)
    project.write_recipe(output={"intermediates": kept, "max_reject_rate": 1})
    left_out = project.run()
    assert left_out.error is None
    assert (left_out.ok, left_out.written, codes(layout)) == (True, 3, ["encoder_failed"])
    again = project.run()
    assert (again.written, again.summaries["encode_text"].done) == (3, 0)
    mended = project.run(retry_rejects=True)
    assert (mended.ok, mended.written, mended.rejects) == (True, 4, {})
    assert mended.summaries["encode_text"].samples.encoded == 1
    assert mended.summaries["encode_latents"].samples.encoded == 0
    assert json.loads(layout.dataset_json.read_bytes())["counts"]["written"] == 4
    after = project.run()
    assert (after.ok, after.written) == (True, 4)
    assert {stage.done for stage in after.summaries.values()} == {0}


def test_a_lasting_failure_of_an_encoder_is_not_tried_again(project: "ProjectFolder") -> None:
    project.write_pictures(range(4))
    project.write_recipe(output={"intermediates": "keep", "max_reject_rate": 1})
    assert project.run().ok
    layout = project.layout()
    (shard,) = [path.stem for path in layout.shard_file("x").parent.glob("*.tar")]
    reject_in_row_file(layout.text(shard), 2, transient=False)
    remove_tar(layout, shard)
    assert project.run().written == 3
    again = project.run(retry_rejects=True)
    assert (again.written, again.summaries["encode_text"].done) == (3, 0)


def test_a_picture_that_was_missing_is_looked_for_again(
    project: "ProjectFolder", drawing: "type[Drawing]"
) -> None:
    """A parquet row that names a file: the file comes, while the parquet file stays as it is."""
    drawings = [drawing(number) for number in range(3)]  # pyright: ignore[reportCallIssue]
    folder = project.folder / "hub"
    folder.mkdir()
    table = {"image": [d.name for d in drawings], "text": [d.caption for d in drawings]}
    pq.write_table(pa.table(table), folder / "train.parquet")
    for picture in drawings[:2]:
        (folder / picture.name).write_bytes(picture.data)
    project.write_recipe(
        source={"type": "huggingface", "hf_dataset": "hub"}, output={"max_reject_rate": 1}
    )
    first = project.run()
    assert (first.ok, first.written, first.rejects) == (True, 2, {"source_missing": 1})
    (folder / drawings[2].name).write_bytes(drawings[2].data)
    assert project.run().written == 2
    retried = project.run(retry_rejects=True)
    assert (retried.ok, retried.written, retried.rejects) == (True, 3, {})
    assert retried.summaries["bucket"].samples.encoded == 3
    from diffprep_assets.forecast import forecast

    content = status_json("set", forecast(project.dataset()))
    assert {stage["fresh"] for stage in content["stages"].values()} == {1}
    after = project.run()
    assert (after.written, {stage.done for stage in after.summaries.values()}) == (3, {0})


def test_counts_that_do_not_add_up_are_not_published() -> None:
    from collections import Counter

    check_counts("set", listed=5, written=3, rejects=Counter(no_caption=2))
    with pytest.raises(DiffprepError, match="5 samples listed by bucket, but 3 written and 1"):
        check_counts("set", listed=5, written=3, rejects=Counter(no_caption=1))
