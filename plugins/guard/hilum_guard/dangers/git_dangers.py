"""Find what Git commands discard, rewrite or publish, based on their sub-commands and options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import attrs

from hilum_guard.commands.verdicts import SimpleCommand
from hilum_guard.dangers.marks import Mark, Rank, show_command
from hilum_guard.effects.file_access import CommandEffects, UntrackedQuery
from hilum_guard.effects.git_effects import get_syntax, git_words
from hilum_guard.programs import options
from hilum_guard.programs.options import Parsed

_DISCARDS = "discards uncommitted changes ({})"
_OVERWRITES = "rewrites the history of a remote branch ({})"
_REMOTE_BRANCHES = "deletes or overwrites remote branches ({})"
_NO_HOOKS = "skips the hooks that check the work ({})"


class _Row(NamedTuple):
    """What a sub-command does.

    Attributes:
        options: Options of which one must be present; if empty, the row always applies.
        rank: How important that is.
        text: The phrase.
        action: The first operand that the row requires (``git worktree remove``); empty for any.
        extra: Further options of which one must be present.
    """

    options: str
    rank: Rank
    text: str
    action: str = ""
    extra: str = ""


_FORCE = "-f --force"
_ROWS: dict[str, tuple[_Row, ...]] = {
    "reset": (_Row("--hard", Rank.HISTORY, _DISCARDS),),
    "checkout": (_Row(_FORCE, Rank.HISTORY, _DISCARDS),),
    "switch": (_Row(f"{_FORCE} --discard-changes", Rank.HISTORY, _DISCARDS),),
    "checkout-index": (_Row(_FORCE, Rank.HISTORY, _DISCARDS),),
    "read-tree": (_Row("--reset", Rank.HISTORY, _DISCARDS),),
    "rm": (_Row(_FORCE, Rank.HISTORY, "deletes files with uncommitted changes ({})"),),
    "submodule": (_Row(_FORCE, Rank.HISTORY, _DISCARDS, action="deinit"),),
    "worktree": (_Row(_FORCE, Rank.HISTORY, _DISCARDS, action="remove"),),
    "branch": (
        _Row("-D", Rank.HISTORY, "deletes a branch even if it is not merged ({})"),
        _Row(
            "-d --delete",
            Rank.HISTORY,
            "deletes a branch even if it is not merged ({})",
            extra=_FORCE,
        ),
        _Row(f"{_FORCE} -M -C", Rank.HISTORY, "moves or overwrites a branch ({})"),
    ),
    "push": (
        _Row(f"{_FORCE} --force-with-lease --force-if-includes", Rank.HISTORY, _OVERWRITES),
        _Row("--mirror --prune -d --delete", Rank.HISTORY, _REMOTE_BRANCHES),
        _Row("--no-verify", Rank.OTHER, _NO_HOOKS),
        _Row("", Rank.OTHER, "sends commits to a remote repository ({})"),
    ),
    "commit": (
        _Row("--amend", Rank.OTHER, "rewrites the last commit ({})"),
        _Row("-n --no-verify", Rank.OTHER, _NO_HOOKS),
    ),
    "merge": (_Row("--no-verify", Rank.OTHER, _NO_HOOKS),),
    "rebase": (_Row("", Rank.OTHER, "rewrites local commits ({})"),),
    "tag": (_Row("-d --delete -f --force", Rank.OTHER, "deletes or moves a tag ({})"),),
    "remote": (
        _Row("", Rank.OTHER, "changes the address of a remote ({})", action="set-url"),
        _Row("", Rank.OTHER, "adds a remote ({})", action="add"),
    ),
}
_VALUED = {
    "commit": "-m -F -C -c -t --message --file --reuse-message --reedit-message --template --author"
    " --date --fixup --squash --trailer",
    "push": "-o --push-option --repo --receive-pack --exec",
    "tag": "-m -F -u --message --file --local-user",
    "branch": "-u --set-upstream-to --sort --format --points-at --contains --merged",
}
_DRY = ("-n", "--dry-run")


def find_marks(command: SimpleCommand, effects: CommandEffects) -> Iterator[Mark]:
    """Yield the marks for a Git command.

    Args:
        command: The command.
        effects: Its effects.
    """
    words = git_words(command.words)
    verb = words[1] if len(words) > 1 else ""
    parsed = _parse(verb, words[2:])
    shown = show_command(command)
    if verb == "push" and parsed.has(*_DRY):
        return
    # A `+` before a refspec forces the update, and `:branch` deletes the branch (git-push(1)).
    if verb == "push" and any(each.startswith(("+", ":")) for each in parsed.operands):
        yield Mark(Rank.HISTORY, _REMOTE_BRANCHES, shown)
        return
    for row in _ROWS.get(verb, ()):
        if _fits(row, parsed):
            yield Mark(row.rank, row.text, shown)
            if row.rank <= Rank.LAST_GRAVE:
                return  # the phrases from later rows would only weaken this one
    if verb in ("checkout", "restore"):
        yield from _mark_restored(verb, parsed, effects, shown)
    for found in effects.found:
        if isinstance(found.query, UntrackedQuery):
            kind = "untracked and ignored files" if found.query.certain else "untracked files"
            yield Mark(Rank.DELETION, f"deletes all {kind} ({{}})", shown)


def _mark_restored(
    verb: str, parsed: Parsed, effects: CommandEffects, shown: str
) -> Iterator[Mark]:
    """Mark `checkout` and `restore` of paths, which overwrite uncommitted changes."""
    only_index = verb == "restore" and parsed.has("-S", "--staged")
    if only_index and not parsed.has("-W", "--worktree"):
        return
    if any(access.kind == "write" for access in effects.files):
        yield Mark(Rank.HISTORY, _DISCARDS, shown)


def _fits(row: _Row, parsed: Parsed) -> bool:
    if row.options and not parsed.has(*row.options.split()):
        return False
    if row.action and parsed.operands[:1] != (row.action,):
        return False
    return not row.extra or parsed.has(*row.extra.split())


def _parse(verb: str, rest: tuple[str, ...]) -> Parsed:
    """Parse the words after a sub-command; abbreviations of options in the table are completed."""
    syntax = get_syntax(verb)
    if verb in _VALUED:
        syntax = options.valued_only(frozenset(_VALUED[verb].split()))
    named = " ".join(f"{row.options} {row.extra}" for row in _ROWS.get(verb, ())).split()
    longs = frozenset(name for name in named if name.startswith("--"))
    return options.parse(rest, attrs.evolve(syntax, longs=syntax.longs | longs))
