"""The MDS output folder brought up to the plan, by the way that all formats take."""

from collections.abc import Sequence

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, Publication
from diffprep_assets.layout import Layout
from diffprep_assets.mds_prepare.publish import MdsFacts, publish_mds
from diffprep_assets.shard_mds.worker import mds_columns


def publish_tree(
    dataset: Dataset,
    layout: Layout,
    finished: Sequence[FinishedShard],
    description: DatasetDescription,
) -> Publication:
    """What was published of the finished shards; a publisher for `energon_prepare`'s `prepare`."""
    return publish_mds(
        layout,
        shards=finished,
        description=description,
        facts=mds_facts(dataset),
        finalize=dataset.recipe.output.finalize,
    )


def mds_facts(dataset: Dataset) -> MdsFacts:
    """What dataset.json says of columns and captions."""
    further = dataset.recipe.mds.caption_columns or {}
    return MdsFacts(
        columns=mds_columns(dataset).encodings,
        image_format=dataset.recipe.output.image_format,
        caption_weights={"caption": 1.0, **{name: further[name] for name in sorted(further)}},
    )
