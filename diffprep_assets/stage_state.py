"""Fresh, stale or missing: the state of a stage's partitions, and the reasons in words."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

State = Literal["fresh", "stale", "missing"]


@dataclass(slots=True)
class StageForecast:
    """The state of each partition of a stage; a whole stage has one, named after itself.

    `why` counts partitions by reason. `to_encode` counts samples that a run would work on.
    """

    states: dict[str, State] = field(default_factory=dict)
    why: Counter[str] = field(default_factory=Counter)
    to_encode: int = 0

    def add(self, key: str, state: State, reasons: Iterable[str] = ()) -> None:
        """One partition's state; its reasons count when it is not fresh."""
        self.states[key] = state
        if state != "fresh":
            # Counter.update takes what a mapping holds for counts.
            self.why.update(list(reasons))

    def counts(self) -> Counter[str]:
        return Counter(self.states.values())

    @property
    def is_fresh(self) -> bool:
        return bool(self.states) and set(self.states.values()) == {"fresh"}


def state_of(found: str | None, wanted: str | None) -> State:
    """How a fingerprint on disk compares with the one that a run would write."""
    if found is None:
        return "missing"
    return "fresh" if found == wanted else "stale"
