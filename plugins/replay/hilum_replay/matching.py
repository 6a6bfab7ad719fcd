"""Does a request still say what was recorded?

And where does it differ, so that a person sees it at a glance.

Modes: ``strict`` compares texts as they are (paths and secrets apart) and the digests of layers and
tools. ``text``, the default, forgives what differs from run to run by the named rules below.
``shape`` compares only what was sent in which order: roles, call ids, tool names and result codes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import attrs
from hilum_guard import Redactor

from hilum_replay.cassette import Exchange, Sent
from hilum_replay.places import Places

Mode = Literal["strict", "text", "shape"]


@attrs.frozen
class Rule:
    """A kind of text that differs from run to run.

    Args:
        name: What it is, for readers.
        pattern: Regular expression that finds it.
        put: What stands for it in the comparison; may use the groups of the pattern.
    """

    name: str
    pattern: re.Pattern[str]
    put: str


def rule(name: str, pattern: str, put: str) -> Rule:
    """Create a rule from the text of a regular expression."""
    return Rule(name, re.compile(pattern, re.MULTILINE), put)


RULES: tuple[Rule, ...] = (
    rule(
        "dates and times",
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b",
        "<time>",
    ),
    rule("clock times", r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    rule(
        "durations",
        r"\b\d+(?:[.,]\d+)? ?(?:ns|us|µs|ms|s|sec|secs|second|seconds|min|minutes)\b",
        "<duration>",
    ),
    rule(
        "temporary paths",
        r"(?:/private)?(?:/tmp|/var/tmp|/var/folders)/[^\s\"'`:,;)\]}]+",
        "<temp>",
    ),
    rule("addresses", r"\b0x[0-9a-fA-F]{4,}\b", "<address>"),
    rule("process ids", r"\b([Pp][Ii][Dd]s?[ =:]{1,2})\d+\b", r"\1<pid>"),
    rule("ports", r"\b(localhost|127\.0\.0\.1|\[::1\]):\d{4,5}\b", r"\1:<port>"),
    rule(
        "random ids", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"
    ),
    # pytest fills its summary lines with = to the width that the timing leaves.
    rule("fill of pytest lines", r"^=+ (.*?) =+$", r"= \1 ="),
)


# The kernel's note in a result that was too large for the window.
_SHORTENED = re.compile(r"\[… [\d,]+ of [\d,]+ characters left out because [^\n]*…\]")


@attrs.frozen
class Asked:
    """What a request newly says, as far as its origin knows.

    Args:
        items: What came since the last answer.
        count: Messages of the whole request.
        whole: Whether there is no answer before the items.
        echo: Ids of the calls of the answer before the items.
        answers: Answers in the whole request, ``None`` where that would cost too much to find out.
        layers: Layers as ``name digest``, ``None`` where the origin cannot tell.
        tools: Tools as ``name digest``, or names alone from a wire; ``None`` where the origin
            cannot tell.
        wire: Whether it came over a vendor's format, which has no notes and may know other ids.
        key: What tells this conversation from others, where no agent is known.
        system: Gives the system prompt.
    """

    items: tuple[Sent, ...]
    count: int
    whole: bool
    echo: tuple[str, ...] = ()
    answers: int | None = None
    layers: Callable[[], tuple[str, ...]] | None = None
    tools: Callable[[], tuple[str, ...]] | None = None
    wire: bool = False
    key: str = ""
    system: Callable[[], str] = str


@attrs.frozen
class Matcher:
    """Compares requests with what was recorded.

    Args:
        places: Where the workspace is now.
        redactor: What to take out of a request before it is compared.
        mode: How strictly.
        rules: What differs from run to run, for the mode ``text``.
    """

    places: Places
    redactor: Redactor
    mode: Mode = "text"
    rules: Sequence[Rule] = RULES

    def differences(self, expected: Exchange, asked: Asked) -> list[str]:
        """Return where a request differs from the recorded one, in lines for a reader.

        Nothing if it does not.
        """
        if expected.aside:
            begins = expected.sent[0].text
            came = self.places.abstract(self.redactor(asked.system()))
            if came.startswith(begins):
                return []
            return [f"it should be asked beside the conversation: {_short(begins, '')}"]
        if self.mode == "strict" and (changed := _sealed_differences(expected, asked)):
            return changed
        wanted = [_as_note(item) for item in expected.sent if asked.whole or item.kind != "summary"]
        found = self._compare(wanted, asked)
        if (
            found
            and self.mode != "strict"
            and any(item.kind == "summary" for item in expected.sent)
        ):
            # The window may be larger now than it was, so that nothing is cut.
            without = [item for item in expected.sent if item.kind != "summary"]
            found = self._compare(without, asked) and found
        return found

    def _compare(self, expected: Sequence[Sent], asked: Asked) -> list[str]:
        came: Sequence[Sent] = asked.items
        if asked.wire:
            if any(item.kind == "image" and item.call for item in expected):
                # Some wires send the images of results apart, with words of the gateway's own.
                texts = [item.text for item in expected if item.kind not in ("image", "result")]
                came = [
                    item
                    for item in came
                    if item.kind != "user" or any(self.same(t, item.text) for t in texts)
                ]
            expected, came = _for_wire(expected, came)
        for wanted, item in zip(expected, came, strict=False):
            found = self._compare_item(wanted, item, asked.wire)
            if found:
                return found
        if len(expected) == len(came):
            return []
        lines = [f"expected {len(expected)} new items, {len(came)} came"]
        lines += [f"- {_title(item)}: {_first_line(item.text)}" for item in expected[len(came) :]]
        return lines + [
            f"+ {_title(item)}: {_first_line(item.text)}" for item in came[len(expected) :]
        ]

    def _compare_item(self, wanted: Sent, came: Sent, wire: bool) -> list[str]:
        named = not came.tool or not wanted.tool or wanted.tool == came.tool
        if wanted.kind != came.kind or wanted.call != came.call or not named:
            return ["something else was sent", f"- {_title(wanted)}", f"+ {_title(came)}"]
        if came.code is not None and wanted.code is not None and wanted.code != came.code:
            return [
                f"{_title(wanted)} has another code",
                f"- {wanted.code or 'success'}",
                f"+ {came.code or 'success'}",
            ]
        # A gateway may have to put words where a result has none.
        if self.mode == "shape" or (wire and not wanted.text) or self.same(wanted.text, came.text):
            return []
        return [f"{_title(wanted)} differs", *self._diff(wanted.text, came.text)]

    def same(self, recorded: str, came: str) -> bool:
        """Return whether a text, as it is, says what was recorded."""
        if self.places.concrete(recorded) == came:
            return True
        came = self.normal(came)
        if recorded == came or _redacted(recorded, came):
            return True
        if self.mode == "strict":
            return False
        recorded = self.lenient(recorded)
        came = self.lenient(came)
        return recorded == came or _redacted(recorded, came) or _shortened(recorded, came)

    def normal(self, text: str) -> str:
        """The text as a cassette would hold it: no secrets, placeholders for paths."""
        return self.places.abstract(self.redactor(text))

    def lenient(self, text: str) -> str:
        """The text without what differs from run to run."""
        for each in self.rules:
            text = each.pattern.sub(each.put, text)
        return text

    def _diff(self, recorded: str, came: str) -> list[str]:
        """The first lines that differ, with one line before them."""
        came = self.normal(came)
        old = recorded.split("\n")
        new = came.split("\n")
        ease = self.lenient if self.mode == "text" else str
        start = 0
        while start < min(len(old), len(new)) and (
            old[start] == new[start] or ease(old[start]) == ease(new[start])
        ):
            start += 1
        end = 0
        while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
            end += 1
        lines = [f"  {_short(old[start - 1], '')}"] if start else []
        for sign, side, other in (("-", old, new), ("+", new, old)):
            part = side[start : len(side) - end]
            near = other[start] if start < len(other) else ""
            lines += [
                f"{sign} {_short(line, near if n == 0 else '')}" for n, line in enumerate(part[:6])
            ]
            if len(part) > 6:
                lines.append(f"{sign} … {len(part) - 6} more lines")
        return [f"at line {start + 1}:", *lines]


def _as_note(item: Sent) -> Sent:
    """A summary reaches the model as a note."""
    if item.kind == "summary":
        return Sent("note", item.text)
    return item


def _sealed_differences(expected: Exchange, asked: Asked) -> list[str]:
    for what, wanted, ask in (
        ("layers", expected.layers, asked.layers),
        ("tools", expected.tools, asked.tools),
    ):
        if wanted is None or ask is None:
            continue
        came = ask()
        if asked.wire:
            wanted = tuple(name.split(" ")[0] for name in wanted)
        if wanted != came:
            gone = [n for n in wanted if n not in came]
            new = [n for n in came if n not in wanted]
            return [
                f"other {what} (name and digest)",
                *(f"- {n}" for n in gone),
                *(f"+ {n}" for n in new),
            ]
    return []


def _for_wire(expected: Sequence[Sent], came: Sequence[Sent]) -> tuple[list[Sent], list[Sent]]:
    """Both sides as a wire can show them: results, then all texts of the user as one, then
    images.
    """
    return _grouped(expected), _grouped(came)


def _grouped(items: Sequence[Sent]) -> list[Sent]:
    results = [item for item in items if item.kind == "result"]
    texts = [item.text for item in items if item.kind in ("user", "note", "summary") and item.text]
    images = [Sent("image") for item in items if item.kind == "image"]
    return [*results, *([Sent("user", "\n\n".join(texts))] if texts else []), *images]


def _shortened(recorded: str, came: str) -> bool:
    """Return whether they are the same where either was shortened to fit a window, which may be
    another one now.
    """
    one = [part.strip("\n") for part in _SHORTENED.split(recorded, maxsplit=1)]
    two = [part.strip("\n") for part in _SHORTENED.split(came, maxsplit=1)]
    if len(one) == len(two) == 1:
        return False
    begins = one[0].startswith(two[0]) or two[0].startswith(one[0])
    return begins and (one[-1].endswith(two[-1]) or two[-1].endswith(one[-1]))


def _redacted(recorded: str, came: str) -> bool:
    """Return whether they are the same where the cassette holds something else than a redacted
    secret.
    """
    if "[REDACTED:" not in recorded:
        return False
    pattern = r".+?".join(map(re.escape, re.split(r"\[REDACTED:\w*\]", recorded)))
    return re.fullmatch(pattern, came, re.DOTALL) is not None


def _title(item: Sent) -> str:
    if item.kind == "result":
        return f"result of call {item.call}" + (f" ({item.tool})" if item.tool else "")
    if item.kind == "image":
        return "image"
    return "text of the user" if item.kind == "user" else "note"


def _first_line(text: str) -> str:
    return _short(text.strip().split("\n")[0], "")


def _short(line: str, other: str, width: int = 160) -> str:
    """Cut a long line around the place where it leaves another."""
    if len(line) <= width:
        return line
    start = next(
        (i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b),
        min(len(line), len(other)),
    )
    start = max(0, min(start - 40, len(line) - width)) if other else 0
    return (
        ("…" if start else "")
        + line[start : start + width]
        + ("…" if start + width < len(line) else "")
    )
