"""What an earlier start found out about the sandbox is used again, and only then."""

import os
from pathlib import Path

import hilum_guard
import hilum_shell
import msgspec
import pytest
from hilum.settings import use_environment
from hilum.testing import open_bench
from hilum_guard import Guard
from hilum_guard.sandbox import bubblewrap, probe_cache, sandbox_probe
from hilum_guard.sandbox.enforcement import Enforcement

WHOLE = Enforcement("bubblewrap", True, True, "namespace", True, False, ("Why not.",), shared=True)


@pytest.fixture
def home(tmp_path):
    """A cache folder of its own."""
    with use_environment({"HILUM_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}):
        yield tmp_path / "cache" / "sandbox"


def test_a_result_is_found_again(home: Path):
    assert probe_cache.read_probe() is None
    probe_cache.write_probe(WHOLE)
    assert probe_cache.read_probe() == WHOLE
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "sandbox.json").stat().st_mode & 0o777 == 0o600
    probe_cache.forget_probe()
    assert probe_cache.read_probe() is None


def test_no_temporary_file_stays(home: Path, monkeypatch):
    """Neither one of a write that fails, nor, for long, one of a process that was killed."""
    probe_cache.write_probe(WHOLE)
    abandoned = home / "new-abandoned"
    abandoned.write_text("{")
    os.utime(abandoned, (1, 1))
    (home / "new-recent").write_text("{")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    probe_cache.write_probe(WHOLE)
    assert sorted(os.listdir(home)) == ["new-recent", "sandbox.json"]
    assert probe_cache.read_probe() == WHOLE


@pytest.mark.parametrize(
    "found",
    [
        Enforcement(reasons=("Nothing.",)),
        Enforcement("landlock", True, True, "namespace", True),
        Enforcement("bubblewrap", True, True, "filter", True),
        Enforcement("bubblewrap", True, False, "namespace", True),
    ],
)
def test_only_a_whole_sandbox_of_bubblewrap_is_kept(home: Path, found: Enforcement):
    probe_cache.write_probe(found)
    assert not home.exists()


def test_another_bubblewrap_is_tried_anew(home: Path, tmp_path: Path, monkeypatch):
    program = tmp_path / "bwrap"
    program.write_text("one")
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: str(program))
    probe_cache.write_probe(WHOLE)
    assert probe_cache.read_probe() == WHOLE
    # An upgrade replaces the file.
    other = tmp_path / "new"
    other.write_text("two")
    os.replace(other, program)
    assert probe_cache.read_probe() is None


@pytest.mark.parametrize("path", probe_cache._FACTS)
def test_each_fact_counts(home: Path, monkeypatch, path):
    probe_cache.write_probe(WHOLE)
    read = probe_cache._read_text
    monkeypatch.setattr(
        probe_cache, "_read_text", lambda name: "other" if name == path else read(name)
    )
    assert probe_cache.read_probe() is None


def test_another_container_or_user_is_tried_anew(home: Path, monkeypatch):
    probe_cache.write_probe(WHOLE)
    with monkeypatch.context() as patch:
        patch.setattr(probe_cache, "_read_link", lambda path: "user:[1]")
        assert probe_cache.read_probe() is None
    with monkeypatch.context() as patch:
        patch.setattr(probe_cache.os, "getgid", lambda: 12345)
        assert probe_cache.read_probe() is None
    assert probe_cache.read_probe() == WHOLE


@pytest.mark.parametrize("what", ["file", "folder", "link", "pipe", "text", "huge"])
def test_a_file_that_others_may_have_written_is_not_read(home: Path, what: str):
    probe_cache.write_probe(WHOLE)
    file = home / "sandbox.json"
    data = file.read_bytes()
    if what == "file":
        file.chmod(0o644)
    elif what == "folder":
        home.chmod(0o755)
    elif what == "link":
        file.rename(home / "other")
        file.symlink_to(home / "other")
    elif what == "pipe":
        file.unlink()
        os.mkfifo(file, 0o600)
    elif what == "text":
        file.write_bytes(data[:-5])
    else:
        file.write_bytes(data + b" " * 200_000 + b"{")
    found = probe_cache.read_probe()
    # Only the beginning of a huge file is read.
    assert found is None or what == "huge"


def test_a_forged_file_cannot_weaken_the_sandbox(home: Path):
    """Whatever it says, commands run in bubblewrap with everything that it can enforce."""
    probe_cache.write_probe(WHOLE)
    file = home / "sandbox.json"
    forged = msgspec.json.decode(file.read_bytes())
    forged |= {"by": "", "files": False, "network": "", "protected": False, "limits": True}
    file.write_bytes(msgspec.json.encode(forged))
    found = probe_cache.read_probe()
    assert found is not None
    assert found.whole
    assert found.by == "bubblewrap"


def test_the_sentence_of_a_sandbox_that_fails_is_known():
    assert bubblewrap.ENDED_EARLY in bubblewrap.SCRIPT


async def test_a_sandbox_that_fails_is_tried_anew(tmp_path: Path):
    """A kept result that no longer applies shows at the first command; the next one is right."""
    async with open_bench(
        hilum_guard, hilum_shell, folder=tmp_path, approve="auto", answers=["done"]
    ) as b:
        found = sandbox_probe.probe()
        if found.by != "bubblewrap":
            pytest.skip("no bubblewrap here")
        box = b.session.plugin(Guard).sandbox
        with use_environment(b.kernel.environ):
            probe_cache.write_probe(WHOLE)
            assert probe_cache.read_probe() == WHOLE
        result = await b.call("run_terminal_cmd", command=f"echo '{bubblewrap.ENDED_EARLY}'")
        assert bubblewrap.ENDED_EARLY in result.text
        assert box.known is None
        with use_environment(b.kernel.environ):
            assert probe_cache.read_probe() is None
        result = await b.call("run_terminal_cmd", command="echo here")
        assert "here" in result.text
        assert box.known == found
