"""Files of secrets: found by a list, by name and by kind, hidden from commands, and asked for by
whatever way they are read.
"""

import os
import shutil
import stat
import time

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.events import ApprovalAsked
from hilum.testing import say, use
from hilum_guard.file_names import resolve_listed, select_unlinked
from hilum_guard.sandbox.sandbox_policy import find_hidden
from hilum_guard.secrets import secret_paths
from hilum_guard.secrets.existing_paths import ExistingPaths
from hilum_guard.secrets.secret_paths import SETTLED, SecretFiles
from hilum_guard.watching.folder_scan import FolderScan

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
FILES = {
    ".env": "KEY=correct-horse-7\n",
    ".env.example": "KEY=\n",
    "notes.txt": "n\n",
    "cert.pem": "public\n",
}


NAMING = [
    "base64 .env", "cp .env notes2.txt", "cat .env", "git add -f .env && git show :.env", "ln -s .env l",
    "tar cf x.tar .env",
    "python3 -c 1 .env", "source .env", "grep KEY .env", "< .env cat", "mv .env x", "cp -t sub .env", "cat ./sub/../.env",
    "bash -c 'cat .env'", "diff .env notes.txt", "cat .en*", "docker run --env-file=.env x", "echo x >> .env",
]  # fmt: skip


async def test_a_command_that_names_a_file_of_secrets_is_asked_under_auto(bench, asked):
    """Whatever program reads it.

    The question names the file, and the lasting yes is for this very text.
    """
    kit = await bench(*PLUGINS, approve="auto", files=FILES)
    for command in NAMING:
        event = await asked(kit, "run_terminal_cmd", command=command)
        assert ".env" in event.reason
        assert event.scope == f"run_terminal_cmd(={command})"


async def test_what_shows_no_secret_is_not_asked(bench):
    """Names, sizes, examples."""
    kit = await bench(*PLUGINS, approve="auto", files=FILES)
    for command in (
        "ls -la .env",
        "rm -f .env.example",
        "cat .env.example",
        "cat cert.pem2 || true",
        "git status",
    ):
        await kit.call("run_terminal_cmd", command=command)
        assert kit.of(ApprovalAsked) == [], command


async def test_a_program_that_nobody_can_read_does_not_see_them(bench):
    """The sandbox hides them; an approved command, and a rule that names the file, show them."""
    kit = await bench(
        *PLUGINS, approve="auto", files=FILES | {"show.py": "print(open('.en' + 'v').read())"}
    )
    if not (await kit.session.plugin(hilum_guard.Guard).sandbox.enforced()).files:
        pytest.skip("no sandbox holds files here")
    assert (
        "correct-horse" not in (await kit.call("run_terminal_cmd", command="python3 show.py")).text
    )
    kit.model.next(use("run_terminal_cmd", command="rev .env"), say("ok"))
    run = await kit.start("x")
    kit.session.answer((await kit.wait_for(ApprovalAsked)).id, True)
    with kit.guard():
        await run.wait()
    assert "7-esroh-tcerroc" in kit.results[-1].text
    (kit.folder / "config" / "permissions.toml").write_text('allow = ["read_file(.env)"]\n')
    assert "correct-horse" not in (await kit.call("run_terminal_cmd", command="cat notes.txt")).text
    assert "7-esroh-tcerroc" in (await kit.call("run_terminal_cmd", command="rev .env")).text
    assert len(kit.of(ApprovalAsked)) == 1


def test_the_home_folder_hides_what_only_its_user_may_read(tmp_path, monkeypatch):
    """By mode below the dot-folders, and by the list whatever the mode.

    Shells' start files stay.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "HILUM_CONFIG", "HILUM_DATA"):
        monkeypatch.delenv(name, raising=False)
    private = [".newtool/login.json", ".config/other/token", ".config/other/deep/key", ".viminfo2"]
    public = [
        ".newtool/theme.json",
        ".bashrc",
        "Documents/letter.txt",
        ".cache/x/y",
        ".config/git/config",
    ]
    known = [".config/rclone/rclone.conf", ".cache/huggingface/token", ".s3cfg", ".boto", ".claude/x", ".fly/config.yml",
             ".config/opencode/auth.json", ".gradle/gradle.properties", ".oci/config", ".viminfo",
             ".config/sops/age/keys.txt", ".codex/auth.json", ".gemini/oauth_creds.json", ".local/share/opencode/auth.json",
             ".bitcoin/wallet.dat", ".electrum/wallets/default_wallet", ".ethereum/keystore/UTC--1", ".config/solana/id.json",
             ".pulumi/credentials.json", ".railway/config.json", ".supabase/access-token", ".snowflake/config.toml",
             ".ollama/id_ed25519", ".local/share/com.vercel.cli/auth.json", ".config/openai/key"]  # fmt: skip
    for name in (*private, *public, *known):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        path.chmod(0o600 if name in private or name == ".bashrc" else 0o644)
    found = [os.path.relpath(path, tmp_path) for path in find_hidden()]

    def covered(name):
        return any(name == each or name.startswith(f"{each}/") for each in found)

    assert [name for name in (*private, *known) if not covered(name)] == []
    assert [name for name in public if covered(name)] == []
    assert not any(
        os.path.relpath(path, tmp_path) == known[0]
        for path in find_hidden([str(tmp_path / ".config" / "rclone")])
    )


def test_a_relative_path_in_the_settings_is_one_of_the_workspace(tmp_path, monkeypatch):
    """Wherever hilum was started."""
    monkeypatch.setenv("HOME", "/home/ann")
    shown = resolve_listed(["keys/a.pem", "~/.netrc", "/etc/b"], str(tmp_path))
    assert shown == {str(tmp_path / "keys/a.pem"), "/home/ann/.netrc", "/etc/b"}


def test_a_workspace_hides_by_name_and_keys_by_mode(tmp_path):
    """A certificate for tests, which everybody may read, stays; examples stay; a change is seen."""
    finder = SecretFiles()
    for name, mode in {".env": 0o644, ".env.local": 0o644, ".env.example": 0o600, "tests/cert.pem": 0o644, "key.pem": 0o600,
                       "node_modules/a/.env": 0o600, "src/secrets.py": 0o600, "conf/secrets.yml": 0o644}.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        path.chmod(mode)

    def found():
        return {os.path.relpath(path, tmp_path) for path in finder.of_workspace(str(tmp_path))}

    assert found() == {".env", ".env.local", "key.pem", "conf/secrets.yml"}
    (tmp_path / "conf" / "id_rsa").write_text("x")
    assert "conf/id_rsa" in found()
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600


def test_a_scan_of_the_workspace_saves_looking_into_its_folders(tmp_path, monkeypatch):
    """What the scan does not show is still noticed: modes, and folders that it skips."""
    root = str(tmp_path)
    for name in ("src/key.pem", "lib/site-packages/pkg/x.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    scan = FolderScan([root])
    finder = SecretFiles()
    monkeypatch.setattr("hilum_guard.watching.folder_scan.SETTLED", 0)
    monkeypatch.setattr("hilum_guard.secrets.secret_paths.SETTLED", 0)
    looked = []

    def look(folder):
        looked.append(os.path.relpath(folder, root))
        return SecretFiles._look(finder, folder)

    monkeypatch.setattr(finder, "_look", look)

    def found():
        looked.clear()
        scan.refresh(everywhere=False)
        paths = finder.of_workspace(root, scan.scanned)
        return {os.path.relpath(path, root) for path in paths}

    assert found() == set()
    assert len(looked) == 5
    (tmp_path / "src/key.pem").chmod(0o600)
    assert found() == {"src/key.pem"}
    assert set(looked) == {"lib/site-packages", "lib/site-packages/pkg"}
    (tmp_path / "lib/site-packages/pkg/.env").write_text("x")
    assert found() == {"src/key.pem", "lib/site-packages/pkg/.env"}
    (tmp_path / "src/.env").write_text("x")
    assert found() == {"src/key.pem", "src/.env", "lib/site-packages/pkg/.env"}
    shutil.rmtree(tmp_path / "src")
    assert found() == {"lib/site-packages/pkg/.env"}


def test_a_folder_whose_time_was_set_back_is_looked_into_again(tmp_path):
    """A program can set the time of modification."""
    (tmp_path / "a").write_text("x")
    os.utime(tmp_path, (1, 1))
    files = SecretFiles()
    assert list(files.of_workspace(str(tmp_path))) == []
    (tmp_path / ".env").write_text("x")
    os.utime(tmp_path, (1, 1))
    assert list(files.of_workspace(str(tmp_path))) == [str(tmp_path / ".env")]


def test_a_listed_path_that_appears_later_is_found(tmp_path):
    """What is known to be missing is forgotten when its folder changes, or what leads there."""
    home = tmp_path / "home"
    (home / "tool").mkdir(parents=True)
    target = tmp_path / "target"
    (home / "link").symlink_to(target)
    names = ["token", "tool/key", "other/key", "link"]
    paths = tuple(str(home / name) for name in names)
    finder = ExistingPaths()

    def find_settled():
        # A folder that has just changed is not trusted yet.
        wait_until_settled(tmp_path, home, home / "tool")
        return finder.find(paths)

    for _ in range(2):
        assert find_settled() == []
    (home / "tool" / "key").touch()
    assert find_settled() == [paths[1]]
    (home / "other").mkdir()
    (home / "other" / "key").touch()
    target.touch()
    assert finder.find(paths) == list(paths[1:])
    (home / "token").touch()
    os.utime(home, ns=(1, 1))
    assert finder.find(paths) == list(paths)
    other = tmp_path / "other home"
    other.mkdir()
    wait_until_settled(other)
    home.rename(tmp_path / "moved")
    other.rename(home)
    assert finder.find(paths) == []
    (tmp_path / "moved" / "token").rename(home / "token")
    assert finder.find(paths) == [paths[0]]


def test_paths_that_lead_through_a_link_are_left_out(tmp_path):
    """A mount over a link would protect only the link's target."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "to_folder").symlink_to("folder")
    (tmp_path / "folder" / "to_file").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    names = ["folder", "folder/file", "to_folder", "to_folder/file", "folder/to_file"]
    names += ["folder/missing", "missing/file", "loop", "loop/file"]
    paths = [str(tmp_path.resolve() / name) for name in names]
    assert list(select_unlinked(paths)) == paths[:2]


def wait_until_settled(*folders):
    """Wait until the folders' change times are old enough to be trusted."""
    while any(time.time_ns() - each.stat().st_ctime_ns <= SETTLED for each in folders):
        os.sched_yield()


COPIES = [
    ".env~",
    ".env.bak",
    ".env.orig",
    "#.env#",
    ".env.swp",
    ".env.~1~",
    ".#.env",
    ".prod.env.swp",
]


async def test_a_copy_that_an_editor_left_is_the_secret_file(bench, asked):
    """It is asked for where a tool reads it, and left out of a search."""
    files = dict.fromkeys(COPIES, "KEY=correct-horse-7\n") | {"notes.txt": "n\n"}
    kit = await bench(*PLUGINS, approve="auto", files=files)
    for name in COPIES:
        event = await asked(kit, "read_file", path=name)
        assert name in event.reason
    assert (await kit.call("run_terminal_cmd", command="cat notes.txt")).text
    root = str(kit.session.workspace.root)
    found = set(SecretFiles().of_workspace(root))
    for name in COPIES[:-1]:  # the last one is hidden from commands where nobody else can read it
        assert os.path.join(root, name) in found


@pytest.mark.parametrize("name", ["notes.txt~", "environment.bak", "#notes#"])
def test_a_copy_of_another_file_is_no_secret(name):
    """Only the name of the file that it is a copy of counts."""
    assert not hilum_guard.explain_secret_file(name)


async def test_a_hard_link_to_a_secret_file_is_the_secret_file(bench, asked):
    """It has the same device and number, whatever its name is."""
    kit = await bench(
        *PLUGINS,
        approve="auto",
        files={".env": "KEY=correct-horse-7\n", "a.txt": "a\n", "b.txt": "b\n"},
    )
    root = kit.session.workspace.root
    os.link(root / ".env", root / "hard.txt")
    os.link(root / "a.txt", root / "other.txt")
    assert "hard link" in (await asked(kit, "read_file", path="hard.txt")).reason
    assert "hard link" in (await asked(kit, "run_terminal_cmd", command="cat hard.txt")).reason
    assert hilum_guard.explain_hidden_file(root / "hard.txt", "hard.txt")
    assert not hilum_guard.explain_hidden_file(root / "other.txt", "other.txt")
    is_withheld = kit.session.plugin(hilum_guard.Guard).withheld(".")
    assert is_withheld("hard.txt")
    assert not is_withheld("other.txt")
    assert set(SecretFiles().of_workspace(str(root))) == {f"{root}/.env", f"{root}/hard.txt"}


NAMES_OF_SECRETS = (*secret_paths._HIDDEN_NAMES, *secret_paths._PRIVATE_NAMES)


@pytest.mark.parametrize("pattern", NAMES_OF_SECRETS)
def test_every_name_of_a_secret_is_found_among_ordinary_names(tmp_path, pattern):
    """In any spelling, and with the marks of a copy."""
    name = pattern.replace("*", "x")
    names = {name, name.upper(), f"{name}~", f"#{name}#", f"{name}.bak", f".{name}.swp"}
    names.add("".join(chr(ord(char) + 0xFEE0) if char.isalpha() else char for char in name))
    for each in names:
        (tmp_path / each).write_text("x")
        (tmp_path / each).chmod(0o600)
    for ordinary in ("README.md", "module.py", "naïve.txt"):
        (tmp_path / ordinary).write_text("x")
        (tmp_path / ordinary).chmod(0o600)
    found = SecretFiles().of_workspace(str(tmp_path))
    assert {os.path.basename(path) for path in found} == names


def test_names_of_most_folders_are_not_matched_one_by_one(tmp_path, monkeypatch):
    """Matching each of 20,000 names would take 0.2 s of a start."""
    for number in range(50):
        (tmp_path / f"module{number}.py").touch()

    def fail(path):
        raise AssertionError(path)

    monkeypatch.setattr(secret_paths, "_has_secret_name", fail)
    assert list(SecretFiles().of_workspace(str(tmp_path))) == []
