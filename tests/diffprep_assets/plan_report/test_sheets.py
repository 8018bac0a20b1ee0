"""Contact sheets of a plan."""

from io import BytesIO

from PIL import Image

from diffprep_assets.plan_report.gather import gathered
from diffprep_assets.plan_report.loading import Loading
from diffprep_assets.plan_report.sheets import ALL_BYTES, sheets
from diffprep_assets.run_command import RunRequest, run_dataset
from diffprep_resources.progress.silent import SilentProgress


def test_each_bucket_has_a_sheet_and_pictures_that_went_are_passed_over(project):
    project.write_pictures(range(10))
    path = project.write_recipe(image={"variable_size": True, "max_size": 96, "image_size": None})
    request = RunRequest(project.project, path, {}, {}, plan_only=True)
    assert run_dataset(request, SilentProgress(), say=lambda _: None).ok
    dataset = project.dataset()
    found = gathered(dataset, Loading(4, 1, 1), counted=lambda _: None)
    assert len(found.chosen) > 2
    made = list(sheets(dataset, found.chosen))
    assert [sheet.bucket for sheet in made] == list(found.chosen)
    assert sum(sheet.shown for sheet in made) == 10
    assert sum(len(sheet.jpeg) for sheet in made) <= ALL_BYTES
    assert all(Image.open(BytesIO(sheet.jpeg)).format == "JPEG" for sheet in made)
    (project.pictures / "images" / "p000.jpg").unlink()
    again = list(sheets(dataset, found.chosen))
    assert sum(sheet.shown for sheet in again) == 9
