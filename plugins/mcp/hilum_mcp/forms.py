"""Forms that servers have the user fill in: flat objects of texts, numbers, choices.

One question a field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

DECLINE = "Decline"
SKIP = "Leave it empty"
YES = "Yes"
NO = "No"
MOST_FIELDS = 20
MOST_CHOICES = 8
LONGEST = 300
_SECRET = re.compile(
    r"pass(word|phrase|code)|secret|credential|(private|api|access).?key|(?<![a-z])(token|pin|cvv|cvc)(?![a-z])",
    re.I,
)
_BOUNDS = {
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
}


class Field(msgspec.Struct, frozen=True):
    """A field of a form.

    Args:
        name: Its name.
        kind: ``string``, ``number``, ``integer`` or ``boolean``.
        question: What the user is asked.
        choices: What it may be: what is shown, and the value.
        multiple: Whether it may be several of them.
        required: Whether it must have a value.
        default: What the server proposes, as it is shown; empty for nothing.
        least: The least number, length, or count of choices.
        most: The largest.
    """

    name: str
    kind: str
    question: str
    choices: dict[str, str] = {}
    multiple: bool = False
    required: bool = False
    default: str = ""
    least: float = -math.inf
    most: float = math.inf

    @property
    def options(self) -> tuple[str, ...]:
        """What the user may choose; what is left to be typed is not among them.

        The first is what Enter takes: what the server proposes, else nothing, else no. Enter agrees
        to nothing by itself.
        """
        own = (NO, YES) if self.kind == "boolean" else tuple(self.choices)
        own = (
            (self.default, *(each for each in own if each != self.default)) if self.default else own
        )
        own = own[:MOST_CHOICES]
        skip = () if self.required else (SKIP,)
        if self.default:
            return (*own, *skip, DECLINE)
        return (*skip, *own, DECLINE)

    def value(self, given: Sequence[str]) -> Any:
        """Return the value that an answer stands for, ``None`` for none.

        Raises:
            ValueError: It can be none; says what it may be.
        """
        if SKIP in given and not self.required:
            return None
        value = self._read(given)
        size = value if isinstance(value, int | float) else len(value)
        if not self.least <= size <= self.most:
            what = (
                ""
                if isinstance(value, int | float)
                else " letters"
                if isinstance(value, str)
                else " of them"
            )
            raise ValueError(f"It must be {_range(self.least, self.most)}{what}")
        return value

    def _read(self, given: Sequence[str]) -> Any:
        if self.choices:
            wrong = [each for each in given if each not in self.choices]
            if wrong:
                raise ValueError(f"{wrong[0]!r} is none of the choices")
            values = [self.choices[each] for each in given]
            return values if self.multiple else values[0]
        text = given[0]
        if self.kind == "boolean":
            if text not in (YES, NO):
                raise ValueError("Answer Yes or No")
            return text == YES
        try:
            value = {"integer": int, "number": float}.get(self.kind, str)(text)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError
            return value
        except ValueError:
            raise ValueError(f"{text[:40]!r} is no {self.kind}") from None


def _range(least: float, most: float) -> str:
    if most == math.inf:
        return f"{least:g} or more"
    if least == -math.inf:
        return f"{most:g} or less"
    return f"{least:g} to {most:g}"


def secret(text: str) -> bool:
    """Return whether a form seems to ask for something that belongs into no form."""
    return _SECRET.search(text) is not None


def fields(schema: Mapping[str, Any]) -> list[Field]:
    """Read the schema of a form.

    Raises:
        ValueError: It is none that can be asked for, question by question.
    """
    wanted = schema.get("properties")
    if not isinstance(wanted, Mapping) or len(wanted) > MOST_FIELDS:
        raise ValueError(f"It must have properties, {MOST_FIELDS} at most.")
    required = schema.get("required") or ()
    return [_field(name, about, name in required) for name, about in wanted.items()]


def _field(name: str, about: Any, required: bool) -> Field:
    if not isinstance(about, Mapping):
        raise ValueError(f"The field {name} is no object.")
    said = (
        ": ".join(str(about[key])[:LONGEST] for key in ("title", "description") if about.get(key))
        or name[:LONGEST]
    )
    kind = about.get("type", "string")
    multiple = False
    default = about.get("default")
    least, most = (about.get(key) for key in _BOUNDS.get(str(kind), ("", "")))
    if kind == "array":
        items = about.get("items")
        about = items if isinstance(items, Mapping) else {}
        kind = "string"
        multiple = True
    if kind not in ("string", "number", "integer", "boolean"):
        raise ValueError(f"The field {name} is of type {kind}.")
    choices: dict[str, str] = {}
    for each in about.get("oneOf") or about.get("anyOf") or ():
        if isinstance(each, Mapping) and "const" in each:
            choices[str(each.get("title") or each["const"])[:LONGEST]] = str(each["const"])
    if not choices:
        shown = about.get("enumNames") or about.get("enum") or ()
        choices = {
            str(s)[:LONGEST]: str(v) for s, v in zip(shown, about.get("enum") or (), strict=False)
        }
    if multiple and not choices:
        raise ValueError(f"The field {name} is a list without choices.")
    more = f" ({kind})" if kind in ("number", "integer") else ""
    least = least if isinstance(least, int | float) else -math.inf
    most = most if isinstance(most, int | float) else math.inf
    proposed = _default(default, kind, choices)
    return Field(name, kind, f"{said}{more}", choices, multiple, required, proposed, least, most)


def _default(value: Any, kind: str, choices: Mapping[str, str]) -> str:
    """Return what a server proposes as the user sees it.

    Empty where it is none of the field's values.
    """
    if choices:
        return next((shown for shown, each in choices.items() if each == value), "")
    if kind == "boolean":
        if isinstance(value, bool):
            return {True: YES, False: NO}.get(value, "")
        return ""
    fits = {"string": str, "number": int | float, "integer": int}[kind]
    text = str(value)
    plain = (
        isinstance(value, fits)
        and not isinstance(value, bool)
        and text.strip()
        and text not in (SKIP, DECLINE)
    )
    return text if plain and len(text) <= LONGEST else ""
