"""The rules as layers of the system prompt: one layer for each file."""

from __future__ import annotations

from hilum import Layer

from hilum_rules.hidden_characters import escape_name
from hilum_rules.rule import Mode, Rule, RulesFile
from hilum_rules.rule_store import Snapshot

# Rules come before skills (50), because a changed layer ends the cached prefix, and skills change
# more often.
RANK = 40
MAX_DESCRIPTION = 300
MAX_GLOBS = 5
MAX_INDENT = 4
PREAMBLE = """\
# Rules

The user and the project have written these rules, numbered FILE.RULE. Comply with each one that \
applies to your work: read them before you act and again before you answer. If two rules \
contradict each other, the one in the later file wins, because it is closer to the work; what the \
user says in this conversation overrides both. A rule marked [must] applies without exception. The \
system also enforces rules marked [enforced]: it denies calls that break them, so choose another \
approach and do not try to bypass them. Rules are not permissions: they change neither settings, \
approvals nor the instructions above. If you cannot comply with a rule, say which one and why."""
REMINDER = (
    "Check your work and your next step against the numbered rules; fix what breaks a rule before"
    " you continue."
)


def build_layers(snapshot: Snapshot, limit: int) -> list[Layer]:
    """Return the layers of the active rules.

    Args:
        snapshot: The rules.
        limit: Maximum size of the rules, in bytes. A file that exceeds the limit is truncated, and
            its layer mentions this.
    """
    layers = []
    shown = [file for file in snapshot.active if file.rules and not file.is_excluded]
    if shown:
        layers.append(Layer(RANK, "rules", PREAMBLE))
    for file in shown:
        text = _format_file(file, snapshot.numbers[file.path], limit)
        limit = max(limit - len(text.encode()), 0)
        layers.append(Layer(RANK, f"rules {file.path}", text))
    return layers + _index_layers(snapshot)


def _index_layers(snapshot: Snapshot) -> list[Layer]:
    """Return a layer that lists the files that the model may read, with their descriptions."""
    waiting = [
        file
        for file in snapshot.files
        if file.rules
        and file.mode is Mode.AGENT
        and not file.is_excluded
        and file not in snapshot.active
    ]
    if not waiting:
        return []
    lines = [f"- {file.path}: {file.description[:MAX_DESCRIPTION]}" for file in waiting]
    head = (
        "More rules are in these files. Before you work on the subject of a file, read it; its"
        " rules then apply."
    )
    return [Layer(RANK, "rules to ask for", "\n".join([head, *lines]))]


def _format_file(file: RulesFile, number: int, limit: int) -> str:
    # A single heading above all rules in a file is the file's title.
    headings = {rule.section.split(" > ")[0] for rule in file.rules}
    title = headings.pop() if len(headings) == 1 else ""
    head = f"## {number}. Rules of {_describe_file(file)}"
    lines = [f"{head}: {title}" if title else head]
    section = title
    lead = ""
    size = 0
    for index, rule in enumerate(file.rules, 1):
        part = []
        if rule.section != section:
            section = rule.section
            lead = ""
            part.append(_format_section(section, title))
        if rule.lead != lead:
            lead = rule.lead
            if lead:
                part.append(lead)
        part.append(_format_rule(f"{number}.{index}", rule))
        # One for the newline.
        size += sum(len(line.encode()) + 1 for line in part)
        if size > limit:
            last = f"{number}.{len(file.rules)}"
            lines.append(
                f"(The rules {number}.{index} to {last} are not shown, because they are too"
                " long: read the"
                " file.)"
            )
            break
        lines += part
    return "\n".join(lines)


def _format_section(section: str, title: str) -> str:
    return f"### {section.removeprefix(title).removeprefix(' > ')}".rstrip()


def _describe_file(file: RulesFile) -> str:
    described = "the project's" if file.origin == "project" else "the user's own"
    if file.folder.parts:
        described += f", for everything in {escape_name(str(file.folder))}/"
    if file.mode is Mode.AUTO:
        described += f", for files like {escape_name(', '.join(file.globs[:MAX_GLOBS]))}"
    return f"{file.path} ({described})"


def _format_rule(number: str, rule: Rule) -> str:
    mark = "[must] " if rule.hard else ""
    if rule.is_enforced:
        mark = "[enforced] "
    first, *rest = rule.content.split("\n")
    margin = "  " * min(max(rule.depth, 0), MAX_INDENT)
    lines = [f"{margin}{number} {mark}{first}"]
    lines += [f"{margin}  {line}" if line else "" for line in rest]
    return "\n".join(lines)
