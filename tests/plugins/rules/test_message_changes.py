"""A commit gets the message that was judged: hooks, editors and settings of the call count."""

from pathlib import Path

import pytest

from tests.support.judged_commands import judge_command

RULE = "deny commit-message /wip/i"


@pytest.mark.parametrize(
    "command",
    [
        # hooks
        "git -c core.hooksPath=hk commit --allow-empty -m 'feat: ok'", "git -c core.hooksPath=hk merge x",
        "git -c CORE.HOOKSPATH=hk cherry-pick x", "git -c core.hooksPath=$X commit -m ok", "git -c include.path=x commit -m ok",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=hk3 git commit -m ok",
        "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=hk; git commit -m ok",
        "env GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=hk git commit -m ok",
        "GIT_CONFIG_PARAMETERS=\"'core.hooksPath=hk'\" git commit -m ok", "git --config-env=core.hooksPath=X commit -m ok",
        "git --config-env core.hooksPath=X commit -m ok", "GIT_CONFIG_GLOBAL=x git commit -m ok", "HOME=x git commit -m ok",
        "git config core.hooksPath hk", "git config core.hooksPath hk; git commit -m ok", "git config --global include.path x",
        # editors
        "git -c core.editor='sed -i s/okF/wip/' commit -e -m 'feat: okF'", "GIT_EDITOR=/tmp/e.sh git commit -e -m ok",
        "GIT_EDITOR=/tmp/e.sh git commit -em ok", "EDITOR=/tmp/e.sh git commit --edi -m ok", "git commit -e -m ok",
        "VISUAL=/tmp/e.sh git revert HEAD", "GIT_EDITOR=/tmp/e.sh git rebase -i HEAD~2",
        "git config core.editor 'sed -i s/a/wip/'",
        "GIT_SEQUENCE_EDITOR=\"sed -i '1a exec sh x.sh'\" git rebase -i HEAD~2",
        "GIT_EDITOR=/tmp/e.sh git commit --fixup=reword:HEAD", "bash -c 'GIT_EDITOR=/tmp/e.sh git commit -e -m ok'",
        # what Git adds or removes
        "git -c trailer.a.cmd='echo wip' commit -m ok --trailer a", "git -c core.commentChar=f commit --cleanup=strip -m ok",
    ],
)  # fmt: skip
def test_what_may_change_a_message_is_asked(command: str, tmp_path: Path) -> None:
    assert judge_command(RULE, command, tmp_path) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m ok -m 'the rest'", "git commit -am ok", "git commit --amend --no-edit", "git commit --no-verify -m ok",
        "git -c core.hooksPath=/dev/null commit -m ok", "git -c user.name=x -c user.email=y commit -m ok",
        "git -c commit.gpgsign=false commit -qm ok", "GIT_AUTHOR_DATE=x GIT_COMMITTER_DATE=x git commit -m ok",
        "EDITOR=vim git commit -m ok", "GIT_EDITOR=true git rebase --continue", "git -c core.editor=true rebase --continue",
        "GIT_EDITOR=: GIT_SEQUENCE_EDITOR=\"sed -i '2,\\$s/pick/squash/'\" git rebase -i HEAD~2", "git merge --no-edit x",
        "git rebase main", "git pull --rebase", "git cherry-pick x", "GIT_PAGER=cat git log -1", "git config core.hooksPath",
        "git config --get core.editor", "git config --unset core.hooksPath", "git config user.name x",
        "GIT_TERMINAL_PROMPT=0 git push", "git commit --signoff --author 'me <e>' -m ok",
    ],
)  # fmt: skip
def test_what_leaves_a_message_alone_is_free(command: str, tmp_path: Path) -> None:
    assert judge_command(RULE, command, tmp_path) == ""


@pytest.mark.parametrize(
    "command",
    [
        "git -c core.hooksPath=hk commit -m ok", "git config core.hooksPath hk; git commit -m ok",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=hk git commit -m ok",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.editor GIT_CONFIG_VALUE_0='git push;' git commit",
    ],
)  # fmt: skip
def test_the_hooks_that_a_call_chooses_are_read(command: str, tmp_path: Path) -> None:
    (tmp_path / "hk").mkdir()
    (tmp_path / "hk/post-commit").write_text("#!/bin/sh\ngit push\n")
    assert judge_command("deny command git push", command, tmp_path) == "deny"
    assert judge_command("deny command git tag", command, tmp_path) == ""
