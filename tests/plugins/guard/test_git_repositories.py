"""Git commands that only read are asked wherever the repository may name a program that they run.

The cases are attacks by a repository that a user opens, such as an unpacked archive.
"""

import shutil
import struct
import subprocess

import pytest
from hilum_guard import judge_command, repository_doubt

USER = ("-c", "user.name=a", "-c", "user.email=a@b.c")
FSMONITOR = "[core]\n\tfsmonitor = ./evil\n"


def git(folder, *arguments):
    subprocess.run(["git", *USER, "-C", str(folder), *arguments], check=True)


def create(folder):
    """Create a repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a").write_text("a\n")
    git(folder, "init", "-q")
    git(folder, "add", "a")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def append(folder, text):
    with open(folder / ".git" / "config", "a") as file:
        file.write(text)


def kind(command, folder):
    return judge_command(command, workspace=folder).kind


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository to copy, which is faster than creating one."""
    return create(tmp_path_factory.mktemp("repository") / "w")


@pytest.fixture
def root(tmp_path, repository):
    root = shutil.copytree(repository, tmp_path / "w")
    assert kind("git status", root) == kind("git log -p", root) == "auto"
    return root


RUNNING = [
    '[remote "o"]\n\tpromisor = true\n', '[remote "o"]\n\tuploadpack = ./evil\n', "[extensions]\n\tpartialClone = o\n",
    '[remote "o"]\n\tpartialclonefilter = blob:none\n', '[remote "o"]\n\tvcs = evil\n',
    '[remote "o"]\n\treceivepack = ./evil\n', "[uploadpack]\n\tpackObjectsHook = ./evil\n",
    "[core]\n\tsshCommand = ./evil\n", "[core]\n\tgitProxy = ./evil\n", "[core]\n\thooksPath = .\n",
    "[core]\n\teditor = ./evil\n",
    "[core]\n\taskPass = ./evil\n", "[core]\n\talternateRefsCommand = ./evil\n", "[core]\n\tattributesFile = x\n",
    "[core]\n\tworktree = ..\n", "[core]\n\tpager = ./evil\n", "[pager]\n\tlog = ./evil\n",
    "[credential]\n\thelper = ./evil\n",
    '[diff "x"]\n\tcommand = ./evil\n', '[diff "x"]\n\ttextconv = ./evil\n', '[filter "x"]\n\tprocess = ./evil\n',
    '[filter "x"]\n\tsmudge = ./evil\n', '[filter "x"]\n\tclean = ./evil\n', '[merge "x"]\n\tdriver = ./evil\n',
    "[gpg]\n\tprogram = ./evil\n", '[gpg "ssh"]\n\tprogram = ./evil\n', "[log]\n\tshowSignature = true\n",
    "[sequence]\n\teditor = ./evil\n", "[include]\n\tpath = x\n", '[includeIf "gitdir:/"]\n\tpath = x\n',
    "[diff]\n\tsubmodule = log\n", "[status]\n\tsubmoduleSummary = true\n", "[submodule]\n\trecurse\n",
    "[grep]\n\trecurseSubmodules = true\n", "[extensions]\n\tobjectFormat = sha256\n",
]  # fmt: skip


def test_settings_that_run_programs_are_asked(root):
    """Some of them run a program when Git fetches a missing object."""
    config = root / ".git" / "config"
    before = config.read_text()
    for text in RUNNING:
        config.write_text(before + text)
        assert kind("git log -p", root) == "ask", text
        assert repository_doubt(str(root)), text


def test_usual_settings_are_not_asked(root):
    """Names of remotes and branches are any text."""
    append(
        root,
        '[remote "promisor"]\n\turl = https://vcs.example/recurse\n[submodule "x"]\n\turl = ../x\n',
    )
    assert kind("git status", root) == "auto"


def test_settings_that_are_too_long_are_asked(root):
    """What is not read may name a program."""
    append(root, "#" * 120_000 + "\n" + FSMONITOR)
    assert kind("git status", root) == "ask"


def test_the_end_of_a_line_belongs_to_no_pointer_and_spaces_do(root):
    """Git removes only ends of lines from `gitdir:` and `commondir`."""
    sub = create(root / "sub")
    append(sub, FSMONITOR)
    shutil.move(sub / ".git", root / "evil ")
    shutil.copytree(root / ".git", root / "evil")
    (sub / ".git").write_text("gitdir: ../evil\n")
    assert kind("git -C sub log", root) == "auto"
    (sub / ".git").write_text("gitdir: ../evil \n")
    assert kind("git -C sub log", root) == "ask"
    (sub / ".git").write_text("gitdir: ../evil\n")
    (root / "evil" / "commondir").write_text("../evil \n")
    assert kind("git -C sub log", root) == "ask"


def test_a_folder_whose_objects_are_elsewhere_is_a_repository(root):
    """`commondir` names the folder with the objects, and HEAD may be a link to no branch."""
    sub = root / "sub"
    sub.mkdir()
    (sub / "HEAD").symlink_to("refs/heads/main")
    assert kind("git -C sub log", root) == "auto"
    (sub / "commondir").write_text("../evil\n")
    assert kind("git -C sub log", root) == "ask"


@pytest.mark.parametrize("content", [None, "", "commondir", "link"])
def test_git_looks_above_a_folder_that_is_no_repository(root, content):
    """An inner folder `.git` that Git ignores does not hide the repository above."""
    inner = root / "sub" / ".git"
    inner.mkdir(parents=True)
    for name in ("objects", "refs") if content is not None else ():
        (inner / name).mkdir()
    if content == "link":
        (inner / "HEAD").symlink_to("../../a")
        (root / "a").write_text("ref: refs/heads/main\n")
    elif content is not None:
        (inner / "HEAD").write_text("ref: refs/heads/main\n" if content else "none\n")
    if content == "commondir":
        (inner / "commondir").write_text("../missing\n")
    append(root, FSMONITOR)
    assert kind("git -C sub status", root) == "ask"


def test_a_repository_inside_another_is_judged_by_its_own_settings(root):
    """Git looks no further than the first repository."""
    create(root / "sub")
    append(root, FSMONITOR)
    assert kind("git -C sub status", root) == "auto"


@pytest.mark.parametrize("version", ["2", "4"])
def test_commands_that_enter_nested_repositories_are_asked(root, version):
    """Git runs the programs that the settings of a nested repository name."""
    long = root.joinpath("d" * 200, "e" * 200)
    for path in (long / "f", long / "fg", root / "s", root / ("n" * 250)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    git(root, "add", ".")
    git(root, "update-index", "--index-version", version)
    assert kind("git status", root) == "auto"
    create(root / "zsub")
    git(root, "add", "zsub")
    for command in (
        "git status",
        "git diff",
        "git describe --dirty",
        "git submodule status",
        "git stash list && git status",
    ):
        assert kind(command, root) == "ask", command
    assert kind("git log", root) == kind("git rev-parse HEAD", root) == "auto"
    # The prompt's own `git status` ignores nested repositories.
    assert not repository_doubt(str(root))


@pytest.mark.parametrize("mode", [0xE001, 0x4000, 0x1_E000])
def test_an_index_that_git_did_not_write_is_asked(root, mode):
    """Git checks neither the other bits of a mode nor the hash at the end."""
    index = root / ".git" / "index"
    data = bytearray(index.read_bytes())
    data[36:40] = struct.pack(">I", mode)
    index.write_bytes(data)
    assert kind("git status", root) == "ask"


@pytest.mark.parametrize(
    "change", [lambda data: data[:40], lambda data: b"x" + data, lambda data: data + b"IEOT"]
)
def test_an_index_that_cannot_be_read_is_asked(root, change):
    """Nothing is known of the entries then."""
    index = root / ".git" / "index"
    index.write_bytes(change(index.read_bytes()))
    assert kind("git status", root) == "ask"


def test_a_split_index_is_asked(root):
    """Its entries are in another file."""
    git(root, "update-index", "--split-index")
    assert kind("git status", root) == "ask"
