"""Network calls tried again with patience: the one place that waits for the Hub and its like.

What passes: 408, 429, 5xx, timeouts, resets, and a name or port that does not answer (fewer tries).
Waits double from 1 s; a `Retry-After` or rate-limit header goes before that. Everything else, a
missing file or a refusal above all, is raised at once, and a passing failure that stays is raised
as itself: it is never taken for a missing file.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

T = TypeVar("T")
logger = logging.getLogger(__name__)

TRIES = 6
TRIES_WITHOUT_ANSWER = 3
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
LONGEST_RETRY_AFTER_S = 600.0
PASSING_STATUS = frozenset({408, 429, 500, 502, 503, 504})


class TransferBrokenError(ConnectionError):
    """A transfer that ended early, or whose bytes are not those announced; it may do again."""


@dataclass(slots=True)
class Patience:
    """How often a call failed since it last got on. One per call; not shared by threads."""

    what: str
    failures: int = 0

    def wait(self, error: Exception) -> None:
        """Sleep before another try; raises `error` when that is of no use or was tried enough."""
        self.failures += 1
        seconds = seconds_to_wait(error, failures=self.failures)
        if seconds is None:
            raise error
        logger.info("%s: %s; trying again in %.0f s", self.what, type(error).__name__, seconds)
        time.sleep(seconds)

    def got_on(self) -> None:
        """Some of the call's work is done: failures so far do not count."""
        self.failures = 0


def polite(call: Callable[[], T], *, what: str) -> T:
    """What `call` returns, tried again as long as its failures may pass."""
    patience = Patience(what)
    while True:
        try:
            return call()
        except Exception as error:
            patience.wait(error)


def seconds_to_wait(error: Exception, *, failures: int) -> float | None:
    """How long to wait after this many failures in a row; None: another try is of no use."""
    for cause in _chain(error):
        kind = _kind(cause)
        if kind == "other":
            continue
        tries = TRIES_WITHOUT_ANSWER if kind == "no answer" else TRIES
        if kind == "lasting" or failures >= tries:
            return None
        asked = _asked_wait_s(cause)
        if asked is not None:
            return asked if asked <= LONGEST_RETRY_AFTER_S else None
        return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (failures - 1))
    return None


def is_passing(error: Exception) -> bool:
    """Whether the failure is the network's or the server's, and may pass."""
    return seconds_to_wait(error, failures=0) is not None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what caused it: huggingface_hub hides an answer behind `not found locally`."""
    while error is not None:
        yield error
        error = error.__cause__


def _kind(error: BaseException) -> str:
    import httpx2
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return "passing" if status in PASSING_STATUS else "lasting"
    if isinstance(error, OfflineModeIsEnabled):
        return "lasting"
    if isinstance(error, LocalEntryNotFoundError):
        return "other"
    if isinstance(error, httpx2.ConnectError | ConnectionRefusedError):
        return "no answer"
    passing = (
        httpx2.TimeoutException,
        httpx2.NetworkError,
        httpx2.RemoteProtocolError,
        ConnectionError,
        TimeoutError,
    )
    return "passing" if isinstance(error, passing) else "other"


def _asked_wait_s(error: BaseException) -> float | None:
    """Seconds that the answer asks to wait for, if it does."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    text = headers.get("Retry-After")
    if text is not None:
        return _retry_after_s(text)
    from huggingface_hub.utils import parse_ratelimit_headers

    limits = parse_ratelimit_headers(headers)
    return float(limits.reset_in_seconds) if limits and limits.remaining == 0 else None


def _retry_after_s(text: str) -> float | None:
    """Seconds of a Retry-After header, which holds a number or a date."""
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(text)
    except ValueError:
        return None
    # "-0000" gives a date without a zone; HTTP's dates are all of UTC.
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())
