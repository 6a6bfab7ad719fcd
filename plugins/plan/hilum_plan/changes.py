"""Applies the model's changes to a todo list: merges or replaces items, and checks each change.

A malformed call changes nothing. In a well-formed call, changes that are not allowed are left out
and all others are made, so a model that makes one mistake need not repeat the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from hilum import ToolError
from hilum.errors import E_BAD_ARGS
from msgspec import UNSET, Meta, UnsetType

from hilum_plan.items import INITIAL_STATES, Item, Status, join_words, refusal

# Limits that keep the list readable and the event small.
MAX_ITEMS = 100
MAX_ID = 64
MAX_CONTENT = 1_000
_Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID, description="Short and unique.")]
_Content = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_CONTENT, description="One line; required for a new item."),
]
# The schema does not list the states, which would cost tokens in each request; the error for an
# invalid state lists them.
_Status = Annotated[
    Status, Meta(description="pending by default.", extra_json_schema={"type": "string"})
]


# A misspelled field is an error that the model can correct, not a change that is silently lost.
class Todo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item, as written by the model."""

    id: _Id
    content: _Content | UnsetType = UNSET
    status: _Status | UnsetType = UNSET


class ChangedList(msgspec.Struct, frozen=True):
    """A todo list after a call.

    Attributes:
        items: The items.
        refused: One line for each item that was not changed, with the reason.
    """

    items: tuple[Item, ...]
    refused: tuple[str, ...] = ()


class Clock(msgspec.Struct, frozen=True):
    """The time of a change.

    Attributes:
        now: Unix time.
        blocked_timeout: Seconds after which a blocked item may be cancelled.
    """

    now: float
    blocked_timeout: float


def change_list(
    old: Sequence[Item],
    todos: Sequence[Todo],
    clock: Clock,
    *,
    merge: bool,
    stale: bool,
    compacted: bool = False,
) -> ChangedList:
    """Return a todo list with the model's changes applied.

    Args:
        old: The current list.
        todos: The changes.
        clock: The time of the change.
        merge: Whether items without changes are kept; otherwise, the list is replaced.
        stale: Whether the list was last changed in an earlier run. In that case, an id with
            different content is a new item, because models number each list from one.
        compacted: Whether the model no longer sees the finished items. In that case, a list that
            continues open items does not remove the finished ones, which the model cannot repeat.

    Raises:
        ToolError: The call is malformed: an id occurs twice, a string is empty, or there are too
            many items.
    """
    todos = [_clean(todo, place) for place, todo in enumerate(todos)]
    _check_unique(todos)
    known = {item.id: item for item in old}
    # Whether the list is merged or replaced, existing items keep their times and failures.
    result = dict(known) if merge else {}
    if compacted and not merge and _continues(known, todos, stale):
        result = {item.id: item for item in old if not item.open}
    refused: list[str] = []
    for todo in todos:
        item = known.get(todo.id)
        if item is not None and _is_same(item, todo, merge, stale):
            changed, reason = _change(item, todo, clock)
        else:
            changed, reason = _create(todo, clock)
        if reason:
            refused.append(f"{todo.id}: {reason}")
            # If a change is refused, the item is kept, even if the list is replaced.
            changed = item
        if changed is not None:
            result[todo.id] = changed
    # The number of items is checked after merging; otherwise, several small calls could create a
    # list of any length.
    if len(result) > MAX_ITEMS:
        raise _malformed(
            f"The list would have {len(result)} items",
            f"Keep to {MAX_ITEMS}: choose larger steps.",
        )
    return ChangedList(tuple(result.values()), tuple(refused))


def _continues(known: Mapping[str, Item], todos: Sequence[Todo], stale: bool) -> bool:
    """Return whether a list that replaces another one contains any of its open items."""
    for todo in todos:
        item = known.get(todo.id)
        if item is not None and item.open and _is_same(item, todo, merge=False, stale=stale):
            return True
    return False


def _check_unique(todos: Sequence[Todo]) -> None:
    seen: set[str] = set()
    for todo in todos:
        if todo.id in seen:
            raise _malformed(
                f"The id {todo.id!r} occurs twice",
                "Give each item its own id, and write each item once.",
            )
        seen.add(todo.id)


def _is_same(item: Item, todo: Todo, merge: bool, stale: bool) -> bool:
    """Return whether a change applies to an existing item, not to a new item with the same id."""
    if todo.content in (UNSET, item.content):
        return True
    # A list that replaces another may reuse the id of a finished item for a new step.
    return not stale and (merge or item.open)


def _create(todo: Todo, clock: Clock) -> tuple[Item | None, str]:
    """Return a new item, or the reason why it cannot be created."""
    status = "pending" if todo.status is UNSET else todo.status
    if todo.content is UNSET:
        return None, "there is no such item, and a new one needs content."
    if status not in INITIAL_STATES:
        return None, f"a new item cannot be {status}; it can be {join_words(INITIAL_STATES)}."
    return Item(todo.id, todo.content, status, made=clock.now, since=clock.now), ""


def _change(item: Item, todo: Todo, clock: Clock) -> tuple[Item | None, str]:
    """Return a changed item, or the reason why it cannot change."""
    if todo.status is not UNSET:
        reason = refusal(item, todo.status, clock.now, clock.blocked_timeout)
        if reason:
            return None, reason
        item = item.with_status(todo.status, clock.now)
    if todo.content is not UNSET:
        item = msgspec.structs.replace(item, content=todo.content)
    return item, ""


def _clean(todo: Todo, place: int) -> Todo:
    texts = {"id": to_one_line(todo.id)}
    if todo.content is not UNSET:
        texts["content"] = to_one_line(todo.content)
    for name, text in texts.items():
        if not text:
            raise _malformed(f"The {name} of todos[{place}] is empty", "Write a text.")
    return msgspec.structs.replace(todo, **texts)


def to_one_line(text: str) -> str:
    """Return a string as one line of printable characters, because terminals interpret others."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())


def _malformed(what: str, hint: str) -> ToolError:
    return ToolError(f"{what}; nothing was changed.", code=E_BAD_ARGS, hint=hint)
