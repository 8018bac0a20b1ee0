import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffprep_assets.curate.components import merge, own_labels

NODES = 12
EDGES = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=20)


def reached(start: int, edges: list[tuple[int, int]]) -> set[int]:
    """Every node that edges lead to, by walking."""
    seen, left = {start}, [start]
    while left:
        node = left.pop()
        for pair in edges:
            if node in pair:
                new = set(pair) - seen
                seen |= new
                left.extend(new)
    return seen


@given(st.lists(EDGES, max_size=3))
def test_each_node_is_labelled_by_the_smallest_that_edges_lead_to(batches):
    labels = own_labels(NODES)
    for edges in batches:
        ends = np.array(edges, np.int64).reshape(-1, 2)
        merge(labels, ends[:, 0], ends[:, 1])
    every = [edge for edges in batches for edge in edges]
    assert labels.tolist() == [min(reached(node, every)) for node in range(NODES)]


def test_a_chain_through_all_nodes_in_a_random_order_is_one_component():
    nodes = np.random.default_rng(0).permutation(100_000)
    labels = own_labels(len(nodes))
    merge(labels, nodes[:-1], nodes[1:])
    assert not labels.any()
