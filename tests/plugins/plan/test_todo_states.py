"""Todo items: every change of state, and changes of a list by the model."""

import itertools
from typing import get_args

import msgspec
import pytest
from hilum import ToolError
from hilum_plan.changes import Clock, Todo, change_list, to_one_line
from hilum_plan.items import Item, Status, allowed_states, progress, refusal
from hypothesis import given
from hypothesis import strategies as st

STATES = get_args(Status)
ALLOWED = {
    ("pending", "in_progress"), ("pending", "skipped"), ("pending", "cancelled"),
    ("in_progress", "completed"), ("in_progress", "failed"), ("in_progress", "blocked"),
    ("in_progress", "pending"), ("in_progress", "cancelled"),
    ("failed", "in_progress"), ("blocked", "in_progress"),
}  # fmt: skip


def put(old, *todos, merge=True, stale=False, now=1000.0, blocked_timeout=300.0):
    made = [msgspec.convert(todo, Todo) for todo in todos]
    return change_list(old, made, Clock(now, blocked_timeout), merge=merge, stale=stale)


def test_every_pair_of_states_is_allowed_or_refused():
    """All 49 pairs: a refused change has no effect and names the allowed ones."""
    for before, after in itertools.product(STATES, STATES):
        check_change_of_state(before, after)


def check_change_of_state(before, after):
    item = Item("a", "do it", before, failures=before == "failed", made=1.0, since=900.0)
    written = put([item], {"id": "a", "status": after})
    if before == after:
        assert written.items == (item,)
        assert not written.refused
    elif (before, after) in ALLOWED:
        assert (written.items[0].status, written.items[0].since, written.refused) == (
            after,
            1000.0,
            (),
        )
    else:
        assert written.items == (item,)
        (why,) = written.refused
        assert why.startswith(f"a: it cannot go from {before} to {after}")
        can = [to for have, to in ALLOWED if have == before]
        assert all(name in why for name in can)
        assert ("is final" in why) == (not can)


@pytest.mark.parametrize(("failures", "can"), [(1, False), (2, False), (3, True), (4, True)])
def test_a_failed_item_is_cancelled_after_three_failures(failures, can):
    item = Item("a", "x", "failed", failures)
    assert (refusal(item, "cancelled", 0.0, 300.0) == "") == can
    assert refusal(item, "in_progress", 0.0, 300.0) == ""
    assert can or f"failed {['once', 'twice'][failures - 1]}" in refusal(
        item, "cancelled", 0.0, 300.0
    )


def test_failures_are_counted_over_attempts():
    items = put([], {"id": "a", "content": "x"}).items
    for count in (1, 2, 3):
        items = put(items, {"id": "a", "status": "in_progress"}).items
        items = put(items, {"id": "a", "status": "failed"}).items
        assert items[0].failures == count
        assert bool(put(items, {"id": "a", "status": "cancelled"}).refused) == (count < 3)


@pytest.mark.parametrize(
    ("waited", "can"), [(0, False), (299, False), (300, True), (9e9, True), (-100, False)]
)
def test_a_blocked_item_is_cancelled_after_a_time(waited, can):
    item = Item("a", "x", "blocked", since=1000.0)
    assert ("cancelled" in allowed_states(item, 1000.0 + waited, 300.0)) == can
    assert can or "blocked for 300 seconds" in refusal(item, "cancelled", 1000.0 + waited, 300.0)


def test_time_in_progress_adds_up():
    items = put([], {"id": "a", "content": "x", "status": "in_progress"}, now=10.0).items
    for now, status in ((15.0, "pending"), (100.0, "in_progress"), (107.0, "completed")):
        items = put(items, {"id": "a", "status": status}, now=now).items
    assert items[0].spent == 12.0
    assert put([items[0]], {"id": "a", "status": "completed"}, now=999.0).items == items
    backwards = Item("a", "x", "in_progress", since=100.0).with_status("completed", 50.0)
    assert backwards.spent == 0.0


@pytest.mark.parametrize("status", STATES)
def test_a_new_item_is_pending_or_one_step_from_it(status):
    written = put([], {"id": "a", "content": "x", "status": status})
    if status in ("pending", "in_progress", "skipped", "cancelled"):
        assert [item.status for item in written.items] == [status]
    else:
        assert written.items == ()
        assert "a new item cannot be" in written.refused[0]


def test_one_unlawful_line_does_not_cost_the_others():
    old = put([], {"id": "a", "content": "one"}, {"id": "b", "content": "two"}).items
    written = put(
        old, {"id": "a", "status": "completed"}, {"id": "b", "status": "in_progress"}, {"id": "z"}
    )
    assert [item.status for item in written.items] == ["pending", "in_progress"]
    assert [why.partition(":")[0] for why in written.refused] == ["a", "z"]


def test_merging_keeps_other_items_and_their_order():
    old = put([], *({"id": name, "content": name} for name in "abc")).items
    written = put(
        old, {"id": "d", "content": "D"}, {"id": "b", "content": "B", "status": "in_progress"}
    )
    assert [(item.id, item.content, item.status) for item in written.items] == [
        ("a", "a", "pending"), ("b", "B", "in_progress"), ("c", "c", "pending"), ("d", "D", "pending"),
    ]  # fmt: skip


def test_replacing_keeps_named_items_only():
    old = put(
        [],
        {"id": "a", "content": "a"},
        {"id": "b", "content": "b", "status": "in_progress"},
        now=5.0,
    ).items
    written = put(
        old,
        {"id": "c", "content": "c"},
        {"id": "b", "content": "b!", "status": "completed"},
        merge=False,
    )
    assert [(item.id, item.content, item.made, item.status) for item in written.items] == [
        ("c", "c", 1000.0, "pending"), ("b", "b!", 5.0, "completed"),
    ]  # fmt: skip
    assert put(old, merge=False).items == ()


def test_an_unlawful_change_in_a_replaced_list_keeps_the_item():
    old = put([], {"id": "a", "content": "a"}).items
    written = put(old, {"id": "a", "content": "a", "status": "completed"}, merge=False)
    assert written.items == old
    assert written.refused


def test_a_list_of_another_task_may_use_the_same_ids():
    """A finished item 1 does not prevent another item 1.

    Models count the items of each list from one.
    """
    old = (
        Item("1", "old", "completed", made=1.0),
        Item("2", "other", "failed", failures=1, made=1.0),
    )
    new = {"id": "1", "content": "new"}, {"id": "2", "content": "newer", "status": "in_progress"}
    for merge, stale in ((False, True), (True, True)):
        written = put(old, *new, merge=merge, stale=stale)
        assert not written.refused
        assert [(item.content, item.made, item.failures) for item in written.items] == [
            ("new", 1000.0, 0), ("newer", 1000.0, 0),
        ]  # fmt: skip
    assert (
        put(old, new[0], merge=False).items[0].made == 1000.0
    )  # a final item stays final in this run
    assert (
        "final"
        in put(old, {"id": "1", "content": "old", "status": "pending"}, merge=False).refused[0]
    )


@pytest.mark.parametrize(
    ("todos", "said"),
    [
        ([{"id": "a", "content": "x"}, {"id": "a", "content": "y"}], "The id 'a' occurs twice"),
        (
            [{"id": "a", "content": "x"}, {"id": " a\x00", "content": "y"}],
            "The id 'a' occurs twice",
        ),
        ([{"id": "\x1b", "content": "x"}], "The id of todos[0] is empty"),
        (
            [{"id": "a", "content": "x"}, {"id": "b", "content": " \n\u200b"}],
            "The content of todos[1] is empty",
        ),
    ],
)
def test_a_call_that_is_wrong_as_a_whole_changes_nothing(todos, said):
    with pytest.raises(ToolError, match="nothing was changed") as caught:
        put([], *todos)
    assert caught.value.code == "E_BAD_ARGS"
    assert said in str(caught.value)


def test_a_list_has_at_most_a_hundred_items():
    old = put([], *({"id": str(n), "content": "x"} for n in range(100))).items
    assert len(old) == 100
    with pytest.raises(ToolError, match="101 items"):
        put(old, {"id": "more", "content": "x"})
    assert put(old, {"id": "7", "status": "in_progress"}).items[7].status == "in_progress"


def test_contents_are_one_line_of_visible_characters():
    assert to_one_line("  a\tb\n\x1b[31mred\u202e c\x00\ud800 ") == "a b [31mred c"
    assert to_one_line("写 测试 é 🙂") == "写 测试 é 🙂"


STATUS = st.sampled_from(STATES)
TODO = st.fixed_dictionaries(
    {"id": st.sampled_from("abcd")},
    optional={"content": st.sampled_from(["one", "two", "three"]), "status": STATUS},
)
CALL = st.tuples(
    st.lists(TODO, max_size=4, unique_by=lambda todo: todo["id"]), st.booleans(), st.booleans()
)


@given(st.lists(CALL, max_size=12))
def test_every_sequence_of_calls_makes_only_allowed_changes(calls):
    """Ids stay unique, and every change of state is allowed.

    A refused item stays as it was.
    """
    items: tuple[Item, ...] = ()
    for now, (todos, merge, stale) in enumerate(calls):
        written = put(items, *todos, merge=merge, stale=stale, now=float(now), blocked_timeout=3.0)
        before = {item.id: item for item in items}
        after = {item.id: item for item in written.items}
        assert len(after) == len(written.items)
        refused = {why.partition(":")[0] for why in written.refused}
        asked = {todo["id"] for todo in todos}
        for name, item in after.items():
            if name in refused or name not in asked:
                assert item == before[name]
            elif name in before and before[name].made == item.made:
                assert not refusal(before[name], item.status, float(now), 3.0)
            else:
                assert item.status in ("pending", "in_progress", "skipped", "cancelled")
        if merge:
            assert before.keys() <= after.keys()
        else:
            assert after.keys() <= asked
        counts = progress(written.items)
        assert counts["total"] == counts["completed"] + counts["in_progress"] + counts["pending"]
        items = written.items


@given(st.lists(CALL, max_size=6))
def test_writing_the_same_again_changes_nothing(calls):
    """A call that is repeated after a crash changes nothing more."""
    items: tuple[Item, ...] = ()
    for now, (todos, merge, _) in enumerate(calls):
        first = put(items, *todos, merge=merge, now=float(now))
        second = put(first.items, *todos, merge=merge, now=float(now) + 0.5)
        done = {item.id for item in first.items} - {why.partition(":")[0] for why in first.refused}
        assert {i.id: i for i in second.items if i.id in done and i.open} == {
            i.id: i for i in first.items if i.id in done and i.open
        }
        items = first.items


def test_progress_does_not_count_dropped_items():
    items = [Item(str(n), "x", status) for n, status in enumerate(STATES)]
    assert progress(items) == {"total": 5, "completed": 1, "in_progress": 1, "pending": 3}
    assert progress([]) == {"total": 0, "completed": 0, "in_progress": 0, "pending": 0}
