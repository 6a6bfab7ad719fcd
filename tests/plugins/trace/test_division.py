"""Tokens are divided without a remainder."""

from hilum_trace.bill.division import divide
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.dictionaries(st.integers(), st.floats(-5, 1e6, allow_nan=False), max_size=50)


@given(st.integers(0, 10**9), SIZES)
def test_the_parts_add_up_and_follow_the_sizes(total, sizes):
    parts = divide(total, sizes)
    whole = sum(size for size in sizes.values() if size > 0)
    if not whole:
        assert parts == {}
        return
    assert sum(parts.values()) == total
    for key, tokens in parts.items():
        assert abs(tokens - total * sizes[key] / whole) < 1.001


def test_small_parts_get_their_share_by_the_largest_remainder():
    assert divide(10, {"a": 1, "b": 1, "c": 1}) == {"a": 4, "b": 3, "c": 3}
    assert divide(1, {"a": 1, "b": 2}) == {"b": 1}
