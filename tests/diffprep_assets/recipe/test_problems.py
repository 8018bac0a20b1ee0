from diffprep_assets.recipe.problems import (
    COMMAND_LINE,
    Problem,
    dotted,
    nearest,
    report,
    shown,
)


def test_a_report_is_in_the_files_order_with_the_command_line_last():
    lines = {(): 1, ("b",): 7, ("a",): 3, ("c",): COMMAND_LINE, ("a", "x"): 4}
    problems = [
        Problem(("c",), "is late"),
        Problem(("b",), "is b", (("a", "x"), ("c",))),
        Problem(("a", "missing"), "is required"),
        Problem((), "is all wrong"),
        Problem(("b",), "is b", (("a", "x"), ("c",))),
    ]
    assert report("f.yaml", problems, lines=lines).splitlines() == [
        "f.yaml, line 1: is all wrong",
        "f.yaml, line 3: a.missing is required",
        "f.yaml, lines 4 and 7 and command line: b is b",
        "f.yaml, command line: c is late",
    ]


def test_a_path_of_keys_is_dotted():
    assert dotted(("image", "buckets", "tiers", 0)) == "image.buckets.tiers[0]"


def test_values_are_shown_short_on_one_line_and_without_tokens():
    assert shown("a\nb") == '"a\\nb"'
    assert shown({"a": [1, None, "hf_abcdef123"]}) == '{a: [1, null, "hf_***"]}'
    assert len(shown("x" * 1000)) == 80


def test_the_nearest_word_forgives_case_and_hyphens():
    known = ["image_size", "max_size", "center_crop"]
    assert nearest("Image-Size", known) == "image_size"
    assert nearest("centre_crop", known) == "center_crop"
    assert nearest("unrelated", known) is None
