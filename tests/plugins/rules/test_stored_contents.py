"""Rules that forbid reading hold for what Git has stored of the files."""

import subprocess
from pathlib import Path

import pytest

from tests.support.judged_commands import judge_command

SECRET = "deny access infra/**"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a file that must not be read, one that is not tracked, and others."""
    root = tmp_path_factory.mktemp("stored").resolve() / "workspace"
    for name in ("infra/main.tf", "app/a.py", "README.md", ".env"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text\n")
    (root / ".gitignore").write_text(".env\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "a")):
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    return root


@pytest.mark.parametrize(
    "command",
    [
        "git log -p", "git show", "git show HEAD", "git show main",
        "git grep x HEAD", "git archive HEAD | tar xO", "git diff HEAD~1",
        "git diff $(git hash-object -t tree /dev/null) HEAD", "git format-patch --root --stdout HEAD",
        "git clone . /tmp/d", "git clone file://{root} /tmp/d", "cd /tmp; git clone {root} d",
        "git cat-file --batch-all-objects --batch", "git rev-list --objects --all | git cat-file --batch",
        "git fast-export HEAD", "git stash show -p", "git stash push -p",
        "git stash list -p", "git worktree add w HEAD", "git bundle create b HEAD",
        "git checkout-index -a --prefix=out/", "git read-tree -u --prefix=out/ HEAD", "git difftool -y -x cat HEAD~2",
        "gitk --all", "tig", "cd app; git log -p", "cd /tmp; git -C {root} log -p", "cd /tmp; git --git-dir={root}/.git log -p",
        "cd /tmp; GIT_DIR={root}/.git git log -p", "git -c alias.x='log -p' x",
        "python3 -c \"import subprocess; subprocess.run(['git', 'log', '-p'])\"",
        "python3 -c \"import glob; print([open(f, 'rb').read() for f in glob.glob('.git/objects/*/*')])\"",
        "cp -r .git /tmp/g", "tar c .git", "cat .git/objects/pack/*.pack",
    ],
)  # fmt: skip
def test_commands_that_may_show_a_stored_file_are_asked(command: str, root: Path) -> None:
    assert judge_command(SECRET, command, root) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git show HEAD:infra/main.tf", "git blame infra/main.tf", "git log -p -- infra",
        "cd /tmp; git --git-dir={root}/.git show HEAD:infra/main.tf",
    ],
)  # fmt: skip
def test_commands_that_name_a_stored_file_are_denied(command: str, root: Path) -> None:
    assert judge_command(SECRET, command, root) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git status", "git log", "git log --stat", "git show --stat HEAD", "git log -p -- app/a.py", "git log -p app",
        "git show HEAD:app/a.py", "git diff", "git diff -- app", "git diff HEAD~1 -- app/a.py", "git blame app/a.py",
        "git grep x -- app", "git archive HEAD app", "git ls-files", "git add -A", "git commit -qm x", "git stash",
        "git stash -u", "git stash push -qu -m x", "git stash pop", "git stash list",
        "git clone https://h.example/r /tmp/r", "git switch other", "git pull", "git checkout -- app/a.py", "gitk -- app",
        "git diff HEAD~1 -- 'app/*.py'", "ls .git", "cat .git/HEAD", "du -sh .git", "cat .git/config",
    ],
)  # fmt: skip
def test_commands_that_show_other_files_or_none_are_free(command: str, root: Path) -> None:
    assert judge_command(SECRET, command, root) == ""


@pytest.mark.parametrize(
    "command", ["git log -p", "git show", "git archive HEAD", "git clone . /tmp/d"]
)
def test_a_file_that_git_does_not_track_is_in_no_history(command: str, root: Path) -> None:
    assert judge_command("deny read .env", command, root) == ""


def test_a_repository_whose_index_cannot_be_read_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/index").write_bytes(b"DIRC and more")
    assert judge_command(SECRET, "git log -p", tmp_path) == "ask"
    assert judge_command(SECRET, "git log -p -- app", tmp_path) == "ask"
    assert judge_command(SECRET, "git log", tmp_path) == ""


def test_a_worktree_has_the_stored_contents_too(root: Path, tmp_path: Path) -> None:
    tree = tmp_path.resolve() / "tree"
    subprocess.run(["git", "worktree", "add", "-q", str(tree)], cwd=root, check=True)
    assert judge_command(SECRET, "git log -p", tree) == "ask"
    assert judge_command(SECRET, "git log -p -- app", tree) == ""


STAGED = "git diff HEAD|git diff --cached|git --no-pager diff --staged -U5 --|git status -v|git add -A && git diff --cached"


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """A repository in which a change of a file is staged that must not be read, and another one."""
    root = tmp_path.resolve() / "workspace"
    for name in ("infra/main.tf", "infra/other.tf", "app/a.py", "README.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "a")):
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    (root / "app/a.py").write_text("other\n")
    subprocess.run(["git", "add", "app"], cwd=root, check=True)
    return root


@pytest.mark.parametrize("command", STAGED.split("|"))
def test_a_comparison_with_the_last_commit_shows_what_is_staged(command: str, staged: Path) -> None:
    assert judge_command(SECRET, command, staged) == ""
    for change in ("add", "rm --cached", "update-index --chmod=+x"):
        (staged / "infra/main.tf").write_text("changed\n")
        subprocess.run(["git", *change.split(), "infra/main.tf"], cwd=staged, check=True)
        assert judge_command(SECRET, command, staged) == "ask"
        subprocess.run(["git", "reset", "-q"], cwd=staged, check=True)
    assert judge_command(SECRET, command, staged) == ""


@pytest.mark.parametrize(
    "command",
    [
        "git diff HEAD main",
        "git diff --cached main",
        "git diff -C HEAD",
        "git diff HEAD --find-copies-harder",
        "git -c diff.renames=copies diff --cached",
        "GIT_INDEX_FILE=x git diff --cached",
        "git reset -q --soft HEAD~1; git diff --cached",
        "git diff --cached & git reset -q --soft HEAD~1",
        "export GIT_INDEX_FILE=x; git diff --cached",
        "make x; git diff --cached",
        "git read-tree HEAD~1 && git diff --cached",
        "echo ref: refs/heads/x > .git/HEAD; git diff HEAD",
        "git diff --merge-base HEAD",
        "sleep 9; git diff --cached",
        "git diff --cached $(git reset -q --soft HEAD~1)",
    ],
)
def test_other_comparisons_may_show_more(command: str, staged: Path) -> None:
    assert judge_command(SECRET, command, staged) == "ask"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose second commit changes a file that must not be read, and the third does not."""
    root = tmp_path_factory.mktemp("history").resolve() / "workspace"
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for number, name in enumerate(("infra/main.tf", "infra/main.tf", "app/a.py")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{number}\n")
        subprocess.run(["git", "add", "-A"], cwd=root, check=True)
        subprocess.run(["git", *identity, "commit", "-q", "-m", "a"], cwd=root, check=True)
    return root


@pytest.mark.parametrize(
    "command",
    [
        "git show",
        "git show HEAD",
        "git show @ --oneline",
        "git diff HEAD~1",
        "git diff HEAD^ HEAD",
        "git diff HEAD~1..HEAD",
        "git log -p -1",
        "git log -1 -p --format=%s",
        "git log -n 1 --patch HEAD",
        "git diff --cached HEAD~1",
    ],
)
def test_a_commit_that_changes_other_files_is_shown(command: str, history: Path) -> None:
    assert judge_command(SECRET, command, history) == ""
    assert judge_command("deny access app/**", command, history) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git show HEAD~1",
        "git show HEAD~2",
        "git diff HEAD~2",
        "git diff HEAD~2 HEAD~1",
        "git log -p",
        "git log -p -2",
        "git show HEAD HEAD~1",
        "git log -p -1 HEAD~1",
        "git show HEAD^{tree}",
        "git show --all",
        "git show -m HEAD",
        "git commit --allow-empty -qm x && git show",
        "git diff HEAD~2...HEAD",
        "git log -p -1 --all",
        "git show -C HEAD",
    ],
)
def test_a_commit_that_may_change_the_file_is_not(command: str, history: Path) -> None:
    assert judge_command(SECRET, command, history) == "ask"
