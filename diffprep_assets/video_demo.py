"""`diffprep demo --video`: drawn clips through tiny Wan encoders, for both workloads."""

from diffprep_assets.console import out
from diffprep_assets.project import Project
from diffprep_assets.run_and_show import run_and_show
from diffprep_resources.encoders.base import Workload

# Recipes of the project's template, by workload.
RECIPES: dict[Workload, str] = {"t2v": "demo-video", "i2v": "demo-video-i2v"}


def run_video_demo(project: Project) -> None:
    """Draw clips, build tiny encoders, and run the two demo recipes on them."""
    from diffprep_resources.demo.build import build_video_demo

    made = build_video_demo(project.folder / "data" / "demo-video")
    out.print(f"clips: {made.clips}", soft_wrap=True)
    for workload, name in RECIPES.items():
        encoders = made.encoders[workload]
        out.print(f"\n{workload}: recipe {name}, encoders {encoders}", soft_wrap=True)
        run_and_show(project, name, {}, execution={}, as_json=False)
    out.print(
        "\nWhat to try next:\n"
        "  diffprep plan demo-video              what was left out, and why\n"
        "  diffprep validate data/datasets/demo-video --full\n"
        "  diffprep preview data/datasets/demo-video --html   frames out of the latents",
        soft_wrap=True,
        highlight=False,
    )
