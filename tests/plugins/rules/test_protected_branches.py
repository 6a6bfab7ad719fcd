"""Rules about commits on a branch hold in every working tree, and for commands that move it."""

import subprocess
from pathlib import Path

import pytest

from tests.support.judged_commands import judge_command

MAIN = "deny command git commit, git push to branch main"
RELEASES = "deny command git commit to branch release/*"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a repository on the branch `me/x`, beside `main` and working trees of both kinds."""
    folder = tmp_path_factory.mktemp("project") / "repository"
    folder.mkdir()
    for words in (
        "init -q -b main",
        "-c user.name=a -c user.email=a@example.com commit -q --allow-empty -m start",
        "branch release/1",
        "switch -q -c me/x",
        "worktree add -q on-main main",
        "worktree add -q on-me -b me/y",
    ):
        subprocess.run(["git", *words.split()], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("git symbolic-ref HEAD refs/heads/main; git commit -m x", "deny"),
        ("git symbolic-ref refs/heads/z refs/heads/main", "deny"),
        ("echo 'ref: refs/heads/main' > .git/HEAD; git commit -m x", "ask"),
        ("git rebase main main; git commit -m x", "deny"),
        ("git checkout -; git commit -m x", "ask"),
        ("git checkout -qbz -tmain; git checkout main; git commit", "deny"),
        # other working trees
        ("git worktree add -q -f w1 main && cd w1 && git commit -m x", "deny"),
        ("git worktree add -q -f w1 main && git -C w1 commit -m x", "deny"),
        ("git worktree add -q -f ../main; cd ../main; git commit -m x", "deny"),
        ("git worktree add -q -B main w1; git -C w1 commit -m x", "deny"),
        ("git worktree add -q -f /tmp/hilum-w1 main && cd /tmp/hilum-w1 && git commit", "deny"),
        ("git -C on-main commit -m x", "deny"),
        ("cd on-main && git commit -m x", "deny"),
        ("cd on-main && git switch -c me/z; cd ..; git -C on-main commit -m x", ""),
        ("git switch -c me/z; git -C on-main commit -m x", "deny"),
        ("cd on-main; cd /nowhere; git commit -m x", "deny"),
        ("GIT_DIR=on-main/.git git commit -m x", "ask"),
        ("export GIT_DIR=.git/worktrees/on-main; git commit -m x", "ask"),
        ("git --git-dir=.git/worktrees/on-main commit -m x", "deny"),
        ("git --git-dir .git/worktrees/on-main commit -m x", "deny"),
        ("cd .git/worktrees/on-main && git --work-tree=. commit -m x", "deny"),
        ("git clone -q . /tmp/hilum-c1 && cd /tmp/hilum-c1 && git commit -m x", "ask"),
        ("env -C on-main git commit -m x", "deny"),
        ("env -iC on-main git commit -m x", "deny"),
        ("sudo --chdir=on-main git commit -m x", "deny"),
        ("env -C \"$(cat name)\" git commit -m x", "ask"),
        ("env GIT_DIR=on-main/.git git commit -m x", "ask"),
        ("mv on-main w9; git -C w9 commit -m x", "ask"),
        ("git worktree move on-main w9; git -C w9 commit -m x", "ask"),
        ("cp -r on-main w9; cd w9 && git commit -m x", "ask"),
        ("python3 -c \"import subprocess; subprocess.run(['git', 'commit'], cwd='on-main')\"", "ask"),
        ("python3 -c \"import os; os.chdir('on-main'); os.system('git commit -m x')\"", "ask"),
        # a switch that certainly fails
        ("cd on-main; git checkout -b me/x; git commit -m x", "deny"),
        ("cd on-main; git checkout nowhere; git commit -m x", "deny"),
        # commands that move a branch
        ("git update-ref refs/heads/main HEAD", "deny"),
        ("git update-ref refs/heads/main $(git commit-tree HEAD^{tree} -p main -m zz)", "deny"),
        ("git -C on-main update-ref HEAD me/x", "deny"),
        ("git update-ref \"$(cat name)\" HEAD", "ask"),
        ("git update-ref -d refs/heads/main", "deny"),
        ("git fetch . HEAD:main", "deny"),
        ("git fetch . me/x:main", "deny"),
        ("git fetch . 'refs/heads/me/*:refs/heads/*'", "deny"),
        ("git fetch origin me/x:main", "deny"),
        ("git -c remote.o.url=. -c remote.o.fetch=me/x:main fetch o", "deny"),
        ("git push . me/x:main", "deny"),
        ("git branch -f main HEAD", "deny"),
        ("git branch --force main", "deny"),
        ("git branch -M me/x main", "deny"),
        ("git branch -D main; git branch main HEAD", "deny"),
        ("git branch -m main old", "deny"),
        ("git checkout -B main", "deny"),
        ("git switch -C main me/x", "deny"),
        ("git rebase me/x main", "deny"),
        ("git fast-import <<< $'commit refs/heads/main\\ndata 0\\n'", "deny"),
        ("git rev-parse HEAD > .git/refs/heads/main", "deny"),
        ("sed -i s/a/b/ .git/packed-refs", "ask"),
    ],
)  # fmt: skip
def test_no_way_leads_to_a_protected_branch(command: str, kind: str, root: Path) -> None:
    assert judge_command(MAIN, command, root) == kind


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m x", "git -C on-me commit -m x", "cd on-me && git commit -m x",
        "git worktree add -q w1 -b me/z && cd w1 && git commit -m x",
        "git worktree add -q w1 -b me/z main && git -C w1 commit -m x",
        "git worktree add -q --detach w1 main && git -C w1 commit -m x",
        "cd on-main && git switch -c me/z && git commit -m x", "git switch -c me/z && git commit -m x",
        "cd on-main && git fetch && git checkout topic && git commit -m x",
        "cd on-main && git status; cd .. && git commit -m x",
        "mkdir -p /tmp/hilum-t1 && cd /tmp/hilum-t1 && git init -q && git commit --allow-empty -m x",
        "git switch main", "git checkout main && git pull", "git symbolic-ref HEAD refs/heads/main",
        "git fetch origin main:main", "git fetch origin main", "git branch -f main origin/main",
        "git update-ref refs/heads/main origin/main", "git checkout -B main origin/main", "git branch -M trunk",
        "git branch -D me/y", "git branch z main", "git rebase main me/x", "git rebase main", "git merge main",
        "git worktree remove on-main", "git worktree add w1 -B me/y main", "git update-ref refs/heads/me/x main",
        "python3 -c \"import subprocess; subprocess.run(['git', 'commit', '-m', 'x'])\"",
        "mv a b; git commit -m x", "cp -r on-me /tmp/hilum-c2; git commit -m x", "env -i git commit -m x",
        "env -C on-me git commit -m x", "cd on-main; env -C ../on-me git commit -m x",
        "git log main", "git branch", "git branch --list main", "cat .git/refs/heads/main", "git stash branch z",
    ],
)  # fmt: skip
def test_other_branches_remain_free(command: str, root: Path) -> None:
    assert judge_command(MAIN, command, root) == ""


def test_branches_of_a_wildcard_may_be_deleted(root: Path) -> None:
    assert judge_command(RELEASES, "git branch -d release/1", root) == ""
    assert judge_command(RELEASES, "git branch -f release/1", root) == "deny"
    assert judge_command("deny command git push to branch main", "git branch -f main", root) == ""


def test_a_new_repository_may_name_its_branch(tmp_path: Path) -> None:
    assert judge_command(MAIN, "git init -q && git branch -M main", tmp_path) == ""
    assert judge_command(MAIN, "git init -q; git checkout -b main", tmp_path) == ""


@pytest.mark.parametrize("verb", ["am", "cherry-pick", "revert"])
def test_giving_up_a_commit_makes_none(verb: str, tmp_path: Path) -> None:
    line = "require command make lint before git commit, git am, git cherry-pick, git revert"
    assert judge_command(line, f"git {verb} --abort", tmp_path) == ""
    assert judge_command(line, f"git {verb} --quit", tmp_path) == ""
    assert judge_command(line, f"git {verb} x", tmp_path) == "deny"
    assert (
        judge_command(f"deny command git {verb} --abort", f"git {verb} --abort", tmp_path) == "deny"
    )


@pytest.mark.parametrize(
    ("command", "elsewhere", "on_main"),
    [
        ('git push -u origin "$(git branch --show-current)"', "", "deny"),
        ("git push origin $(git rev-parse --abbrev-ref HEAD)", "", "deny"),
        ("git push origin `git symbolic-ref --short HEAD`", "", "deny"),
        ('git push origin "$(git branch --show-current 2>/dev/null)"', "", "deny"),
        ('B=$(git branch --show-current); git push origin "$B"', "", "deny"),
        ("export B=$(git branch --show-current)\ngit push origin $B", "", "deny"),
        ('git push origin HEAD:"$(git branch --show-current)"', "", "deny"),
        ('git push origin "HEAD:$(git symbolic-ref HEAD)"', "", "deny"),
        ("sh -c 'git push origin \"$(git branch --show-current)\"'", "", "deny"),
        ('git checkout -b z && git push -u origin "$(git branch --show-current)"', "", ""),
        ('git switch -q me/x && git push -u origin "$(git branch --show-current)"', "", ""),
        ('git switch main && git push origin "$(git branch --show-current)"', "deny", "deny"),
        ("git rebase origin/main && git push origin $(git branch --show-current)", "", "deny"),
        # what counts is the branch at the time of the question
        ("B=$(git branch --show-current); git checkout -q main; git push origin $B", "", "deny"),
        ("B=$(git branch --show-current); git checkout -b z; git push origin $B", "", "deny"),
        # what prints another branch, or may do so
        ('git push origin "$(git branch --show-current):main"', "deny", "deny"),
        ('git push origin "$(git branch --show-current | sed s/x/main/)"', "ask", "ask"),
        ('git push origin "$(git branch --show-current || echo main)"', "ask", "ask"),
        ("git checkout - && git push origin $(git branch --show-current)", "ask", "ask"),
        ("git checkout -b me/y; git push origin $(git branch --show-current)", "ask", "ask"),
        ("git rebase main main; git push origin $(git branch --show-current)", "ask", "ask"),
        ("git branch -m main; git push origin $(git branch --show-current)", "ask", "ask"),
        ("gh pr checkout 3; git push origin $(git branch --show-current)", "ask", "ask"),
        ("git push origin $(git -C on-main branch --show-current)", "ask", "ask"),
        ("git push origin $(GIT_DIR=on-main/.git git branch --show-current)", "ask", "ask"),
        ("echo x > .git/HEAD; git push origin $(git branch --show-current)", "ask", "ask"),
        ("git push origin $(cat name)", "ask", "ask"),
    ],
)
def test_the_current_branch_is_known_where_a_command_asks_git_for_it(
    command: str, elsewhere: str, on_main: str, root: Path
) -> None:
    rule = "deny command git push to branch main"
    assert judge_command(rule, command, root) == elsewhere
    assert judge_command(rule, command, root / "on-main") == on_main
