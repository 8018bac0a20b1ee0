from diffprep_assets.validate.report import Check, Failure, ValidationReport, report_lines


def test_a_report_is_ok_exactly_when_nothing_failed() -> None:
    good = Check("a", "fine")
    bad = Check("b", "1 wrong", (Failure("broken", "000000.tar", "0000000001"),))
    assert ValidationReport((good,)).ok
    report = ValidationReport((good, bad), {"samples": 12345, "splits": {"train": 1}, "none": []})
    assert not report.ok
    assert report_lines(report) == [
        "ok   a: fine",
        "FAIL b: 1 wrong",
        "       000000.tar/0000000001: broken",
        "     samples: 12,345",
        "     splits: train 1",
        "     none: none",
    ]


def test_many_failures_are_counted_and_the_first_shown() -> None:
    failures = tuple(Failure(f"f{n}") for n in range(13))
    lines = report_lines(ValidationReport((Check("a", "m", failures),)))
    assert lines[-1] == "       and 3 more"
    assert len(lines) == 12
