"""Rules hold for other names of programs, options, hosts and paths, and for names that Git adds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.judged_commands import judge_command

COMMIT = "deny command git commit"
APPLY = "deny command terraform apply -auto-approve"
SHORT = "deny command go test -short"
MESSAGE = "deny commit-message /wip|claude/i"
HOST = "deny host staging.corp.example"
SECRET = "deny read secret/**"
GIT = shutil.which("git") or "/usr/bin/git"
FOLDER = os.path.dirname(GIT)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a copy of a program, and with a file that must not be read."""
    root = tmp_path_factory.mktemp("names").resolve()
    for name in ("secret/a.txt", "a.py", "src/x.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "a")):
        subprocess.run(["git", *identity, *words], cwd=root, check=True)
    shutil.copy(GIT, root / "g")
    (root / "ok").write_text("#!/bin/sh\necho hi\n")
    return root


def judge_all(line: str, commands: list[str], root: Path) -> dict[str, str]:
    return {command: judge_command(line, command, root) for command in commands}


def test_copies_patterns_and_launchers_run_the_same_program(root: Path) -> None:
    commands = [
        "./g commit", f"{FOLDER}/g[i]t commit", f"{FOLDER}/gi[t] commit", f"cp {FOLDER}/g[i]t z; ./z commit",
        "cmake -E env git commit", "cmake -E env A=1 --unset=B git commit", "cmake -E time git commit",
        "cmake -E chdir /tmp git commit", "tini -- git commit", "eatmydata git commit", "logsave x git commit",
    ]  # fmt: skip
    assert set(judge_all(COMMIT, commands, root).values()) == {"deny"}
    assert judge_command(COMMIT, "touch git; g[i]t commit", root) == "ask"


def test_other_copies_and_patterns_are_free(root: Path) -> None:
    commands = [
        "./g status", f"{FOLDER}/g[i]t status", "cmake -E env ls", "cmake --build .", "./ok commit", "[ -f x ] && ls"
    ]  # fmt: skip
    assert set(judge_all(COMMIT, commands, root).values()) == {""}


def test_a_command_of_cmake_on_files_is_read(root: Path) -> None:
    assert judge_command("deny delete a.py", "cmake -E rm a.py", root) == "deny"
    assert judge_command("deny write a.py", "cmake -E copy src/x.py a.py", root) == "deny"
    assert judge_command("deny delete a.py", "cmake -E cat a.py", root) == ""


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (APPLY, "terraform apply --auto-approve"), (APPLY, "terraform apply -auto-approve=true"), (APPLY,
        "terraform apply -auto-approve"),
        ("deny command terraform apply --auto-approve", "terraform apply -auto-approve"), (SHORT, "go test --short"),
        (SHORT, "go test ./... -short=true"), ("deny command java -version", "java --version"),
        ("deny command rm -rf", "rm -r --force x"),
    ],
)  # fmt: skip
def test_options_with_one_dash_have_other_spellings(line: str, command: str, root: Path) -> None:
    assert judge_command(line, command, root) == "deny"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (APPLY, "terraform apply"), (APPLY, "terraform apply -auto-approve=false"), (APPLY, "terraform apply -input=false"),
        (SHORT, "go test -v"), (SHORT, "go test -run Short -timeout 5s"), ("deny command rm -rf", "rm -r x"),
    ],
)  # fmt: skip
def test_other_options_are_free(line: str, command: str, root: Path) -> None:
    assert judge_command(line, command, root) == ""


def test_a_sign_off_is_a_part_of_the_message(root: Path) -> None:
    commands = [
        "git -c user.name=wip commit -s -m ok", "git -c user.name=Claude commit --signoff -m ok",
        "GIT_COMMITTER_NAME=wip git commit -sm ok",
        "GIT_COMMITTER_EMAIL=wip@x git commit -as -m ok", "git config user.name wip; git commit -sm ok",
        "git -c user.name=wip cherry-pick -s x", "git -c user.name=wip merge --signoff -m ok x",
    ]  # fmt: skip
    assert set(judge_all(MESSAGE, commands, root).values()) == {"deny"}
    assert judge_command(MESSAGE, 'git -c user.name="$X" commit -sm ok', root) == "ask"
    free = [
        "git -c user.name=wip commit -m ok", "git commit -s -m ok", "git -c user.name=wip commit -m s",
        "git -c user.name=bob commit -sm ok",
        "git -c user.name=wip merge -s ours -m ok x", "git -c user.name=wip log -s",
    ]  # fmt: skip
    assert set(judge_all(MESSAGE, free, root).values()) == {""}


def test_a_sign_off_uses_the_name_in_the_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "config", "user.name", "wip"], cwd=tmp_path, check=True)
    assert judge_command(MESSAGE, "git commit -sm ok", tmp_path) == "deny"
    assert judge_command(MESSAGE, "git commit -m ok", tmp_path) == ""
    assert judge_command("require commit-message /wip/", "git commit -sm ok", tmp_path) == "deny"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ('curl "https://st{aging,}.corp.example"', "deny"), ('curl "https://{a,staging}.corp.example/x"', "deny"),
        ('curl "https://st{ag,}{ing,}.corp.example"', "deny"), ('wget "st{aging,}.corp.example"', "deny"),
        ('curl "https://stagin[g-g].corp.example"', "ask"),
        ('curl --variable h=corp --expand-url "https://staging.{{h}}.example"', "ask"),
        ('curl "https://x{a,b}.corp.example"', ""), ("curl https://x.example/{a,b}", ""),
        ("curl -d '{\"a\": 1, \"b\": 2}' https://x.example", ""),
    ],
)  # fmt: skip
def test_curl_expands_sets_in_addresses(command: str, verdict: str, root: Path) -> None:
    assert judge_command(HOST, command, root) == verdict


WALK = "import os,zlib\nfor d,_,n in os.walk('.'):\n  print([zlib.decompress(open(d+'/'+f,'rb').read()) for f in n])"
GLOB = "import glob,zlib\nfor f in glob.glob('.git/objec*/*/*'): print(open(f,'rb').read())"
PIPE = "import sys,zlib\nfor f in sys.stdin: print(zlib.decompress(open(f.strip(),'rb').read()))"


def test_stored_contents_have_other_names(root: Path) -> None:
    commands = [
        "git notes add -f -C $(git rev-parse HEAD:secret/a.txt)", "git notes append --reuse-message=1234567",
        "git diff y HEAD:a.py",
        "git diff HEAD:a.py y", "git replace 1234567 89abcde", "git update-index --cacheinfo 100644,abcdef1234,a.py",
        "git show $(git rev-parse HEAD:secret):a.txt", "git show abcdef12:a.txt", f'python3 - <<"E"\n{GLOB}\nE',
        f'python3 -c "{WALK}"', f'find . -path "*jects*" -type f | python3 -c "{PIPE}"',
        'find . -path "*jects*" -type f -exec pigz -dc {} \\;', "python3 -c 'from dulwich.repo import Repo; Repo(1)'",
    ]  # fmt: skip
    assert set(judge_all(SECRET, commands, root).values()) == {"ask"}
    assert judge_command(SECRET, "git notes add -C HEAD:secret/a.txt", root) == "deny"


def test_other_uses_of_stored_contents_are_free(root: Path) -> None:
    commands = [
        "git notes add -m x", "git notes show", "git notes add -C HEAD:a.py", "git diff", "git diff HEAD:a.py HEAD:src/x.py",
        "git show HEAD:a.py", "git show abcdef12:src/x.py", "git tag v1 HEAD", "git replace -l", "git update-index --refresh",
        "python3 -c \"import zlib; print(zlib.crc32(b'a'))\"", 'find . -name "*.py" -exec cat {} +', "find . -type f | wc -l",
    ]  # fmt: skip
    assert set(judge_all(SECRET, commands, root).values()) == {""}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no /proc")
@pytest.mark.parametrize(
    "command",
    [
        "cat /proc/1/root/etc/hostname", "cat /proc/1/cwd/x", "cat /proc/1/cwd/*", "cd /proc/1/cwd && cat x",
        "cp -r /proc/1/cwd d",
        "rm -r /proc/1/root/a", "git -C /proc/1/cwd status",
    ],
)  # fmt: skip
def test_links_that_cannot_be_read_are_judged(
    command: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.readlink

    def refuse(path: str, *arguments: object, **named: object) -> str:
        if os.fspath(path).startswith("/proc/1/"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *arguments, **named)  # type: ignore[arg-type]

    # An administrator may read these links.
    monkeypatch.setattr(os, "readlink", refuse)
    for line in (COMMIT, "deny write gen/**", "deny content /never/", "deny command git tag"):
        assert judge_command(line, command, root) == ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no /proc")
def test_other_names_of_the_working_folder_and_the_root_are_known(root: Path) -> None:
    assert judge_command("deny write gen/**", "echo x > /proc/1/cwd/gen/a", root) == "deny"
    assert (
        judge_command("deny write gen/**", "echo x > /proc/self/root{root}/gen/a", root) == "deny"
    )
    assert judge_command("deny write gen/**", "cd /proc/1/cwd && touch gen/a", root) == "deny"
