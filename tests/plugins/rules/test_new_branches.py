"""Rules about the names of new branches hold for every command that creates one."""

import subprocess
from pathlib import Path

import pytest

from tests.support.judged_commands import judge_sentence

NAMES = "Branch names must start with `fix/`."
NONE = "Never create branches."


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a repository with the branches `main`, `old` and `fix/there`, and a remote's `far`."""
    folder = tmp_path_factory.mktemp("repository")
    for words in (
        "init -q -b main",
        "-c user.name=a -c user.email=a@example.com commit -q --allow-empty -m start",
        "branch old",
        "branch fix/there",
        "update-ref refs/remotes/origin/far HEAD",
        "init -q new",
    ):
        subprocess.run(["git", *words.split()], cwd=folder, check=True, capture_output=True)
    (folder / "make.py").write_text(
        "import subprocess\nsubprocess.run(['git', 'branch', 'bad', 'main'])\n"
    )
    (folder / "list.py").write_text(
        "# git branch names are short\nprint('git branch')\n"
        "run(['git', 'branch', '--list', 'x*'])\nrun(['git', 'branch', 'fix/a'])\n"
    )
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -b bad",
        "git checkout -qbbad",
        "git checkout -b team/bad",
        "git checkout fix/there -b bad",
        "git checkout -B bad fix/there",
        "git checkout --orphan bad",
        "git checkout --orph bad",
        "git switch -C bad",
        "git switch --create=bad",
        "git switch --force-c bad fix/there",
        "git switch --orphan bad",
        "git worktree add -b bad ../there",
        "git worktree add fix/there -b bad",
        "git worktree add ../there",
        "git worktree add --orphan ../there",
        "git stash branch bad",
        # without a checkout
        "git branch bad",
        "git branch bad main",
        "git branch -f bad HEAD",
        "git branch -v bad",
        "git branch --track bad origin/far",
        "git branch --no-track bad fix/there",
        "git branch -tdirect bad fix/there",
        "git -C . branch bad",
        "git branch fix/there && git branch bad",
        # renamed and copied ones
        "git branch -m bad",
        "git branch -m fix/there bad",
        "git branch -M old bad",
        "git branch --move bad",
        "git branch -c bad",
        "git branch -C old bad",
        "git branch --copy old bad",
        # references
        "git update-ref refs/heads/bad HEAD",
        "git update-ref -m why refs/heads/bad HEAD",
        "printf 'create refs/heads/bad HEAD\\n' | git update-ref --stdin",
        "git push . HEAD:bad",
        "git push . HEAD:fix/a HEAD:bad",
        "git push . HEAD:refs/heads/bad",
        "git fetch . main:bad",
        "git fetch origin main:bad",
        "git fetch . +HEAD:refs/heads/bad",
        "git symbolic-ref HEAD refs/heads/bad",
        "cp .git/refs/heads/main .git/refs/heads/bad",
        "git subtree split -P lib -b bad",
        # other programs
        "gh pr checkout 5 -b bad",
        "gh pr checkout --branch=bad 5",
        "gh co 5 -b bad",
        "glab mr checkout 5 -b bad",
        "gh issue develop 3 --checkout --name bad",
        "gh -R a/b issue develop 3 -cn bad",
        "git svn branch bad",
        "git svn branch -m why bad",
        "git flow feature start bad",
        "git-flow release start 1.0",
        "git town hack bad",
        # code and texts
        "bash -c 'git branch bad'",
        "python3 make.py",
        "python3 -c \"import os; os.system('git branch -m fix/there bad')\"",
        "python3 -c \"import os; os.system('git checkout -b bad')\"",
        "python3 -c \"import os; os.system('git checkout -b fix/a'); os.system('git switch -c bad')\"",
    ],
)
def test_other_names_are_denied(command: str, root: Path) -> None:
    assert judge_sentence(NAMES, command, root) == "deny"
    assert judge_sentence(NONE, command, root) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -b fix/a",
        "git checkout main -b fix/a",
        "git switch -c fix/a bad",
        "git worktree add -b fix/a ../there",
        "git worktree add ../there -b fix/a",
        "gh pr checkout 5 -b fix/a",
        "gh issue develop 3 -c -n fix/a",
        "git flow fix start a",
        "git checkout --orphan fix/a",
        "git stash branch fix/a",
        "git branch fix/a",
        "git branch fix/a old",
        "git branch -m fix/a",
        "git branch -m old fix/a",
        "git branch -c old fix/a",
        "git update-ref refs/heads/fix/a HEAD",
        "git push . HEAD:fix/a",
        "git fetch . old:fix/a",
        'git switch -c "fix/$NAME"',
        "python3 -c \"import os; os.system('git checkout -b fix/a')\"",
    ],
)
def test_names_with_the_prefix_are_free(command: str, root: Path) -> None:
    assert judge_sentence(NAMES, command, root) == ""
    assert judge_sentence(NONE, command, root) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git branch",
        "git branch -a",
        "git branch -vv",
        "git branch --list",
        "git branch --list 'x*'",
        "git branch -l x",
        "git branch --contains HEAD",
        "git branch --no-merged main",
        "git branch --sort=-committerdate",
        "git branch --format '%(refname)'",
        "git branch --show-current",
        "git branch -d old",
        "git branch -D old",
        "git branch -r -d origin/far",
        "git branch -u origin/far",
        "git branch -u origin/far old",
        "git branch --set-upstream-to=origin/far",
        "git branch --unset-upstream old",
        "git branch --edit-description old",
        "git checkout main",
        "git checkout far",
        "gh pr checkout 5",
        "gh pr checkout 5 --detach",
        "gh issue develop 3",
        "gh issue develop --list 3",
        "git svn fetch",
        "git flow feature list",
        "git checkout --track origin/far",
        "git switch --force old",
        "git switch -d HEAD",
        "git checkout -- a.txt",
        "git worktree add ../there main",
        "git worktree add -d ../there",
        "git worktree add ../far",
        "git worktree add ../old",
        "git worktree list",
        "git stash push -m branch",
        "git clone -b bad https://example.com/a.git",
        "git init -b trunk x",
        # branches that exist already
        "git branch -f old main",
        "git checkout -B old main",
        "git update-ref refs/heads/old HEAD",
        "git update-ref -d refs/heads/old",
        "git update-ref HEAD HEAD~",
        "git push . HEAD:old",
        "git push . :old",
        "git fetch . main:old",
        # copies of a remote's branches
        "git fetch origin far:far",
        "git fetch origin",
        "git fetch origin '+refs/heads/*:refs/remotes/origin/*'",
        "git pull origin main",
        "git push -u origin HEAD",
        # a new repository
        "cd new && git branch -M main",
        "git -C new branch -m trunk",
        "python3 list.py --git branch",
        "echo git branch bad",
    ],
)
def test_other_commands_are_free(command: str, root: Path) -> None:
    assert judge_sentence(NAMES, command, root) == ""


@pytest.mark.parametrize(
    "command",
    [
        'git branch "$NAME"',
        "gh issue develop 3 --checkout",
        'git switch -c "$NAME"',
        'git push . "HEAD:$NAME"',
        'git update-ref "refs/heads/$(cat name)" HEAD',
        "git fast-import < stream",
        "GIT_DIR=$OTHER git update-ref refs/heads/bad HEAD",
    ],
)
def test_names_that_are_known_only_at_run_time_need_approval(command: str, root: Path) -> None:
    assert judge_sentence(NAMES, command, root) == "ask"
