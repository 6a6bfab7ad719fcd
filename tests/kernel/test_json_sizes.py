"""How many values a JSON text has, compared with the values that are built."""

import json
import time

import pytest
from hilum import has_more_values
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none() | st.integers() | st.text() | st.sampled_from(['\\"', "[,]{}", "\\"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def count_values(value):
    """Return the number of values that take memory of their own."""
    if isinstance(value, list):
        return 1 + sum(map(count_values, value))
    if isinstance(value, dict):
        return 1 + sum(1 + count_values(each) for each in value.values())
    return 1


@given(VALUES, st.booleans())
def test_a_text_that_passes_has_few_values(value, is_ascii):
    text = json.dumps(value, ensure_ascii=is_ascii).encode(errors="replace")
    count = count_values(value)
    # Strings and the values after them count twice at most, and numbers with their comma.
    assert has_more_values(text, (count - 1) // 2 - 1) or count < 4
    assert not has_more_values(text, 3 * count)


@given(st.binary(), st.integers(0, 20))
def test_any_bytes_are_counted(text, limit):
    """A higher limit is never exceeded by a text that does not exceed a lower one."""
    exceeded = [has_more_values(text, each) for each in (limit, limit + 1, 2 * len(text) + 2)]
    assert exceeded == sorted(exceeded, reverse=True)
    assert not exceeded[-1]


@pytest.mark.parametrize(
    "text",
    [
        b'"' + b'\\"' * 2_000_000,
        b'"' * 4_000_001,
        b'"\\' * 2_000_000,
        b'["' + b"[,{" * 1_000_000 + b'"',
    ],
)
def test_bad_input_takes_no_longer(text):
    began = time.perf_counter()
    has_more_values(text, 100_000)
    assert time.perf_counter() - began < 5.0
