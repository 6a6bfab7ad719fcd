"""Compares a request with the recorded one, and describes where they differ.

Modes: ``strict`` compares texts exactly, except for paths and secrets, and also compares the
digests of layers and tools. ``text``, the default, ignores differences in text that varies between
sessions, as described by the rules. ``shape`` compares only what was sent in which order: roles,
call ids, tool names and result codes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import attrs
from hilum import Redactor

from hilum_replay.cassette import Exchange, Sent
from hilum_replay.placeholders import PathPlaceholders
from hilum_replay.rules import RULES, Rule, apply_rules
from hilum_replay.text_diff import diff_texts, first_line, shorten

Mode = Literal["strict", "text", "shape"]

# The kernel's note in a result that was too large for the window.
_SHORTENED = re.compile(r"\[… [\d,]+ of [\d,]+ characters left out because [^\n]*…\]")


def _no_system() -> str:
    return ""


@attrs.frozen
class RequestDelta:
    """The new part of a request, as far as its source reveals it.

    Args:
        items: The items since the last answer.
        count: Number of messages in the whole request.
        whole: Whether no answer precedes the items.
        previous_calls: Ids of the calls of the answer before the items.
        answers: Number of answers in the whole request, or ``None`` if counting would take too
            long.
        layers: Function that returns the layers as ``name digest``; ``None`` if the source does not
            show them.
        tools: Function that returns the tools as ``name digest``, or only names from a wire format;
            ``None`` if the source does not show them.
        wire: Whether the request came in a vendor's format, which has no notes and may have other
            ids.
        key: A key that identifies the conversation if the agent is not known.
        system: Function that returns the system prompt.
    """

    items: tuple[Sent, ...]
    count: int
    whole: bool
    previous_calls: tuple[str, ...] = ()
    answers: int | None = None
    layers: Callable[[], tuple[str, ...]] | None = None
    tools: Callable[[], tuple[str, ...]] | None = None
    wire: bool = False
    key: str = ""
    system: Callable[[], str] = _no_system


@attrs.frozen
class Matcher:
    """A matcher that compares requests with recorded ones.

    Args:
        placeholders: The paths of this machine.
        redactor: The redactor that removes secrets from a request before it is compared.
        mode: How strict the comparison is.
        rules: Rules for texts that vary between sessions, for the mode ``text``.
    """

    placeholders: PathPlaceholders
    redactor: Redactor
    mode: Mode = "text"
    rules: Sequence[Rule] = RULES

    def differences(self, expected: Exchange, delta: RequestDelta) -> list[str]:
        """Return how a request differs from the recorded one, as lines for a reader.

        The list is empty if the requests match.
        """
        if expected.aside:
            return self._compare_system(expected.sent[0].text, delta)
        if self.mode == "strict":
            found = _compare_frozen("layers", expected.layers, delta.layers, delta.wire)
            found = found or _compare_frozen("tools", expected.tools, delta.tools, delta.wire)
            if found:
                return found
        without_summary = [item for item in expected.sent if item.kind != "summary"]
        # If a request continues after an answer, the summary precedes that answer and is not a new
        # item.
        wanted = [_to_note(item) for item in expected.sent] if delta.whole else without_summary
        found = self._compare(wanted, delta)
        if found and self.mode != "strict" and expected.has_summary:
            # The window may now be larger than in the recording, in which case nothing is
            # compacted.
            return self._compare(without_summary, delta) and found
        return found

    def _compare_system(self, beginning: str, delta: RequestDelta) -> list[str]:
        if self.normalize(delta.system()).startswith(beginning):
            return []
        return [f"it should be a request outside the conversation: {shorten(beginning)}"]

    def _compare(self, expected: Sequence[Sent], delta: RequestDelta) -> list[str]:
        came: Sequence[Sent] = delta.items
        if delta.wire:
            came = _group_for_wire(self._drop_gateway_texts(expected, came))
            expected = _group_for_wire(expected)
        # Show only the first difference, because the items after it are usually shifted.
        for wanted, item in zip(expected, came, strict=False):
            found = self._compare_item(wanted, item, delta.wire)
            if found:
                return found
        common = min(len(expected), len(came))
        missing = [_summarize("-", item) for item in expected[common:]]
        added = [_summarize("+", item) for item in came[common:]]
        if not missing and not added:
            return []
        title = f"expected {len(expected)} new items, got {len(came)}"
        return [title, *missing, *added]

    def _drop_gateway_texts(self, expected: Sequence[Sent], came: Sequence[Sent]) -> Sequence[Sent]:
        """Return the items that came, without the texts that a gateway added.

        Some wire formats carry the images of results separately, introduced by a text that the
        gateway adds.
        """
        has_result_images = False
        texts = []
        for item in expected:
            if item.kind == "image":
                has_result_images = has_result_images or bool(item.call)
            elif item.kind != "result":
                texts.append(item.text)
        if not has_result_images:
            return came
        kept = []
        for item in came:
            if item.kind != "user" or any(self.is_same(text, item.text) for text in texts):
                kept.append(item)
        return kept

    def _compare_item(self, wanted: Sent, came: Sent, wire: bool) -> list[str]:
        title = _title(wanted)
        if not _is_same_kind(wanted, came):
            return ["something else was sent", f"- {title}", f"+ {_title(came)}"]
        # Wire formats do not carry codes, so codes are compared only if both sides have one.
        has_codes = came.code is not None and wanted.code is not None
        if has_codes and wanted.code != came.code:
            old = wanted.code or "success"
            new = came.code or "success"
            return [f"{title} has another code", f"- {old}", f"+ {new}"]
        # A gateway may have to send some text for a result that has none.
        is_filled = wire and not wanted.text
        if self.mode == "shape" or is_filled or self.is_same(wanted.text, came.text):
            return []
        normalize = self.apply_rules if self.mode == "text" else str
        lines = diff_texts(wanted.text, self.normalize(came.text), normalize)
        return [f"{title} differs", *lines]

    def is_same(self, recorded: str, came: str) -> bool:
        """Return whether a text matches the recorded one."""
        # The exact text is compared first, because it is the usual case and redaction is slow.
        if self.placeholders.resolve(recorded) == came:
            return True
        came = self.normalize(came)
        if recorded == came or _matches_redacted(recorded, came):
            return True
        if self.mode == "strict":
            return False
        recorded = self.apply_rules(recorded)
        came = self.apply_rules(came)
        if recorded == came or _matches_redacted(recorded, came):
            return True
        return _matches_shortened(recorded, came)

    def normalize(self, text: str) -> str:
        """Return the text as in a cassette: without secrets, with placeholders for paths."""
        return self.placeholders.insert(self.redactor(text))

    def apply_rules(self, text: str) -> str:
        """Return the text without the parts that vary between sessions."""
        return apply_rules(text, self.rules)


def _to_note(item: Sent) -> Sent:
    # A summary reaches the model as a note.
    if item.kind == "summary":
        return Sent("note", item.text)
    return item


def _compare_frozen(
    name: str,
    recorded: tuple[str, ...] | None,
    get_current: Callable[[], tuple[str, ...]] | None,
    wire: bool,
) -> list[str]:
    """Compare the layers or the tools of the frozen prompt."""
    if recorded is None or get_current is None:
        return []
    if wire:
        # Gateways change schemas, so only the names of tools can be compared.
        recorded = tuple(entry.split(" ")[0] for entry in recorded)
    current = get_current()
    if recorded == current:
        return []
    lines = [f"other {name} (name and digest)"]
    for entry in recorded:
        if entry not in current:
            lines.append(f"- {entry}")
    for entry in current:
        if entry not in recorded:
            lines.append(f"+ {entry}")
    return lines


def _group_for_wire(items: Sequence[Sent]) -> list[Sent]:
    """Return items as every wire format shows them: results, all user texts as one, images."""
    results = []
    texts = []
    images = []
    for item in items:
        if item.kind == "result":
            results.append(item)
        elif item.kind == "image":
            # Each wire format encodes images in its own way, so the digests differ.
            images.append(Sent("image"))
        elif item.kind != "aside" and item.text:
            texts.append(item.text)
    # Gateways join the texts of a message, and put notes into the user's message.
    joined = [Sent("user", "\n\n".join(texts))] if texts else []
    return [*results, *joined, *images]


def _is_same_kind(wanted: Sent, came: Sent) -> bool:
    if wanted.kind != came.kind or wanted.call != came.call:
        return False
    # Handwritten cassettes and some wire formats have results without the tool's name.
    if not wanted.tool or not came.tool:
        return True
    return wanted.tool == came.tool


def _matches_shortened(recorded: str, came: str) -> bool:
    """Return whether texts match except where one was shortened to fit a context window."""
    old = _SHORTENED.split(recorded, maxsplit=1)
    new = _SHORTENED.split(came, maxsplit=1)
    if len(old) == len(new) == 1:
        return False
    # Shortening keeps the beginning and the end of a text. The shorter text is used, because the
    # smaller window kept less.
    old_start = old[0].strip("\n")
    old_end = old[-1].strip("\n")
    new_start = new[0].strip("\n")
    new_end = new[-1].strip("\n")
    if not old_start.startswith(new_start) and not new_start.startswith(old_start):
        return False
    return old_end.endswith(new_end) or new_end.endswith(old_end)


def _matches_redacted(recorded: str, came: str) -> bool:
    """Return whether texts match if each redacted secret may stand for any text."""
    if "[REDACTED:" not in recorded:
        return False
    literals = re.split(r"\[REDACTED:\w*\]", recorded)
    pattern = r".+?".join(map(re.escape, literals))
    return re.fullmatch(pattern, came, re.DOTALL) is not None


def _summarize(sign: str, item: Sent) -> str:
    return f"{sign} {_title(item)}: {first_line(item.text)}"


def _title(item: Sent) -> str:
    if item.kind == "result":
        tool = f" ({item.tool})" if item.tool else ""
        return f"result of call {item.call}{tool}"
    titles = {"image": "image", "user": "text of the user"}
    return titles.get(item.kind, "note")
