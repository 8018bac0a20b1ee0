"""Items chosen by hash."""

import numpy as np

from diffprep_assets.plan_report.seeded_choice import SeededChoice

HASHES = np.random.default_rng(0).integers(0, 2**64, 5000, dtype=np.uint64)


def chosen(sizes: list[int], size: int = 40) -> SeededChoice[int]:
    choice: SeededChoice[int] = SeededChoice(size)
    start = 0
    for count in sizes:
        some = HASHES[start : start + count]
        choice.offer(some, lambda number, start=start: start + number)
        start += count
    return choice


def test_those_with_the_smallest_hashes_are_chosen_however_they_come():
    expected = sorted(np.argsort(HASHES)[:40].tolist())
    for sizes in ([5000], [1] * 100 + [4900], [2500, 0, 2500]):
        choice = chosen(sizes)
        assert choice.items == expected
        assert choice.seen == 5000


def test_of_few_items_all_are_chosen():
    assert chosen([7]).items == list(range(7))


def test_an_item_is_made_only_where_it_may_stay():
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        return number

    choice: SeededChoice[int] = SeededChoice(3)
    choice.offer(np.arange(5, 8, dtype=np.uint64), make)
    choice.offer(np.arange(8, 1000, dtype=np.uint64), make)
    assert made == [0, 1, 2]
