"""What diffusers' Wan pipelines do to a prompt before they encode it."""

import html
from typing import Literal

CaptionCleaning = Literal["diffusers", "none"]


def cleaned(caption: str, *, cleaning: CaptionCleaning) -> str:
    """The caption as it is encoded.

    `diffusers` equals `prompt_clean` of diffusers/pipelines/wan/pipeline_wan.py: broken text
    repaired by ftfy, HTML entities resolved twice, runs of white space made one space. diffusers
    goes without the repair where ftfy is not installed, and then encodes another text.
    """
    if cleaning == "none":
        return caption
    import ftfy

    repaired = ftfy.fix_text(caption)
    return " ".join(html.unescape(html.unescape(repaired)).split())
