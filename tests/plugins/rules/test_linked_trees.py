"""Rules about paths hold in every working tree of the repository, and for its index."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.judged_commands import judge_command

GEN = "deny write gen/**"


def create_repository(parent: Path) -> Path:
    """Create a repository with a file `gen/x` and working trees inside and outside the folder."""
    folder = parent / "repository"
    (folder / "gen").mkdir(parents=True)
    (folder / "infra").mkdir()
    for name in ("gen/x", "infra/a.tf", "a.py"):
        (folder / name).write_text("x\n")
    for words in (
        "init -q -b main",
        "add .",
        "-c user.name=a -c user.email=a@example.com commit -q -m start",
        "worktree add -q inside -b me/y",
        "worktree add -q ../outside -b me/z",
    ):
        subprocess.run(["git", *words.split()], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_repository(tmp_path_factory.mktemp("project"))


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (GEN, "git worktree add -q w1 -b me/a && cd w1 && echo HACK > gen/x && git commit -qam gen"),
        (GEN, "git worktree add -q w1 -b me/a; echo HACK > w1/gen/x"),
        (GEN, "git worktree add -q /tmp/hilum-w1; echo HACK > /tmp/hilum-w1/gen/new"),
        (GEN, "git worktree add -q w1; git -C w1 rm gen/x"),
        (GEN, "git worktree add -q w1; python3 -c \"open('w1/gen/x', 'w')\""),
        (GEN, "echo HACK > inside/gen/x"),
        (GEN, "cd inside && echo HACK > gen/new"),
        (GEN, "cd ../outside && sed -i s/x/y/ gen/x"),
        (GEN, "cp a.py ../outside/gen/"),
        (GEN, "rm -r inside/gen"),
        (GEN, "find ../outside/gen -name x -delete"),
        (GEN, "mv inside/gen old"),
        (GEN, "python3 -c \"open('inside/gen/x', 'w').write('')\""),
        (GEN, "git -C ../outside checkout HEAD~1 -- gen"),
        (GEN, "env -C inside/gen tee x"),
        (GEN, "env --chdir=gen tee x"),
        (GEN, "mv inside w9; echo > w9/gen/x"),
        (GEN, "cp -r inside ../w9; echo > ../w9/gen/x"),
        (GEN, "git worktree move inside w9; echo > w9/gen/x"),
        ("deny write **", "echo > ../outside/new"),
        ("deny read infra/**", "cat inside/infra/a.tf"),
        ("deny read infra/**", "git -C inside show HEAD:infra/a.tf"),
        # the index
        (GEN, "git rm --cached gen/x && git commit -m x"),
        (GEN, "git rm -r --cached gen"),
        (GEN, "git rm -rq --cached ."),
        (GEN, "git -C inside rm --cached gen/x"),
        (GEN, "git update-index --force-remove gen/x"),
        (GEN, "git update-index --cacheinfo 100644,ce013625030ba8dba906f756967f9e9ca394464a,gen/x"),
        (GEN, "git update-index --add --cacheinfo 100644 ce013625030ba8dba906f756967f9e9ca394464a gen/x"),
        (GEN, "printf '100644 ce01362 0\\tgen/x\\n' | git update-index --index-info"),
        (GEN, "git --work-tree=/tmp/hilum-t add gen/x"),
        (GEN, "git --work-tree /tmp/hilum-t add -A"),
        (GEN, "git --work-tree=/tmp/hilum-t commit -am x"),
        (GEN, "GIT_WORK_TREE=/tmp/hilum-t git add gen/x"),
        (GEN, "git rm --cached :/gen/x"),
        (GEN, "cd infra; git rm --cached ':(top)gen/x'"),
        (GEN, "git reset HEAD~1 -- gen/x"),
        (GEN, "git reset main gen"),
    ],
)  # fmt: skip
def test_other_working_trees_are_protected(line: str, command: str, root: Path) -> None:
    assert judge_command(line, command, root) == "deny"


def test_code_in_another_tree_that_assembles_paths_needs_approval(root: Path) -> None:
    code = "python3 -c \"p = 'ge' + chr(110) + '/x'; open(p, 'w')\""
    assert judge_command(GEN, f"cd inside && {code}", root) == "ask"
    assert judge_command(GEN, f"git worktree add w1; cd w1; {code}", root) == "ask"
    assert judge_command(GEN, code, root) == ""  # the sandbox protects the folder


def test_the_scripts_of_the_project_run_in_another_tree(tmp_path: Path) -> None:
    root = create_repository(tmp_path)
    script = "import sys\nopen(sys.argv[1], 'w').write('x')\n"
    for folder in (root, root / "inside"):
        (folder / "a.py").write_text(script)
    subprocess.run(["git", "add", "a.py"], cwd=root, check=True)
    os.utime(root / "a.py", (1, 1))
    assert judge_command(GEN, "cd inside && python3 a.py out.txt", root) == ""
    (root / "inside/a.py").write_text(f"{script}open('ge' + chr(110) + '/x', 'w')\n")
    assert judge_command(GEN, "cd inside && python3 a.py out.txt", root) == "ask"


def test_files_that_a_list_names_need_approval(root: Path) -> None:
    assert judge_command(GEN, "git rm --cached --pathspec-from-file=list", root) == "ask"


def test_what_git_shows_in_another_tree_is_protected(root: Path) -> None:
    assert judge_command("deny read infra/**", "git -C inside log -p", root) == "ask"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (GEN, "git worktree add -q w1 -b me/a && cd w1 && echo x > a.py && git commit -qam x"),
        (GEN, "git worktree add -q w1; rm -rf w1"),
        (GEN, "git worktree remove inside"), (GEN, "git worktree remove --force ../outside"),
        (GEN, "rm -rf inside"), (GEN, "rm -rf ../outside"), (GEN, "git worktree prune"),
        (GEN, "cat inside/gen/x"), (GEN, "echo x > inside/a.py"), (GEN, "cd inside && git add gen/x && git commit -m x"),
        (GEN, "cd inside && python3 -c \"print(1)\""), (GEN, "mkdir -p /tmp/hilum-g/gen; echo > /tmp/hilum-g/gen/x"),
        (GEN, "git -C inside checkout me/y"), (GEN, "cd inside && git merge main"), (GEN, "git add ."),
        (GEN, "git rm --cached a.py"), (GEN, "git rm -n --cached gen/x"), (GEN, "git update-index --refresh"),
        (GEN, "git reset HEAD gen/x"), (GEN, "git reset gen/x"), (GEN, "git reset -q -- gen/x"),
        (GEN, "git reset --hard HEAD~1"),
        (GEN, "git rm --cached :/a.py"), (GEN, "mv a.py b.py"), (GEN, "cp -r infra w9; echo > w9/new"),
        (GEN, "git --work-tree=. status"), ("deny read infra/**", "git rm --cached infra/a.tf"),
        ("deny delete **", "git rm -r --cached gen"),
        ("deny write ../other/**", "echo > inside/gen/x"),
    ],
)  # fmt: skip
def test_other_files_remain_free(line: str, command: str, root: Path) -> None:
    assert judge_command(line, command, root) == ""
