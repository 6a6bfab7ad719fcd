"""Records sessions with a scripted model that uses all tools; the same seed makes the same session.

Everything but the model is real. A session is a list of scenes, and each scene is a prompt with the
answers of the model and what the user does meanwhile.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing
from guest_bench import answer as answer_guest
from guest_bench import open_guest_bench
from hilum import Image, ModelError, Output, Plans, UserQuestions, hookimpl, tool
from hilum.events import (
    AnyEvent,
    ApprovalAsked,
    CallStarted,
    Delta,
    ModelStarted,
    PluginEvent,
    RunEnded,
)
from hilum.models import Request
from hilum.shell_lines import ShellLine, attach_output, note_end, run_shell_line
from hilum.testing import Bench, ScriptedModel, open_bench, say, use
from hilum_files import Changes
from hilum_files.journal.content_store import ContentStore
from scripted_editor import EditorUse, ScriptedEditor

PLUGINS = (
    "files search shell guard plan prompt context lint rules memory longterm agents scheduler"
    " skills web browser image"
).split()
# What sessions with guests need besides; the guest `coder` runs the Python code of its prompt.
GUEST_PLUGINS = ("models", "guests")
GUESTS = {"guest": "courteous", "coder": "bypassing"}
FILES: dict[str, str | bytes] = {
    "AGENTS.md": "# Rules\n\nUse short names.\n",
    "README.md": "# Shop\n\nA small shop.\n",
    "shop/prices.py": 'PRICES = {"tea": 3, "cake": 5}\n\n\ndef price(name: str) -> int:\n'
    "    return PRICES[name]\n",
    "shop/cart.py": "from shop.prices import price\n\n\ndef total(names: list[str]) -> int:\n"
    "    return sum(price(name) for name in names)\n",
    "notes/todo.txt": "buy milk\nbuy bread\n",
    "data.bin": bytes(range(256)),
    ".agents/skills/invoices/SKILL.md": "---\nname: invoices\n"
    "description: How invoices are written.\n---\n\nWrite the total last.\n",
}
PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\x90wS"
    b"\xde\x00\x00\x00\x0cIDATx\x9cc\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00"
    b"\x00\x00IEND\xaeB`\x82"
)


class Outside:
    """A plugin whose tools reach outside: every call has another result.

    It stands for servers of the Model Context Protocol, browsers and image models.
    """

    name = "outside"

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"{seed} outside")

    @hookimpl
    def provide_tools(self) -> list[Any]:
        return [self.weather, self.draw]

    @tool(risk="network", effect="pure")
    async def weather(self, place: str) -> str:
        """Return the weather.

        Args:
            place: The place.
        """
        return f"{place}: {self._random.randint(-20, 40)} degrees"

    @tool(risk="network", effect="once")
    async def draw(self, subject: str) -> Output:
        """Draw a picture.

        Args:
            subject: What to draw.
        """
        return Output(f"Drew {subject}, {self._random.random():.6f}.", (Image("image/png", PIXEL),))


@attrs.define
class Scene:
    """A prompt, the answers of the model, and what the user does.

    Attributes:
        prompt: The prompt.
        answers: The answers for the main agent, in order.
        helper: The answers for other agents, in order.
        act: What the user does after the prompt.
        before: What the user does before it.
        images: Images in the prompt.
        latency: Seconds that the model takes for each answer.
        has_guests: Whether an agent is another program.
    """

    prompt: str
    answers: Sequence[Any]
    helper: Sequence[Any] = ()
    act: Callable[[Bench], Awaitable[None]] | None = None
    before: Callable[[Bench], Awaitable[None]] | None = None
    images: tuple[Image, ...] = ()
    latency: float = 0.0
    has_guests: bool = False


@attrs.define
class RecordedSession:
    """A recorded session with the contents of its file journal."""

    events: list[AnyEvent]
    contents: dict[str, bytes | None]
    plugins: list[object]
    seconds: float

    def get_content(self, name: str) -> bytes | None:
        return self.contents.get(name)


# --- scenes ---------------------------------------------------------------------------------------


def read_and_search(rng: random.Random) -> Scene:
    word = rng.choice(["price", "total", "sum", "nothing_like_this"])
    return Scene(
        f"Where is {word}?",
        [
            use("search_files", pattern=word) + use("glob_search", pattern="**/*.py"),
            use("read_file", path="shop/cart.py")
            + use("list_directory", path=".", depth=rng.choice([1, 2])),
            use("read_file", path=rng.choice(["missing.py", "data.bin", "notes"])),
            f"I looked for {word}.",
        ],
    )


def write_and_edit(rng: random.Random) -> Scene:
    number = rng.randint(6, 99)
    name = f"notes/note_{number}.txt"
    return Scene(
        f"Make cake cost {number}.",
        [
            use("read_file", path="shop/prices.py"),
            use("edit_file", path="shop/prices.py", old_string='"cake"', new_string='"pie"')
            + use("write_file", path=name, content=f"{number}\n"),
            use(
                "multi_edit",
                path="shop/prices.py",
                edits=[
                    {"old_string": '"pie"', "new_string": '"cake"'},
                    {"old_string": '"tea": 3', "new_string": f'"tea": {number}'},
                ],
            ),
            use("edit_file", path="shop/prices.py", old_string="not there", new_string="x"),
            use("delete_file", path=name) if number % 2 else use("read_file", path=name),
            "Done.",
        ],
    )


def command(rng: random.Random) -> Scene:
    number = rng.randint(1, 9)
    commands = [
        f"seq {number}",
        "cat shop/*.py | wc -l",
        f"echo {number} > made_{number}.txt && ls",
        "python3 -c 'import shop.cart; print(shop.cart.total([\"tea\"]))'",
        f"exit {number}",
        "sort -r notes/todo.txt",
    ]
    chosen = rng.sample(commands, 3)
    return Scene(
        "Run some commands.", [*(use("run_terminal_cmd", command=c) for c in chosen), "Ran."]
    )


def unstable_command(rng: random.Random) -> Scene:
    return Scene(
        "What does the clock say?",
        [
            use("run_terminal_cmd", command="date +%s%N > clock.txt; cat clock.txt"),
            use("read_file", path="clock.txt"),
            "It says something else each time.",
        ],
    )


def service(rng: random.Random) -> Scene:
    return Scene(
        "Start a service.",
        [
            use("run_terminal_cmd", command="echo ready; cat", background=True),
            use("read_service", service="s1", wait_for="ready", timeout=10),
            use("write_service", service="s1", text="hello", wait_for="hello", timeout=10),
            use("list_services"),
            use("stop_service", service="s1"),
            "It ran.",
        ],
    )


def todos(rng: random.Random) -> Scene:
    def todo(number: int, status: str) -> dict[str, str]:
        return {"id": str(number), "content": f"Step {number}", "status": status}

    return Scene(
        "Plan the work.",
        [
            use("todo_write", todos=[todo(1, "in_progress"), todo(2, "pending")]),
            use("todo_write", todos=[todo(1, "completed"), todo(2, "in_progress")])
            + use("read_lints", paths=["shop"]),
            use("todo_write", todos=[todo(2, "completed")]),
            "Planned.",
        ],
    )


def question(rng: random.Random) -> Scene:
    answer = rng.choice(["Tea", "Cake", "Neither of them"])

    async def act(bench: Bench) -> None:
        asked = await bench.wait_for(
            PluginEvent, lambda event: event.name == "plan.question_asked", after=_start(bench)
        )
        service = bench.session.plugin(UserQuestions)
        assert service is not None
        service.answer(asked.data["id"], [answer])

    call = use("ask_question", question="What do you want?", options=["Tea", "Cake"])
    return Scene("Ask me.", [call, f"You want {answer}."], act=act)


def helper_agent(rng: random.Random) -> Scene:
    helper = [use("read_file", path="shop/cart.py"), "It adds up prices."]
    call = use("task", description="look at the cart", prompt="What does shop/cart.py do?")
    return Scene("Ask a helper.", [call, "The helper knows."], helper)


def background_agent(rng: random.Random) -> Scene:
    def fetch(request: Request) -> Any:
        found = re.findall(r"\b[0-9a-f]{12}\b", str(request.messages[-1]))
        return use("get_agent_result", agent_id=found[0] if found else "none")

    call = use("task", description="look at the prices", prompt="Which prices?", background=True)
    helper = [use("search_files", pattern="PRICES"), "Tea and cake."]
    return Scene(
        "Ask a helper to look, and go on.", [call, fetch, "Done.", "Noted.", "Noted."], helper
    )


def outside(rng: random.Random) -> Scene:
    place = rng.choice(["Oslo", "Rome", "Quito"])

    async def act(bench: Bench) -> None:
        start = _start(bench)
        async for event in bench.session.events(start):
            if isinstance(event, ApprovalAsked):
                bench.session.answer(event.id, accepted=True)
            elif isinstance(event, RunEnded):
                return

    return Scene(
        f"How is the weather in {place}?",
        [
            use("weather", place=place) + use("draw", subject=place),
            use("web_search", query="tea") + use("web_fetch", url="https://shop.invalid/prices"),
            "It is not certain.",
        ],
        act=act,
    )


def browser_and_image(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        async for event in bench.session.events(_start(bench)):
            if isinstance(event, ApprovalAsked):
                bench.session.answer(event.id, accepted=True)
            elif isinstance(event, RunEnded):
                return

    return Scene(
        "Close the browser and draw tea.",
        [
            use("browser_use", action="close"),
            use("generate_image", description="A cup of tea"),
            "No picture.",
        ],
        act=act,
    )


def memories(rng: random.Random) -> Scene:
    return Scene(
        "Remember that I like tea.",
        [
            use("find_tools", query="remember"),
            use("call_tool", name="remember", arguments={"text": "The user likes tea."}),
            use("use_skill", name="invoices"),
            use("recall_result", id="none"),
            use("forget", number=1),
            "I will.",
        ],
    )


def approval(rng: random.Random) -> Scene:
    accepted = rng.random() < 0.6

    async def before(bench: Bench) -> None:
        bench.session.set(approve="ask_first")

    async def act(bench: Bench) -> None:
        asked = await bench.wait_for(ApprovalAsked, after=_start(bench))
        bench.session.answer(asked.id, accepted, reason="" if accepted else "Not now.")
        await bench.wait_for(RunEnded, after=asked.seq)
        bench.session.set(approve="auto")

    call = use("write_file", path="approved.txt", content="yes\n")
    return Scene("Write a file, but ask me.", [call, "As you like."], act=act, before=before)


def steering(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        await bench.wait_for(CallStarted, after=_start(bench))
        await bench.session.steer("Mind the bread.")

    return Scene(
        "Read my notes.",
        [
            use("run_terminal_cmd", command="sleep 0.2; cat notes/todo.txt"),
            "Milk and bread.",
            "Yes.",
        ],
        act=act,
    )


def stopped(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        await bench.wait_for(CallStarted, after=_start(bench))
        await trio.testing.wait_all_tasks_blocked(0.01)
        bench.session.stop()

    return Scene("Wait.", [use("run_terminal_cmd", command="sleep 100")], act=act)


def bad_model(rng: random.Random) -> Scene:
    return Scene(
        "Use what does not exist.",
        [
            use("no_such_tool", a=1) + use("read_file"),
            use("run_terminal_cmd", command="false"),
            use("write_file", path="../outside.txt", content="x"),
            say("I was", stop="length"),
            "It does not.",
        ],
    )


def repeated_failure(rng: random.Random) -> Scene:
    call = use("edit_file", path="README.md", old_string="not there", new_string="x")
    return Scene("Try it again and again.", [call, call, call, call, "It does not work."])


def long_output(rng: random.Random) -> Scene:
    return Scene(
        "Count.",
        [use("run_terminal_cmd", command=f"seq {rng.randint(60_000, 90_000)}"), "Counted."],
    )


def read_only(rng: random.Random) -> Scene:
    async def before(bench: Bench) -> None:
        bench.session.set(approve="readonly")

    async def act(bench: Bench) -> None:
        await bench.wait_for(RunEnded, after=_start(bench))
        bench.session.set(approve="auto")

    call = use("write_file", path="never.txt", content="no\n")
    return Scene("Look, do not touch.", [call, "I must not."], act=act, before=before)


def late_steering(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        asked = await bench.wait_for(
            PluginEvent, lambda event: event.name == "plan.question_asked", after=_start(bench)
        )
        await bench.session.steer("And the cake?")
        service = bench.session.plugin(UserQuestions)
        assert service is not None
        service.answer(asked.data["id"], ["Tea"])

    call = use("ask_question", question="What do you want?", options=["Tea", "Cake"])
    return Scene("Ask me, and listen.", [call, "Tea and cake."], act=act)


def compacted_during_a_run(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        asked = await bench.wait_for(
            PluginEvent, lambda event: event.name == "plan.question_asked", after=_start(bench)
        )
        bench.session.compact()
        service = bench.session.plugin(UserQuestions)
        assert service is not None
        service.answer(asked.data["id"], ["Tea"])

    answers = [
        use("read_file", path="README.md"),
        use("run_terminal_cmd", command="seq 3000"),
        use("ask_question", question="What do you want?", options=["Tea", "Cake"]),
        "Tea.",
    ]
    return Scene("Read, then ask me.", answers, act=act)


def steering_of_an_answer(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        await bench.wait_for(ModelStarted, after=_start(bench))
        await bench.session.steer("In one word.")

    return Scene("How are you?", ["I am well.", "Well."], act=act, latency=0.2)


def rejection(rng: random.Random) -> Scene:
    async def before(bench: Bench) -> None:
        bench.session.set(approve="ask_first")

    async def act(bench: Bench) -> None:
        asked = await bench.wait_for(ApprovalAsked, after=_start(bench))
        bench.session.answer(asked.id, accepted=False, reason="Not now.")
        await bench.wait_for(RunEnded, after=asked.seq)
        bench.session.set(approve="auto")

    call = use("write_file", path="rejected.txt", content="no\n")
    return Scene("Write, but ask me.", [call, "As you like."], act=act, before=before)


def mode_during_a_run(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        asked = await bench.wait_for(
            PluginEvent, lambda event: event.name == "plan.question_asked", after=_start(bench)
        )
        bench.session.set(mode="plan")
        service = bench.session.plugin(UserQuestions)
        assert service is not None
        service.answer(asked.data["id"], ["Tea"])
        await bench.wait_for(RunEnded, after=asked.seq)
        bench.session.set(mode="agent")

    call = use("ask_question", question="What do you want?", options=["Tea", "Cake"])
    refused = use("write_file", path="refused.txt", content="no\n")
    return Scene("Ask me, then plan.", [call, refused, "The plan: tea."], act=act)


def handed_over(rng: random.Random) -> Scene:
    call = use("handover", agent="review", brief="Look at shop/cart.py.")
    helper = [use("read_file", path="shop/cart.py"), "It adds up prices."]
    return Scene("Let a reviewer do it.", [call, "The reviewer has it.", "Noted."], helper)


def empty_answer(rng: random.Random) -> Scene:
    return Scene("Say something.", ["", "Something."])


def retried_model(rng: random.Random) -> Scene:
    return Scene(
        "Answer, after a failure.",
        [ModelError("Down.", kind="protocol"), "Here I am."],
    )


def given_up_model(rng: random.Random) -> Scene:
    failure = ModelError("Wrong protocol.", kind="protocol", hint="Use another server.")
    return Scene("Answer, after failures.", [failure, failure])


def failing_model(rng: random.Random) -> Scene:
    return Scene("Answer.", [ModelError("No.", kind="request", status=400)])


def picture(rng: random.Random) -> Scene:
    return Scene("What is this?", ["A pixel."], images=(Image("image/png", PIXEL),))


def user_edit(rng: random.Random) -> Scene:
    number = rng.randint(100, 999)

    async def before(bench: Bench) -> None:
        path = bench.workspace / "shop" / "prices.py"
        text = await trio.Path(path).read_text()
        await trio.Path(path).write_text(f"{text}# {number}\n")

    return Scene(
        "I have changed the prices.",
        [
            use("read_file", path="shop/prices.py"),
            use("edit_file", path="shop/prices.py", old_string=f"# {number}", new_string="# seen"),
            "I see.",
        ],
        before=before,
    )


async def run_line(bench: Bench, identity: str, command: str) -> None:
    """Run a command as the user does after ``!``."""
    line = ShellLine(command)
    await run_shell_line(bench.session, line, lambda: None)
    attach_output(bench.session, identity, line.attached)
    note_end(bench.session, line, "The user", "in the terminal")


def shell_lines(rng: random.Random) -> Scene:
    number = rng.randint(100, 999)

    async def before(bench: Bench) -> None:
        await run_line(bench, f"line-{number}-1", "cat notes/todo.txt")
        await run_line(bench, f"line-{number}-2", f"echo {number} >> notes/todo.txt; false")

    async def act(bench: Bench) -> None:
        await bench.wait_for(CallStarted, after=_start(bench))
        await run_line(bench, f"line-{number}-3", f"echo {number} during the run")
        await bench.wait_for(RunEnded, after=_start(bench))
        run = await bench.start("And now?")
        await run.wait()

    return Scene(
        "What did I run?",
        [
            use("run_terminal_cmd", command="sleep 0.3; cat notes/todo.txt"),
            use("edit_file", path="notes/todo.txt", old_string=f"{number}\n", new_string="seen\n"),
            "Two commands.",
            "Another one.",
        ],
        act=act,
        before=before,
    )


def undone(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        await bench.wait_for(RunEnded, after=_start(bench))
        changes = bench.session.plugin(Changes)
        assert changes is not None
        await changes.undo("run")

    call = use("write_file", path="undone.txt", content="no\n")
    return Scene("Write a file.", [call, "Written."], act=act)


def planned(rng: random.Random) -> Scene:
    async def before(bench: Bench) -> None:
        bench.session.set(mode="plan")

    async def act(bench: Bench) -> None:
        ended = await bench.wait_for(RunEnded, after=_start(bench))
        plans = bench.session.plugin(Plans)
        assert plans is not None
        if plans.proposal() is None:
            bench.session.set(mode="agent")
            return
        await plans.accept()
        await bench.wait_for(RunEnded, after=ended.seq)

    return Scene(
        "Plan a new file.",
        [
            say("I propose to write planned.txt.")
            + use("todo_write", todos=[{"id": "1", "content": "Write it", "status": "pending"}]),
            "The plan: write planned.txt.",
            use("write_file", path="planned.txt", content="planned\n"),
            "Carried out.",
            "Done.",
            "Done.",
        ],
        act=act,
        before=before,
    )


def compacted(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        await bench.wait_for(RunEnded, after=_start(bench))
        bench.session.compact()
        await trio.testing.wait_all_tasks_blocked(0.01)
        run = await bench.start("What is left?")
        await run.wait()

    answers = [
        use("read_file", path="README.md"),
        use("read_file", path="shop/cart.py"),
        "Yes.",
        "A summary of it.",
        "This.",
    ]
    return Scene("Shorten what you know.", answers, act=act)


# --- scenes with guests ---------------------------------------------------------------------------


def ask_guest(*steps: list[Any], agent: str = "guest") -> Any:
    """Return a call that gives a guest some steps."""
    return use("task", description="do it", prompt=json.dumps(steps), agent=agent)


async def accept_all(bench: Bench) -> None:
    """Accept what is asked until the session's own run ends."""
    async for event in bench.session.events(_start(bench)):
        if isinstance(event, ApprovalAsked):
            bench.session.answer(event.id, accepted=True)
        elif isinstance(event, RunEnded) and event.agent == "main":
            return


def guest(rng: random.Random) -> Scene:
    number = rng.randint(100, 999)
    steps: list[list[Any]] = [
        ["read", "shop/cart.py"],
        ["write", "notes/todo.txt", f"{number}\n"],
        ["disk", f"made_{number}.txt", f"{number}\n"],
        ["tool", "npm test", f"{number} passed"],
        ["terminal", f"echo {number} > printed.txt; cat printed.txt"],
        ["plan", ["Read", "completed"], ["Write", "in_progress"]],
        ["think", "What is left?"],
        ["read", "missing.py"],
        ["write", "../outside.txt", "x"],
    ]
    chosen = rng.sample(steps, rng.randint(2, len(steps)))
    call = ask_guest(*chosen, ["say", "Done."])
    return Scene("Let a guest do it.", [call, "The guest did it."], has_guests=True)


def guest_behind_the_back(rng: random.Random) -> Scene:
    number = rng.randint(100, 999)
    call = ask_guest(
        ["read", "notes/todo.txt"],
        ["disk", "notes/todo.txt", f"{number}\n"],
        ["write", "notes/todo.txt", "stale\n"],
        ["disk", "shop/cart.py", f"# {number}\n"],
        ["say", "I changed it myself."],
    )
    read = use("read_file", path="notes/todo.txt")
    return Scene("Let a guest do it.", [call, read, "It did."], has_guests=True)


def called_guest(rng: random.Random) -> Scene:
    name = f"by_name_{rng.randint(100, 999)}.txt"
    text = f"""#begin
client.request("fs/write_text_file", path=os.path.abspath({name!r}), content="1")
open({name!r}, "a").write("2")
print(open({name!r}).read(), call_model("Hello")[0])"""

    async def act(bench: Bench) -> None:
        await bench.wait_for(RunEnded, after=_start(bench))
        # The next run starts the program again.
        run = await bench.start(f"@coder {text}")
        await run.wait()

    return Scene(f"@coder {text}", [], act=act, has_guests=True)


def two_guests(rng: random.Random) -> Scene:
    one = [["disk", "one.txt", "1"], ["read", "README.md"], ["say", "One."]]
    two = [["write", "two.txt", "2"], ["terminal", "ls shop"], ["say", "Two."]]
    if rng.random() < 0.5:
        one, two = two, one
    calls = ask_guest(*one) + ask_guest(*two)
    return Scene("Let two guests do it.", [calls, "Both did it."], has_guests=True)


def guest_requests(rng: random.Random) -> Scene:
    async def before(bench: Bench) -> None:
        bench.session.set(approve="ask_first")

    async def act(bench: Bench) -> None:
        await accept_all(bench)
        bench.session.set(approve="auto")

    change = {"type": "diff", "path": "README.md", "oldText": "small", "newText": "tiny"}
    requests: list[list[Any]] = [
        ["ask", "Run it", "execute", {"rawInput": {"command": "seq 3"}}],
        ["ask", "Edit it", "edit", {"content": [change]}],
        ["ask", "Read it", "read", {"locations": [{"path": "README.md"}]}],
        ["ask", "Fetch it", "fetch", {"rawInput": {"url": "https://shop.invalid/"}}],
        ["ask", "Think", "think", {"rawInput": {"about": "tea"}}],
    ]
    steps = [*requests, ["write", "README.md", "# Shop\n\nA tiny shop.\n"], ["terminal", "seq 2"]]
    call = ask_guest(*steps, ["say", "I asked for everything."])
    answers = [call, "It asked."]
    return Scene("Let a guest ask.", answers, act=act, before=before, has_guests=True)


def rejected_guest(rng: random.Random) -> Scene:
    async def before(bench: Bench) -> None:
        bench.session.set(approve="ask_first")

    async def act(bench: Bench) -> None:
        async for event in bench.session.events(_start(bench)):
            if isinstance(event, ApprovalAsked):
                # The main agent may start the guest, which then may do nothing.
                bench.session.answer(event.id, accepted=event.agent == "main", reason="Not now.")
            elif isinstance(event, RunEnded) and event.agent == "main":
                bench.session.set(approve="auto")
                return

    request = ["ask", "Run it", "execute", {"rawInput": {"command": "rm -r shop"}}]
    call = ask_guest(request, ["write", "refused.txt", "no"], ["say", "I must not."])
    answers = [call, "It must not."]
    return Scene("Let a guest try.", answers, act=act, before=before, has_guests=True)


def failing_guest(rng: random.Random) -> Scene:
    code = rng.randint(1, 9)
    call = ask_guest(["disk", "half.txt", "half"], ["say", "I begin."], ["exit", code])
    return Scene("Let a guest do it.", [call, "It failed."], has_guests=True)


def costly_guest(rng: random.Random) -> Scene:
    # Other agents grant a guest half of what is left of their own budget.
    text = "#begin\nfor number in range(3):\n    print(call_model('Hello')[0])"
    call = use("task", description="do it", prompt=text, agent="coder")
    return Scene("Let a guest work.", [call, "It used its model."], has_guests=True)


def stopped_guest(rng: random.Random) -> Scene:
    async def act(bench: Bench) -> None:
        async for item in bench.session.events(_start(bench), deltas=True):
            if isinstance(item, Delta) and item.agent != "main" and item.text == "begun":
                break
        bench.session.stop()

    call = ask_guest(["disk", "begun.txt", "x"], ["say", "begun"], ["wait", "never.txt"])
    return Scene("Let a guest wait.", [call], act=act, has_guests=True)


def editor_use(rng: random.Random) -> Scene:
    editing = EditorUse(rng)

    async def act(bench: Bench) -> None:
        await editing.end(bench, _start(bench))

    return Scene("Edit what I have open.", editing.answers, act=act, before=editing.begin)


SCENES: dict[str, Callable[[random.Random], Scene]] = {
    "approval": approval,
    "background_agent": background_agent,
    "bad_model": bad_model,
    "browser_and_image": browser_and_image,
    "called_guest": called_guest,
    "command": command,
    "compacted": compacted,
    "compacted_during_a_run": compacted_during_a_run,
    "costly_guest": costly_guest,
    "editor_use": editor_use,
    "empty_answer": empty_answer,
    "failing_guest": failing_guest,
    "failing_model": failing_model,
    "given_up_model": given_up_model,
    "guest": guest,
    "guest_behind_the_back": guest_behind_the_back,
    "guest_requests": guest_requests,
    "handed_over": handed_over,
    "helper_agent": helper_agent,
    "late_steering": late_steering,
    "long_output": long_output,
    "memories": memories,
    "mode_during_a_run": mode_during_a_run,
    "outside": outside,
    "picture": picture,
    "planned": planned,
    "question": question,
    "read_and_search": read_and_search,
    "read_only": read_only,
    "rejected_guest": rejected_guest,
    "rejection": rejection,
    "repeated_failure": repeated_failure,
    "retried_model": retried_model,
    "service": service,
    "shell_lines": shell_lines,
    "steering": steering,
    "steering_of_an_answer": steering_of_an_answer,
    "stopped": stopped,
    "stopped_guest": stopped_guest,
    "todos": todos,
    "two_guests": two_guests,
    "undone": undone,
    "unstable_command": unstable_command,
    "user_edit": user_edit,
    "write_and_edit": write_and_edit,
}

_starts: dict[int, int] = {}


def _start(bench: Bench) -> int:
    """Return the number of the last event before the scene."""
    return _starts[id(bench)]


def choose_scenes(seed: int) -> list[str]:
    """Return the names of a seed's scenes; as many seeds in a row as there are scenes contain all."""
    names = sorted(SCENES)
    rng = random.Random(f"{seed} scenes")
    return [names[seed % len(names)], *rng.sample(names, rng.randint(0, 2))]


async def record_session(
    seed: int, folder: Path, *, scenes: Sequence[str] = (), latency: float = 0.0
) -> RecordedSession:
    """Record the session of a seed.

    Args:
        seed: The seed.
        folder: A new folder, which is not needed afterwards.
        scenes: Names of the scenes; by default, those of the seed.
        latency: Seconds that the model takes for each answer.
    """
    rng = random.Random(seed)
    names = scenes or choose_scenes(seed)
    chosen = [SCENES[name](rng) for name in names]
    pause = [0.0]
    main: list[Any] = []
    helper: list[Any] = []

    def play(request: Request) -> Any:
        queue = main if request.agent == "main" else helper
        answer = queue.pop(0) if queue else "Done."
        return answer(request) if callable(answer) else answer

    class Slow(ScriptedModel):
        def stream(self, request: Request) -> Any:
            return _delayed(super().stream(request), max(latency, *pause))

    outside_plugin = Outside(seed)
    editors = [ScriptedEditor()] if "editor_use" in names else []
    # In a smaller window, results are cut where the estimate of their tokens ends.
    model = Slow([play] * 500, window=1_000_000)
    began = trio.current_time()
    options: dict[str, Any] = {"model": model, "files": FILES, "faults": True}
    if any(scene.has_guests for scene in chosen):
        opened = open_guest_bench(
            folder,
            outside_plugin,
            *editors,
            only=(*PLUGINS, *GUEST_PLUGINS),
            guests=GUESTS,
            script=lambda request: answer_guest(used=rng.randint(50, 500)),
            **options,
        )
    else:
        opened = open_bench(*PLUGINS, outside_plugin, *editors, folder=folder, **options)
    async with opened as bench:
        for scene in chosen:
            main[:] = scene.answers
            helper[:] = scene.helper
            pause[0] = scene.latency
            if scene.before is not None:
                await scene.before(bench)
            _starts[id(bench)] = bench.session.journal.last
            run = await bench.start(scene.prompt, images=scene.images)
            with trio.fail_after(60):
                async with trio.open_nursery() as nursery:
                    if scene.act is not None:
                        nursery.start_soon(scene.act, bench)
                    await run.wait()
                await settle(bench)
        events = list(bench.events)
        seconds = trio.current_time() - began
        store = ContentStore(folder / "data" / "objects")
        hashes = set(re.findall(r'"([0-9a-f]{40})"', repr(events).replace("'", '"')))
        contents = {name: store.get(name) for name in hashes}
        store.close()
    return RecordedSession(events, contents, [outside_plugin], seconds)


async def settle(bench: Bench) -> None:
    """Wait until nothing happens in the session any more."""
    while True:
        last = bench.session.journal.last
        await trio.testing.wait_all_tasks_blocked(0.02)
        if not bench.session.runs and bench.session.journal.last == last:
            return


class _delayed:
    """A stream that begins after a delay."""

    def __init__(self, stream: Any, seconds: float) -> None:
        self._stream = stream
        self._seconds = seconds

    async def __aenter__(self) -> Any:
        await trio.sleep(self._seconds)
        return await self._stream.__aenter__()

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)
