"""Find how a call breaks a rule about files: by its arguments, its commands or its code."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise, takewhile

import attrs
from hilum_guard import CHANGED, UNKNOWN, FileAccess, git_words, note_tracked

from hilum_checks import code_operations, code_reads, code_texts, deletions, generators
from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.git_object_reads import find_object_reader
from hilum_checks.hidden_texts import decodes_literals
from hilum_checks.model import EVERYTHING, READS, Paths
from hilum_checks.path_matcher import Fit
from hilum_checks.step_limit import count_step


def match_paths(
    constraint: Paths, facts: CallFacts, *, is_denied: bool = False, with_formats: bool = True
) -> tuple[Fit, str]:
    """Return whether a call does a forbidden action on a file, and how.

    Args:
        constraint: The constraint.
        facts: The call.
        is_denied: Whether the action is denied, so that the sandbox prevents it, too.
        with_formats: Whether it matters that a formatter rewrites a file.
    """
    if constraint.only_existing:
        note_tracked(facts.matcher.real_root)
    doubt = ""
    is_kept = is_denied and facts.matcher.is_kept_by_sandbox(constraint)
    for fit, access, path in find_accesses(constraint, facts):
        if _is_rebuilt(constraint, access, facts):
            continue
        if constraint.by_hand and generators.is_generated(access, facts):
            continue
        is_format = access.generated and access.existing
        if is_format and not with_formats:
            continue
        if fit == "yes" and not (is_format and _is_part(constraint, access, facts)):
            return "yes", f"{describe_access(access)} {path[:200]}"
        # A formatter that cannot write one of many files formats the others. It changes nothing in
        # files that are already formatted, so that a rule about some of them is not broken.
        is_left_out = is_format and (is_kept or bool(access.endings))
        if not is_left_out:
            doubt = doubt or _describe_doubt(constraint, access, path)
    if not constraint.outside and constraint.patterns != EVERYTHING:
        action = _find_in_code(constraint, facts)
        if action:
            return "yes", action
        fit, action = _find_in_loaded(constraint, facts)
        if fit == "yes":
            return fit, action
        doubt = doubt or action
    if facts.tool.risk == "execute" and deletions.forbids_deleting(constraint):
        fit, action = deletions.find_deletion(constraint, facts)
        if fit == "yes":
            return fit, action
        doubt = doubt or action
    if not doubt and facts.tool.risk == "execute":
        doubt = (
            facts.unknown_command
            or find_object_reader(constraint, facts)
            or _find_hidden_paths(constraint, facts)
        )
    return ("maybe", doubt) if doubt else ("", "")


def _is_part(constraint: Paths, access: FileAccess, facts: CallFacts) -> bool:
    """Return whether a formatter is also given files that a constraint does not cover.

    It writes only those that are not well formatted.
    """
    if re.search(r"[*?\[{]", access.path):
        return not _is_part_of_covered(constraint, access, facts)
    return not facts.matcher.match(constraint, attrs.evolve(access, deep=""))


def _is_part_of_covered(constraint: Paths, access: FileAccess, facts: CallFacts) -> bool:
    """Return whether the folder in which a pattern begins is covered as a whole."""
    start = re.split(r"[*?\[{]", access.path, maxsplit=1)[0]
    folder = attrs.evolve(access, path=start.rpartition("/")[0] or ".", deep="", left_out=())
    return facts.matcher.match(constraint, folder) == "yes"


def _is_rebuilt(constraint: Paths, access: FileAccess, facts: CallFacts) -> bool:
    """Return whether a folder, or files in it, are removed only for a program that makes them anew.

    ``rm -rf dist && npm run build`` edits nothing by hand, and neither does ``rm dist/*.map; npm run
    build``. A single file, such as a lock file, would not be the same again.
    """
    is_removal = access.kind == "delete" and access.deep == "all" and not access.moved
    if not (is_removal and constraint.by_hand and "change" in constraint.actions):
        return False
    if any(os.path.isfile(os.path.join(cwd or "/", access.path)) for cwd in access.cwds):
        return False
    # Of a pattern, the folder must be protected, and not only the files.
    if re.search(r"[*?\[]", access.path) and not _is_part_of_covered(constraint, access, facts):
        return False
    places = [at for at, each in enumerate(facts.commands) if access in each.effects.files]
    later = facts.commands[places[-1] + 1 :] if places else []
    return any(each.effects.unknown == "all" for each in later)


def _describe_doubt(constraint: Paths, access: FileAccess, path: str) -> str:
    """Return what an access may do, and how the call would be judged without asking."""
    protected = _name_protected(constraint)
    if access.stored:
        return (
            f"it may show what Git stores of {protected}; name other files in the command"
            " (`-- src`), or let it show no contents (`--stat`)"
        )
    verb = describe_access(access)
    if path.strip("./") and UNKNOWN not in path:
        return f"{verb} {path[:200]}"
    what = path[:200] if path.strip(f"./{UNKNOWN}") else "files that it does not name"
    return f"{verb} {what}, perhaps also {protected}; name each file in the command"


def _name_protected(constraint: Paths) -> str:
    """Return the first path that a constraint protects, as a rule would write it."""
    pattern = constraint.patterns[0]
    name = f"{pattern.removesuffix('**')}" if pattern.endswith("/**") else pattern
    return f"`{name.removeprefix('**/').lstrip('/') or pattern}`"


def find_accesses(constraint: Paths, facts: CallFacts) -> Iterator[tuple[Fit, FileAccess, str]]:
    """Yield the accesses that a constraint covers or may cover, each with the covered path."""
    is_about_deleting = deletions.forbids_deleting(constraint)
    for access in facts.accesses:
        if is_about_deleting and deletions.deletes_caches(access, facts):
            continue
        fit = facts.matcher.match(constraint, access)
        fit = fit or facts.matcher.match_stored(constraint, access)
        if fit:
            yield fit, access, access.path.replace(CHANGED, UNKNOWN)
    for access, findings in facts.found_files:
        if is_about_deleting and deletions.deletes_caches(access, facts, findings):
            continue
        fit, path = facts.matcher.match_found(constraint, access, findings)
        if fit:
            yield fit, access, path


def describe_access(access: FileAccess) -> str:
    """Return what an access does, for a message: "it writes"."""
    if access.kind == "link" or (access.kind == "write" and access.existing):
        return "it changes"
    return _ACCESSES[access.kind]


_ACCESSES = {
    "read": "it reads",
    "any": "it reads",
    "write": "it writes",
    "delete": "it deletes or moves",
}


def _find_in_code(constraint: Paths, facts: CallFacts) -> str:
    """Return the forbidden path that is named in code that may write it.

    Paths that code does not name are covered by the sandbox.
    """
    for command in facts.commands:
        for text in facts.texts_of(command):
            path = _find_path_in_text(constraint, facts, command, text)
            # A rule about writing does not forbid code that reads the file and writes another.
            if path and "read" not in constraint.actions:
                reduced = code_reads.remove_reads(text)
                path = _find_path_in_text(constraint, facts, command, reduced)
            if path:
                return f"the code that it runs contains {path[:200]}"
    return ""


def _find_in_loaded(constraint: Paths, facts: CallFacts) -> tuple[Fit, str]:
    """Return whether a new module or test that a command loads may access a forbidden path."""
    for command in facts.commands:
        for text in command.loaded_texts:
            reduced = text if "read" in constraint.actions else code_reads.remove_reads(text)
            path = _find_path_in_text(constraint, facts, command, reduced, with_words=False)
            if path:
                # A test may only pretend to write the file.
                fit: Fit = "maybe" if _PRETENDS.search(text) else "yes"
                return fit, f"the code that it loads contains {path[:200]}"
            # A path that code assembles names at least a folder, except if the code decodes it.
            is_hidden = decodes_literals(text) and _access_of_code(constraint, text)
            if is_hidden and not facts.matcher.is_kept_by_sandbox(constraint):
                shown = command.source[:80]
                return "maybe", f"the path that `{shown}` uses is known only at run time"
    return "", ""


_PRETENDS = re.compile(r"\btmp_path|\btmpdir|tempfile|\bmock|monkeypatch|\bfake", re.IGNORECASE)


def _find_path_in_text(
    constraint: Paths,
    facts: CallFacts,
    command: CommandFacts,
    text: str,
    *,
    with_words: bool = True,
) -> str:
    """Return the forbidden path that a text names, if it may write such a file.

    Args:
        constraint: The constraint.
        facts: The call.
        command: The command that runs the text as code.
        text: The text.
        with_words: Whether the code may use the words of the command as paths.
    """
    access = _access_of_code(constraint, text, command)
    if access is None:
        return ""
    count_step(5 + len(text) // 200)
    # Code may resolve a relative path against the working directory or the workspace.
    access = attrs.evolve(access, cwds=(command.cwd, str(facts.matcher.root)), deep="some")
    # Code may use the arguments of its command as paths.
    words = [word.rpartition("=")[2] for word in _list_arguments(command) if with_words]
    formatted = code_operations.list_formatted(text, command.effects.program)
    for path in dict.fromkeys((*code_texts.find_paths(text), *formatted, *words)):
        count_step(3)
        named = attrs.evolve(access, path=path)
        # Possible matches are ignored, because nearly every word in a program could be a
        # path.
        for each in (named, *facts.accesses_by_links((named,))):
            # Only the shell resolves patterns, and code may contain `*` for other reasons.
            is_pattern = path in words and any(char in path for char in "*?[")
            is_path = is_pattern or _may_be_path(each)
            if is_path and facts.matcher.match(constraint, each) == "yes":
                return path
    return ""


_CODE_OPTION = re.compile(r"-\w*[ceEp]|--eval|--print")


def _list_arguments(command: CommandFacts) -> list[str]:
    """Return the arguments of a command without the code that it runs, which is no path as a whole."""
    code = command.effects.code
    return [
        word
        for before, word in pairwise(command.words)
        if not (word in code and _CODE_OPTION.fullmatch(before))
    ]


def _find_hidden_paths(constraint: Paths, facts: CallFacts) -> str:
    """Return what a command does if its code assembles a path that the sandbox would not protect.

    The sandbox protects files that exist, and folders in which nothing may change.
    """
    # A name says nothing secret: what may rename a file unseen needs no approval.
    if constraint.outside or constraint.actions == {"move"}:
        return ""
    # The sandbox hides the files that must not be read, so that only changes count.
    if not constraint.actions - READS:
        return ""
    constraint = attrs.evolve(constraint, actions=constraint.actions - READS)
    # The sandbox protects the files of the workspace's own working tree only.
    if facts.matcher.is_kept_by_sandbox(constraint) and not facts.enters_linked_tree:
        return ""
    for access in facts.accesses:
        is_unknown = not access.path.strip(CHANGED)
        if access.certain and access.kind in ("write", "delete") and is_unknown:
            if not facts.matcher.may_mean(constraint, access):
                continue
            return _describe_doubt(constraint, access, UNKNOWN)
    line = "\n".join(facts.command_texts)
    for command in facts.commands:
        # Code is judged by what it says.
        for access in () if command.texts else command.effects.files:
            count_step(2)
            # A program may create a file that must only not be edited by hand.
            if constraint.by_hand or _is_sub_command(constraint, command, access):
                continue
            if _may_create(constraint, access, facts):
                return f"it may create {access.path[:200]}"
    for command in facts.commands:
        for text in facts.texts_of(command):
            # Quotes may make the code differ from its spelling on the line.
            is_written = text in line or text in command.effects.code or text == facts.written_code
            is_new = is_written or facts.runs_new_script(command)
            is_hidden = any(UNKNOWN in word for word in command.words[1:])
            is_hidden = is_hidden or code_texts.hides_paths(text, is_new=is_new)
            if is_hidden and _may_change_hidden(constraint, facts, command, text):
                protected = _name_protected(constraint)
                return (
                    f"the path that `{command.source[:80]}` uses is known only at run time, and may be"
                    f" {protected}; write each path literally in the code"
                )
    return ""


def _may_change_hidden(
    constraint: Paths, facts: CallFacts, command: CommandFacts, text: str
) -> bool:
    """Return whether code may change a file whose path it does not state, or too many to look at."""
    if _access_of_code(constraint, text, command, with_known=False):
        return True
    access = _access_of_code(constraint, text, command)
    if access is None:
        return False
    access = attrs.evolve(access, cwds=(command.cwd, str(facts.matcher.root)))
    patterns = [path for path in code_texts.find_paths(text) if "*" in path and "/" in path]
    return any(
        facts.matcher.match(constraint, attrs.evolve(access, path=path)) for path in patterns
    )


# Programs whose first words name what they do, and not files.
_HAS_SUB_COMMANDS = frozenset(
    """
    buf bun bundle cargo composer dart deno docker docker-compose dotnet flutter gh git glab gmake go
    golangci-lint gradle gradlew hatch helm hg just kubectl lerna make mise mix mvn mvnw nox npm nx
    pdm pip pip3 pipenv pnpm podman poetry pre-commit rake ruff rye swift task terraform terragrunt
    tofu tox turbo uv yarn
    """.split()
)
_CREATES_NO_FILES = frozenset("black gofmt goimports isort rustfmt".split())
# Sub-commands whose further words name what they create.
_CREATING = frozenset("clone create g gen generate init n new scaffold startapp worktree".split())
# Commands of `git worktree` about working trees that exist, whose operands are no new files.
_KEEPS_TREES = frozenset("list lock prune remove repair unlock".split())
_BARE = re.compile(r"[\w:@-]+")


def _is_sub_command(constraint: Paths, command: CommandFacts, access: FileAccess) -> bool:
    """Return whether a word that may be a path is what a known program does: `go vet`, `make a`.

    In a folder that is known only at run time, no plain word of such a program is a new file,
    unless it has the name of a protected one.
    """
    word = access.path
    if command.effects.program in _CREATES_NO_FILES or _is_package(command, access.path):
        return True
    if command.effects.program not in _HAS_SUB_COMMANDS or (access.kind != "any"):
        return False
    if command.effects.program == "git":
        verb, action, *_ = (*git_words(command.words)[1:], "", "")
        if verb == "worktree" and (action in _KEEPS_TREES or word in (verb, action)):
            return True
    if not word.strip("./"):  # `./...`
        return True
    parts = {part for pattern in constraint.patterns for part in pattern.split("/")}
    if not _BARE.fullmatch(word) or word in parts:
        return False
    words = command.words[1:]
    leading = list(takewhile(re.compile(r"\w[\w:-]*").fullmatch, words[:2]))
    if word in leading[:1] or (word in leading and leading[0] not in _CREATING):
        return True
    return access.cwds == (None,) and _CREATING.isdisjoint(words)


# Options with which programs choose one of the project's packages.
_CHOOSES_PACKAGE = {
    "cargo": frozenset("-p --package --bin --test --example --bench --exclude".split()),
    "npm": frozenset("-w --workspace".split()),
    "pnpm": frozenset("-F --filter".split()),
    "yarn": frozenset(("workspace",)),
    "uv": frozenset(("--package",)),
    "turbo": frozenset("-F --filter".split()),
    "mvn": frozenset("-pl --projects".split()),
}


def _is_package(command: CommandFacts, word: str) -> bool:
    """Return whether a word only chooses a package of the project: `cargo build -p word`."""
    options = _CHOOSES_PACKAGE.get(command.effects.program, frozenset())
    return any(
        (before in options and following == word)
        or before in {f"{each}={word}" for each in options}
        for before, following in pairwise((*command.words[1:], ""))
    )


def _may_create(constraint: Paths, access: FileAccess, facts: CallFacts) -> bool:
    """Return whether a program receives the name of a new file, which it probably creates."""
    if (access.kind != "any" and access.certain) or UNKNOWN in access.path:
        return False
    # No program gives a new file a name with wildcards, nor creates what it only reads.
    if access.kind == "read" or any(char in access.path for char in "*?["):
        return False
    paths = [os.path.join(cwd or "/", access.path) for cwd in access.cwds]
    created = attrs.evolve(access, kind="write", certain=True)
    is_new = not any(map(os.path.lexists, paths))
    return is_new and facts.matcher.match(constraint, created) != ""


def _access_of_code(
    constraint: Paths, text: str, command: CommandFacts | None = None, *, with_known: bool = True
) -> FileAccess | None:
    """Return the forbidden action that code may perform on a path that it names.

    Args:
        constraint: The constraint.
        text: The code.
        command: The command that runs the code, if its language matters.
        with_known: Whether an action counts, too, whose path the code states literally.
    """
    actions = constraint.actions
    changing = text
    if command is not None:
        changing = code_operations.remove_harmless(
            text, command.effects.program, with_known=not with_known
        )
    changing = code_texts.join_literals(changing)
    text = code_texts.join_literals(text)
    if "delete" in actions and code_texts.may_delete(changing):
        return FileAccess("delete", "")
    if "move" in actions and code_texts.may_move(changing):
        return FileAccess("delete", "", moved=True)
    if {"create", "change"} & actions and code_texts.may_write(changing):
        return FileAccess("write", "", existing="change" in actions)
    is_python = (
        command is not None and code_operations.find_language(command.effects.program) == "py"
    )
    if is_python and code_reads.reads_nothing(text):
        return None
    if "read" in actions and code_texts.may_read(text):
        return FileAccess("read", "")
    return None


def _may_be_path(access: FileAccess) -> bool:
    """Return whether a word in code is probably a path and not another name."""
    if "." in access.path or "/" in access.path:
        return True
    paths = [os.path.join(cwd or "/", access.path) for cwd in access.cwds]
    return any(map(os.path.lexists, paths))
