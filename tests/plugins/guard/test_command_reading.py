"""What the reader finds in a text: the same words as Bash, the commands for rules, the folder, what
is written.
"""

import errno
import os
import random
import shutil
import subprocess
import sys

import pytest
from hilum_guard import judge_command
from hilum_guard.effects.resolved_effects import resolve_effects

BASH = shutil.which("bash")
PIECES = [
    *"abc 'x\"\\ ;&|><#!=~*?[]{},$`()-+@%^:/.\n\t 0129é",
    *[
        "ls",
        "cat",
        "echo",
        "  ",
        "&&",
        "||",
        "2>&1",
        ">f",
        "<f",
        "'a b'",
        '"a b"',
        "\\ ",
        "$x",
        "-n",
        "{a,b}",
        "x=1",
    ],
    *["\\\n", "#c", "a=b", "\n\\", "<<<", "&>", "$'a'", '$"a"', ">|", "<>", "1>&2", ";;"],
]


@pytest.mark.skipif(BASH is None, reason="needs bash to compare with")
@pytest.mark.parametrize("seed", range(4))
def test_words_of_a_harmless_text_are_those_bash_finds(seed, trials, tmp_path):
    """For random texts that are judged harmless, each command Bash would run is one that was
    judged, word for word.
    """
    chance, compared = random.Random(seed), 0
    report = "".join(  # in one write, as the commands of a pipeline report at the same time
        f"""{name}() {{ printf "%s\\0" {name} "$@" $'\\1'; }} >&9\n"""
        for name in ("ls", "cat", "echo", "a", "b", "c")
    )
    for number in range(trials(400, 1500)):
        text = f"{chance.choice(['ls', 'cat', 'echo'])} " + "".join(
            chance.choices(PIECES, k=chance.randint(1, 9))
        )
        verdict = judge_command(text, workspace=tmp_path)
        if verdict.kind != "auto":
            continue
        out = tmp_path / f"report{number}"
        subprocess.run(
            [BASH, "--norc", "--noprofile", "-c", f'exec 9>{out}\nset -f\n{report}eval "$T"'],
            cwd=tmp_path, env={"T": text, "PATH": "/nonexistent"}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20, check=False,
        )  # fmt: skip
        calls = [call.split(b"\0")[:-1] for call in out.read_bytes().split(b"\1\0")[:-1]]
        judged = [[word.encode() for word in command.words] for command in verdict.commands]
        assert all(call in judged for call in calls), text
        compared += len(calls)
        out.unlink()
    assert compared > 50


def words(text, workspace):
    """The words of the commands of a text."""
    return [list(command.words) for command in judge_command(text, workspace=workspace).commands]


def test_commands_of_a_text_are_given_one_by_one(judged_workspace):
    """So that a rule for one command says nothing about the next."""
    assert words("git status && rm -rf 'a b' | sh", judged_workspace) == [
        ["git", "status"],
        ["rm", "-rf", "a b"],
        ["sh"],
    ]


def test_a_command_that_another_runs_is_given_too(judged_workspace):
    """With a mark on the one that only runs it."""
    verdict = judge_command("timeout 5 git push", workspace=judged_workspace)
    assert [(list(c.words), c.wrapper) for c in verdict.commands] == [
        (["timeout", "5", "git", "push"], True),
        (["git", "push"], False),
    ]
    assert ["git", "push"] in words("bash -c 'git push'", judged_workspace)
    assert ["git", "push"] in words("echo $(git push)", judged_workspace)


def test_words_that_only_the_run_tells_are_not_literal(judged_workspace):
    """A rule that allows must not trust them."""
    (command,) = judge_command("git $x", workspace=judged_workspace).commands
    assert not command.literal
    assert command.words == ("git", "…")


def test_the_folder_of_each_command_is_followed(judged_workspace):
    """`cd` counts for what follows, and not outside its parentheses."""
    commands = judge_command("(cd src && ls); pwd", workspace=judged_workspace).commands
    assert [c.cwd for c in commands][1:] == [str(judged_workspace / "src"), str(judged_workspace)]


def test_a_text_may_start_in_a_folder_of_the_workspace(judged_workspace):
    """What is relative is relative to it."""
    inside = judged_workspace / "src"
    assert (
        judge_command("cat ../README.md", workspace=judged_workspace, folder=inside).kind == "auto"
    )
    assert judge_command("cat ../../x", workspace=judged_workspace, folder=inside).kind == "ask"
    assert judge_command("rm -rf ..", workspace=judged_workspace, folder=inside).kind == "block"


def test_files_that_a_harmless_text_writes_are_named(judged_workspace):
    """So that a policy can judge them like files that a tool writes."""
    verdict = judge_command("ls > src/out.txt 2>/dev/null", workspace=judged_workspace)
    assert (verdict.kind, verdict.writes) == ("auto", (str(judged_workspace / "src" / "out.txt"),))


def test_a_recursive_search_asks_where_secrets_lie(tmp_path):
    """`grep -r` reads hidden files; a folder with one that may hold secrets is asked."""
    assert judge_command("grep -r foo .", workspace=tmp_path).kind == "auto"
    (tmp_path / ".env").write_text("KEY=1")
    assert judge_command("grep -r foo .", workspace=tmp_path).kind == "ask"
    assert judge_command("grep -r foo", workspace=tmp_path).kind == "ask"
    assert judge_command("grep -d recurse foo .", workspace=tmp_path).kind == "ask"
    assert judge_command("grep -r -e foo", workspace=tmp_path).kind == "ask"


def test_a_search_of_everything_is_asked_where_there_are_secrets(tmp_path):
    """`rg` skips hidden files only; other files with secrets are searched without being named."""
    assert judge_command("rg foo", workspace=tmp_path).kind == "auto"
    (tmp_path / "src").mkdir()
    (tmp_path / "secrets.json").write_text("")
    for command in ("rg foo", "rg -e foo", "rg foo ."):
        assert judge_command(command, workspace=tmp_path).kind == "ask", command
    assert judge_command("rg foo src", workspace=tmp_path).kind == "auto"


def test_a_pattern_that_takes_a_link_out_is_asked(tmp_path):
    """Patterns are judged by the files they take now."""
    workspace = tmp_path / "w"
    workspace.mkdir()
    (workspace / "a.md").write_text("")
    assert judge_command("cat *.md", workspace=workspace).kind == "auto"
    (workspace / "b.md").symlink_to(tmp_path)
    assert judge_command("cat *.md", workspace=workspace).kind == "ask"


def test_a_pattern_that_takes_an_option_is_asked(tmp_path):
    """A file can be named like an option."""
    (tmp_path / "--output=x").write_text("")
    assert judge_command("sort *", workspace=tmp_path).kind == "ask"


@pytest.mark.parametrize(
    "setting", ["core.fsmonitor", "core.pager", "diff.x.textconv", "diff.external", "alias.status"]
)
def test_git_is_asked_where_the_repository_names_programs(setting, tmp_path):
    """The settings of a repository are code.

    An alias cannot replace a command, and is none here.
    """
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=environ)
    assert judge_command("git status", workspace=tmp_path).kind == "auto"
    subprocess.run(["git", "-C", str(tmp_path), "config", setting, "./x"], check=True, env=environ)
    assert judge_command("git status", workspace=tmp_path).kind == (
        "auto" if setting == "alias.status" else "ask"
    )


def test_git_is_asked_where_a_hook_runs_when_it_looks(tmp_path):
    """`git status` writes the index, and Git runs a hook then."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=environ)
    (tmp_path / ".git" / "hooks").mkdir(exist_ok=True)
    (tmp_path / ".git" / "hooks" / "post-index-change").write_text("#!/bin/sh\n")
    assert judge_command("git status", workspace=tmp_path).kind == "ask"


def test_importing_the_plugin_loads_no_grammar():
    """It comes with the first command."""
    code = (
        "import sys, hilum_guard; "
        "print([m for m in sys.modules if 'tree_sitter' in m or m == 'hilum_guard.commands.shell_reader'])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "cat /proc/1/cwd/x",
        "cat link/x",
        "cd link && ls",
        "echo 1 > link/x",
        "find link -delete",
        "git -C link status",
        "rm -rf link/",
        "rm link",
    ],
)
def test_a_link_that_cannot_be_read_needs_approval_and_raises_nothing(text, monkeypatch, tmp_path):
    read_link = os.readlink

    def refuse(path, *args, **options):
        if os.fspath(path) == "/proc/1/cwd":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return read_link(path, *args, **options)

    monkeypatch.setattr(os, "readlink", refuse)
    (tmp_path / "link").symlink_to("/proc/1/cwd")
    read = judge_command(text, workspace=tmp_path)
    assert read.kind != "auto", read
    resolve_effects(read.all_commands, str(tmp_path), complete=read.complete)
