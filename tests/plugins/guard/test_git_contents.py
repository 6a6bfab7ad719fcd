"""A rule that denies reading a path holds for Git, which has the contents of all files in its
objects.
"""

import json
import subprocess

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked
from hilum_guard import judge_command
from hilum_guard.effects.resolved_effects import resolve_effects
from hilum_guard.rules.matching import CallFacts, fit, parse

PLUGINS = (hilum_guard, hilum_files, hilum_shell)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A repository with a file that must not be read, and others."""
    root = tmp_path_factory.mktemp("contents").resolve()
    for name in ("secrets/k.md", "src/a.py", "notes.txt", "src/secrets/k.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("text\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def fits(command, root, rule="read_file(secrets/**)"):
    """How a rule that denies fits a command."""
    read = judge_command(command, workspace=root)
    case = CallFacts("run_terminal_cmd", {"command": command}, command=read, category="execute",
                resolved=resolve_effects(read.all_commands, str(root), complete=read.complete))  # fmt: skip
    return fit(parse(rule, "deny"), case)


@pytest.mark.parametrize(
    "command",
    [
        "git show HEAD:secrets/k.md", "git show HEAD -- secrets", "git show HEAD:./secrets/k.md", "git show :secrets/k.md",
        "git show :0:secrets/k.md", "cd src && git show HEAD:secrets/k.md", "git -C src show HEAD:secrets/k.md",
        "git cat-file -p HEAD:secrets/k.md", "git cat-file blob HEAD:secrets/k.md", "git grep x secrets",
        "git grep -e x -- secrets/k.md", "git grep x HEAD -- secrets", "git log -p secrets/k.md", "git log -p -- secrets",
        "git log -L1,5:secrets/k.md", "git diff secrets/k.md", "git diff HEAD~3 -- secrets",
        "git diff HEAD~3:secrets/k.md HEAD:notes.txt",
        "git diff --no-index /dev/null secrets/k.md", "git blame secrets/k.md", "git annotate secrets/k.md",
        "git archive HEAD secrets", "git checkout-index --prefix=out/ secrets/k.md",
        "git format-patch -1 --stdout -- secrets/k.md",
        "git stash show -p -- secrets/k.md", "git --no-pager show HEAD:secrets/k.md", "git show HEAD:SECRETS/k.md",
        "git commit -F secrets/k.md", "git config -f secrets/k.md -l", "git config --blob=HEAD:secrets/k.md -l",
        "git read-tree --prefix=x/ HEAD:secrets/k.md", "git add secrets/k.md", "git mv secrets/k.md x", "mv secrets/k.md x",
        "bash -c 'git show HEAD:secrets/k.md'", "git -c alias.q='show HEAD:secrets/k.md' q",
    ],
)  # fmt: skip
def test_contents_that_are_named_are_denied(root, command):
    """In a revision, in the index, in a patch, in an archive, in a copy."""
    assert fits(command, root) == "yes"


@pytest.mark.parametrize(
    "command",
    [
        "git show", "git show HEAD", "git show HEAD~2", "git grep x", "git grep x HEAD", "git log -p", "git log -3 --patch",
        "git log -U0", "git log --word-diff", "git diff", "git diff HEAD~3", "git diff --cached", "git diff main..HEAD",
        "git diff --stat -p", "git archive HEAD", "git archive -o x.zip HEAD", "git checkout-index -a --prefix=out/",
        "git worktree add ../tree", "git worktree add tree HEAD", "git clone -q . copy", "git cat-file -p 1234abc",
        "git cat-file --batch", "git stash show -p", "git stash list -p", "git format-patch -3", "git bundle create x HEAD",
        "git fast-export --all", "git range-diff a b", "git reflog -p", "git status -vv", "git add -p", "git diff -- .",
        "git diff -- ':!src'", "git diff -- '*.md'", "git difftool", "git whatchanged -p", "git diff-tree -p HEAD",
        "git show HEAD:src/a.py HEAD", "git log -p -- ':/'", "git fsck --lost-found", "git unpack-file 1234abc",
        "git commit --dry-run -v",
    ],
)  # fmt: skip
@pytest.mark.parametrize("rule", ["read_file(secrets/**)", "read_file(*.pem)"])
def test_contents_that_may_be_shown_are_asked(root, command, rule):
    """Also for a pattern that can be anywhere: no sandbox hides a path in Git's objects."""
    assert fits(command, root, rule) == "maybe"


@pytest.mark.parametrize(
    "command",
    [
        "git status", "git log", "git log --oneline -5", "git log --stat", "git show --stat HEAD", "git show --name-only",
        "git diff --stat", "git diff --name-only HEAD~3", "git diff -- src", "git diff HEAD~3 src/a.py",
        "git show HEAD:src/a.py",
        "git log -p -- src", "git log -p src/a.py", "git grep x -- src", "git grep x src", "git blame src/a.py", "git add src",
        "git commit -m x", "git stash list", "git stash show", "git branch", "git cat-file -t HEAD", "git diff -- notes.txt",
        "git clone https://h.example/r", "git ls-files", "git rev-parse HEAD:secrets/k.md", "git show HEAD:",
        "git show -s HEAD",
        "git format-patch -1 --stdout -- src", "git diff --quiet", "cd src && git diff -- a.py", "git archive HEAD src",
        "git fsck", "git bundle verify x", "git worktree list",
    ],
)  # fmt: skip
def test_what_shows_other_files_or_none_is_not_asked(root, command):
    """Names, statistics, and files that are named.

    What Git does to files besides is held by the sandbox.
    """
    assert fits(command, root) in ("", "unread")


async def test_the_question_says_how_to_go_on(bench, asked):
    """A rule is denied by name, and asked in doubt with a hint.

    Headless runs can name the files instead.
    """
    kit = await bench(
        *PLUGINS, approve="auto", files={"secrets/k.md": "classified\n", "src/a.py": "a\n"}
    )
    (kit.folder / "config" / "permissions.toml").write_text(
        f"deny = {json.dumps(['read_file(secrets/**)'])}\n"
    )
    commit = "git init -q && git add src && git -c user.name=a -c user.email=b@c commit -qm x"
    await kit.call("run_terminal_cmd", command=commit)
    assert (
        await kit.call("run_terminal_cmd", command="git show HEAD:secrets/k.md")
    ).code == E_DENIED
    before = len(kit.of(ApprovalAsked))
    assert (await kit.call("run_terminal_cmd", command="git diff -- src")).code == ""
    assert len(kit.of(ApprovalAsked)) == before
    assert "git diff -- src" in (await asked(kit, "run_terminal_cmd", command="git diff")).reason
