"""Which files a search leaves out: those that ``read_file`` would need approval for, or be
denied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from hilum import config_folder, data_folder

from hilum_guard.protected import secret
from hilum_guard.rule_files import Rules
from hilum_guard.rules import exact_path, fit_path, path_kinds
from hilum_guard.secret_paths import SecretFiles


def make_filter(
    rules: Rules, base: str, root: Path, catalog: Mapping[str, str]
) -> Callable[[str], bool]:
    """Return what tells whether a file is left out. Looks at the disk once; the result does not.

    Args:
        rules: The user's rules.
        base: The path that the search names, relative to the workspace; ``.`` for all of it.
        root: Root of the workspace, resolved.
        catalog: The permission categories of the tools, by name.
    """
    patterns: list[str] = []
    for rule in rules.rules:
        if (
            rule.effect == "allow"
            or not rule.about_paths
            or "read" not in path_kinds(rule.tool, catalog)
        ):
            continue
        pattern = rule.pattern or ""
        # Who named a path that a rule has asked has approved it; a rule that denies is never
        # approved.
        if rule.effect == "deny" or not fit_path(pattern, base, strict=False):
            patterns.append(pattern)
    allowed = {
        rule.pattern
        for rule in rules.of("allow")
        if rule.tool in ("read_file", "read") and rule.pattern
    }
    own = tuple(_inside(root))
    links = frozenset(path[len(str(root)) + 1 :] for path in SecretFiles().links(str(root)))
    is_base_secret = base != "." and (bool(secret(base)) or base in links)

    def is_withheld(path: str) -> bool:
        if own and path.startswith(own):
            return True
        is_secret = not is_base_secret and (path in links or bool(secret(path)))
        if is_secret and path not in allowed and exact_path(path) not in allowed:
            return True
        return any(fit_path(pattern, path, strict=False) for pattern in patterns)

    return is_withheld


def _inside(root: Path) -> list[str]:
    """Return hilum's own folders that are in the workspace, each with a slash at its end."""
    found = []
    for folder in (config_folder(), data_folder()):
        real = os.path.realpath(folder)
        if real.startswith(f"{root}/"):
            found.append(f"{real[len(str(root)) + 1 :]}/")
    return found
