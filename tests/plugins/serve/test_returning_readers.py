"""Readers that lose their connections end with the same as one that never loses its connection.

Each trial is a random history in which output arrives piece by piece, in thoughts, answers and the
output of tools. After each piece, every reader must have exactly the output so far.
"""

import json
from random import Random

import pytest
import trio
from cut_connections import open_cut_proxy
from hilum import Call, tool
from hilum.events import Delta
from hilum.messages import Thinking
from hilum.testing import pause, plugin, say, use
from hilum.testing.script import Answer
from hilum_serve import client
from hilum_serve.feed import encode_event
from hilum_serve.settings import ServeSettings
from returning_readers import ReturningReader
from served import serving

VOCABULARIES = ("events", "view", "002", "003")
STREAMED = {
    "events": ("thinking", "text", "output"),
    "view": ("thinking", "text", "output"),
    "002": ("thinking", "text", "output"),
    "003": ("thinking", "text"),
}
"""The kinds of output that each vocabulary has."""
ALPHABET = ("word ", "é", "😀", "\n", '"', "\\", "data: x\n\n", "汉字 ")


class Step:
    """A piece of output that arrives when its gate is opened.

    Attributes:
        kind: Kind of the output.
        piece: The piece.
        whole: The output with this piece.
    """

    def __init__(self, kind: str, piece: str, whole: str) -> None:
        self.kind = kind
        self.piece = piece
        self.whole = whole
        self.gate = trio.Event()


class History:
    """A random run of a model that calls a tool between its answers.

    Attributes:
        steps: The pieces of output, in the order in which they arrive.
        answers: The script of the model.
        outputs: The pieces of each call of the tool.
    """

    def __init__(self, random: Random) -> None:
        self.steps: list[Step] = []
        self.answers: list[Answer] = []
        self.outputs: list[list[Step]] = []
        self._random = random
        rounds = random.randint(1, 3)
        for number in range(rounds):
            answer = Answer()
            for step in self._add_steps("thinking", random.randint(0, 2)):
                answer = answer + pause(step.gate) + Thinking(step.piece)
            for step in self._add_steps("text", random.randint(1, 3)):
                answer = answer + pause(step.gate) + say(step.piece)
            # The answer ends only when the readers have its last piece.
            end = self._add_end()
            answer = answer + pause(end.gate)
            if number + 1 < rounds:
                answer = answer + use("grow", number=number)
                self.outputs.append([*self._add_steps("output", 2), self._add_end()])
            self.answers.append(answer)

    def _add_steps(self, kind: str, count: int) -> list[Step]:
        whole = ""
        added = []
        for _ in range(count):
            size = self._random.choice((1, 5, 50, 20_000 if kind == "text" else 100))
            # An answer of nothing but white space would count as none.
            number = len(self.steps) + len(added)
            piece = f"{number}{''.join(self._random.choices(ALPHABET, k=size))}"
            whole += piece
            added.append(Step(kind, piece, whole))
        self.steps += added
        return added

    def _add_end(self) -> Step:
        step = Step("", "", "")
        self.steps.append(step)
        return step

    def make_tool(self):
        """Return a plugin with the tool."""

        @tool(risk="read")
        async def grow(call: Call, number: int) -> str:
            """Print something."""
            for step in self.outputs.pop(0):
                await step.gate.wait()
                if step.piece:
                    call.emit(step.piece)
            return "printed"

        return grow


def plain(value):
    """Return a value as a client reads it."""
    return json.loads(json.dumps(value))


def list_facts(events, vocabulary):
    """Return the elements of events in a vocabulary."""
    return [json.loads(text) for event in events for _, text in encode_event(event, vocabulary)]


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("transport", ["socket", "stream"])
@pytest.mark.parametrize("trial", range(100))
async def test_random_histories_over_lost_connections(project, transport, trial):
    random = Random(trial)
    history = History(random)
    plugins = ("prompt", "store", plugin("printer", history.make_tool()))
    settings = ServeSettings(requests_per_minute=100_000)
    async with serving(
        project, answers=history.answers, plugins=plugins, settings=settings
    ) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        lossy = []
        steady = []
        for vocabulary in VOCABULARIES:
            about = (served, hosted.id, vocabulary, transport)
            lossy.append(ReturningReader(*about, Random(random.random())))
            steady.append(ReturningReader(*about))
        readers = lossy + steady
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(reader.run)
            run = await hosted.session.prompt("Go")
            for step in history.steps:
                for reader in lossy:
                    if step is history.steps[0] or random.random() < 0.5:
                        reader.cut()
                step.gate.set()
                await check_output(readers, step, trial)
            ended = await run.wait()
            assert ended.state == "completed", (trial, ended)
            hosted.session.set(approve="auto")
            await hosted.catch_up()
            for reader in readers:
                await check_end(reader, hosted, trial)
            views = [reader.copy.state for reader in readers if reader.vocabulary == "view"]
            assert views[0] == views[1], trial
            nursery.cancel_scope.cancel()
    assert sum(reader.connections for reader in lossy) > len(lossy)


async def check_output(readers, step, trial):
    """Check that all readers get exactly the output so far."""
    for reader in readers:
        if step.kind in STREAMED[reader.vocabulary]:
            copy = reader.copy
            await reader.wait_until(
                lambda copy=copy, step=step: copy.find_text(step.kind) == step.whole
            )
            assert copy.find_text(step.kind) == step.whole, (reader.vocabulary, trial)


async def check_end(reader, hosted, trial):
    """Check that a reader has everything once and in order."""
    events = hosted.session.journal.since(0)
    copy = reader.copy
    about = (reader.vocabulary, trial)
    if reader.vocabulary == "view":
        last = hosted.last
    else:
        wanted = list_facts(events, reader.vocabulary)
        last = wanted[-1]["seq"]
    assert await reader.wait_until(lambda: copy.after >= last), (*about, copy.after, last)
    if reader.vocabulary == "view":
        entries = plain(hosted.feed.describe_entries(hosted.view.entries))
        assert list(copy.entries.values()) == entries, about
        assert copy.state["approve"] == "auto"
    else:
        assert copy.facts == wanted, about


class Program:
    """A program that reads a session with the Python client.

    Attributes:
        seqs: The numbers of the events that it got.
        texts: The output that it got, by its number and kind.
        news: Set, and then replaced by a new event, when something has arrived.
    """

    def __init__(self):
        self.seqs = []
        self.texts = {}
        self.news = trio.Event()

    async def read(self, session):
        """Read until cancelled."""
        async for item in session.events(deltas=True):
            if isinstance(item, Delta):
                key = (item.seq, item.kind)
                self.texts[key] = self.texts.get(key, "") + item.text
            else:
                self.seqs.append(item.seq)
            self.news.set()
            self.news = trio.Event()

    async def wait_for_output(self, step):
        """Wait until the newest output of a kind is as wanted."""
        with trio.move_on_after(20):
            while self.find_text(step.kind) != step.whole:
                await self.news.wait()

    def find_text(self, kind):
        """Return the newest output of a kind."""
        keys = [key for key in self.texts if key[1] == kind]
        return self.texts[max(keys)] if keys else ""


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("trial", range(100))
async def test_the_python_client_over_lost_connections(project, trial):
    random = Random(trial)
    history = History(random)
    plugins = ("prompt", "store", plugin("printer", history.make_tool()))
    settings = ServeSettings(requests_per_minute=100_000)
    cuts = 0
    async with open_cut_proxy() as proxy:
        hosts = [f"127.0.0.1:{proxy.port}"]
        options = {"plugins": plugins, "settings": settings, "hosts": hosts}
        async with serving(project, answers=history.answers, **options) as served:
            proxy.target = served.port
            async with (
                client.connect(f"http://{hosts[0]}", served.token) as server,
                server.open_session(project) as session,
                trio.open_nursery() as nursery,
            ):
                program = Program()
                nursery.start_soon(program.read, session)
                run = await session.prompt("Go")
                for step in history.steps:
                    if step is history.steps[0] or random.random() < 0.5:
                        cuts += proxy.cut()
                    step.gate.set()
                    if step.kind:
                        await program.wait_for_output(step)
                        assert program.find_text(step.kind) == step.whole, trial
                ended = await run.wait()
                assert ended.state == "completed", (trial, ended)
                hosted = served.hub.find_hosted(session.id)
                with trio.move_on_after(20):
                    while len(program.seqs) < hosted.last:
                        await program.news.wait()
                assert program.seqs == list(range(1, hosted.last + 1)), trial
                await hosted.catch_up()
                seen = hosted.feed.describe_entries(session.view.entries)
                assert plain(seen) == plain(hosted.feed.describe_entries(hosted.view.entries))
                nursery.cancel_scope.cancel()
    assert cuts > 0
