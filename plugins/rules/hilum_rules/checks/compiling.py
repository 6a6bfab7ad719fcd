"""Makes checks of sentences.

What is not wholly understood stays advice: a false refusal is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath

from hilum_rules.checks.model import Ban, Check, Commands, Compiled, Effect
from hilum_rules.checks.vocabulary import FORCE_PUSH

EVERYWHERE = PurePosixPath(".")
_ADVICE = "advice: it is not worded as one of the constraints that can be enforced"


@cache
def _speaks() -> re.Pattern[str]:
    """Words without one of which no sentence is a constraint; most sentences have none."""
    return re.compile(
        r"\b(?:not|never|don['’]t|cannot|can['’]t|mustn['’]t|no|before|ask|requires?|needs?|forbidden|prohibited"
        r"|read[- ]only|off[- ]limits|immutable|frozen"
        r"|only|keep|limit|end|begin|start|must)\b|不|禁|勿|别|前|须|需|只|仅|控制|限制|必须|未经",
        re.IGNORECASE,
    )


def compile_rule(sentence: str, *, hard: bool, folder: PurePosixPath = EVERYWHERE) -> Compiled:
    """Create a check of a sentence, if all of it is understood.

    Args:
        sentence: The rule as it stands in its file, in one line.
        hard: Whether it stands in a section of hard constraints. Others are compiled only if their
            own words are hard.
        folder: The folder that its file governs, relative to the workspace.
    """
    if len(sentence) > 2_000 or not _speaks().search(sentence):
        return Compiled(None, _ADVICE)
    from hilum_rules.checks import chinese, english
    from hilum_rules.checks.objects import Reading
    from hilum_rules.checks.sentence import harmless_tail, read

    phrase = read(sentence)
    if isinstance(phrase, str):
        return Compiled(None, f"advice: {phrase}")
    grammar = chinese if re.search(r"[\u4e00-\u9fff]", phrase.head) else english
    found = grammar.read(Reading(phrase, folder))
    if found is None:
        return Compiled(None, _ADVICE)
    effect, bans = found
    if not harmless_tail(phrase):
        return Compiled(
            None, "advice: what follows in the same rule may bound it or except something from it"
        )
    if not hard and not phrase.strong:
        return Compiled(
            None,
            'advice: it stands in no section of hard constraints, and does not say "must never" or'
            " the like",
        )
    if not hard and not phrase.anchors and not _plain_enough(effect, bans):
        return Compiled(
            None, "advice: it stands in no section of hard constraints, and names nothing in quotes"
        )
    check = Check(tuple((effect, ban) for ban in bans))
    return Compiled(check, f"enforced: {check.says}")


def _plain_enough(effect: Effect, bans: Sequence[Ban]) -> bool:
    """Return whether words that name nothing can only mean one thing: to be asked before Git does
    something, no forced pushes.
    """
    commands = [
        ban.patterns for ban in bans if isinstance(ban, Commands) and ban.patterns[0][0] == "git"
    ]
    return len(commands) == len(bans) and (
        effect == "ask" or all(each == FORCE_PUSH for each in commands)
    )


def compile_lines(
    texts: Sequence[str], *, folder: PurePosixPath = EVERYWHERE, sentence: str = ""
) -> tuple[Compiled, list[tuple[int, str]]]:
    """Make one check of the ``enforce:`` lines that stand with a rule.

    Args:
        texts: What stands behind ``enforce:``, line by line.
        folder: The folder that the rules file governs, relative to the workspace.
        sentence: The rule they stand with.

    Returns:
        What came of them, and for each line that is malformed its index and what is wrong with it.
    """
    from hilum_rules.checks.written import compile_line

    made = [compile_line(text, folder) for text in texts]
    problems = [(number, each.problem) for number, each in enumerate(made) if each.problem]
    why = "; ".join(each.why for each in made)
    checks = [each.check for each in made if each.check is not None]
    if not checks:
        return Compiled(None, why, problems[0][1] if problems else ""), problems
    check = Check(tuple(part for each in checks for part in each.parts))
    return Compiled(check, why, problems[0][1] if problems else ""), problems
