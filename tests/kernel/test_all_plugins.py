"""Everything that is installed works together: no plugin is in another's way, and every gate is
open.
"""

import hilum
import trio
from hilum.testing import ScriptedModel, plugin, use
from hilum.testing.models import ModelProvider


async def test_all_installed_plugins_open_without_a_fault_and_calls_run(tmp_path, monkeypatch):
    """A gate that a plugin does not declare would close every call of every session."""
    for name in ("HOME", "HILUM_CONFIG", "HILUM_DATA"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    model = ScriptedModel(
        [use("read_file", path="a.txt"), use("run_terminal_cmd", command="cat a.txt"), "Done."]
    )
    provider = plugin("scripted", provide_models=lambda: [ModelProvider({"model": model})])
    async with hilum.open_standard_session(
        project, extra_plugins=[provider], model="scripted/model", approve="auto"
    ) as session:
        result = await session.run("Read a.txt.")
        assert session.kernel.faults == []
        assert session.hooks.refusal() == ""
    assert result.state == "completed"
    texts = [
        one.text
        for message in model.requests[-1].messages
        for one in getattr(message, "results", ())
    ]
    assert len(texts) == 2
    assert all("one" in text for text in texts)


class Tasks(trio.abc.Instrument):
    """Lists the names of the tasks that start."""

    def __init__(self):
        self.names = []

    def task_spawned(self, task):
        """Add a name."""
        self.names.append(task.name)


async def test_a_turn_that_reads_starts_few_tasks_and_threads(tmp_path, monkeypatch):
    """Each task costs a twentieth of a millisecond, and each thread several times that: plugins
    with nothing to do in a turn start none.
    """
    for name in ("HOME", "HILUM_CONFIG", "HILUM_DATA"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\ntwo\nthree\nfour\n")
    turns = [use("read_file", path="a.txt", start_line=number) for number in (1, 2, 3, 4)]
    model = ScriptedModel([*turns, "Done."])
    tasks = Tasks()
    threads = []
    requests = []

    def count(call: hilum.ModelCall) -> None:
        requests.append((len(tasks.names), len(threads)))

    own = plugin(
        "own",
        on_model_call=count,
        gates=("on_model_call",),
        provide_models=lambda: [ModelProvider({"model": model})],
    )
    run_sync = trio.to_thread.run_sync

    async def counted(function, *arguments, **options):
        threads.append(function)
        return await run_sync(function, *arguments, **options)

    start_thread = trio.lowlevel.start_thread_soon

    def start_counted(function, *arguments):
        threads.append(function)
        start_thread(function, *arguments)

    monkeypatch.setattr(trio.to_thread, "run_sync", counted)
    monkeypatch.setattr(trio.lowlevel, "start_thread_soon", start_counted)
    async with hilum.open_standard_session(
        project, extra_plugins=[own], model="scripted/model", approve="auto"
    ) as session:
        trio.lowlevel.add_instrument(tasks)
        await session.run("Work.")
        trio.lowlevel.remove_instrument(tasks)
    # The first turns import modules and look at files for the first time.
    (tasks_before, threads_before), (tasks_after, threads_after) = requests[-2:]
    started = tasks.names[tasks_before:tasks_after]
    # The guard's gate and the tool, each with a thread.
    assert len(started) <= 2, started
    assert threads_after - threads_before <= 2, threads[threads_before:threads_after]
