"""Committed files that programs execute stay in the working trees that an agent adds."""

import subprocess
from pathlib import Path

import hilum_guard
import hilum_shell
from hilum.testing import open_bench

WHO = {"user.name": "a", "user.email": "a@example.com"}
FILES = (".hilum/rules.lock", ".vscode/tasks.json", "a.py")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode()


async def test_an_agent_works_in_a_working_tree_of_its_own(tmp_path: Path) -> None:
    files = {name: f"{name}\n" * 1000 for name in FILES}
    async with open_bench(
        hilum_guard, hilum_shell, folder=tmp_path, files=files, approve="auto"
    ) as bench:
        root = bench.workspace
        git(root, "init", "-q", "-b", "main")
        for name, value in WHO.items():
            git(root, "config", name, value)
        git(root, "add", *FILES)
        git(root, "commit", "-qm", "start")
        for command in (
            "git worktree add -q w5 -b me/w5",
            "cd w5 && echo x >> a.py && git commit -qam 'feat: x' && git status --porcelain",
        ):
            result = await bench.call("run_terminal_cmd", command=command)
            assert not result.code, result.text
            assert "E_DENIED" not in result.text
        result = await bench.call("run_terminal_cmd", command="touch w5/.vscode/new.json || true")
        assert "E_DENIED" in result.text
    assert git(root, "diff", "--stat", "main", "me/w5").count("|") == 1
    assert (root / "w5/.hilum/rules.lock").read_text() == ".hilum/rules.lock\n" * 1000
    assert (root / "w5/.vscode.quarantined/new.json").exists()
