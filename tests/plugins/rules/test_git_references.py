"""Rules about tags, branches and commits hold for the plumbing commands of Git, too."""

from pathlib import Path

import pytest

from tests.support.judged_commands import judge_command

TAG, BRANCH = "deny command git tag", "deny command git branch"
DELETE, COMMIT = "deny command git branch -D", "deny command git commit"


@pytest.mark.parametrize(
    ("line", "command", "kind"),
    [
        (TAG, "git update-ref refs/tags/v1 HEAD", "deny"),
        (TAG, "git update-ref -m why refs/tags/v1 HEAD", "deny"),
        (TAG, "git -C . fetch . main:refs/tags/v1", "deny"),
        (TAG, "git fetch . +HEAD:tags/v1", "deny"),
        (TAG, "git pull origin main:refs/tags/v1", "deny"),
        (TAG, "git push . HEAD:refs/tags/v1", "deny"),
        (TAG, "git push origin HEAD:refs/tags/v1", "deny"),
        (TAG, "git symbolic-ref refs/tags/v1 refs/heads/main", "deny"),
        (TAG, "printf 'create refs/tags/v1 HEAD\\n' | git update-ref --stdin", "deny"),
        (TAG, "git update-ref --stdin < updates", "ask"),
        (TAG, "git update-ref \"$(cat name)\" HEAD", "ask"),
        (TAG, "git fast-import <<< $'reset refs/tags/v1\\nfrom refs/heads/main\\n'", "deny"),
        (TAG, "git fast-import <<< $'tag v1\\nfrom refs/heads/main\\n'", "deny"),
        (TAG, "git fast-import < stream", "ask"),
        (TAG, "git mktag < object", "deny"),
        (TAG, "cp .git/refs/heads/main .git/refs/tags/v1", "deny"),
        (TAG, "cd .git/refs; git rev-parse HEAD > tags/v1", "deny"),
        (TAG, "python3 -c \"import subprocess; subprocess.run(['git', 'update-ref', 'refs/tags/v1', 'HEAD'])\"", "deny"),
        (BRANCH, "git update-ref refs/heads/x HEAD", "deny"),
        (BRANCH, "git fetch . main:x", "deny"),
        (BRANCH, "git push . HEAD:x", "deny"),
        (DELETE, "git update-ref -d refs/heads/x", "deny"),
        (DELETE, "git push . :x", "deny"),
        (DELETE, "git push . --delete x", "deny"),
        (DELETE, "git symbolic-ref -d refs/heads/x", "deny"),
        (DELETE, "rm .git/refs/heads/x", "deny"),
        (COMMIT, "git update-ref HEAD $(git commit-tree -p HEAD -m x HEAD^{tree})", "deny"),
        (COMMIT, "git hash-object -t commit -w --stdin < object", "deny"),
        (COMMIT, "git fast-import <<< $'commit refs/heads/x\\ndata 0\\n'", "deny"),
        (COMMIT, "git fast-import < stream", "ask"),
    ],
)  # fmt: skip
def test_plumbing_counts_as_the_usual_command(
    line: str, command: str, kind: str, tmp_path: Path
) -> None:
    assert judge_command(line, command, tmp_path) == kind


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (TAG, "git fetch"), (TAG, "git fetch --tags origin"), (TAG, "git push origin v1"), (TAG, "git push --tags"),
        (TAG, "git fetch origin 'refs/tags/*:refs/tags/*'"), (TAG, "git push origin HEAD:refs/heads/x"),
        (TAG, "git update-ref refs/heads/x HEAD"), (TAG, "git symbolic-ref refs/tags/v1"), (TAG, "git show v1"),
        (TAG, "git rev-parse refs/tags/v1"), (TAG, "cat .git/refs/tags/v1"), (TAG, "cp a refs/tags/v1"),
        (BRANCH, "git push origin HEAD:x"), (BRANCH, "git fetch origin main"), (BRANCH, "git switch -c x"),
        (BRANCH, "git symbolic-ref HEAD"), (DELETE, "git update-ref refs/heads/x HEAD"), (DELETE, "git push origin :x"),
        (COMMIT, "git update-ref refs/heads/x HEAD"), (COMMIT, "git hash-object -w a"), (COMMIT, "git pull"),
        ("deny command git push to branch main", "git fetch . HEAD:main"),
    ],
)  # fmt: skip
def test_other_commands_remain_free(line: str, command: str, tmp_path: Path) -> None:
    assert judge_command(line, command, tmp_path) == ""
