"""Judge the commands in the project's own shell scripts, as those in its recipes are judged.

How a script that the project has in Git calls its tools is not what an agent does: `./mvnw` starts
`mvn`, and `scripts/test.sh` runs `pytest`. Only what is lasting counts, such as a push, and what the
call itself puts into the script: its arguments.
"""

from __future__ import annotations

import os
import re

import attrs
from hilum_guard import UNKNOWN

from hilum_checks import command_matcher, variables
from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.lasting_commands import select_lasting
from hilum_checks.model import Commands
from hilum_checks.path_matcher import Fit


def match_command(
    constraint: Commands, command: CommandFacts, facts: CallFacts, sentence: str
) -> Fit:
    """Return whether a constraint covers a command, perhaps one of a script of the project.

    Args:
        constraint: The constraint.
        command: The command.
        facts: The call.
        sentence: The rule, which may recommend the script: "use `run.sh`, never `pytest`".
    """
    fit = command_matcher.match_command(constraint, command)
    scripts = _find_own_scripts(command, facts) if fit and command.command.runners else []
    if not scripts or not _is_of_script(constraint, command, scripts):
        return fit
    lasting = select_lasting(constraint)
    if lasting is None or any(_is_named(script, sentence) for script in scripts):
        return ""
    return command_matcher.match_command(lasting, command)


def _find_own_scripts(command: CommandFacts, facts: CallFacts) -> list[CommandFacts]:
    """Return the commands that run the scripts that contain a command; none if one is not the project's.

    A call that sets variables, or writes a file of this name, may change what a script runs.
    """
    if any(map(variables.may_steer, facts.command_texts)):
        return []
    runners = command.command.runners
    # A recipe may run the script.
    commands = (*facts.commands, *facts.recipes)
    scripts = [each for each in commands if each.words in runners and _runs_script(each)]
    written = {
        os.path.basename(access.path)
        for each in facts.commands
        for access in each.effects.files
        if access.kind not in ("read", "any")
    }
    for script in scripts:
        path = _find_path(script)
        if not os.path.isfile(path) or os.path.basename(path) in written:
            return []
        if facts.runs_new_script(script):
            return []
    return scripts


def _runs_script(command: CommandFacts) -> bool:
    """Return whether a command runs a shell script."""
    script = command.effects.script
    return script is not None and (script.shell or script.position == 0)


def _find_path(command: CommandFacts) -> str:
    script = command.effects.script
    path = script.path if script else ""
    return os.path.normpath(os.path.join(command.cwd or "/", os.path.expanduser(path)))


def _is_of_script(constraint: Commands, command: CommandFacts, scripts: list[CommandFacts]) -> bool:
    """Return whether a command is forbidden even without the words that the call gives to its script."""
    given = [word for script in scripts for word in _list_arguments(script) if word]
    words = tuple(word for word in command.words if not any(each in word for each in given))
    if not words or any(UNKNOWN in word for word in words[:1]):
        return False
    plain = CommandFacts(
        attrs.evolve(command.command, words=words), command.effects, command.previous
    )
    return command_matcher.match_command(constraint, plain) == "yes"


def _list_arguments(command: CommandFacts) -> tuple[str, ...]:
    """Return the arguments of the script that a command runs."""
    script = command.effects.script
    return command.words[script.position + 1 :] if script else ()


def _is_named(command: CommandFacts, sentence: str) -> bool:
    """Return whether a rule names the script that a command runs."""
    script = command.effects.script
    path = os.path.normpath(script.path) if script else ""
    return (
        bool(path)
        and re.search(rf"(?<![\w/])(?:\./)?{re.escape(path)}(?![\w/])", sentence) is not None
    )
