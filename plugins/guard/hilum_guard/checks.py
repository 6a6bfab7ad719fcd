"""Run the guard's checks for ``hilum doctor``: rules, secrets that are too short, the sandbox."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from hilum import config_folder
from hilum.checks import Check

from hilum_guard.rules.permissions_command import denials_from, find_tools
from hilum_guard.rules.rule_files import load
from hilum_guard.sandbox import sandbox_probe
from hilum_guard.sandbox.backends import INSTALL_ADVICE
from hilum_guard.secrets.redaction import Redactor


def check_guard(folder: Path, online: bool) -> Iterator[Check]:
    """Check permission rules, redaction and the sandbox. Blocks.

    Args:
        folder: The workspace whose rules are checked.
        online: Not used, because the guard does not contact a server.
    """
    yield from _check_rules(folder)
    for name in Redactor().too_short:
        yield Check(
            "warn",
            "redaction",
            f"{name} has fewer than 8 characters, so hilum does not redact it",
            "Use a longer key, or rename the variable if it is not a secret.",
        )
    for subject, found, fix in report_sandbox():
        is_enforced = found.startswith("enforced")
        is_note = subject == "sandbox: note"
        yield Check("ok" if is_enforced else "warn", subject, found, "" if is_note else fix)


def _check_rules(folder: Path) -> Iterator[Check]:
    rules = load(config_folder(), folder)
    tools = find_tools(folder, rules.rules)
    # Load the rules again, because a rule for a tool that does not exist is also a mistake.
    rules = load(config_folder(), folder, tools, agents=denials_from(folder))
    for mistake in rules.mistakes:
        yield Check(
            "fail",
            "permissions",
            mistake,
            "Correct the file. Until then, hilum denies every call that changes something.",
        )
    for problem in rules.foreign_problems:
        yield Check(
            "warn",
            "permissions",
            problem,
            "Correct the file, or remove its agent from the setting guard.denials_from.",
        )
    if not rules.mistakes:
        yield Check("ok", "permissions", f"{len(rules.rules)} rules, no mistakes")


def report_sandbox() -> list[tuple[str, str, str]]:
    """Return rows for ``hilum doctor``: the component, its state and the suggested action.

    May block for tens of milliseconds.
    """
    # A kept result may hide what no longer works.
    sandbox_probe.forget()
    found = sandbox_probe.probe()
    advice = ""
    if not found.by and sys.platform != "linux":
        advice = "Have hilum ask before it runs commands; on Windows, run hilum in WSL2."
    elif found.by not in ("bubblewrap", "sandbox-exec") and sys.platform == "linux":
        advice = INSTALL_ADVICE
    enforced = f"enforced by {found.by}"
    rows = []
    parts = {"files": found.files, "protected paths": found.protected, "processes": found.processes}
    for part, is_enforced in parts.items():
        if is_enforced:
            rows.append((f"sandbox: {part}", enforced, ""))
        else:
            rows.append((f"sandbox: {part}", "not enforced", advice))
    states = {"filter": f"{enforced}, without loopback", "": "not enforced"}
    network_advice = "" if found.network == "namespace" else advice
    rows.insert(2, ("sandbox: network", states.get(found.network, enforced), network_advice))
    return rows + [("sandbox: note", reason, "") for reason in found.reasons]
