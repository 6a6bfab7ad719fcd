"""Reads results as a model does: whether the call succeeded, why it failed, what helps to go on.

Only the words of the result count, in whatever way an agent puts them. Nothing here knows hilum's
messages: each pattern is a family of ordinary sentences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal[
    "ok",
    "unchanged",
    "already",
    "repeated",
    "rejected",
    "outside",
    "bad_arguments",
    "multiple",
    "not_found",
    "stale",
    "no_file",
    "timeout",
    "command",
    "other",
]
# Characters at the beginning of a result in which it says whether it failed, and why.
_HEAD = 700
_FAILED = re.compile(
    r"\s*[\[<(*#`]*\s*(E_[A-Z]\w+\b|(tool[ _](use|call)[ _])?error\b|fatal\b|failed\b|failure\b"
    r"|invalid\b|traceback\b|exception\b|cannot\b|could not\b|unable to\b|unknown (tool|function)"
    r"|exit(ed with)? ?(code|status)?[ :=]+(-\d|[1-9])|command failed|\w*(Error|Exception): )",
    re.IGNORECASE,
)
_FAILED_AT_END = re.compile(
    r"exit(ed with)? ?(code|status)[ :=]+(-\d+|[1-9]\d*)\W*$", re.IGNORECASE
)
# The order matters: a message about a repeated call may quote the error of that call.
_KINDS: tuple[tuple[Kind, str], ...] = (
    (
        "repeated",
        r"(same|identical|exact|this very) (tool )?(call|command|request|arguments)[^.]*"
        r"(again|times|row|already|repeat)|repeated (call|command)|E_REPEAT|loop detected",
    ),
    (
        "outside",
        r"outside (of )?(the|your|this) (workspace|working|project|root|allowed)|traversal",
    ),
    (
        "rejected",
        r"\b(rejected|declined|denied|blocked|forbidden|disallowed|vetoed)\b(?!.{0,20}errno)"
        r"|not (allowed|permitted|approved)|refused by|needs? (an )?approval",
    ),
    (
        "already",
        r"already (applied|made|done|contains|has (exactly )?th|there|been (applied|made))",
    ),
    (
        "bad_arguments",
        r"(invalid|wrong|bad|unknown|unexpected|missing|unrecognized|malformed)[^.\n]{0,40}"
        r"\b(argument|parameter|field|property|key|input)s?\b"
        r"|\b(argument|parameter|field|propert(y|ie)|input)s?\b[^.\n]{0,40}"
        r"\b(invalid|missing|required|not valid|unknown|unexpected)"
        r"|not valid json|invalid json|json ?decode|parse[^.\n]{0,20}arguments|required property"
        r"|no tool calls? found|tool call error|validation error|unknown (tool|function)"
        r"|no tool '",
    ),
    (
        "multiple",
        r"(\b([2-9]|\d\d+)|multiple|several|more than one|many)"
        r" (times|matche?s?|occurrences|locations|places)|not unique|ambiguous|must be unique",
    ),
    (
        "no_file",
        r"no such file|file[^.\n]{0,80}(does ?n[o']t exist|not found|missing)|cannot open"
        r"|there is no ['\"`]?[\w./-]+|path[^.\n]{0,80}(does ?n[o']t exist|not found)"
        r"|FileNotFoundError|FILE_NOT_FOUND|did you mean[^\n]*[/.]",
    ),
    (
        "not_found",
        r"(string|text|block|pattern|old\w*|search|snippet|hunk|context)[^.\n]{0,60}"
        r"(not (in|found)|does ?n[o']t (appear|occur|exist|match)|did not (appear|match)|no match"
        r"|occurs 0 times|could not be found)|no (exact )?match|not found in|differs from"
        r"|NOT_FOUND|could not find|failed to (find|match)",
    ),
    (
        "stale",
        r"(not|n't|never)( yet)?( been)? read|read (it|the file)( again)? (first|before)"
        r"|(changed|modified) since|stale|out of date|must (first )?read",
    ),
    ("timeout", r"timed? ?out|took longer|time limit|deadline"),
)
_COMPILED = [(kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS]
_KINDS_OF_COMMANDS = ("repeated", "outside", "rejected", "bad_arguments", "timeout")
_UNCHANGED = re.compile(
    r"(nothing|no changes?)( was| were| has been)? (changed|made|to change|written)"
    r"|(are|is) (the same|identical)|no difference",
    re.IGNORECASE,
)
_INCOMPLETE = re.compile(
    r"truncat|incomplete|took longer|timed? ?out|first [\d,]+ of|[\d,]+ more (match|result|line)"
    r"|more (matches|results) (exist|were|are)|output too long|elided|results? (were|are|was) cut"
    r"|limit(ed)? (reached|to)|too many (matches|results)|narrow",
    re.IGNORECASE,
)
_ADVICE = re.compile(
    r"\b(re-?read|read (it|the file)|copy (it|whole|the)|include more|add (more )?(lines|context)"
    r"|try |use |search |pass |check |correct |instead|make sure|leave out|please )",
    re.IGNORECASE,
)
REPETITION = re.compile(
    r"(same|identical|exact) (tool )?(call|command|result|output|error|arguments)"
    r"|in a row|repeat(ed|ing|edly)?\b|times without|going in circles|stuck in a loop|no progress",
    re.IGNORECASE,
)
_LINE_NUMBER = re.compile(r"^\s*\d+\s*(?:\||:|\t|→|-)[ ]?")
_QUOTES_FILE = re.compile(r"nearest|similar|closest|did you mean|actual", re.IGNORECASE)
_NUMBERED_OUTPUT = re.compile(r"^\s*\d+\s*[|:\t→]", re.MULTILINE)


class Outcome(NamedTuple):
    """How a call ended.

    Args:
        kind: Whether it succeeded, or why it failed.
        text: What the result says, without the agent's wrapping.
    """

    kind: Kind
    text: str

    @property
    def failed(self) -> bool:
        """Whether the call did not do what it was for."""
        return self.kind not in ("ok", "already")


def unwrap(text: str) -> tuple[str, int | None]:
    """Return the output in a result, and the exit code if the result is structured.

    Some agents give results as JSON or with tags around the exit code and the output.
    """
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        try:
            data = json.loads(stripped)
        except ValueError:
            return text, None
        parts = []
        for key in ("output", "stdout", "output_head", "output_tail", "stderr", "exception_info"):
            value = data.get(key)
            if isinstance(value, str) and value:
                parts.append(value)
        if "elided_chars" in data:
            parts.insert(1, f"[output too long: {data['elided_chars']} characters elided]")
        for key in ("returncode", "exit_code", "exitCode"):
            if isinstance(data.get(key), int):
                return "\n".join(parts), data[key]
        return text, None
    tagged = re.match(r"<(?:returncode|exit_code)>\s*(-?\d+)\s*</\w+>\s*", stripped)
    if tagged:
        rest = re.sub(r"</?(output|stdout|stderr)>", "", stripped[tagged.end() :])
        return rest.strip("\n"), int(tagged[1])
    return text, None


def read_outcome(result: str, role: str) -> Outcome:
    """Return how a call ended, as its result says it.

    Args:
        result: The whole result.
        role: What the call was for: ``read``, ``edit``, ``write``, ``search``, ``find`` or ``run``.
    """
    text, code = unwrap(result)
    head = text[:_HEAD]
    if code is not None:
        failed = code != 0
        # Searching programs exit with 1 if nothing matches.
        if role in ("search", "find") and code == 1 and not text.strip():
            failed = False
    else:
        failed = bool(_FAILED.match(head))
        if role == "run" and not failed:
            failed = bool(_FAILED_AT_END.search(text[-200:]))
    if not failed:
        if role == "edit" and _UNCHANGED.search(head):
            return Outcome("unchanged", text)
        return Outcome("ok", text)
    if role == "run":
        return Outcome(_classify_command(text, code), text)
    for kind, pattern in _COMPILED:
        # The messages of programs come last.
        if pattern.search(head) or (code is not None and pattern.search(text[-300:])):
            return Outcome(kind, text)
    return Outcome("other", text)


def _classify_command(text: str, code: int | None) -> Kind:
    """Return why a command failed. Its own output may say anything, so only the first line counts."""
    first = text.strip().partition("\n")[0][:300]
    if code is not None or re.match(r"\s*(E_CMD|exit)", first, re.IGNORECASE):
        return "command"
    for kind, pattern in _COMPILED:
        if kind in _KINDS_OF_COMMANDS and pattern.search(first):
            return kind
    return "command"


def is_incomplete(outcome: Outcome) -> bool:
    """Return whether a search did not show all that there is."""
    if outcome.failed:
        return True
    return bool(_INCOMPLETE.search(outcome.text[:400]) or _INCOMPLETE.search(outcome.text[-400:]))


def gives_advice(text: str) -> bool:
    """Return whether an error says what to do next."""
    return bool(_ADVICE.search(text[:_HEAD]) or _ADVICE.search(text[-_HEAD:]))


def names_parameters(text: str, names: Iterable[str]) -> bool:
    """Return whether an error about arguments names what is needed."""
    if re.search(r"json", text, re.IGNORECASE):
        return True
    return all(re.search(rf"\b{re.escape(name)}\b", text) for name in names)


def shows_text(text: str, old: str) -> bool:
    """Return whether an error shows most lines of the text that an edit needs."""
    # A message that only repeats the arguments shows nothing new.
    if not _NUMBERED_OUTPUT.search(text) and not _QUOTES_FILE.search(text):
        return False
    shown = normalize(text)
    lines = [line for line in normalize(old).split("\n") if line]
    found = sum(line in shown for line in lines)
    return bool(lines) and found * 10 >= len(lines) * 6


@lru_cache(maxsize=2_000)
def normalize(text: str) -> str:
    """Return a text without line numbers, indentation, blank lines and repeated blanks."""
    lines = []
    for line in text.split("\n"):
        bare = " ".join(_LINE_NUMBER.sub("", line).split())
        if bare:
            lines.append(bare)
    return "\n".join(lines)


# What a system prompt may say about failures, by the kind of failure. Each pattern wants the failure and
# what to do about it in one sentence.
_INSTRUCTIONS: dict[str, str] = {
    "edit": r"(not found|match|fail|unchanged|changed since|stale)[^\n]{0,160}\bre-?read|"
    r"(not found|match|fail|stale|changed since)[^\n]{0,160}\bread[^\n.]{0,30}\b(again|file|first)",
    "arguments": r"(argument|parameter|schema)[^\n]{0,120}(correct|fix|check|exactly|valid)",
    "path": r"(missing|not found|exist|path)[^\n]{0,120}(search|list|suggest|find)",
    "command": r"(command|test|build|program)[^\n]{0,60}(fail|error)[^\n]{0,120}(output|fix|cause|read)",
    "repeat": r"(never|not|don't|avoid|refused)[^\n]{0,80}(same|identical) (call|command)"
    r"|(same|identical) (call|command)[^\n]{0,80}(never|not|refused|avoid)",
    "read_first": r"\bread\b[^\n]{0,40}\b(before|first)\b[^\n]{0,40}(edit|chang|modif)?",
}
_COMPILED_INSTRUCTIONS = {
    name: re.compile(pattern, re.IGNORECASE) for name, pattern in _INSTRUCTIONS.items()
}


@lru_cache(maxsize=50)
def find_instructions(prompt: str) -> frozenset[str]:
    """Return about which failures a system prompt says what to do.

    Returns:
        Some of ``edit``, ``arguments``, ``path``, ``command``, ``repeat`` and ``read_first``.
    """
    found = [name for name, each in _COMPILED_INSTRUCTIONS.items() if each.search(prompt)]
    return frozenset(found)
