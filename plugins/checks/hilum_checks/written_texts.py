"""Judge the texts that a call writes: content of files, commit messages and pull requests."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from hilum_guard import UNKNOWN, FileAccess

from hilum_checks import copied_texts
from hilum_checks.call_facts import CallFacts
from hilum_checks.call_steps import is_inside
from hilum_checks.code_literals import replace_code, show_literals
from hilum_checks.code_operations import remove_harmless
from hilum_checks.code_remarks import blank_remarks, blank_rust_tests
from hilum_checks.code_texts import find_paths, may_write, read_text
from hilum_checks.command_facts import CommandFacts
from hilum_checks.command_kinds import checks_only
from hilum_checks.command_words import list_outputs, list_texts
from hilum_checks.commit_texts import find_commit_messages
from hilum_checks.expressions import count_matches, find_match
from hilum_checks.hidden_texts import decodes_text, inserts_values
from hilum_checks.label_scopes import TESTS
from hilum_checks.model import WRITES, Content, Messages, Paths
from hilum_checks.next_steps import limits_lines, measures_lines
from hilum_checks.path_matcher import Fit
from hilum_checks.request_texts import find_request_texts
from hilum_checks.required_texts import match_required
from hilum_checks.sed_scripts import find_added_texts

# --- content --------------------------------------------------------------------------------------


def match_content(constraint: Content, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call adds forbidden text to a file, and what it does."""
    paths = Paths(constraint.patterns, WRITES, constraint.unless)
    if constraint.wanted:
        return match_required(constraint, facts, paths)
    doubt = ""
    without_text = _find_without_text(facts)
    for access in (*facts.accesses, *_accesses_of_code(facts)):
        # What a formatter writes is no text of the call.
        if access in without_text or (access.generated and access.existing):
            continue
        fit = access.kind in ("write", "link") and facts.matcher.match(paths, access)
        if not fit or copied_texts.is_moved_within(facts, paths, access):
            continue
        if _adds_text(constraint, facts, access):
            shown = _show_added(constraint, facts, access)
            return "yes", f"it adds {shown} to {access.path[:200]}"
        copied = _find_copied(constraint, facts, paths, access)
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


# Programs that make folders or empty files, or only change the times of files.
_TEXTLESS = frozenset(("mkdir", "rmdir", "touch"))


def _find_without_text(facts: CallFacts) -> set[FileAccess]:
    """Return the accesses with which a call makes a file or folder without writing a text."""
    found: set[FileAccess] = set()
    others: set[FileAccess] = set()
    for command in facts.commands:
        is_textless = command.effects.program in _TEXTLESS and not command.command.writes
        (found if is_textless else others).update(command.effects.files)
    return found - others


_EDITORS = frozenset("vim vi nvim ex ed red emacs nano".split())


def _accesses_of_code(facts: CallFacts) -> Iterator[FileAccess]:
    """Yield the accesses of code to the files that it, or its arguments, may name."""
    for command in facts.commands:
        if command.effects.program in _EDITORS:
            for path in command.words[1:]:
                yield FileAccess("write", path, cwds=(command.cwd,))
        for text in command.texts:
            if may_write(remove_harmless(text, command.effects.program)):
                words = (each for each in command.words[1:] if not _is_code(each, command))
                for path in (*find_paths(text), *words):
                    if not _is_called(path, text) and _may_be_file(path, text, command):
                        yield FileAccess("write", path, cwds=(command.cwd,))


def _is_code(word: str, command: CommandFacts) -> bool:
    """Return whether a word is the code that a command runs, or the option before it."""
    return word in command.effects.code or re.fullmatch(r"-\w", word) is not None


def _is_called(name: str, text: str) -> bool:
    """Return whether a word in code is only the name of a function or method, and no path."""
    if not _DOTTED.fullmatch(name):
        return False
    name = re.escape(name)
    if re.search(rf"""['"`/]{name}\b|(?<!\w){name}['"`/]""", text):
        return False
    return re.search(rf"(?<![\w/]){name}\s*\(", text) is not None


def _may_be_file(path: str, text: str, command: CommandFacts) -> bool:
    """Return whether a word in code may be a file: a bare word is one only in quotes."""
    if path in command.words or re.search(r"[./]", path):
        return True
    if re.search(rf"""['"`/]{re.escape(path)}['"`]""", text):
        return True
    return os.path.lexists(os.path.join(command.cwd or "/", path))


_DOTTED = re.compile(r"\.?[A-Za-z_]\w*(?:\.\w+)*")


# Programs that decode text.
_DECODERS = frozenset("base32 base64 gunzip iconv openssl rev tr uudecode xxd zcat".split())
_ONE_LINERS = frozenset("perl ruby awk gawk mawk".split())


def _writes_unknown(facts: CallFacts) -> bool:
    """Return whether a command line may write text that its words do not show."""
    if facts.unknown_command:
        return True
    understood = find_added_texts(facts.commands)
    for command in facts.commands:
        # An editor's commands contain the text in another form.
        if command.effects.program in _DECODERS | _EDITORS:
            return True
        # Which of the existing files is changed says nothing about the text.
        edited = {access.path for access in command.effects.files if access.existing}
        if _reads_project_only(facts):
            # What a temporary file contains comes from the files and words of this call.
            edited |= {word for word in command.words if word.startswith(_TEMPORARY)}
        words = [word for word in command.words[1:] if word not in edited]
        if any(UNKNOWN in text for text in (*words, command.command.stdin or "")):
            return True
        # One-liners such as `s/x/$ENV{T}/` need not look like code.
        codes = command.words[1:] if command.effects.program in _ONE_LINERS else ()
        # A script of `sed` that is understood has no variables.
        texts = [each for each in (*command.effects.code, *codes) if each not in understood]
        if any(decodes_text(text) or inserts_values(text) for text in texts):
            return True
    return False


# Programs that print the text of files, with changes that their words show.
_PASSES_TEXT = frozenset(
    "awk cat chmod cp cut diff echo git grep head jq mktemp mv printf rm sed sort tail uniq".split()
) | {""}
_TEMPORARY = f"/tmp/tmp.{UNKNOWN}"


def _reads_project_only(facts: CallFacts) -> bool:
    """Return whether a call passes on only texts of the project, perhaps by a temporary file."""
    root = str(facts.matcher.root)
    programs = {command.effects.program for command in facts.commands}
    return programs <= _PASSES_TEXT and all(
        is_inside(access, root) or access.path.startswith(_TEMPORARY) for access in facts.accesses
    )


def _find_copied(constraint: Content, facts: CallFacts, paths: Paths, access: FileAccess) -> Fit:
    """Return whether a command copies forbidden text to a file."""
    doubt: Fit = ""
    if not facts.command_texts:
        return doubt
    count = _counter(constraint, access.path)
    # The text that a file contains already may stay.
    old = max(
        (count(read_text(os.path.join(cwd or "/", access.path))) or 0)
        for cwd in access.cwds or (None,)
    )
    line = _read_last_line(access)
    for text, certain in copied_texts.find_copied(facts, paths, access):
        added = count(text)
        if line and added is not None:
            # The text may complete the last line of the file.
            joined = count(line + text)
            alone = count(line) or 0
            added = None if joined is None else max(added, old + joined - added - alone)
        if added is None or added > old:
            if certain:
                return "yes"
            doubt = "maybe"
    return doubt


def _blank_ignored(constraint: Content, text: str, path: str) -> str:
    """Return a text with spaces for what a constraint does not mean: remarks and Rust's unit tests."""
    blanked = blank_remarks(text, path, constraint.ignored)
    if path.endswith(".rs") and set(TESTS) <= set(constraint.unless):
        return blank_rust_tests(blanked)
    return blanked


def _counter(constraint: Content, path: str) -> Callable[[str], int | None]:
    """Return a function that counts the forbidden texts in a text of a file."""

    def count(text: str) -> int | None:
        return count_matches(constraint.expression, _blank_ignored(constraint, text, path))

    return count


def _adds_text(constraint: Content, facts: CallFacts, access: FileAccess) -> bool:
    """Return whether a call adds forbidden text to a file."""
    if facts.command_texts:
        return _prints_text(constraint, facts, access)
    count = _counter(constraint, access.path)
    for old, new in _replacements(facts, access, whole=bool(constraint.ignored)):
        added = count(new)
        # An expression that takes too long fails closed.
        if added is None or (added and added > (count(old) or 0)):
            return True
    return False


def _show_added(constraint: Content, facts: CallFacts, access: FileAccess) -> str:
    """Return the forbidden text that a call adds, for a message."""
    if limits_lines(constraint):
        return "too many lines"
    if facts.command_texts:
        lines = _list_lines(facts) if measures_lines(constraint) else _list_written(facts)
        changes = [("", "\n".join(lines))]
    else:
        changes = [*_replacements(facts, access, whole=bool(constraint.ignored))]
    for old, new in changes:
        code = _blank_ignored(constraint, new, access.path)
        found = find_match(constraint.expression, code, old)
        # A key must not be repeated in a message.
        if found and not _KEY.search(found):
            return f"“{found}”"
    return "such text"


_KEY = re.compile(r"(?=[\w+/=-]*\d)[\w+/=-]{16,}|PRIVATE KEY")


def _prints_text(constraint: Content, facts: CallFacts, access: FileAccess) -> bool:
    """Return whether the words of commands contain forbidden text, whole or in pieces."""
    if _joins_pieces(constraint, facts, access):
        return True
    if measures_lines(constraint):
        texts = list(_list_lines(facts))
        return count_matches(constraint.expression, "\n".join(texts)) != 0
    printing = _list_printing(facts) if constraint.ignored else []
    if printing:
        # One text must not begin a comment in which the next one is.
        path = access.path
        texts = [_blank_ignored(constraint, text, path) for text in list_texts(printing)]
    else:
        texts = _list_written(facts)
    return count_matches(constraint.expression, "\n".join(texts)) != 0


def _list_written(facts: CallFacts) -> list[str]:
    """Return the texts that a command line may write to a file.

    The whole line is searched, because any of its words may be written. Quotes of the shell, and of
    code that writes, would look like strings, so that comments and strings stay. Code that runs is
    no text, but the literals in it are.
    """
    commands, literals = show_literals(facts.commands)
    texts = [replace_code(text, literals) for text in facts.command_texts]
    return [*texts, *list_texts(commands)]


def _list_lines(facts: CallFacts) -> Iterator[str]:
    """Yield the texts that a command line writes as whole lines, whose lengths therefore count.

    The line of a command is no line of a file.
    """
    _, literals = show_literals(facts.commands)
    yield "".join(list_outputs(facts.commands, with_files=False))
    yield from literals.values()
    for command in facts.commands:
        stdin = command.command.stdin or ""
        if stdin not in literals:
            # The lines that a patch adds.
            yield "\n".join(line[1:] for line in stdin.splitlines() if line.startswith("+"))


# Programs that write their words, or their input, exactly as they are.
_PRINTERS = frozenset(("echo", "printf", "cat", "tee", "mkdir", "cd", "true", ":"))
# Programs that write nothing of what the words of a command line say to the project's files.
_BYSTANDERS = frozenset("git ls chmod test [ wc rm touch sleep py_compile compileall".split())
_MODULES = frozenset(("py_compile", "compileall"))
_JOINS_COMMANDS = re.compile(r"(?<!\|)\|(?!\|)|`|[$<>]\(")


def _list_printing(facts: CallFacts) -> list[CommandFacts]:
    """Return the commands that print, if nothing else writes text; otherwise, an empty list."""
    if _writes_unknown(facts) or any(command.effects.code for command in facts.commands):
        return []
    printing = [each for each in facts.commands if each.effects.program in _PRINTERS]
    others = [each for each in facts.commands if each.effects.program not in _PRINTERS]
    if not others:
        return printing
    line = "\n".join(facts.command_texts)
    for command in printing:
        line = line.replace(command.command.stdin or "\0", "")
    # In a pipe, another program may change the text.
    if _JOINS_COMMANDS.search(line) or not all(map(_writes_no_words, others)):
        return []
    return printing


def _writes_no_words(command: CommandFacts) -> bool:
    """Return whether a command certainly writes none of its words or inputs to a file."""
    if command.command.stdin is not None or command.command.writes or command.texts:
        return False
    is_module = command.words[1:2] == ("-m",) and _MODULES.issuperset(command.words[2:3])
    return is_module or command.effects.program in _BYSTANDERS or checks_only(command)


def _joins_pieces(constraint: Content, facts: CallFacts, access: FileAccess) -> bool:
    """Return whether pieces that commands write one after the other form a forbidden text.

    The first piece may be the last line of the file.
    """
    count = _counter(constraint, access.path)
    pieces = [_read_last_line(access), *list_outputs(facts.commands)]
    pieces = [piece for piece in pieces if piece]
    joined = count("".join(pieces)) if len(pieces) > 1 else 0
    return joined is None or joined > sum(count(each) or 0 for each in pieces)


def _read_last_line(access: FileAccess) -> str:
    """Return the last line of a file if no line break ends it, so that text may be added to it."""
    path = os.path.join((access.cwds[0] if access.cwds else None) or "/", access.path)
    return read_text(path).rpartition("\n")[2]


def _replacements(
    facts: CallFacts, access: FileAccess, *, whole: bool
) -> Iterator[tuple[str, str]]:
    """Yield the texts that a call of a tool removes, each with the text that it writes instead.

    Args:
        facts: The call.
        access: The file.
        whole: Whether only the text around a change tells what it is, such as a comment.
    """
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
            before = read_text(path)
            is_found = bool(old) and old in before
            if not (whole and is_found):
                yield old, new
            # The new text may form a match together with the text around it.
            if is_found:
                yield before, before.replace(old, new)
    if not found:
        others = [text for _, text in facts.strings if text != access.path]
        yield read_text(path), "\n".join(others)


def _text(change: dict[str, Any], name: str) -> str:
    text = change.get(name)
    return text if isinstance(text, str) else ""


# --- messages -------------------------------------------------------------------------------------


# Messages that Git writes, which no convention of a project covers.
_OF_GIT = re.compile(r"(?:Merge|Revert|fixup!|squash!|amend!) ")


def match_messages(constraint: Messages, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a call commits, or opens a pull request, with a forbidden text."""
    doubt = ""
    is_commit = constraint.kind == "commit message"
    found = find_commit_messages(facts) if is_commit else find_request_texts(constraint.kind, facts)
    for message in found:
        action = f"it runs `{message.source[:200]}`"
        if message.text is None:
            doubt = doubt or action
            continue
        if constraint.wanted and is_commit and _OF_GIT.match(message.text):
            continue
        # What must be in a message must be in what the call writes, not in a name.
        if message.is_signature and constraint.wanted:
            continue
        count = count_matches(constraint.expression, message.text)
        if count is None or bool(count) != constraint.wanted:
            return "yes", action
    return ("maybe", doubt) if doubt else ("", "")
