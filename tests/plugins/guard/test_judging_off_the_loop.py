"""A judgement looks at the disk in one thread, never on the event loop, and uses what it read
there.
"""

import json
import os
import threading

import hilum_files
import hilum_guard
import hilum_shell
import pytest
import trio
from hilum.errors import E_DENIED
from hilum_guard.rules import rule_files

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
CALLS = [
    ("read_file", {"path": "a.txt"}),
    ("write_file", {"path": "a.txt", "content": "x"}),
    ("run_terminal_cmd", {"command": "cp a.txt b.txt > c.txt"}),
]


def user_rules(kit, **lists):
    """Write the user's rules."""
    lines = [f"{effect} = {json.dumps(rules)}\n" for effect, rules in lists.items()]
    (kit.folder / "config" / "permissions.toml").write_text("".join(lines))


@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[name for name, _ in CALLS])
async def test_no_judgement_touches_the_disk_on_the_loop(bench, monkeypatch, name, arguments):
    """Neither status, nor links, nor files of rules."""
    kit = await bench(*PLUGINS, approve="auto", files={"a.txt": "a"})
    user_rules(kit, deny=["write_file(docs/**)"], ask=["read_file(x/**)"])
    guard, tool = kit.session.plugin(hilum_guard.Guard), kit.session.tools[name]
    await guard.judge(tool, json.dumps(arguments))
    user_rules(kit, deny=["write_file(other/**)"], allow=["read_file(.env)"])
    loop = threading.get_ident()
    touched = []

    def watched(module, function):
        real = getattr(module, function)

        def look(*args, **kwargs):
            if threading.get_ident() == loop:
                touched.append((function, args))
            return real(*args, **kwargs)

        monkeypatch.setattr(module, function, look)

    for function in ("stat", "lstat", "open", "scandir", "readlink", "listdir"):
        watched(os, function)
    for function in ("realpath", "isfile", "isdir", "lexists", "exists"):
        watched(os.path, function)
    await guard.judge(tool, json.dumps(arguments))
    assert touched == []
    assert any(rule.pattern == "other/**" for rule in guard.rules.rules)


async def test_one_judgement_is_one_hop(bench, monkeypatch):
    """A thread costs a tenth of a millisecond, so the work of a judgement is done in one."""
    kit = await bench(*PLUGINS, approve="auto", files={"a.txt": "a"})
    user_rules(kit, deny=["write_file(docs/**)"])
    guard = kit.session.plugin(hilum_guard.Guard)
    hops = []
    real = trio.to_thread.run_sync

    async def counted(function, *args, **kwargs):
        hops.append(function)
        return await real(function, *args, **kwargs)

    for name, arguments in CALLS:
        await guard.judge(kit.session.tools[name], json.dumps(arguments))
    start_thread = trio.lowlevel.start_thread_soon

    def start_counted(function, *args):
        hops.append(function)
        start_thread(function, *args)

    monkeypatch.setattr(trio.to_thread, "run_sync", counted)
    monkeypatch.setattr(trio.lowlevel, "start_thread_soon", start_counted)
    for name, arguments in CALLS:
        hops.clear()
        await guard.judge(kit.session.tools[name], json.dumps(arguments))
        # The thread of the call before may still be there.
        assert len(hops) <= 1, name


async def test_a_disk_that_does_not_answer_holds_up_nothing_else(bench, monkeypatch):
    """Other tasks go on, and the judgement can be cancelled: the kernel's time limit then closes
    the gate.
    """
    kit = await bench(*PLUGINS, approve="auto", files={"a.txt": "a"})
    guard, tool = kit.session.plugin(hilum_guard.Guard), kit.session.tools["read_file"]
    answer = threading.Event()
    monkeypatch.setattr(rule_files, "_look", lambda path: answer.wait(30) and ())
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            with trio.CancelScope() as scope:
                nursery.start_soon(cancel_after, scope, 1000)
                await guard.judge(tool, '{"path": "a.txt"}')
            assert scope.cancelled_caught
            assert turns >= 1000
            nursery.cancel_scope.cancel()
    finally:
        answer.set()


async def cancel_after(scope, turns):
    """Cancel after some turns of the loop."""
    for _ in range(turns):
        await trio.lowlevel.checkpoint()
    scope.cancel()


async def test_a_pipe_in_the_place_of_rules_is_a_mistake(bench, monkeypatch):
    """Also where it takes the file's place after somebody looked: it is opened without waiting."""
    kit = await bench(*PLUGINS, approve="auto", files={"a.txt": "a"})
    path = kit.folder / "config" / "permissions.toml"
    os.mkfifo(path)
    with trio.fail_after(20):
        result = await kit.call("write_file", path="b.txt", content="x")
    assert result.code == E_DENIED
    assert "not a regular file" in result.text


async def test_the_verdict_uses_the_rules_that_the_hop_read(bench, monkeypatch):
    """A judgement that began later is not undone by one that read older rules and ended after
    it.
    """
    kit = await bench(*PLUGINS, approve="auto", files={"a.txt": "a"})
    user_rules(kit, deny=[])
    guard, tool = kit.session.plugin(hilum_guard.Guard), kit.session.tools["write_file"]
    await guard.judge(tool, '{"path": "a.txt", "content": ""}')
    user_rules(kit, allow=["write_file(old/**)"])
    held, reached = threading.Event(), threading.Event()
    real = rule_files.load
    first = [True]

    def slow(*args, **kwargs):
        rules = real(*args, **kwargs)
        if first.pop() if first else False:
            reached.set()
            held.wait(30)
        return rules

    monkeypatch.setattr(rule_files, "load", slow)
    verdicts = {}

    async def judge(name):
        verdicts[name] = (await guard.judge(tool, '{"path": "a.txt", "content": ""}'))[0]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(judge, "first")
        await trio.to_thread.run_sync(reached.wait, 30)
        user_rules(kit, deny=["write_file(a.txt)"])
        await judge("second")
        held.set()
    assert verdicts["second"].kind == "deny"
    assert [rule.effect for rule in guard.rules.rules] == ["deny"]


async def test_a_policy_that_changes_meanwhile_counts(bench, monkeypatch):
    """The user switched to asking while the guard looked at the disk."""
    kit = await bench(*PLUGINS, approve="auto", files={"a.txt": "a"})
    guard, tool = kit.session.plugin(hilum_guard.Guard), kit.session.tools["write_file"]
    held, reached = threading.Event(), threading.Event()
    real = rule_files.stamp

    def slow(*args):
        reached.set()
        held.wait(30)
        return real(*args)

    monkeypatch.setattr(rule_files, "stamp", slow)
    verdicts = []

    async def judge():
        verdicts.append((await guard.judge(tool, '{"path": "a.txt", "content": ""}'))[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(judge)
        await trio.to_thread.run_sync(reached.wait, 30)
        kit.session.approve = "ask_first"
        held.set()
    assert verdicts[0] is not None
    assert verdicts[0].kind == "ask"
