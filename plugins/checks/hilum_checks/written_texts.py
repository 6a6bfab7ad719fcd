"""Judges the texts that a call writes: content of files, commit messages and pull requests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Any

import attrs
from hilum_guard import UNKNOWN, FileAccess, git_words

from hilum_checks import copied_texts
from hilum_checks.call_facts import CallFacts
from hilum_checks.code_texts import find_paths, join_literals, may_write, read_text
from hilum_checks.command_facts import CommandFacts
from hilum_checks.expressions import count_matches
from hilum_checks.message_changes import may_change_message
from hilum_checks.model import WRITES, Content, MessageKind, Messages, Paths
from hilum_checks.path_matcher import Fit

_HERE_DOCUMENT = re.compile(
    r"\$\(\s*cat\s+<<-?\s*(['\"]?)(\w+)\1[^\n]*\n(.*?)\n[ \t]*\2\b", re.DOTALL
)
# Messages that Git writes, which no convention of a project covers.
_OF_GIT = re.compile(r"(?:Merge|Revert|fixup!|squash!|amend!) ")
_WITHOUT_MESSAGE = re.compile(r"--no-edit|--fixup.*|--squash.*|-C|--reuse-message.*|--dry-run")


# --- content --------------------------------------------------------------------------------------


def match_content(constraint: Content, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call adds forbidden text to a file, and what it does."""
    paths = Paths(constraint.patterns, WRITES, constraint.unless)
    if constraint.wanted:
        return _match_missing(constraint, facts, paths)
    doubt = ""
    for access in (*facts.accesses, *_accesses_of_code(facts)):
        fit = access.kind in ("write", "link") and facts.matcher.match(paths, access)
        if not fit or copied_texts.is_moved_within(facts, paths, access):
            continue
        if _adds_text(constraint.expression, facts, access):
            return "yes", f"it adds such text to {access.path[:200]}"
        copied = _find_copied(constraint.expression, facts, paths, access)
        if copied == "yes":
            return "yes", f"it copies such text to {access.path[:200]}"
        if copied:
            doubt = doubt or f"it may copy such text to {access.path[:200]}"
        carries = access.certain and copied_texts.find_carrier(facts, access)
        if fit == "yes" and (carries or _writes_unknown(facts)):
            doubt = doubt or f"what it writes to {access.path[:200]} is known only at run time"
    for text, name in copied_texts.find_copied_by_search(facts, paths):
        if count_matches(constraint.expression, text) != 0:
            return "yes", f"it copies such text from {name[:200]}"
    doubt = doubt or facts.unknown_text
    return ("maybe", doubt) if doubt else ("", "")


def _match_missing(constraint: Content, facts: CallFacts, paths: Paths) -> tuple[Fit, str]:
    """Return whether a call creates a file without a required text, or removes this text."""
    doubt = ""
    for access in facts.accesses:
        if access.kind != "write" or facts.matcher.match(paths, access) != "yes":
            continue
        path = os.path.join((access.cwds[0] if access.cwds else None) or "/", access.path)
        before = read_text(path)
        # What lacks the text already may lack it, or else no such file could be edited.
        if before.strip() and not count_matches(constraint.expression, before):
            continue
        if facts.command_texts:
            texts = [*_list_texts(facts), *_list_copied(facts, paths, access)]
            is_new = not before.strip() and UNKNOWN not in path and not access.deep
            is_empty = all(command.effects.program == "touch" for command in facts.commands)
            if (
                is_new
                and not is_empty
                and not any(count_matches(constraint.expression, text) for text in texts)
            ):
                doubt = doubt or f"the text of {access.path[:200]} is known only at run time"
            continue
        after = _apply(facts, access, before)
        # An empty file needs no header.
        if after.strip() and not count_matches(constraint.expression, after):
            return "yes", f"it writes {access.path[:200]} without such text"
    return ("maybe", doubt) if doubt else ("", "")


def _list_copied(facts: CallFacts, paths: Paths, access: FileAccess) -> Iterator[str]:
    for copied in copied_texts.find_copied(facts, paths, access):
        yield copied.text


def _apply(facts: CallFacts, access: FileAccess, before: str) -> str:
    """Return the text of a file after a call of a tool."""
    edits = facts.arguments.get("edits")
    text = before
    for change in edits if isinstance(edits, list) else [facts.arguments]:
        if isinstance(change, dict) and isinstance(change.get("new_string"), str):
            text = text.replace(_text(change, "old_string"), change["new_string"], 1)
        elif isinstance(change, dict) and isinstance(change.get("change"), str):
            # A program that runs as an agent announces a change as a unified diff.
            lines = change["change"].split("\n")
            text = "\n".join(line[1:] for line in lines if line.startswith(("+", " ")))
        else:
            text = "\n".join(each for _, each in facts.strings if each != access.path)
    return text


_EDITORS = frozenset("vim vi nvim ex ed red emacs nano".split())


def _accesses_of_code(facts: CallFacts) -> Iterator[FileAccess]:
    """Yield the accesses of code to the files that it, or its arguments, may name."""
    for command in facts.commands:
        if command.effects.program in _EDITORS:
            for path in command.words[1:]:
                yield FileAccess("write", path, cwds=(command.cwd,))
        for text in command.texts:
            if may_write(text):
                for path in (*find_paths(text), *command.words[1:]):
                    yield FileAccess("write", path, cwds=(command.cwd,))


# Programs, and functions of languages, that decode or assemble text.
_DECODERS = frozenset("base32 base64 gunzip iconv openssl rev tr uudecode xxd zcat".split())
_ASSEMBLES = re.compile(
    r"\bchr\b|decode|fromhex|CharCode|\[::-|reverse|join|pack\b|environ|\bENV\b"
    r"|['\"]\s*%|\bformat\b|\b[fF]['\"]"
)


_ONE_LINERS = frozenset("perl ruby awk gawk mawk".split())


def _writes_unknown(facts: CallFacts) -> bool:
    """Return whether a command line may write text that its words do not show."""
    if facts.unknown_command:
        return True
    for command in facts.commands:
        # An editor's commands contain the text in another form.
        if command.effects.program in _DECODERS | _EDITORS:
            return True
        if any(UNKNOWN in text for text in (*command.words[1:], command.command.stdin or "")):
            return True
        # One-liners such as `s/x/$ENV{T}/` need not look like code.
        codes = command.words[1:] if command.effects.program in _ONE_LINERS else ()
        if any(_ASSEMBLES.search(text) for text in (*command.effects.code, *codes)):
            return True
    return False


def _find_copied(expression: str, facts: CallFacts, paths: Paths, access: FileAccess) -> Fit:
    """Return whether a command copies text that matches an expression to a file."""
    doubt: Fit = ""
    if not facts.command_texts:
        return doubt
    # The text that a file contains already may stay.
    old = max(
        (count_matches(expression, read_text(os.path.join(cwd or "/", access.path))) or 0)
        for cwd in access.cwds or (None,)
    )
    line = _read_last_line(access)
    for text, certain in copied_texts.find_copied(facts, paths, access):
        added = count_matches(expression, text)
        if line and added is not None:
            # The text may complete the last line of the file.
            joined = count_matches(expression, line + text)
            alone = count_matches(expression, line) or 0
            added = None if joined is None else max(added, old + joined - added - alone)
        if added is None or added > old:
            if certain:
                return "yes"
            doubt = "maybe"
    return doubt


def _adds_text(expression: str, facts: CallFacts, access: FileAccess) -> bool:
    """Return whether a call adds text that matches an expression to a file."""
    if facts.command_texts and _joins_pieces(expression, facts, access):
        return True
    for old, new in _replacements(facts, access):
        added = count_matches(expression, new)
        # An expression that takes too long fails closed.
        if added is None or (added and added > (count_matches(expression, old) or 0)):
            return True
    return False


def _joins_pieces(expression: str, facts: CallFacts, access: FileAccess) -> bool:
    """Return whether pieces that commands write one after the other form a forbidden text.

    The first piece may be the last line of the file.
    """
    pieces = [_read_last_line(access), *_list_outputs(facts)]
    pieces = [piece for piece in pieces if piece]
    joined = count_matches(expression, "".join(pieces)) if len(pieces) > 1 else 0
    return joined is None or joined > sum(count_matches(expression, each) or 0 for each in pieces)


def _read_last_line(access: FileAccess) -> str:
    """Return the last line of a file if no line break ends it, so that text may be added to it."""
    path = os.path.join((access.cwds[0] if access.cwds else None) or "/", access.path)
    return read_text(path).rpartition("\n")[2]


_COPIERS = frozenset("cat cp dd gcat gcp head install mv tail tee".split())


def _list_outputs(facts: CallFacts, *, with_files: bool = True) -> Iterator[str]:
    """Yield the texts that commands print or copy, in their order.

    Args:
        facts: The call.
        with_files: Whether to include the texts of files.
    """
    for command in facts.commands:
        program, *words = command.words or ("",)
        if program == "echo":
            plain = [_ESCAPE.sub(_read_escape, word) for word in words]
            options = list(takewhile(re.compile(r"-[neE]+").fullmatch, plain))
            ending = "" if any("n" in option for option in options) else "\n"
            yield " ".join(plain[len(options) :]) + ending
        elif program == "printf":
            yield from _print_formatted([_ESCAPE.sub(_read_escape, word) for word in words])
        elif program in _COPIERS:
            yield command.command.stdin or ""
            if with_files:
                yield from copied_texts.read_inputs(command)


def _print_formatted(words: Sequence[str]) -> Iterator[str]:
    """Yield what `printf` prints."""
    values = iter(words[1:])
    yield _DIRECTIVE.sub(lambda _: next(values, ""), "".join(words[:1]))


def _replacements(facts: CallFacts, access: FileAccess) -> Iterator[tuple[str, str]]:
    """Yield the texts that a call removes, each with the text that it writes instead."""
    if facts.command_texts:
        # The whole line is searched, because any of its words may be written to the file.
        yield "", "\n".join(_list_texts(facts))
        return
    arguments = facts.arguments
    if isinstance(arguments.get("change"), str):
        # A program that runs as an agent announces a change as a unified diff.
        lines = arguments["change"].split("\n")
        removed = "\n".join(line[1:] for line in lines if line.startswith("-"))
        yield removed, "\n".join(line[1:] for line in lines if line.startswith("+"))
        return
    path = os.path.join(access.cwds[0] or "/" if access.cwds else "/", access.path)
    edits = arguments.get("edits")
    changes = edits if isinstance(edits, list) else [arguments]
    found = False
    for change in changes:
        if isinstance(change, dict) and isinstance(change.get("new_string"), str):
            found = True
            old, new = _text(change, "old_string"), _text(change, "new_string")
            yield old, new
            # The new text may form a match together with the text around it.
            before = read_text(path)
            if old and old in before:
                yield before, before.replace(old, new)
    if not found:
        others = [text for _, text in facts.strings if text != access.path]
        yield read_text(path), "\n".join(others)


def _list_texts(facts: CallFacts) -> Iterator[str]:
    """Yield the texts that a command line may write: as written, and as the shell reads them."""
    yield from facts.command_texts
    # Several commands may print a text in pieces: `{ printf console; echo ".log(1)"; } > a.ts`.
    yield "".join(_list_outputs(facts, with_files=False))
    for command in facts.commands:
        yield from command.words
        yield from _as_printed(command.words)
        yield command.command.stdin or ""
        # Concatenated literal text, in code and in words.
        for code in (*command.effects.code, *command.words[1:]):
            yield join_literals(code)


def _as_printed(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command with their escapes, and what `printf` makes of them."""
    plain = [_ESCAPE.sub(_read_escape, word) for word in words]
    yield from (new for new, word in zip(plain, words, strict=True) if new != word)
    if plain[:1] == ["printf"]:
        yield from _print_formatted(plain[1:])


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|0?([0-7]{1,3})|n|t)")
_DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[bsdiuxXocq]")


def _read_escape(escape: re.Match[str]) -> str:
    if escape[1] or escape[2]:
        return chr(int(escape[1] or escape[2], 16))
    return chr(int(escape[3], 8)) if escape[3] else {"n": "\n", "t": "\t"}[escape[0][1]]


def _text(change: dict[str, Any], name: str) -> str:
    text = change.get(name)
    return text if isinstance(text, str) else ""


# --- messages -------------------------------------------------------------------------------------


@attrs.frozen
class _Message:
    """A message; ``text`` is ``None`` if it is known only at run time."""

    text: str | None
    source: str


def match_messages(constraint: Messages, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call commits, or opens a pull request, with a forbidden text."""
    doubt = ""
    is_commit = constraint.kind == "commit message"
    found = _find_messages(facts) if is_commit else _find_requests(constraint.kind, facts)
    for message in found:
        action = f"it runs `{message.source[:200]}`"
        if message.text is None:
            doubt = doubt or action
            continue
        if constraint.wanted and is_commit and _OF_GIT.match(message.text):
            continue
        count = count_matches(constraint.expression, message.text)
        if count is None or bool(count) != constraint.wanted:
            return "yes", action
    return ("maybe", doubt) if doubt else ("", "")


# Sub-commands that commit with a message of their own.
_COMMITS = ("commit", "commit-tree", "merge")


def _find_messages(facts: CallFacts) -> Iterator[_Message]:
    for command in facts.commands:
        words = git_words(command.words)
        # ``git commit --help`` only displays a page.
        is_help = words[-1:] in (("--help",), ("-h",))
        if command.effects.program == "git" and words[1:2] and words[1] in _COMMITS and not is_help:
            yield from _read_message(command, words[1:], facts)
        elif command.effects.program == "git" and _commits_unseen(words[1:]):
            yield _Message(None, command.source)
        is_git = command.effects.program == "git" and not is_help
        if is_git and may_change_message(command, words[1:]):
            yield _Message(None, command.source)
    if facts.unknown_text:
        yield _Message(None, facts.unknown_text)
    name = facts.tool.name.lower()
    message = facts.arguments.get("message")
    if facts.tool.schema is not None and "commit" in name and isinstance(message, str):
        yield _Message(message, facts.tool.name)


def _commits_unseen(words: tuple[str, ...]) -> bool:
    """Return whether a Git command commits with messages that its words do not show."""
    verb = words[0] if words else ""
    if verb in ("am", "fast-import", "citool", "gui"):
        return True
    if verb in ("filter-branch", "filter-repo"):
        return any(word.startswith(("--msg-filter", "--message", "--commit")) for word in words)
    return verb == "hash-object" and "commit" in words and "-w" in words


def _read_message(
    command: CommandFacts, words: tuple[str, ...], facts: CallFacts
) -> Iterator[_Message]:
    """Yield the message of a command that commits, if the command gives one."""
    paragraphs = list(_find_paragraphs(command, words[1:], facts))
    if not paragraphs:
        if words[0] == "commit-tree":
            paragraphs = [command.command.stdin or UNKNOWN]
        elif words[0] == "merge" or any(_WITHOUT_MESSAGE.fullmatch(word) for word in words):
            return
    text = _read_here_document("\n\n".join(paragraphs), facts) if paragraphs else None
    yield _Message(text, command.source)


def _read_here_document(text: str, facts: CallFacts) -> str | None:
    """Return a text that a here-document gives; ``None`` if it is known only at run time."""
    if UNKNOWN not in text:
        return text
    # `git commit -m "$(cat <<'EOF' …)"` is the usual way to write a long message.
    found = _HERE_DOCUMENT.search("\n".join(facts.command_texts))
    return found[3] if found else None


_MESSAGE_OPTION = re.compile(
    r"-[a-zA-Z]*?m(.*)|--m(?:e|es|ess|essa|essag|essage)?(?:=(.*))?", re.DOTALL
)
_FILE_OPTION = re.compile(
    r"-[a-zA-Z]*?[Ft](.*)|--(?:fi|fil|file|te|tem|temp|templ|templa|templat|template)(?:=(.*))?",
    re.DOTALL,
)


def _find_paragraphs(
    command: CommandFacts, words: tuple[str, ...], facts: CallFacts
) -> Iterator[str]:
    """Yield the parts of a message; a part that is known only at run time is ``UNKNOWN``."""
    # A word that is known only at run time may be an option with a message.
    if any(word.startswith(UNKNOWN) for word in words):
        yield UNKNOWN
    is_value = False
    for word, value in pairwise((*words, UNKNOWN)):
        if is_value:
            is_value = False
            continue
        message = _MESSAGE_OPTION.fullmatch(word)
        file = None if message else _FILE_OPTION.fullmatch(word)
        trailer = re.fullmatch(r"--trailer(?:=(.*))?()", word, re.DOTALL)
        message = message or trailer
        option = message or file
        if option is None:
            continue
        attached = option[1] or option[2]
        is_value = not attached
        given = attached or value
        yield given if message else _read_file(command, given, facts)


def _read_file(command: CommandFacts, path: str, facts: CallFacts) -> str:
    if path == "-":
        return command.command.stdin or UNKNOWN
    # An earlier command on the line may write the file.
    if len(facts.commands) > 1 and any(access.kind == "write" for access in facts.accesses):
        return UNKNOWN
    return read_text(os.path.join(command.cwd or "/", path)) or UNKNOWN


# --- pull requests --------------------------------------------------------------------------------

_OPENING = (("pr", "create"), ("pr", "new"), ("mr", "create"), ("mr", "new"))
_EDITING = (("pr", "edit"), ("mr", "update"))
_REQUEST_OPTIONS = {
    "pull request title": re.compile(r"(?:--title|-t)(?:=?(.+))?", re.DOTALL),
    "pull request body": re.compile(r"(?:--body|--description|-b|-d)(?:=(.+))?", re.DOTALL),
}
_BODY_FILE = re.compile(r"(?:--body-file|-F)(?:=(.+))?", re.DOTALL)
_REQUEST_TOOL = re.compile(r"(?:pull|merge)_?request", re.IGNORECASE)


def _find_requests(kind: MessageKind, facts: CallFacts) -> Iterator[_Message]:
    """Yield the titles, or the bodies, of the pull requests that a call opens or edits."""
    for command in facts.commands:
        if command.effects.program not in ("gh", "glab"):
            continue
        verbs = tuple(word for word in command.words[1:] if not word.startswith("-"))[:2]
        if command.words[-1] in ("--help", "-h") or verbs not in _OPENING + _EDITING:
            continue
        text = _find_request_text(kind, command, facts)
        if text:
            yield _Message(_read_here_document(text, facts), command.source)
        elif verbs in _OPENING:
            # `--fill` takes the text from the commits, and an editor asks for it.
            yield _Message(None, command.source)
    if facts.tool.schema is not None and _REQUEST_TOOL.search(facts.tool.name):
        names = ("title",) if kind == "pull request title" else ("body", "description")
        for name in names:
            given = facts.arguments.get(name)
            if isinstance(given, str):
                yield _Message(given, facts.tool.name)


def _find_request_text(kind: MessageKind, command: CommandFacts, facts: CallFacts) -> str:
    option = _REQUEST_OPTIONS[kind]
    for word, value in pairwise((*command.words[1:], UNKNOWN)):
        found = option.fullmatch(word)
        if found:
            return found[1] or value
        file = _BODY_FILE.fullmatch(word) if kind == "pull request body" else None
        if file:
            return _read_file(command, file[1] or value, facts)
    return ""
