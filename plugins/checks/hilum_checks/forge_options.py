"""Parse the commands of `gh` and `glab` that open, edit or check out pull requests."""

from __future__ import annotations

from typing import Any

import attrs
from hilum_guard import UNKNOWN, make_option_syntax, parse_options

from hilum_checks.model import Words

_CREATE = make_option_syntax(
    flags="defw",
    valued="aBbFHlmprRtT",
    long_options=(
        "assignee= base= body= body-file= draft dry-run editor fill fill-first fill-verbose head="
        " label= milestone= no-maintainer-edit project= recover= reviewer= template= title= web"
        " repo="
    ),
)
_EDIT = make_option_syntax(
    valued="BbFmRt",
    long_options=(
        "add-assignee= add-label= add-project= add-reviewer= base= body= body-file= milestone="
        " remove-assignee= remove-label= remove-milestone remove-project= remove-reviewer= title="
        " repo="
    ),
)
_CREATE_MERGE = make_option_syntax(
    flags="fwy",
    valued="abdHilmRst",
    long_options=(
        "allow-collaboration assignee= copy-issue-labels create-source-branch description= draft"
        " fill fill-commit-body head= label= milestone= no-editor push recover related-issue="
        " remove-source-branch repo= reviewer= signoff source-branch= squash-before-merge"
        " target-branch= target-project= title= web wip yes"
    ),
)
_UPDATE_MERGE = make_option_syntax(
    flags="ry",
    valued="adlmRtu",
    long_options=(
        "assignee= description= draft label= lock-discussion milestone= ready remove-source-branch"
        " repo= reviewer= squash-before-merge target-branch= title= unassign unlabel="
        " unlock-discussion wip yes"
    ),
)
_CHECKOUT = make_option_syntax(
    flags="f", valued="bRu", long_options="branch= detach force recurse-submodules repo= track"
)
_DEVELOP = make_option_syntax(
    flags="cl", valued="bnR", long_options="base= branch-repo= checkout list name= repo="
)
_SYNTAXES: dict[Words, Any] = {
    ("gh", "pr", "create"): _CREATE,
    ("gh", "pr", "edit"): _EDIT,
    ("gh", "pr", "checkout"): _CHECKOUT,
    ("gh", "issue", "develop"): _DEVELOP,
    ("glab", "mr", "create"): _CREATE_MERGE,
    ("glab", "mr", "update"): _UPDATE_MERGE,
    ("glab", "mr", "checkout"): _CHECKOUT,
}
# The options that may precede the sub-command.
_FRONT = make_option_syntax(valued="R", long_options="repo=")


@attrs.frozen
class ForgeCommand:
    """A command of `gh` or `glab`.

    Attributes:
        verbs: The program and its sub-command, under its usual name.
        options: The options with their values, in order.
        operands: The other words after the sub-command.
    """

    verbs: Words
    options: tuple[tuple[str, str], ...]
    operands: Words

    def find_last(self, *names: str) -> tuple[str, str] | None:
        """Return the last of some options with its value, which is the one that counts."""
        found = [option for option in self.options if option[0] in names]
        return found[-1] if found else None


def read_forge_command(program: str, words: Words) -> ForgeCommand | None:
    """Parse a command whose options are known; return ``None`` for another one.

    Args:
        program: The name of the program.
        words: The words of the command.
    """
    if program not in ("gh", "glab"):
        return None
    arguments = words[1:]
    if program == "gh" and arguments[:1] == ("co",):
        arguments = ("pr", "checkout", *arguments[1:])
    front = parse_options(arguments, _FRONT)
    verbs: Words = (program, *front.operands[:2])
    if verbs[2:] == ("new",):
        verbs = (*verbs[:2], "create")
    syntax = _SYNTAXES.get(verbs)
    if syntax is None:
        return None
    skipped = front.positions[:2]
    rest = [word for number, word in enumerate(arguments) if number not in skipped]
    parsed = parse_options(rest, syntax)
    return ForgeCommand(verbs, parsed.options, parsed.operands)


def split_options(program: str, words: Words) -> Words:
    """Return words in which the value of each known option is a word: `--base=main`, `-Bmain`.

    Args:
        program: The name of the program.
        words: The words of the command.
    """
    command = read_forge_command(program, words)
    if command is None or not any(value for _, value in command.options):
        return words
    given = [word for option in command.options for word in option if word]
    return (*command.verbs, *given, *command.operands)


def may_have_more_options(command: ForgeCommand) -> bool:
    """Return whether a word that is known only at run time may be an option of the command."""
    return any(word.startswith(UNKNOWN) for word in command.operands)
