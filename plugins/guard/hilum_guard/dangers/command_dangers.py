"""Find what is dangerous or notable in a command line, based on its commands and their effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hilum_guard.commands.verdicts import CommandVerdict, SimpleCommand
from hilum_guard.dangers import file_dangers, git_dangers, unknown_code
from hilum_guard.dangers.host_dangers import mark_hosts
from hilum_guard.dangers.marks import Mark, Rank, make_phrase, show_command
from hilum_guard.effects.command_effects import read_effects
from hilum_guard.effects.file_access import CommandEffects
from hilum_guard.effects.resolved_effects import resolve_effects
from hilum_guard.programs import options
from hilum_guard.programs.program_names import PREFIXES

MAX_COMMANDS = 200
"""Maximum number of commands whose effects are marked; text that contains more is unreadable."""
UNREADABLE = Mark(Rank.UNREADABLE, "could not be read completely and may do anything")
_OTHER_USER = frozenset("sudo doas pkexec su runuser".split())
_SU_VALUED = "cgGswT"
_PERMISSIONS = frozenset("chmod chown chgrp setfacl chattr chflags chcon".split())
_KILLERS = frozenset("pkill killall".split())
_PUBLISHING = frozenset(
    tuple(pair.split())
    for pair in """npm publish, pnpm publish, yarn publish, cargo publish, twine upload, poetry
    publish, uv publish, hatch publish, flit publish, gem push, docker push, podman push,
    vsce publish, helm push""".split(",")
)
_NOT_PUBLISHING = ("-n", "--dry-run", "--help")


def find_marks(verdict: CommandVerdict, roots: Sequence[str]) -> Iterator[Mark]:
    """Yield the marks for a command line. Reads the disk.

    Args:
        verdict: The command line, as read by ``judge_command``.
        roots: The workspace's resolved folders, the root first.
    """
    # A loop or a recipe may contain the same command many times.
    every = tuple(dict.fromkeys(verdict.all_commands))
    commands = every[:MAX_COMMANDS]
    if not verdict.complete or len(every) > MAX_COMMANDS:
        yield UNREADABLE
    # Damage that only several commands together cause cannot be attributed to one command.
    if verdict.kind == "block" and not any(command.damage for command in every):
        yield Mark(Rank.DAMAGE, make_phrase(verdict.reason))
    for command in every:
        if command.damage:
            text = f"{make_phrase(command.damage)} ({{}})"
            yield Mark(Rank.DAMAGE, text, show_command(command))
    effects = [read_effects(command) for command in commands]
    yield from unknown_code.mark_unknown_code(commands, effects)
    uses_network = any(each.network for each in effects)
    for command, effect in zip(commands, effects, strict=True):
        yield from _mark_program(command, effect)
        yield from _mark_files(command, effect, roots, uses_network=uses_network)
        yield from mark_hosts(effect.hosts)
    for unresolved in verdict.unresolved:
        words = " ".join(unresolved.words)
        yield Mark(Rank.OTHER, "may run something that cannot be read ({})", words)


def _mark_files(
    command: SimpleCommand, effects: CommandEffects, roots: Sequence[str], *, uses_network: bool
) -> Iterator[Mark]:
    resolved = resolve_effects((command,), roots[0], complete=True).effects
    changes = file_dangers.select_changes(resolved, roots[0])
    is_git = effects.program == "git"
    yield from file_dangers.mark_executed(changes, roots[0], is_git=is_git)
    yield from file_dangers.mark_secrets(
        effects.program, resolved, roots[0], uses_network=uses_network
    )
    # The phrase about the damage already describes these effects.
    if command.damage:
        return
    deletions = list(file_dangers.mark_deletions(command, effects, roots))
    if any(mark.rank is Rank.DELETION for mark in deletions):
        changes = [change for change in changes if change.kind != "delete"]
    outside = list(file_dangers.mark_outside(changes, roots))
    yield from outside
    named = {mark.name for mark in outside}
    yield from (mark for mark in deletions if mark.name not in named)


def _mark_program(command: SimpleCommand, effects: CommandEffects) -> Iterator[Mark]:
    """Yield the marks that follow from a command's program and options."""
    name = effects.program
    shown = show_command(command)
    if name in _OTHER_USER:
        yield _mark_other_user(command)
    elif name == "git" and not command.damage:
        yield from git_dangers.find_marks(command, effects)
    elif name in _PERMISSIONS and _is_deep(effects):
        yield Mark(Rank.PERMISSIONS, "changes permissions recursively ({})", shown)
    elif name in _KILLERS:
        yield Mark(Rank.OTHER, "ends processes by name ({})", shown)
    elif name == "ssh" and effects.hosts:
        yield Mark(Rank.OTHER, "runs commands on another machine ({})", effects.hosts[0])
    elif _publishes(command):
        yield Mark(Rank.PUBLICATION, "publishes to a registry ({})", shown)
    if unknown_code.runs_unchecked_code(command, effects):
        yield Mark(Rank.CODE, "runs code that hilum cannot check ({})", name)


def _is_deep(effects: CommandEffects) -> bool:
    return any(access.kind == "write" and access.deep == "all" for access in effects.files)


def _mark_other_user(command: SimpleCommand) -> Mark:
    name = command.program
    valued, _ = PREFIXES.get(name, (_SU_VALUED, 0))
    names = frozenset(f"-{letter}" for letter in valued) | {"--user"}
    parsed = options.parse(command.words[1:], options.valued_only(names, stops=name != "su"))
    users = parsed.values("-u", "--user")
    if name == "su":
        users = [operand for operand in parsed.operands if operand != "-"][:1]
    user = users[-1] if users else "root"
    if user == "root":
        return Mark(Rank.PRIVILEGES, "runs as root ({})", name)
    return Mark(Rank.PRIVILEGES, "runs as another user ({})", f"{name}: {user}")


def _publishes(command: SimpleCommand) -> bool:
    parsed = options.parse(command.words[1:], options.Syntax())
    pairs = {(command.program, operand) for operand in parsed.operands[:1]}
    return not _PUBLISHING.isdisjoint(pairs) and not parsed.has(*_NOT_PUBLISHING)
