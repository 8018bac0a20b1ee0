import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffprep_assets.curate.keepers import stands_for
from diffprep_assets.curate.near_hashes import near_components

HASHES = st.lists(
    st.sets(st.integers(0, 9), max_size=5).map(lambda bits: sum(1 << bit for bit in bits)),
    unique=True,
    max_size=30,
)


@given(HASHES, st.integers(1, 4), st.randoms(use_true_random=False))
def test_the_first_in_line_stays_and_what_goes_is_near_the_first_that_stays(values, most, random):
    hashes = np.array(values, np.uint64)
    rank = np.array(random.sample(range(len(values)), len(values)), np.int64)
    fixed = np.array([random.random() < 0.2 for _ in values], bool)
    found = stands_for(
        hashes,
        components=near_components(hashes, max_distance=most),
        rank=rank,
        fixed=fixed,
        max_distance=most,
    ).tolist()
    staying: list[int] = []
    for place in np.argsort(rank).tolist():
        near = [one for one in staying if (values[one] ^ values[place]).bit_count() <= most]
        goes = bool(near) and not fixed[place]
        assert found[place] == (near[0] if goes else place)
        if not goes:
            staying.append(place)
