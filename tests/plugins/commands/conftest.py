"""Sessions with custom commands, and with everything that guards what they run."""

import subprocess
from pathlib import Path

import pytest
from hilum.testing import open_bench
from hilum.trust import TrustedFolders

PLUGINS = ("guard", "files", "shell", "plan", "commands")


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def opened(tmp_path):
    """Open a bench on a workspace with ``files``; ``user`` are files of the user's home folder."""

    def make(files=None, *, user=None, trusted=True, plugins=(), **options):
        root = tmp_path / "workspace"
        write(root, files or {})
        write(tmp_path / "home", user or {})
        if trusted:
            TrustedFolders(tmp_path / "config").add(root)
        return open_bench(*PLUGINS, *plugins, folder=tmp_path, **options)

    return make


@pytest.fixture
def in_git(tmp_path):
    """Make the workspace a repository with one commit and one change."""
    root = tmp_path / "workspace"
    write(root, {"a.py": "x = 1\n"})
    run = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(root)]
    subprocess.run([*run[:1], "init", "-q", "-b", "main", str(root)], check=True)
    subprocess.run([*run, "add", "a.py"], check=True)
    subprocess.run([*run, "commit", "-q", "-m", "first commit"], check=True)
    write(root, {"a.py": "x = 2\n"})
    return root
