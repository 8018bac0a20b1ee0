from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from diffprep_resources.hub import polite as polite_module
from diffprep_resources.hub.polite import (
    LONGEST_WAIT_S,
    TRIES,
    Patience,
    TransferBrokenError,
    polite,
    seconds_to_wait,
)


def answered(status: int, **headers: str) -> HfHubHTTPError:
    kind = RepositoryNotFoundError if status == 404 else HfHubHTTPError
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = httpx2.Request("GET", "https://hub")
    return kind("no", response=httpx2.Response(status, headers=named, request=request))


def hidden(cause: Exception) -> Exception:
    """As huggingface_hub hides an answer behind its own `not found locally`."""
    error = LocalEntryNotFoundError("not found")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        *(answered(status) for status in (408, 429, 500, 502, 503, 504)),
        httpx2.ReadTimeout("slow"),
        httpx2.ReadError("reset"),
        httpx2.RemoteProtocolError("closed"),
        ConnectionResetError("reset"),
        TransferBrokenError("cut"),
        hidden(answered(503)),
        hidden(httpx2.ReadTimeout("slow")),
    ],
    ids=str,
)
def test_what_may_pass_is_tried_again_with_doubling_waits(error: Exception) -> None:
    waits = [seconds_to_wait(error, failures=number) for number in range(1, TRIES)]
    assert waits == [1, 2, 4, 8, 16]
    assert seconds_to_wait(error, failures=TRIES) is None


@pytest.mark.parametrize(
    "error",
    [
        *(answered(status) for status in (400, 401, 403, 404, 416, 501)),
        hidden(answered(404)),
        LocalEntryNotFoundError("not found"),
        OfflineModeIsEnabled("offline"),
        FileNotFoundError("no such file"),
        ValueError("ours"),
        OSError(28, "No space left on device"),
    ],
    ids=str,
)
def test_what_lasts_is_raised_at_once(error: Exception) -> None:
    assert seconds_to_wait(error, failures=1) is None
    with pytest.raises(type(error)):
        Patience("a call").wait(error)


def test_a_server_that_says_when_is_heard() -> None:
    assert seconds_to_wait(answered(429, Retry_After="7"), failures=1) == 7
    assert seconds_to_wait(answered(503, Retry_After="0"), failures=5) == 0
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    wait = seconds_to_wait(answered(429, Retry_After=then), failures=1)
    assert wait is not None
    assert 25 < wait <= 30
    assert seconds_to_wait(answered(429, RateLimit='"api";r=0;t=55'), failures=1) == 55
    past = "Wed, 21 Oct 2015 07:28:00 -0000"
    assert seconds_to_wait(answered(429, Retry_After=past), failures=1) == 0
    assert seconds_to_wait(answered(429, Retry_After="soon"), failures=2) == 2
    # Hours are not waited for in silence.
    assert seconds_to_wait(answered(429, Retry_After="86400"), failures=1) is None


def test_a_port_that_does_not_answer_is_tried_less_often() -> None:
    refused = httpx2.ConnectError("refused")
    assert [seconds_to_wait(refused, failures=number) for number in (1, 2, 3)] == [1, 2, None]


def test_waits_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polite_module, "TRIES", 20)
    assert seconds_to_wait(answered(500), failures=19) == LONGEST_WAIT_S


def test_a_call_is_repeated_until_it_is_answered() -> None:
    faults = [answered(429, Retry_After="0"), answered(503, Retry_After="0")]

    def call() -> str:
        if faults:
            raise faults.pop()
        return "the answer"

    assert polite(call, what="a call") == "the answer"


def test_progress_renews_patience() -> None:
    patience = Patience("a transfer")
    for _ in range(3 * TRIES):
        patience.wait(answered(503, Retry_After="0"))
        patience.got_on()
    for _ in range(TRIES - 1):
        patience.wait(answered(503, Retry_After="0"))
    with pytest.raises(HfHubHTTPError):
        patience.wait(answered(503, Retry_After="0"))
