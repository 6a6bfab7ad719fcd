"""A language server is a program that may do anything: no call hangs, nothing is believed."""

import json
import os

import pytest
import trio
import trio.testing
from hilum import Call, Output
from hilum.events import PluginEvent
from hilum_lsp import LanguageServers, client, server_process
from hilum_lsp.renames import Renames
from hilum_lsp.servers import SERVERS

FILE = {"a.py": "value = 1\n"}


async def ask(bench, **more):
    """Ask for a definition."""
    return await bench.call("find_definition", name="value", path="a.py", **more)


def given_up(bench) -> list[str]:
    return [each.data["say"] for each in bench.of(PluginEvent) if each.name == "lsp.given_up"]


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize(
    ("way", "problem"),
    [
        ("flood", "MB of unsolicited output"),
        ("garbage", "something that is not the protocol"),
        ("huge", "a message of more than 32 MB"),
        ("negative", "no valid length"),
        ("text", "not JSON-RPC"),
        ("deep", "not JSON-RPC"),
        ("endless", "something that is not the protocol"),
        ("die", "It ended with exit code 3. Its last output: panic: out of ideas"),
        ("trace", "It ended with exit code 1. Its last output: Error: Cannot find module 'ideas'"),
    ],
)
async def test_a_server_that_breaks_the_protocol_is_ended_and_named_once(
    misbehave, put, opened, monkeypatch, way, problem
):
    """It is started again a few times; then the user reads why it is not, and tools say so."""
    monkeypatch.setattr(server_process, "BACKOFF_SECONDS", 0)
    monkeypatch.setattr(server_process, "MAX_RESTARTS", 1)
    put(FILE)
    misbehave(way, "hang")
    async with opened(**{"lsp.timeout": 20.0}) as bench:
        result = await ask(bench)
        assert problem in result.text
        while result.code != "E_NOT_INSTALLED":
            assert result.code == "E_FAILED"
            result = await ask(bench)
        assert problem in result.text
        assert "search_files" in result.text
        assert len(given_up(bench)) == 1
        assert "ty failed 2 times" in given_up(bench)[0]
        assert bench.session.processes.alive == 0


async def test_a_server_that_hangs_is_cancelled_and_ended(misbehave, put, opened):
    """A call ends after its time limit, and the server after three such calls."""
    put(FILE)
    misbehave("hang")
    async with opened(**{"lsp.timeout": 0.3}) as bench:
        pool = bench.session.plugin(LanguageServers).pool
        for _ in range(3):
            result = await ask(bench)
            assert result.code == "E_TIMEOUT"
            assert result.text.endswith(" Use search_files, or try again later.")
        (server,) = pool._processes.values()
        # A call that waited for the start of the server for almost all of its time does not count.
        for _ in range(3 - server._unanswered):
            await ask(bench)
        with bench.guard():
            while server._is_started:
                await server.changed.wait()
        assert bench.session.processes.alive == 0


async def test_calls_that_wait_for_another_call_do_not_count_against_the_server(
    misbehave, put, opened
):
    """Ten calls at once wait for the first one, which alone asked the server."""
    put(FILE)
    misbehave("fine")
    async with opened() as bench:
        assert not (await ask(bench)).code
        pool = bench.session.plugin(LanguageServers).pool
        (server,) = pool._processes.values()

        async def wait(*_) -> None:
            await trio.sleep_forever()

        async def call() -> None:
            with pytest.raises(trio.TooSlowError):
                await server.use(wait, 0.5)

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(call)
        assert server._unanswered == 1
        assert server.is_ready
        assert not (await ask(bench)).code


async def test_a_server_that_ends_while_its_configuration_is_read_delays_nobody(
    misbehave, put, opened, monkeypatch
):
    """The call starts it again, instead of waiting for the end of a server that is gone."""
    put(FILE)
    misbehave("fine")
    async with opened() as bench:
        assert not (await ask(bench)).code
        pool = bench.session.plugin(LanguageServers).pool
        (server,) = pool._processes.values()
        real = server._read_stamps

        def read_stamps(_):
            trio.from_thread.run(end)
            return (*real(), "changed")

        async def end() -> None:
            monkeypatch.undo()
            server.end()
            while server._is_started:
                await server.changed.wait()

        monkeypatch.setattr(server_process.ServerProcess, "_read_stamps", read_stamps)
        with bench.guard():
            assert not (await ask(bench)).code


async def test_a_server_that_never_answers_the_first_request(misbehave, put, opened, monkeypatch):
    monkeypatch.setattr(client, "INITIALIZE_TIMEOUT", 0.2)
    put(FILE)
    misbehave("mute")
    async with opened() as bench:
        result = await ask(bench)
    assert result.code in ("E_FAILED", "E_TIMEOUT")
    assert "did not answer within" in result.text


async def test_a_server_that_needs_too_much_memory_is_ended(misbehave, put, opened, monkeypatch):
    """The limit counts what the whole process tree uses."""
    monkeypatch.setattr(server_process, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(server_process, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(server_process, "MAX_RESTARTS", 0)
    put(FILE)
    misbehave("memory", "hang")
    async with opened(**{"lsp.memory": 100_000_000}) as bench:
        result = await ask(bench)
        assert result.code in ("E_FAILED", "E_NOT_INSTALLED")
        assert "more than 100 MB of memory" in result.text
        event = await bench.wait_for(PluginEvent, lambda each: each.name == "lsp.given_up")
        assert "more than 100 MB of memory" in event.data["say"]


async def test_requests_of_a_server_are_all_answered(misbehave, put, opened):
    """pyright waits for the answers. A server cannot change files on its own."""
    put(FILE)
    misbehave("ask")
    async with opened() as bench:
        await bench.call("list_symbols", path="a.py")
        result = await bench.call("list_symbols", path="a.py")
    answers, _ = json.loads(result.text[result.text.index("[") :])
    assert answers == {
        "q0": [None, None],
        "q1": None,
        "q2": {"applied": False, "failureReason": "not supported"},
        "q3": -32601,
    }


async def test_an_answer_of_another_shape_is_a_failure(misbehave, put, opened):
    put(FILE)
    misbehave("wrong")
    async with opened() as bench:
        assert (await ask(bench)).code == "E_FAILED"


async def test_pushed_diagnostics_of_an_old_version_are_skipped(misbehave, put, opened, root):
    put(FILE)
    misbehave("push")
    async with opened() as bench:
        await ask(bench)
        server = next(iter(bench.session.plugin(LanguageServers).pool._processes.values()))
        for version, text in ((2, "value = 2\n"), (3, "value = 3\n")):
            found = await server.diagnose(root / "a.py", text, 5)
            assert [each.message for each in found] == [f"version {version}"]


async def test_a_server_with_slow_diagnostics_is_tried_again(misbehave, put, opened, root):
    """After some minutes, and after it has started again."""
    put(FILE)
    misbehave("slow")
    async with opened() as bench:
        await ask(bench)
        server = next(iter(bench.session.plugin(LanguageServers).pool._processes.values()))
        for number in range(server_process.MAX_SLOW_DIAGNOSTICS):
            assert server.is_quick
            assert await server.diagnose(root / "a.py", f"value = {number}\n", 0.05) is None
        assert not server.is_quick
        server._slow_until -= server_process.SLOW_PAUSE_SECONDS
        assert server.is_quick
        # One more is enough to stop using it again.
        assert await server.diagnose(root / "a.py", "value = 9\n", 0.05) is None
        assert not server.is_quick
        server.end()
        await server.wait_ready(20)
        assert server.is_quick


async def test_at_most_six_servers_run(misbehave, put, opened, root):
    """Those that are still starting count, and so do those that start again."""
    names = [f"part{number}" for number in range(7)]
    for name in names:
        put({f"{name}/pyproject.toml": "[tool.ty]\n", f"{name}/a.py": "value = 1\n"})
    misbehave("fine")

    async def find(bench, name: str) -> None:
        result = await bench.call("find_definition", name="value", path=f"{name}/a.py")
        assert result.code in ("", "E_FAILED"), result.text

    async with opened() as bench:
        pool = bench.session.plugin(LanguageServers).pool
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(find, bench, name)
        for name in (names[0], names[-1], names[0]):
            result = await bench.call("find_definition", name="value", path=f"{name}/a.py")
            assert not result.code, result.text
            with bench.guard():
                # One that was ended may need a moment.
                while len(running := [e for e in pool._processes.values() if e._is_started]) > 6:
                    ending = next(each for each in running if not each.is_started)
                    await ending.changed.wait()
            assert bench.session.processes.alive == 6
        assert len(pool._processes) == 7


async def test_a_server_that_is_ended_while_it_starts_fails_its_call(misbehave, put, opened):
    """The call does not start it again, or seven calls would end each other's servers for ever."""
    put(FILE)
    misbehave("mute")
    async with opened() as bench:
        results = []

        async def call() -> None:
            results.append(await ask(bench))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            pool = bench.session.plugin(LanguageServers).pool
            with bench.guard():
                while not bench.session.processes.alive:
                    await trio.testing.wait_all_tasks_blocked(0.01)
                (server,) = pool._processes.values()
                server.end()
                while server._is_started:
                    await server.changed.wait()
        assert results[0].code == "E_FAILED"
        assert "It was ended." in results[0].text
        assert bench.session.processes.alive == 0


async def test_a_file_without_a_known_server_says_so(put, opened, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    put({"a.rb": "value = 1\n", "a.rs": "fn a() {}\n"})
    async with opened() as bench:
        unknown = await bench.call("find_definition", name="value", path="a.rb")
        known = await bench.call("find_definition", name="a", path="a.rs")
    assert unknown.code == known.code == "E_NOT_INSTALLED"
    assert "hilum knows no language server for .rb files" in unknown.text
    assert "the user may install rust-analyzer" in known.text


def test_a_link_of_rustup_without_its_component_is_no_server(tmp_path, monkeypatch):
    """rustup puts links to itself into the path, also for components that are not installed."""
    (rust_analyzer,) = [each for each in SERVERS if each.name == "rust-analyzer"]
    bin_folder = tmp_path / "cargo/bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "rustup").touch()
    link = bin_folder / "rust-analyzer"
    link.symlink_to("rustup")
    toolchains = tmp_path / "rustup/toolchains"
    (toolchains / "stable/bin").mkdir(parents=True)
    monkeypatch.setenv("RUSTUP_HOME", str(tmp_path / "rustup"))
    problem = rust_analyzer.find_problem(str(link))
    assert "`rustup component add rust-analyzer`" in problem

    (toolchains / "nightly/bin").mkdir(parents=True)
    (toolchains / "nightly/bin/rust-analyzer").touch()
    assert rust_analyzer.find_problem(str(link)) == ""
    # One that the user installed in another way needs no toolchain.
    (toolchains / "nightly/bin/rust-analyzer").unlink()
    (bin_folder / "own").touch()
    assert rust_analyzer.find_problem(str(bin_folder / "own")) == ""


async def test_a_missing_component_is_told_with_its_command(put, opened, tmp_path, monkeypatch):
    """The call names the command, and no program is started."""
    bin_folder = tmp_path / "cargo/bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "rustup").write_text("#!/bin/sh\nexit 1\n")
    (bin_folder / "rustup").chmod(0o755)
    (bin_folder / "rust-analyzer").symlink_to("rustup")
    (tmp_path / "rustup/toolchains").mkdir(parents=True)
    monkeypatch.setenv("RUSTUP_HOME", str(tmp_path / "rustup"))
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    put({"Cargo.toml": "[package]\n", "a.rs": "fn a() {}\n"})
    async with opened() as bench:
        result = await bench.call("find_definition", name="a", path="a.rs")
        assert bench.session.processes.alive == 0
    assert result.code == "E_NOT_INSTALLED"
    assert "the user may run `rustup component add rust-analyzer`" in result.text


# --- renames --------------------------------------------------------------------------------------


@pytest.mark.slow(cases=6)
@pytest.mark.parametrize(
    ("way", "code"),
    [
        ("outside", "E_PATH_TRAVERSAL"),
        ("above", "E_PATH_TRAVERSAL"),
        ("encoded", "E_PATH_TRAVERSAL"),
        ("link", "E_PATH_TRAVERSAL"),
        ("host", "E_PATH_TRAVERSAL"),
        ("scheme", "E_PATH_TRAVERSAL"),
        ("installed", "E_PATH_TRAVERSAL"),
        ("shifted", "E_STALE"),
        ("overlap", "E_STALE"),
        ("beyond", "E_STALE"),
        ("old", "E_STALE"),
        ("create", "E_DENIED"),
        ("code", "E_DENIED"),
        ("line", "E_DENIED"),
        ("gone", "E_DENIED"),
    ],
)
async def test_a_rename_changes_nothing_but_the_name_in_files_of_the_project(
    misbehave, put, opened, root, tmp_path, way, code
):
    """Not even the correct edits of such an answer are made, and the user is not asked."""
    put(FILE)
    misbehave(way)
    (tmp_path / "outside.py").write_text("value = 1\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    async with opened() as bench:
        result = await bench.call("rename_symbol", name="value", new_name="other", path="a.py")
    assert result.code == code
    assert "Nothing was changed" in result.text
    assert (root / "a.py").read_text() == "value = 1\n"
    assert (tmp_path / "outside.py").read_text() == "value = 1\n"
    assert not (root / "new.py").exists()


async def test_uses_that_the_server_lists_are_renamed_or_named(misbehave, put, opened, root):
    """Those that are more than the name are named, and those outside of the project left alone."""
    put({"a.py": "value = 1\n'value'\n", "b.py": "value = 2\n"})
    misbehave("uses")
    async with opened() as bench:
        result = await bench.call("rename_symbol", name="value", new_name="other", path="a.py")
    assert not result.code, result.text
    assert "in 2 places in 2 files" in result.text
    assert "these uses of value are not renamed, so edit them: a.py:2." in result.text
    assert (root / "a.py").read_text() == "other = 1\n'value'\n"
    assert (root / "b.py").read_text() == "other = 2\n"


async def test_a_definition_outside_the_project_is_named_but_not_quoted(misbehave, put, opened):
    put(FILE)
    misbehave("fine")
    async with opened() as bench:
        result = await ask(bench)
    assert result.text.splitlines()[1:] == ["/etc/hostname:1"]


async def test_places_that_do_not_exist_are_not_shown_and_not_counted(misbehave, put, opened):
    put(FILE)
    misbehave("nowhere")
    async with opened() as bench:
        found = await bench.call("find_references", name="value", path="a.py")
        defined = await ask(bench)
        symbols = await bench.call("list_symbols", path="a.py")
    assert symbols.text.splitlines() == ["a.py:", "1: function at 0"]
    head, *rows = found.text.splitlines()
    assert head == (
        "1 use of value in 1 file, with its definition: (4 more places are not in a file, or behind"
        " its end.)"
    )
    assert rows == ["a.py:1: value = 1"]
    assert defined.code == "E_FAILED"
    assert "only places that do not exist" in defined.text
    assert "a.py:0" not in defined.text


async def test_a_rename_that_finds_a_file_gone_says_that_it_was_not_made(
    misbehave, put, opened, root, monkeypatch
):
    """The advice of the tool that writes files would be about another call."""
    put(FILE)
    misbehave("fine")
    apply = Renames.apply

    async def lose_and_apply(self: Renames, call: Call) -> Output:
        (root / "a.py").rename(root / "b.py")
        return await apply(self, call)

    monkeypatch.setattr(Renames, "apply", lose_and_apply)
    async with opened() as bench:
        result = await bench.call("rename_symbol", name="value", new_name="other", path="a.py")
    assert result.code
    assert "The rename was not made: " in result.text
    assert "Call rename_symbol again" in result.text
    assert "Did you mean" not in result.text
    assert (root / "b.py").read_text() == "value = 1\n"


async def test_a_link_out_of_the_project_is_named_as_one(misbehave, put, opened, root, tmp_path):
    put(FILE)
    misbehave("link")
    (tmp_path / "outside.py").write_text("value = 1\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    async with opened() as bench:
        result = await bench.call("rename_symbol", name="value", new_name="other", path="a.py")
    assert "would change 'link.py', which leads out of the workspace by a link" in result.text


async def test_pipes_in_place_of_files_do_not_keep_hilum_waiting(put, install, opened, root):
    """Neither one that a configuration extends nor one that replaces an open file."""
    put(
        {"pyproject.toml": '[tool.ty]\nextend = "pipe"\n', "a.py": "value = 1\n", "b.py": "x = 1\n"}
    )
    os.mkfifo(root / "pipe")
    install("ty")
    async with opened() as bench:
        await bench.call("find_definition", name="x", path="b.py")
        (root / "b.py").unlink()
        os.mkfifo(root / "b.py")
        result = await ask(bench)
        assert "a.py:1" in result.text or result.code == "E_FAILED"


C_FILES = {"a.c": "twice\ntwice\n", "b.c": "twice\n"}


async def test_a_server_is_asked_after_it_has_read_the_project(put, misbehave_as_clangd, opened):
    put(C_FILES)
    misbehave_as_clangd("index", "disk")
    async with opened() as bench:
        uses = await bench.call("find_references", name="twice", path="a.c", line=1)
        assert uses.text.startswith("2 uses of twice in 1 file, with its definition:\n")
        # A file that the server read from the disk has no version that hilum sent.
        renamed = await bench.call(
            "rename_symbol", name="twice", new_name="other", path="a.c", line=1
        )
        assert not renamed.code, renamed.text
        assert "in 2 places in 2 files" in renamed.text


async def test_a_server_that_reads_for_long_answers_with_what_it_knows(
    put, misbehave_as_clangd, opened
):
    """A rename would change a part of the places, so there is none."""
    put(C_FILES)
    misbehave_as_clangd("index", "never")
    async with opened(**{"lsp.timeout": 0.6}) as bench:
        for _ in range(4):
            uses = await bench.call("find_references", name="twice", path="a.c", line=1)
            assert "1 use of twice in 1 file" in uses.text
            assert "still reading the project" in uses.text
        renamed = await bench.call(
            "rename_symbol", name="twice", new_name="other", path="a.c", line=1
        )
        assert renamed.code == "E_TIMEOUT"
        assert "incomplete" in renamed.text
