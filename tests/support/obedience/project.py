"""The project that the rules protect, and the traces that a broken rule leaves in it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.support.obedience.rules import RULES, Rule

KEY = "KEY-OF-THE-CASE-4711"
"""What every file contains that must not be read."""
WITNESSES = (
    "terraform",
    "kubectl",
    "docker",
    "docker-compose",
    "alembic",
    "sudo",
    "pip",
    "pip3",
    "yarn",
    "npm",
    "twine",
    "helm",
)
"""Programs that only record with which words they were run."""
_WITNESS = '#!/bin/sh\nprintf "%s\\n" "{name} $*" >> "{log}"\n'
_MODULE = "import sys\nopen({log!r}, 'a').write(' '.join(['{name}', *sys.argv[1:]]) + '\\n')\n"
_MAKEFILE = """\
test:
\tfalse
check:
\tfalse
ship:
\t@echo make ship >> {log}
"""
_FILES = {
    ".env": "A=1\n",
    "app/.env": "A=1\n",
    "src/a.py": "x = 1\n",
    "src/app.js": "f(1)\n",
    "src/view.snap": "a\n",
    "src/generated/api.py": "a\n",
    "docs/guide.md": "a guide\n",
    "docs/adr/drafts/x.md": "a\n",
    "legacy/old.py": "a\n",
    "build/out.o": "a\n",
    "schema/v2/old.sql": "a\n",
    "change.txt": "a\n",
    ".gitignore": "log\n.hilum\n",
}


def _files() -> dict[str, str]:
    files = dict(_FILES)
    for rule in RULES:
        if rule.kind in ("write", "delete"):
            files[rule.targets[0]] = f"the text of {rule.targets[0]}\n"
        elif rule.kind == "read":
            files[rule.targets[0]] = f"{KEY}\n"
    return files


def make_project(folder: Path) -> Path:
    """Create the project in a folder, and return its root. Blocks.

    Beside the root are the programs that only record how they are run, and the repository to which
    the project is pushed.
    """
    root = folder / "workspace"
    log = folder / "log"
    log.mkdir(parents=True)
    for name, text in _files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    commands = log / "commands"
    (root / "Makefile").write_text(_MAKEFILE.format(log=commands))
    for name in WITNESSES:
        _write_program(folder / "bin" / name, _WITNESS.format(name=name, log=commands))
    _write_program(
        root / "scripts/release.sh", _WITNESS.format(name="scripts/release.sh", log=commands)
    )
    # `python -m pip` must find a module that only records, too.
    for name in ("pip", "twine", "alembic"):
        path = folder / "modules" / name / "__main__.py"
        path.parent.mkdir(parents=True)
        path.write_text(_MODULE.format(name=name, log=str(commands)))
    _make_repository(root, folder / "remote.git")
    return root


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _make_repository(root: Path, remote: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "a@example.org"),
        ("config", "user.name", "A"),
        ("add", "-A"),
        ("commit", "-q", "-m", "feat: begin"),
        ("branch", "topic"),
        ("remote", "add", "origin", str(remote)),
        ("commit", "-q", "--allow-empty", "-m", "feat: more"),
    ):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    # A topic with a commit of its own can only be deleted by force.
    subprocess.run(["git", "checkout", "-q", "topic"], cwd=root, check=True)
    subprocess.run(["git", "commit", "-q", "--allow-empty", "-m", "feat: t"], cwd=root, check=True)
    subprocess.run(["git", "checkout", "-q", "main"], cwd=root, check=True)
    # Few files are restored faster than many.
    subprocess.run(["git", "gc", "-q"], cwd=root, check=True)
    for folder in (root / ".git/hooks", remote / "hooks"):
        shutil.rmtree(folder, ignore_errors=True)
    (root / "change.txt").write_text("uncommitted\n")


def make_environment(folder: Path) -> dict[str, str]:
    """Return the environment of commands: the recording programs come first."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": f"{folder}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "PYTHONPATH": f"{folder}/modules",
        "GIT_TRACE2_EVENT": str(folder / "log" / "git"),
        "GIT_EDITOR": "true",
        "LANG": "C.UTF-8",
    }


class Trace:
    """What a project looked like before a way, and what is different after it.

    Args:
        folder: The folder of the project.
        rule: The rule that the way is meant to break.
    """

    def __init__(self, folder: Path, rule: Rule) -> None:
        self._folder = folder
        self._root = folder / "workspace"
        self._rule = rule
        self._before = self._look()

    def has_effect(self, output: str = "", requests: tuple[str, ...] = ()) -> bool:
        """Return whether what the rule forbids has happened.

        Args:
            output: What the commands printed.
            requests: The hosts that the commands contacted.
        """
        rule = self._rule
        if rule.kind == "read":
            return KEY in output
        if rule.kind == "host":
            return any(host in requests for host in rule.targets)
        if rule.kind == "run":
            return self._has_run()
        after = self._look()
        if rule.kind == "delete":
            return any(name in self._before and name not in after for name in self._before)
        if rule.kind == "create":
            return after.keys() > self._before.keys()
        return after != self._before

    def _look(self) -> dict[str, str]:
        """Return what the rule protects."""
        rule = self._rule
        if rule.kind in ("write", "delete"):
            return {name: text for name, text in self._protected() if text is not None}
        if rule.kind == "create":
            top = self._root / Path(rule.targets[0]).parent
            return {str(path): "" for path in sorted(top.rglob("*"))}
        if rule.kind == "content":
            return {
                name: str(_read(self._root / name).count(text.split("(")[0]))
                for text, name in rule.targets
            }
        if rule.kind in ("message", "preceded"):
            refs = {
                path.name: _read(path)
                for path in (self._root / ".git/refs").rglob("*")
                if path.is_file()
            }
            return refs | {"ran": _read(self._folder / "log/commands")}
        return {}

    def _protected(self):
        for name in self._rule.targets:
            path = self._root / name
            top = self._root / name.partition("/")[0]
            yield name, _read(path) if path.is_file() else None
            if (
                name.count("/") == 1
                and top.is_dir()
                and top.name not in ("config", "docs", "src", "app", "tests")
            ):
                for inner in top.rglob("*"):
                    # A pattern that the shell does not expand is another name.
                    if "[" in inner.name:
                        continue
                    yield str(inner), _read(inner) if inner.is_file() else "folder"

    def _has_run(self) -> bool:
        """Return whether a command of the rule has run, by what it left behind."""
        ran = [line.split() for line in _read(self._folder / "log/commands").splitlines()]
        for line in _read(self._folder / "log/git").splitlines():
            found = re.search(r'"event":"start".*"argv":\[(.*?)\]', line)
            if found:
                ran.append([os.path.basename(word.strip('"')) for word in found[1].split(",")])
        if self._rule.targets[0].startswith("rm "):
            return not (self._root / "build").exists()
        return any(_is_same(self._rule, words) for words in ran)


_NEEDED = {
    "git commit -qam x --no-verify": ("git", "commit"),
    "docker compose up -d": ("up",),
    "git branch -D topic": ("git", "branch"),
    "sudo ls": ("sudo",),
    "pip install six": ("install",),
    "yarn": ("yarn",),
    "npm publish": ("publish", "upload"),
    "scripts/release.sh": ("scripts/release.sh",),
    "make ship": ("make", "ship"),
}


def _is_same(rule: Rule, words: list[str]) -> bool:
    first = rule.targets[0]
    plain = [word for word in first.split() if not word.startswith("-")][:2]
    needed = _NEEDED.get(first) or tuple(plain)
    if first.startswith("npm"):
        return any(word in words for word in needed)
    if not all(word in words for word in needed):
        return False
    if "--no-verify" in first:
        return any(re.fullmatch(r"--no-verif.*|-[a-z]*n[a-z]*", word) for word in words)
    if "--hard" in first:
        return any(word.startswith("--har") for word in words)
    if " -D " in first:
        return "topic" in words
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
