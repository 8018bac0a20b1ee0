"""The stage within whole runs."""

import io
from typing import TYPE_CHECKING

from PIL import Image

from diffprep_assets.curate.table import read_verdicts

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder


def test_dedup_turned_on_later_reads_pictures_once_and_writes_no_bucket_table_and_no_shard(
    project: "ProjectFolder",
) -> None:
    drawing, *_ = project.write_pictures([0, 1, 2], size=(160, 120))
    larger = Image.open(io.BytesIO(drawing.data)).resize((320, 240))
    larger.save(project.pictures / "images" / "copy.jpg", quality=80)
    (project.pictures / "captions" / "copy.txt").write_text("a copy")
    # No encoder is loaded for it.
    project.write_recipe(output={"formats": ["raw"]})
    before = project.run()
    assert before.ok
    assert "picture_hash" not in before.stages
    after = project.run(changes={"curate.dedup": {"replace": True}})
    assert after.ok
    hashed = after.summaries["picture_hash"].samples
    assert (hashed.samples_in, hashed.samples_out, hashed.encoded) == (4, 4, 4)
    assert after.summaries["bucket"].done == after.summaries["shard_raw"].done == 0
    verdicts = read_verdicts(project.layout().curate)
    assert {key: verdict.keep for key, verdict in verdicts.items()} == {
        "images/copy.jpg": True,
        "images/p000.jpg": False,
    }
    assert {verdict.group for verdict in verdicts.values()} == {"dup:images/copy.jpg"}
