"""A user and a project with settings files of Claude Code, and what a log contains about hooks."""

import json
from contextlib import asynccontextmanager

from hilum.testing import open_bench
from hilum.trust import TrustedFolders
from hilum_hooks_claude.approvals import approve
from hilum_hooks_claude.listing import read_hooks


class Place:
    """A folder with a home, a configuration and a project, as ``open_bench`` makes them."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "workspace"
        for each in (self.home, self.project, folder / "config", folder / "data"):
            each.mkdir(parents=True)

    def write(self, path, text, mode=0o644):
        """Write a file of the project."""
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def user_hooks(self, table, **others):
        """Write the user's hooks."""
        file = self.home / ".claude/settings.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"hooks": table, **others}, indent=2))
        return file

    def project_hooks(self, table, *, approved=True, trusted=True):
        """Write the project's hooks, and approve them."""
        text = table if isinstance(table, str) else json.dumps({"hooks": table}, indent=2)
        self.write(".claude/settings.json", text)
        if trusted:
            TrustedFolders().add(self.project)
        if approved:
            judged, _ = read_hooks(self.project)
            approve(self.project, [each for each in judged if each.hook.source != "user"])

    @asynccontextmanager
    async def open(self, *plugins, **options):
        """Open a session with files, shell and guard in the project."""
        names = ("guard", "files", "shell", "hooks_claude", *plugins)
        async with open_bench(*names, folder=self.folder, **options) as bench:
            yield bench


def group(command, matcher="", **others):
    """Return the entries of an event with one command."""
    hook = {"type": "command", "command": command, **others}
    return [{"matcher": matcher, "hooks": [hook]}]


def ran(bench, event=""):
    """Return the data of the events about hooks."""
    found = [each.data for each in bench.events if getattr(each, "name", "") == "hooks_claude.ran"]
    return [data for data in found if event in ("", data["event"])]
