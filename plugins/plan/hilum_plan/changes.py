"""What the model writes becomes a new list: items merged or replaced, each change of state checked
by itself.

A call whose shape is wrong changes nothing. In one that is well formed, items whose change is
unlawful stay as they are and the others change: a model that is wrong in one line need not write
the other ones again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import msgspec
from hilum import ToolError
from hilum.errors import E_BAD_ARGS
from msgspec import UNSET, Meta, UnsetType

from hilum_plan.items import FIRST, Item, Status, listed, refusal

MOST_ITEMS = 100
LONGEST_ID = 64
LONGEST_CONTENT = 1_000


class Todo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item of the list."""

    id: Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, description="Short and unique.")]
    content: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=LONGEST_CONTENT,
                description="One line; for a new item.",
            ),
        ]
        | UnsetType
    ) = UNSET
    status: (
        Annotated[
            Status,
            Meta(
                description="pending by default.",
                extra_json_schema={"type": "string"},
            ),
        ]
        | UnsetType
    ) = UNSET


class Written(msgspec.Struct, frozen=True):
    """The list after a call.

    Attributes:
        items: The items.
        refused: What was not changed, and why: one line for each item.
    """

    items: tuple[Item, ...]
    refused: tuple[str, ...] = ()


def write(
    old: Sequence[Item],
    todos: Sequence[Todo],
    *,
    merge: bool,
    stale: bool,
    now: float,
    patience: float,
) -> Written:
    """Put what the model wrote into the list.

    Args:
        old: The list as it is.
        todos: What the model wrote.
        merge: Whether items that are not named stay; else the list is replaced.
        stale: Whether the list was last written in an earlier run. Ids are then taken for other
            items where the content differs: models number each list from one.
        now: Unix time.
        patience: Seconds after which a blocked item may be cancelled.

    Raises:
        ToolError: The call is wrong as a whole: an id stands twice, a text is empty, or there are
            too many items.
    """
    todos = [_cleaned(todo, place) for place, todo in enumerate(todos)]
    twice = [name for name, count in Counter(todo.id for todo in todos).items() if count > 1]
    if twice:
        raise _wrong(
            f"The id {twice[0]!r} stands twice",
            "Give each item an id of its own, and each item once.",
        )
    known = {item.id: item for item in old}
    result = dict(known) if merge else {}
    refused: list[str] = []
    for todo in todos:
        item = known.get(todo.id)
        if item is not None and not _same(item, todo, merge, stale):
            item = None
        changed, why = _made(todo, now) if item is None else _changed(item, todo, now, patience)
        if why:
            refused.append(f"{todo.id}: {why}")
        if changed is not None:
            result[todo.id] = changed
        elif todo.id in known:
            result[todo.id] = known[todo.id]
    if len(result) > MOST_ITEMS:
        raise _wrong(
            f"The list would have {len(result)} items", f"Keep to {MOST_ITEMS}: make larger steps."
        )
    return Written(tuple(result.values()), tuple(refused))


def _same(item: Item, todo: Todo, merge: bool, stale: bool) -> bool:
    if todo.content in (UNSET, item.content):
        return True
    return not stale and (merge or item.open)


def _made(todo: Todo, now: float) -> tuple[Item | None, str]:
    status = "pending" if todo.status is UNSET else todo.status
    if todo.content is UNSET:
        return None, "there is no such item, and a new one needs a content."
    if status not in FIRST:
        return None, f"a new item cannot be {status}; it can be {listed(FIRST)}."
    return Item(todo.id, todo.content, status, made=now, since=now), ""


def _changed(item: Item, todo: Todo, now: float, patience: float) -> tuple[Item | None, str]:
    if todo.status is not UNSET:
        why = refusal(item, todo.status, now, patience)
        if why:
            return None, why
        item = item.moved(todo.status, now)
    return item if todo.content is UNSET else msgspec.structs.replace(
        item, content=todo.content
    ), ""


def _cleaned(todo: Todo, place: int) -> Todo:
    texts = {"id": one_line(todo.id)}
    if todo.content is not UNSET:
        texts["content"] = one_line(todo.content)
    for name, text in texts.items():
        if not text:
            raise _wrong(f"The {name} of todos[{place}] is empty", "Write a text.")
    return msgspec.structs.replace(todo, **texts)


def one_line(text: str) -> str:
    """Create a text one line of visible characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _wrong(what: str, hint: str) -> ToolError:
    return ToolError(f"{what}; nothing was changed.", code=E_BAD_ARGS, hint=hint)
