"""Repositories are fetched once, whole or not at all, by whoever asks.

And none of them gets to run or reach anything.
"""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from hilum import HilumError
from hilum.processes import Warden
from hilum_skills import git, parse_source
from hilum_skills.clones import Clones
from hilum_skills.git import FetchError, GitClient, make_environment
from hilum_skills.selection import parse_listing

sys.path.insert(0, str(Path(__file__).parent))
from skill_repositories import Repository, skill_text

pytestmark = pytest.mark.usefixtures("home")


async def fetch(clones, url, *, update=False, steps=None, timeout=60.0, most=50_000_000):
    async with Warden() as warden:
        git = GitClient(warden, timeout, most)
        progress = steps.append if steps is not None else lambda _: None
        return await clones.fetch(parse_source(url), git, update=update, progress=progress)


@pytest.fixture
def clones(tmp_path):
    return Clones(tmp_path / "cache" / "skills")


def files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()
    )


def nothing_kept(clones: Clones) -> bool:
    return not [
        path for path in clones.root.rglob("*") if path.is_file() and path.suffix != ".lock"
    ]


async def test_the_files_of_skills_are_fetched_and_nothing_of_git(clones, repository):
    steps = []
    clone = await fetch(clones, repository.url, steps=steps)
    assert files(clone.folder) == [
        "README.md", "skills/docx/SKILL.md", "skills/pdf/SKILL.md", "skills/pdf/references/forms.md",
        "skills/pdf/scripts/read.py",
    ]  # fmt: skip
    assert clone.commit == repository.git("rev-parse", "HEAD")
    assert clone.new
    assert "connecting" in steps
    assert any(step.startswith("writing 5 files") for step in steps)
    assert {path.name for path in clones.root.glob("*/*")} == {"heads.json", clone.commit}


async def test_what_is_there_is_used_without_the_server(clones, repository):
    first = await fetch(clones, repository.url)
    shutil.rmtree(repository.path)
    again = await fetch(clones, repository.url)
    assert (again.folder, again.commit, again.new) == (first.folder, first.commit, False)
    with pytest.raises(FetchError, match="no repository"):
        await fetch(clones, repository.url, update=True)
    assert clones.find(parse_source(repository.url)).folder.is_dir()


async def test_an_update_takes_what_is_new_and_drops_what_is_old(clones, repository):
    first = await fetch(clones, repository.url)
    same = await fetch(clones, repository.url, update=True)
    assert not same.new
    repository.commit({"skills/pdf/SKILL.md": skill_text("pdf", "New.")})
    second = await fetch(clones, repository.url, update=True)
    assert second.new
    assert "New." in (second.folder / "skills/pdf/SKILL.md").read_text()
    assert not first.folder.exists()


async def test_branches_tags_and_commits_can_be_asked_for(clones, repository):
    old = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-a", "v1", "-m", "one")
    repository.git("config", "uploadpack.allowAnySHA1InWant", "true")
    repository.git("checkout", "-q", "-b", "feature/new")
    new = repository.commit({"skills/new/SKILL.md": skill_text("new")})
    repository.git("checkout", "-q", "main")
    commits = [
        (await fetch(clones, f"{repository.url}@{ref}")).commit
        for ref in ("v1", "feature/new", old)
    ]
    assert commits == [old, new, old]
    assert not (await fetch(clones, f"{repository.url}@v1", update=True)).new
    assert len(list(clones.root.glob("*/heads.json"))) == 1
    with pytest.raises(FetchError, match="has no 'nothing'"):
        await fetch(clones, f"{repository.url}@nothing")


async def test_two_tasks_at_once_fetch_once(clones, repository):
    found = []

    async def one():
        found.append(await fetch(clones, repository.url))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(one)
    assert [clone.new for clone in found].count(True) == 1
    assert len({clone.folder for clone in found}) == 1


FETCHER = """
import sys, trio
from hilum_skills import parse_source
from hilum_skills.clones import Clones
from hilum_skills.git import GitClient
from hilum.processes import Warden
from pathlib import Path

async def main():
    async with Warden() as warden:
        clone = await Clones(Path(sys.argv[1])).fetch(parse_source(sys.argv[2]), GitClient(warden), progress=print)
        print("new" if clone.new else "old")

trio.run(main)
"""


def test_two_processes_at_once_fetch_once(clones, repository):
    argv = [sys.executable, "-c", FETCHER, str(clones.root), repository.url]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    ends = sorted(process.communicate()[0].split()[-1] for process in running)
    assert ends == ["new", "old"]


async def test_a_kill_in_the_middle_leaves_nothing_that_counts(clones, repository, tmp_path):
    # A git in the path that stops at the fetch for ever: the process is killed there.
    gate = tmp_path / "bin"
    gate.mkdir()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    real = shutil.which("git")
    script = f'#!/bin/sh\ncase "$*" in *"fetch --progress"*) echo here > {fifo}; sleep 1000;; esac\nexec {real} "$@"\n'
    (gate / "git").write_text(script)
    (gate / "git").chmod(0o755)
    env = {**os.environ, "PATH": f"{gate}:{os.environ['PATH']}"}
    argv = [sys.executable, "-c", FETCHER, str(clones.root), repository.url]
    process = await trio.lowlevel.open_process(argv, env=env, stdout=subprocess.DEVNULL)
    await trio.to_thread.run_sync(fifo.read_text)  # it has come to the fetch
    assert list(clones.root.glob("*/.new-*"))
    process.kill()
    await process.wait()
    assert clones.find(parse_source(repository.url)) is None
    clone = await fetch(clones, repository.url)
    assert clone.new
    assert not list(clones.root.glob("*/.new-*"))


async def test_what_was_noted_wrongly_is_fetched_again(clones, repository):
    clone = await fetch(clones, repository.url)
    for broken in (
        "",
        "[]",
        '{"":' * 100_000,
        '{"": 1}',
        '{"": {"commit": "../../x", "at": 1, "left_out": []}}',
    ):
        (clone.folder.parent / "heads.json").write_text(broken)
        assert clones.find(parse_source(repository.url)) is None
    assert (await fetch(clones, repository.url)).commit == clone.commit


async def test_a_repository_is_removed_with_all_its_refs(clones, repository):
    await fetch(clones, repository.url)
    await clones.remove(parse_source(repository.url))
    assert clones.find(parse_source(repository.url)) is None
    assert nothing_kept(clones)


# --- over HTTP ------------------------------------------------------------------------------------


async def test_a_smart_server_gives_one_commit_only(clones, repository, smart_http):
    repository.commit({"skills/new/SKILL.md": skill_text("new")})
    clone = await fetch(clones, f"{smart_http}/origin/.git")
    assert "skills/new/SKILL.md" in files(clone.folder)
    assert not (await fetch(clones, f"{smart_http}/origin/.git", update=True)).new


async def test_a_server_of_plain_files_will_do(clones, repository, dumb_http):
    repository.git("update-server-info")
    clone = await fetch(clones, f"{dumb_http}/origin/.git")
    assert "skills/pdf/SKILL.md" in files(clone.folder)


async def test_a_private_repository_is_refused_without_a_prompt(clones, smart_http):
    with pytest.raises(FetchError, match="requires a name and a password") as caught:
        await fetch(clones, f"{smart_http}/private/x.git")
    assert "credential helpers" in caught.value.hint
    assert nothing_kept(clones)


async def test_a_server_that_is_not_there_is_told(clones):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FetchError, match="could not be fetched"):
        await fetch(clones, f"http://127.0.0.1:{port}/x.git")
    with pytest.raises(FetchError, match="no repository"):
        await fetch(clones, "file:///nowhere/at/all.git")
    assert nothing_kept(clones)


async def test_a_server_that_says_nothing_is_left_after_a_while(clones):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(FetchError, match="took more than") as caught:
            await fetch(clones, f"http://127.0.0.1:{silent.getsockname()[1]}/x.git", timeout=0.5)
    assert caught.value.code == "E_TIMEOUT"
    assert nothing_kept(clones)


async def test_a_huge_repository_is_given_up(clones, tmp_path):
    repo = Repository(tmp_path / "huge")
    repo.commit({"SKILL.md": skill_text("huge"), "noise.bin": os.urandom(3_000_000)})
    with pytest.raises(FetchError, match="larger than 1 MB"):
        await fetch(clones, repo.url, most=1_000_000)
    assert nothing_kept(clones)


# --- malicious ones -------------------------------------------------------------------------------


async def test_submodules_are_left_out_and_never_fetched(clones, repository, tmp_path):
    inner = Repository(tmp_path / "inner")
    inner.commit({"SKILL.md": skill_text("inner")})
    repository.git("submodule", "add", "-q", inner.url, "skills/pdf/vendored")
    repository.commit()
    clone = await fetch(clones, repository.url)
    assert not (clone.folder / "skills/pdf/vendored").exists()
    assert any("vendored" in left and "submodule" in left for left in clone.left_out)


async def test_links_are_left_out_wherever_they_lead(clones, repository):
    for name, target in (
        ("out", "/etc/passwd"),
        ("up", "../../../../secret"),
        ("near", "SKILL.md"),
    ):
        os.symlink(target, repository.path / "skills/pdf" / name)
    os.symlink("/", repository.path / "skills/pdf/folder")
    repository.commit()
    clone = await fetch(clones, repository.url)
    assert not any(path.is_symlink() for path in clone.folder.rglob("*"))
    assert len([left for left in clone.left_out if "it is a link" in left]) == 4


async def test_a_skill_that_is_a_link_is_no_skill(clones, tmp_path):
    repo = Repository(tmp_path / "linked")
    (repo.path / "evil").mkdir()
    os.symlink("/etc/passwd", repo.path / "evil/SKILL.md")
    repo.commit()
    clone = await fetch(clones, repo.url)
    assert files(clone.folder) == []


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("name", [b"..", b".git", b".GIT", b"git~1", b".g\xe2\x80\x8cit", b"."])
async def test_paths_that_lead_out_are_refused_with_the_whole_repository(clones, tmp_path, name):
    repo = Repository(tmp_path / "evil")
    blob = repo.blob(skill_text("evil").encode())
    inner = repo.git("hash-object", "-t", "tree", "--literally", "-w", "--stdin",
                     given=b"100644 SKILL.md\0" + bytes.fromhex(blob))  # fmt: skip
    repo.raw_commit([("40000", name, inner), ("100644", b"SKILL.md", blob)])
    with pytest.raises(FetchError):
        await fetch(clones, repo.url)
    assert nothing_kept(clones)
    assert not (tmp_path / "SKILL.md").exists()


def test_a_listing_with_such_a_path_is_refused_even_if_git_lets_it_through():
    for path in (
        b"../x/SKILL.md",
        b"a/../../x",
        b"/etc/x",
        b"a//b",
        b".git/hooks/post-checkout",
        b"a/.GiT /config",
    ):
        with pytest.raises(FetchError, match="leads out of it"):
            parse_listing(b"100644 blob " + b"0" * 40 + b"       5\t" + path + b"\0")


async def test_odd_names_are_left_out_or_written_as_they_are(clones, tmp_path):
    repo = Repository(tmp_path / "odd")
    repo.commit(
        {
            "SKILL.md": skill_text("odd"),
            "-rf": "x",
            "a b/$(x).md": "y",
            "esc\x1b[31m.md": "z",
            "back\\slash.md": "w",
        }
    )
    repo.commit({os.fsdecode(b"latin-\xe9.md"): "v", "Same.md": "1", "same.md": "2"})
    clone = await fetch(clones, repo.url)
    assert files(clone.folder) == ["-rf", "SKILL.md", "Same.md", "a b/$(x).md"]
    assert len(clone.left_out) == 4


async def test_hooks_filters_and_attributes_run_nothing(clones, repository, tmp_path, home):
    marker = tmp_path / "ran"
    attributes = "* filter=evil\n*.md export-subst\n"
    repository.commit(
        {".gitattributes": attributes, "skills/lfs/SKILL.md": skill_text("lfs", "$Format:%H$")}
    )
    # Everything that git would run at a clone or a checkout, also from the user's own
    # configuration.
    (home / ".gitconfig").write_text(
        f'[filter "evil"]\n smudge = touch {marker}\n process = touch {marker}\n required = true\n'
        f"[core]\n hooksPath = {tmp_path}/hooks\n fsmonitor = touch {marker}\n[init]\n templateDir = {tmp_path}/template\n"
        f"[credential]\n helper = !touch {marker}\n"
    )
    for folder in (tmp_path / "hooks", tmp_path / "template/hooks", repository.path / ".git/hooks"):
        folder.mkdir(parents=True, exist_ok=True)
        for hook in (
            "post-checkout",
            "post-merge",
            "reference-transaction",
            "post-fetch",
            "pre-auto-gc",
        ):
            (folder / hook).write_text(f"#!/bin/sh\ntouch {marker}\n")
            (folder / hook).chmod(0o755)
    clone = await fetch(clones, repository.url)
    assert not marker.exists()
    assert "$Format:%H$" in (clone.folder / "skills/lfs/SKILL.md").read_text()
    assert not marker.exists()


async def test_a_repository_around_it_and_variables_of_git_do_not_count(
    clones, repository, tmp_path, monkeypatch
):
    marker = tmp_path / "ran"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {marker}")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"touch {marker}")
    assert (await fetch(clones, repository.url)).new
    assert not marker.exists()
    built = make_environment(
        {"GIT_SSH_COMMAND": "ssh -i key", "GIT_INDEX_FILE": "x", "PATH": "p"}, "https:ssh"
    )
    assert built["GIT_SSH_COMMAND"] == "ssh -i key -oBatchMode=yes"
    assert "GIT_INDEX_FILE" not in built
    assert built["GIT_TERMINAL_PROMPT"] == "0"


async def test_a_repository_of_many_files_is_bounded(clones, tmp_path, monkeypatch):
    from hilum_skills import selection

    monkeypatch.setattr(selection, "MAX_FILES", 10)
    repo = Repository(tmp_path / "many")
    repo.commit({"a/SKILL.md": skill_text("a"), **{f"a/{n:03}.txt": "x" for n in range(50)}})
    clone = await fetch(clones, repo.url)
    assert len(files(clone.folder)) == 10
    assert "a/SKILL.md" in files(clone.folder)
    assert any("too many files" in left for left in clone.left_out)


async def test_a_few_objects_that_stand_for_billions_of_files_are_given_up(
    clones, tmp_path, monkeypatch
):
    monkeypatch.setattr(git, "_MAX_LISTING", 500_000)
    repo = Repository(tmp_path / "bomb")
    blob = repo.blob(b"x")
    entries = [("100644", f"f{n}.md".encode(), blob) for n in range(10)]
    for _ in range(10):
        data = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries
        )
        tree = repo.git("hash-object", "-t", "tree", "-w", "--stdin", given=data)
        entries = [("40000", f"d{n}".encode(), tree) for n in range(10)]
    repo.raw_commit(entries)
    with pytest.raises(FetchError, match="too many files"):
        await fetch(clones, repo.url)
    assert nothing_kept(clones)


async def test_an_empty_repository_is_told(clones, tmp_path):
    repo = Repository(tmp_path / "empty")
    with pytest.raises(FetchError, match="has no 'HEAD'"):
        await fetch(clones, repo.url)


async def test_a_disk_that_cannot_be_written_is_told(repository, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HilumError, match="could not be stored"):
        await fetch(Clones(tmp_path / "file" / "skills"), repository.url)


async def test_without_git_the_user_is_told(clones, repository, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HilumError, match="git could not be started") as caught:
        await fetch(clones, repository.url)
    assert "Install git" in caught.value.hint


async def test_a_tag_of_something_else_than_a_commit_is_told(clones, repository):
    repository.git("tag", "notes", repository.blob(b"hello"))
    repository.git("tag", "-a", "-m", "x", "v1")
    with pytest.raises(FetchError, match=r"'notes' of .* is not a commit"):
        await fetch(clones, repository.url + "@notes")
    assert nothing_kept(clones)
    assert (await fetch(clones, repository.url + "@v1")).commit == repository.git(
        "rev-parse", "HEAD"
    )
