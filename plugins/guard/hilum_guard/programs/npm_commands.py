"""The commands of npm, with the abbreviations and other names that npm accepts for them."""

from __future__ import annotations

import re

_COMMANDS = frozenset(
    """access adduser approve-scripts audit bugs cache ci completion config dedupe deny-scripts deprecate diff dist-tag docs
    doctor edit exec explain explore find-dupes fund get help help-search init install
    install-ci-test install-scripts install-test link ll login logout ls org outdated owner pack ping pkg prefix
    profile prune publish query rebuild repo restart root run sbom search set shrinkwrap stage star stars
    start stop team test token trust undeprecate uninstall unpublish unstar update version view
    whoami""".split()
)
_ALIASES = {
    "author": "owner", "home": "docs", "issues": "bugs", "info": "view", "show": "view", "find": "search",
    "add": "install", "i": "install", "in": "install", "ins": "install", "inst": "install", "insta": "install",
    "instal": "install", "isnt": "install", "isnta": "install", "isntal": "install", "isntall": "install",
    "unlink": "uninstall", "remove": "uninstall", "rm": "uninstall", "r": "uninstall", "un": "uninstall",
    "ic": "ci", "clean-install": "ci", "install-clean": "ci", "isntall-clean": "ci",
    "it": "install-test", "cit": "install-ci-test", "clean-install-test": "install-ci-test", "sit": "install-ci-test",
    "u": "update", "up": "update", "upgrade": "update", "udpate": "update", "c": "config", "s": "search", "se": "search",
    "run-script": "run", "rum": "run", "urn": "run", "x": "exec", "t": "test", "tst": "test",
    "create": "init", "innit": "init", "ln": "link", "la": "ll", "list": "ls", "rb": "rebuild", "ddp": "dedupe",
    "v": "view", "verison": "version", "why": "explain", "hlep": "help", "cache-clean": "cache",
    "add-user": "adduser", "dist-tags": "dist-tag", "ogr": "org",
}  # fmt: skip


def complete_npm_command(verb: str) -> str:
    """Return the command of npm that a word names, or the word itself if it names none.

    npm accepts other names, `camelCase`, and the beginning of a name if only one begins so.
    """
    name = re.sub(r"([A-Z])", lambda match: f"-{match[1].lower()}", verb)
    if name in _COMMANDS:
        return name
    if name in _ALIASES:
        return _ALIASES[name]
    begun = {each for each in _COMMANDS if name and each.startswith(name)}
    begun |= {meant for alias, meant in _ALIASES.items() if name and alias.startswith(name)}
    # npm rejects a word that begins several names; all of them must mean the same here.
    return begun.pop() if len(begun) == 1 else verb
