import logging
import threading
import warnings

import pytest

from diffprep_resources.pictures.quiet import quiet_pillow


def warn_as(module: str) -> None:
    warnings.warn_explicit("odd", UserWarning, f"{module}.py", 1, module=module)


def test_pillows_warnings_vanish_and_others_pass():
    with warnings.catch_warnings(), quiet_pillow():
        warn_as("PIL.TiffImagePlugin")
        with pytest.warns(UserWarning, match="odd"):
            warn_as("numpy.core")


def test_the_filters_are_as_before_when_the_last_reader_leaves():
    before = list(warnings.filters)
    with quiet_pillow():
        with quiet_pillow():
            pass
        warn_as("PIL.Image")
    assert list(warnings.filters) == before


def test_pillows_log_lines_vanish_only_while_reading(caplog):
    with quiet_pillow():
        logging.getLogger("PIL.TiffImagePlugin").error("hidden")
    logging.getLogger("PIL.TiffImagePlugin").error("shown")
    assert caplog.messages == ["shown"]


def test_one_thread_leaving_does_not_wake_the_warnings_of_another():
    entered, left = threading.Event(), threading.Event()
    seen: list[str] = []

    def stay() -> None:
        with quiet_pillow():
            entered.set()
            left.wait(5)
            try:
                warn_as("PIL.Image")
            except UserWarning as warning:
                seen.append(str(warning))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thread = threading.Thread(target=stay)
        thread.start()
        entered.wait(5)
        with quiet_pillow():
            pass
        left.set()
        thread.join()
    assert seen == []
