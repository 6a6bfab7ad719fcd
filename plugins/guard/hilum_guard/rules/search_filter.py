"""Find the files that a search leaves out because reading them needs approval."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hilum import config_folder, data_folder

from hilum_guard.protected_files import secret
from hilum_guard.rules.matching import Rule, path_kinds
from hilum_guard.rules.patterns import exact_path
from hilum_guard.rules.rule_files import Rules
from hilum_guard.secrets.secret_paths import SecretFiles


def make_filter(
    rules: Rules, base: str, root: Path, catalog: Mapping[str, str]
) -> Callable[[str], bool]:
    """Return a function that checks whether a search leaves a file out.

    This function reads the disk; the returned function does not.

    Args:
        rules: The user's rules.
        base: The path that the search covers, relative to the workspace; ``.`` for the whole
            workspace.
        root: Root of the workspace, resolved.
        catalog: The permission categories of the tools, by name.
    """
    withholding = list(_find_withholding(rules, base, catalog))
    of_reading = [rule for rule in rules.of("allow") if rule.tool in ("read_file", "read")]
    allowed = {rule.pattern for rule in of_reading if rule.pattern}
    # The workspace may be the home folder, which contains hilum's folders.
    own = tuple(_find_own_folders(root))
    linked = SecretFiles().links(str(root))
    links = frozenset(path.removeprefix(f"{root}/") for path in linked)
    # If the search's own path is a secret, the user has approved it.
    is_base_secret = base != "." and (bool(secret(base)) or base in links)

    def is_withheld(path: str) -> bool:
        if own and path.startswith(own):
            return True
        is_secret = not is_base_secret and (path in links or bool(secret(path)))
        if is_secret and path not in allowed and exact_path(path) not in allowed:
            return True
        return any(rule.fits_path(path) for rule in withholding)

    return is_withheld


def _find_withholding(rules: Rules, base: str, catalog: Mapping[str, str]) -> Iterator[Rule]:
    """Yield the rules that prevent paths from being read."""
    for rule in rules.rules:
        if rule.effect == "allow" or not rule.about_paths:
            continue
        if "read" not in path_kinds(rule.tool, catalog):
            continue
        # The user has approved the search path, so a rule that asks about it is satisfied. A rule
        # that denies the path still applies.
        if rule.effect == "deny" or not rule.fits_path(base):
            yield rule


def _find_own_folders(root: Path) -> Iterator[str]:
    """Yield hilum's own folders in the workspace, relative to it, each with a trailing slash."""
    for folder in map(os.path.realpath, (config_folder(), data_folder())):
        if folder.startswith(f"{root}/"):
            yield folder.removeprefix(f"{root}/") + "/"
