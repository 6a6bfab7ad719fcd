"""The rules as layers of the system prompt: how to take them, one layer for each file, and those
that can be asked for.
"""

from __future__ import annotations

from hilum import Layer

from hilum_rules.current import Snapshot
from hilum_rules.places import in_one_line
from hilum_rules.rule import Mode, Rule, RulesFile

RANK = 40
PREAMBLE = """\
# Rules

The user and the project have written down rules, numbered FILE.RULE. Comply with each one that applies to what you do: look \
through them before you act and again before you answer. Where two contradict each other, the later file wins, for it is \
nearer to the work; what the user says in this conversation wins over both. [must] marks what must hold in every case. \
[enforced] marks what the system holds as well: it refuses what breaks the rule, so take another way and no way around. Rules \
are not permissions: they change no setting, no approval and nothing said above. If you cannot comply with a rule, say which \
and why."""
REMINDER = (
    "Check what you did and what you do next against the numbered rules; mend what breaks one"
    " before you go on."
)


def layers(snapshot: Snapshot, limit: int) -> list[Layer]:
    """Return the layers of the rules in play.

    Args:
        snapshot: The rules.
        limit: Bytes that the rules may take; of files beyond it only the beginning is shown, and
            that is said.
    """
    asked_for = _index(snapshot)
    shown = [file for file in snapshot.active if file.rules]
    if not shown:
        return asked_for
    found = [Layer(RANK, "rules", PREAMBLE)]
    for file in shown:
        text = _text(file, snapshot.numbers[file.path], limit)
        limit = max(limit - len(text.encode()), 0)
        found.append(Layer(RANK, f"rules {file.path}", text))
    return found + asked_for


def _index(snapshot: Snapshot) -> list[Layer]:
    """Tell of files that the model may ask for by their description."""
    waiting = [
        file
        for file in snapshot.files
        if file.mode is Mode.AGENT and file not in snapshot.active and file.rules
    ]
    if not waiting:
        return []
    lines = [f"- {file.path}: {file.description[:300]}" for file in waiting]
    head = (
        "There are more rules. Before you work on what one of these is about, read the file; its"
        " rules hold from then on."
    )
    return [Layer(RANK, "rules to ask for", "\n".join([head, *lines]))]


def _text(file: RulesFile, number: int, limit: int) -> str:
    common = _common(file)
    lines = [f"## {number}. Rules of {_described(file)}{f': {common}' if common else ''}"]
    section = common
    lead = ""
    size = 0
    for index, rule in enumerate(file.rules, 1):
        part = []
        if rule.section != section:
            section = rule.section
            lead = ""
            inner = section.removeprefix(common).removeprefix(" > ")
            part.append(f"### {inner}" if inner else "###")
        if rule.lead != lead:
            lead = rule.lead
            part += [lead] if lead else []
        part.append(_written(f"{number}.{index}", rule))
        size += sum(len(line.encode()) + 1 for line in part)
        if size > limit:
            lines.append(
                f"(The rules {number}.{index} to {number}.{len(file.rules)} are not shown for want"
                " of room: read the file.)"
            )
            break
        lines += part
    return "\n".join(lines)


def _common(file: RulesFile) -> str:
    """Return the title of the whole file, if all its rules stand under one."""
    titles = {rule.section.split(" > ")[0] for rule in file.rules}
    return titles.pop() if len(titles) == 1 else ""


def _described(file: RulesFile) -> str:
    whose = {"user": "the user's own", "settings": "the user's own", "project": "the project's"}[
        file.origin
    ]
    if file.folder.parts:
        scope = f", for what is in {in_one_line(str(file.folder))}/"
    else:
        scope = ""
    scope += (
        f", for files like {in_one_line(', '.join(file.globs[:5]))}"
        if file.mode is Mode.AUTO
        else ""
    )
    return f"{file.path} ({whose}{scope})"


def _written(number: str, rule: Rule) -> str:
    mark = "[enforced] " if rule.check is not None else "[must] " if rule.hard else ""
    first, *rest = rule.prompt_text.split("\n")
    margin = "  " * min(rule.depth, 4)
    return "\n".join(
        [f"{margin}{number} {mark}{first}", *(f"{margin}  {line}" if line else "" for line in rest)]
    )
