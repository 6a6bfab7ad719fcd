"""Read what Copilot in VS Code never approves automatically (``.vscode/settings.json``)."""

from __future__ import annotations

from hilum.config_files import LoadedFile

from hilum_guard.foreign.expressions import expand_beginnings
from hilum_guard.foreign.rule_list import Entry, Kind, RuleList
from hilum_guard.rules.expressions import Expression
from hilum_guard.rules.tool_names import Effect

MARK = b"chat.tools."
"""What a settings file with such entries contains; most settings files do not."""
_TABLES: tuple[tuple[str, Kind], ...] = (
    ("chat.tools.terminal.autoApprove", "shell"),
    ("chat.tools.edits.autoApprove", "edit"),
    ("chat.tools.urls.autoApprove", "fetch"),
)


def read(loaded: LoadedFile, rules: RuleList) -> None:
    """Add the rules of a settings file of VS Code: what is ``false`` needs approval."""
    for name, kind in _TABLES:
        table = loaded.data.get(name)
        for pattern, value in table.items() if isinstance(table, dict) else ():
            line = loaded.find_line((name, pattern))
            written = f"{name}: {pattern}"
            approves = _read_approval(value)
            if approves is None:
                # null removes an entry of VS Code itself.
                if value is not None:
                    rules.left.append(f"{written} (line {line}): it approves only a part of a call")
                continue
            effect: Effect = "allow" if approves else "ask"
            is_expression = pattern.startswith("/") and kind == "shell"
            if kind != "shell":
                rules.add(Entry(effect, kind, pattern, written, line))
                continue
            # The end of an expression may exclude arguments, so an allow rule would be wider.
            commands = [pattern]
            if is_expression:
                commands = [] if approves else _expand(pattern)
            for command in commands:
                rules.add(Entry(effect, kind, f"{command} *", written, line))
            if not commands and approves:
                reason = "hilum does not compare regular expressions"
                rules.left.append(f"{written} (line {line}): {reason}")
            elif not commands:
                text, _, flags = pattern[1:].rpartition("/")
                entry = Entry(effect, kind, None, written, line)
                rules.add(rules.check_expression(entry, Expression(text, flags)))


def _read_approval(value: object) -> bool | None:
    """Return whether an entry approves calls; None if it says nothing."""
    if isinstance(value, dict):
        # A URL has two approvals, of the request and of the response; hilum asks once.
        both = [value.get("approveRequest"), value.get("approveResponse")]
        if False in both or value.get("approve") is False:
            return False
        return True if value.get("approve") is True or all(each is True for each in both) else None
    return value if isinstance(value, bool) else None


def _expand(pattern: str) -> list[str]:
    """Return the beginnings of the commands that ``/expression/flags`` matches."""
    return expand_beginnings(pattern[1:].rpartition("/")[0])
