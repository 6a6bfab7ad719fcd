"""Skills as text, and repositories made with a real git."""

import os
import shutil
import subprocess
from pathlib import Path

SKILL = "---\nname: {name}\ndescription: {description}\n---\n{body}\n"


def skill_text(name: str, description: str = "Does a thing.", body: str = "Do the thing.") -> str:
    return SKILL.format(name=name, description=description, body=body)


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


class Repository:
    """A repository in a folder; ``git`` runs git in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", "--template=")

    def copy(self, path: Path) -> "Repository":
        """Return a copy in another folder."""
        shutil.copytree(self.path, path)
        copied = object.__new__(Repository)
        copied.path = path
        return copied

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def git(self, *words: str, given: bytes | None = None) -> str:
        names = {
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b",
        }
        env = {**os.environ, **names, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        # Without maintenance, which starts two more processes after each commit.
        options = ["-c", "protocol.file.allow=always", "-c", "maintenance.auto=false"]
        done = subprocess.run(
            ["git", *options, *words], cwd=self.path, env=env, input=given, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def commit(self, files: dict[str, str | bytes] | None = None, message: str = "c") -> str:
        write(self.path, files or {})
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", given=content)

    def raw_commit(self, entries: list[tuple[str, bytes, str]]) -> None:
        """Commit a tree that git itself would never make: mode, name, id."""
        data = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(identity)
            for mode, name, identity in entries
        )
        tree = self.git("hash-object", "-t", "tree", "--literally", "-w", "--stdin", given=data)
        self.git("update-ref", "refs/heads/main", self.git("commit-tree", tree, "-m", "raw"))
