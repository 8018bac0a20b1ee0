"""The plan as one self-contained page."""

from collections.abc import Iterable, Sequence

from diffprep_assets.pages.page import picture_uri, render_page
from diffprep_assets.plan_report.facts import PlanFacts
from diffprep_assets.plan_report.plan_warnings import PlanWarning
from diffprep_assets.plan_report.sheets import Sheet
from diffprep_assets.plan_report.words import (
    caption_sentences,
    clip_sentences,
    disk_sentences,
    encoder_name,
    loading_sentence,
    output_sentence,
    probe_sentence,
    sample_sentence,
    stage_words,
    verdict_outcome,
)


def plan_page(facts: PlanFacts, warnings: Sequence[PlanWarning], sheets: Iterable[Sheet]) -> str:
    """The HTML; sheets follow the bucket table."""
    shown = [
        {
            "bucket": next(one for one in facts.buckets if one.bucket == sheet.bucket),
            "uri": picture_uri(sheet.jpeg),
            "shown": sheet.shown,
            "gone": sheet.gone,
        }
        for sheet in sheets
    ]
    return render_page(
        "plan",
        plan=facts,
        warnings=warnings,
        sheets=shown,
        most_share=max(bucket.share for bucket in facts.buckets),
        sample_sentence=sample_sentence(facts),
        verdict_outcome=verdict_outcome,
        output_sentence=output_sentence,
        stage_words=stage_words(facts),
        clip_sentences=list(clip_sentences(facts.clips)) if facts.clips else [],
        encoder_name=encoder_name,
        caption_sentences=list(
            caption_sentences(facts.captions, may_be_shorter=facts.clips is None)
        ),
        loading_sentence=loading_sentence(facts),
        disk_sentences=list(disk_sentences(facts)),
        probe_sentence=probe_sentence(facts.probe),
    )
