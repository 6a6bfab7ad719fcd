"""The state of a session as clients see it: what is running, what waits, todo lists and usage.

``describe_state`` reads only what is in memory, so that the event stream can call it often. Every
answer of ``GET /api/sessions/{session}`` and every ``state`` element of a stream is made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from hilum import Confinement, UserQuestions
from hilum.messages import ToolCall, Usage
from hilum.sharing import JoinedSession
from hilum_view import Approval, Prompt, Question

from hilum_serve.background_commands import list_background_commands
from hilum_serve.phrases import Parts, find_parts

if TYPE_CHECKING:
    from hilum.services import BackgroundCommand
    from hilum_view import Actor, AgentView, BudgetView

    from hilum_serve.hub import HostedSession
    from hilum_serve.shell_lines import HostedLine

MAX_TEXT = 4_000
"""Maximum number of characters of a prompt or a last answer in the state; longer ones are cut."""
MAX_TITLE = 80
"""Maximum number of characters of a title that is made from a prompt, as in the store."""
MAX_WAITING_ARGUMENTS = 20_000
"""Maximum number of characters of arguments in the state; the list of approvals has all of them."""


class CallFacts(msgspec.Struct, frozen=True):
    """A tool call.

    Attributes:
        id: Id of the call.
        name: Name of the tool.
        arguments: The arguments, as JSON text.
    """

    id: str
    name: str
    arguments: str


class WaitingApproval(msgspec.Struct, frozen=True, tag_field="kind", tag="approval", kw_only=True):
    """A call that waits for approval.

    Attributes:
        id: Id of the approval.
        seq: Sequence number of the event that asked; a client must have seen it to decide.
        agent: The agent that made the call.
        call: The call that will run if approved.
        risk: Permission category of the tool: read, write, execute or network.
        reason: Why the call needs approval.
        reason_parts: The reason with codes of its sentences, for translations.
        scope: The calls that a lasting approval covers; empty for all calls of the tool.
        seconds: Time limit of the answer, from when the question is shown.
        deadline: Unix time at which the call is denied; 0 before the question is shown.
    """

    id: str
    seq: int
    agent: str
    call: CallFacts
    risk: str
    reason: str
    scope: str
    seconds: float
    deadline: float
    reason_parts: Parts = []


class WaitingQuestion(msgspec.Struct, frozen=True, tag_field="kind", tag="question", kw_only=True):
    """A question of an agent.

    Attributes:
        id: Id of the question.
        seq: Sequence number of the event that asked.
        agent: The agent that asks.
        call: Id of the agent's call; empty if the question does not come from a call.
        question: The question.
        options: Answers to choose from, the recommended one first.
        multiple: Whether several answers may be chosen.
        deadline: Unix time at which the agent decides without an answer; 0 for never.
    """

    id: str
    seq: int
    agent: str
    call: str
    question: str
    options: tuple[str, ...]
    multiple: bool
    deadline: float


class WaitingPlan(msgspec.Struct, frozen=True, tag_field="kind", tag="plan", kw_only=True):
    """A plan that waits for the user's decision.

    Attributes:
        id: Id of the plan, which is the id of the run that proposed it.
        seq: Sequence number of the event that proposed it.
        agent: The agent that proposes it.
        text: The plan.
    """

    id: str
    seq: int
    agent: str
    text: str


WaitingItem = WaitingApproval | WaitingQuestion | WaitingPlan


class TodoItem(msgspec.Struct, frozen=True):
    """An item of a todo list.

    Attributes:
        id: Id of the item.
        content: The step.
        status: pending, in_progress, completed, failed, blocked, skipped or cancelled.
    """

    id: str
    content: str
    status: str


class TodoState(msgspec.Struct, frozen=True):
    """The todo list of an agent.

    Attributes:
        agent: Name of the agent.
        items: The items, in order.
        completed: Number of completed items.
        total: Number of items, without cancelled and skipped ones.
    """

    agent: str
    items: list[TodoItem]
    completed: int
    total: int


class QueuedText(msgspec.Struct, frozen=True):
    """A prompt that waits for its turn, or a message that the agent has not read.

    Attributes:
        id: Id of the run of a prompt, or of the message.
        agent: The agent that it is for.
        text: The text, cut if it is long.
    """

    id: str
    agent: str
    text: str


class AgentState(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of the session and what it does.

    Attributes:
        name: Name of the agent in the session; ``main`` is the one that users talk to.
        parent: Name of the agent that started it; empty for agents of the user.
        state: State in the kernel, such as ``thinking`` or ``waiting_for_approval``.
        activity: What it does: preparing, thinking, working, answering, or how its last run ended.
        run: Id of its current or last run.
        running: Whether the run has not ended.
        turn: Number of the current model call of the run.
        model: The model that it uses.
        mode: The mode of its run.
        retry: What hilum does about a failed model call; empty if none has failed.
        began: Unix time at which the run began.
        usage: Tokens and cost of all its runs.
        retryable: Whether its last run ended early and can be continued.
    """

    name: str
    parent: str
    state: str
    activity: str
    run: str
    running: bool
    turn: int
    model: str
    mode: str
    retry: str
    began: float
    usage: Usage
    retryable: bool


class StartedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One start of an agent by the user or another agent.

    Attributes:
        id: Id of the start.
        agent: Name of the agent's definition.
        actor: Name of the agent in the session, as in ``AgentState``.
        title: Its task.
        owner: Name of the agent that started it; empty if the user did.
        call: Id of the owner's call that started it; empty if no call did.
        owner_run: Id of the owner's run that the call belongs to.
        status: Status, such as queued, running or completed.
        activity: What it does, in a few words.
        activity_parts: The same with codes of its phrases, for translations.
        place: Position in the queue; 0 if it does not wait.
        progress: Progress from 0 to 1.
        since: Unix time at which it was queued or began.
        seconds: Duration, once it has ended.
        turns: Maximum number of turns; 0 if unknown.
        calls: Number of tool calls that have ended.
        ended: Whether it has ended.
        answer: Its answer or its error, once it has ended; cut if it is long.
        usage: Tokens and cost.
    """

    id: str
    agent: str
    actor: str
    title: str
    owner: str
    call: str
    owner_run: str
    status: str
    activity: str
    place: int
    progress: float
    since: float
    seconds: float
    turns: int
    calls: int
    ended: bool
    answer: str
    usage: Usage
    activity_parts: Parts = []


class ShellLineState(msgspec.Struct, frozen=True, kw_only=True):
    """A shell line: a command that a user runs, and whose output the agent reads afterwards.

    Attributes:
        id: Id of the line.
        command: The command, cut if it is long.
        user: Name of the user who runs it.
        running: Whether it has not ended.
        output: The end of its output, from standard output and standard error.
        characters: Number of characters of the output that the server has.
        status: Its exit status; null while it runs, if it was stopped and if there is an error.
        error: Why it did not start or ended unexpectedly; empty otherwise.
        lost: Whether it ended unexpectedly, after it had started.
        stopped: Whether a user stopped it.
        note: What the sandbox refused, and what to do about it; empty if it refused nothing.
        began: Unix time at which it began.
        seconds: Duration; 0 while it runs.
    """

    id: str
    command: str
    user: str
    running: bool
    output: str
    characters: int
    status: int | None
    error: str
    lost: bool
    stopped: bool
    note: str
    began: float
    seconds: float


class BackgroundState(msgspec.Struct, frozen=True, kw_only=True):
    """A command of an agent that runs in the background.

    Attributes:
        id: Id of the command.
        command: The command, cut if it is long.
        began: Unix time at which it began.
    """

    id: str
    command: str
    began: float


class BackgroundOutput(msgspec.Struct, frozen=True):
    """What a background command is and has written.

    Attributes:
        command: The whole command.
        output: The end of its output, of both streams.
    """

    command: str
    output: str


class BudgetState(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a budget is spent.

    Attributes:
        budget: The budget: session, day, agent NAME or plugin NAME.
        unit: dollars, tokens or minutes.
        spent: What is spent.
        limit: The limit.
        nearly_spent: Whether little of it is left.
    """

    budget: str
    unit: str
    spent: float
    limit: float
    nearly_spent: bool


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an open session.

    Attributes:
        id: Id of the session.
        title: Its title.
        workspace: Its folder.
        forked: Id of the session that it is a copy of; empty if it is no copy.
        mode: Its mode.
        model: Its model, as provider/name; empty if a provider chooses.
        approve: Its approval policy.
        sandbox: The kind of sandbox of its commands; empty if there is none.
        branch: The checked-out Git branch; empty outside a repository.
        last: Last sequence number of the session.
        files_seq: Sequence number of the last change of files, or its undo.
        running: Whether an agent is working.
        waiting: Approvals, questions and plans that wait, oldest first.
        agents: The agents of the session.
        started: The starts of agents.
        todo: The todo lists of the agents that have one.
        queued: Prompts that wait for their turn.
        steering: Messages that agents have not read.
        usage: Tokens and cost of all agents.
        budgets: The budgets that have limits, and how much of each is spent.
        runs: Number of runs of the main agent.
        left: Number of prompts that waited when an earlier process ended, and interrupted runs;
            ``POST …/resume`` continues them.
        shell: Commands of users that run or that the agent has not read, oldest first.
        background: Commands of agents that run in the background, oldest first.
    """

    id: str
    title: str
    workspace: str
    forked: str
    mode: str
    model: str
    approve: str
    sandbox: str
    branch: str
    last: int
    files_seq: int
    running: bool
    waiting: list[WaitingItem]
    agents: list[AgentState]
    started: list[StartedAgent]
    todo: list[TodoState]
    queued: list[QueuedText]
    steering: list[QueuedText]
    usage: Usage
    budgets: list[BudgetState]
    runs: int
    left: int
    shell: list[ShellLineState]
    background: list[BackgroundState]


def describe_state(hosted: HostedSession, branch: str = "") -> SessionState:
    """Return the state of a session, from memory.

    Args:
        hosted: The session.
        branch: The Git branch, which the caller has read.
    """
    session = hosted.session
    view = hosted.view
    confinement = session.plugin(Confinement)
    queued = []
    steering = []
    for actor in view.actors.values():
        queued += _queued_texts(actor.name, actor.queued)
        steering += _queued_texts(actor.name, actor.steering)
    return SessionState(
        id=session.id,
        title=find_title(hosted),
        workspace=str(hosted.workspace),
        forked=view.forked,
        mode=session.mode.name,
        model=session.kernel.router.resolve(session.model),
        approve=session.approve,
        sandbox=confinement.describe_confinement() if confinement is not None else "",
        branch=branch,
        last=view.seq,
        files_seq=view.files_seq,
        running=bool(session.runs),
        waiting=list(list_waiting(hosted)),
        agents=[describe_actor(hosted, actor) for actor in view.actors.values()],
        started=[describe_start(each) for each in view.agents.all.values()],
        todo=list_todos(view.actors.values()),
        queued=queued,
        steering=steering,
        usage=view.totals.usage,
        budgets=[describe_budget(budget) for budget in view.budgets.all.values()],
        runs=view.totals.runs,
        left=count_left(hosted),
        shell=[describe_shell_line(line) for line in hosted.shell_lines.list_all()],
        background=[
            describe_background(hosted, command) for command in list_background_commands(session)
        ],
    )


def describe_budget(budget: BudgetView) -> BudgetState:
    """Return how much of a budget is spent."""
    return BudgetState(
        budget=budget.budget,
        unit=budget.unit,
        spent=budget.spent,
        limit=budget.limit,
        nearly_spent=budget.is_nearly_spent,
    )


def find_title(hosted: HostedSession) -> str:
    """Return the title of a session, which is its first prompt until someone names it."""
    if hosted.title:
        return hosted.title
    for entry in hosted.view.entries:
        if isinstance(entry, Prompt) and entry.text:
            return " ".join(entry.text.split())[:MAX_TITLE]
    return ""


def _queued_texts(agent: str, texts: dict[str, str]) -> list[QueuedText]:
    return [QueuedText(identity, agent, text[:MAX_TEXT]) for identity, text in texts.items()]


def count_left(hosted: HostedSession) -> int:
    """Return the number of runs that an earlier process left, which can be resumed."""
    session = hosted.session
    return sum(
        identity not in session.runs
        for agent in session.agents.values()
        for identity in agent.conversation.pending
    )


def list_waiting(hosted: HostedSession, *, whole: bool = False) -> Iterator[WaitingItem]:
    """Yield what waits for the user, oldest first.

    Args:
        hosted: The session.
        whole: Whether to include long arguments completely.
    """
    for item in hosted.view.waiting:
        if not is_alive(hosted, item):
            continue
        if isinstance(item, Approval):
            yield _describe_approval(item, whole=whole)
        else:
            yield _describe_question(item)
    for actor in hosted.view.actors.values():
        proposal = actor.proposal
        # While a prompt waits, the user has already decided otherwise.
        if proposal is not None and not actor.queued:
            yield WaitingPlan(
                id=proposal.run, seq=proposal.seq, agent=actor.name, text=proposal.text
            )


def is_alive(hosted: HostedSession, item: Approval | Question) -> bool:
    """Return whether an item can still be answered; if its run was cut off, it cannot.

    A run that is resumed asks again, under another id.
    """
    session = hosted.session
    if isinstance(item, Question):
        questions = session.plugin(UserQuestions)
        return questions is not None and questions.is_open(item.id)
    if item.seq <= session.began_at and not isinstance(session, JoinedSession):
        return False
    agent = hosted.session.agents.get(item.agent)
    pending = agent.conversation.pending if agent is not None else []
    return any(run in hosted.session.runs for run in pending)


def _describe_approval(item: Approval, *, whole: bool) -> WaitingApproval:
    arguments = item.call.arguments
    if not whole and len(arguments) > MAX_WAITING_ARGUMENTS:
        arguments = arguments[:MAX_WAITING_ARGUMENTS]
    return WaitingApproval(
        id=item.id,
        seq=item.seq,
        agent=item.agent,
        call=describe_call_facts(item.call, arguments),
        risk=item.risk,
        reason=item.reason,
        scope=item.scope,
        seconds=item.seconds,
        deadline=item.deadline,
        reason_parts=find_parts(item.reason),
    )


def describe_call_facts(call: ToolCall, arguments: str | None = None) -> CallFacts:
    """Return a call as clients see it; ``arguments`` replaces its arguments."""
    return CallFacts(call.id, call.name, call.arguments if arguments is None else arguments)


def _describe_question(item: Question) -> WaitingQuestion:
    return WaitingQuestion(
        id=item.id,
        seq=item.seq,
        agent=item.agent,
        call=item.call_id,
        question=item.question,
        options=item.options,
        multiple=item.multiple,
        deadline=item.deadline,
    )


def describe_actor(hosted: HostedSession, actor: Actor) -> AgentState:
    """Return an agent and what it does."""
    agent = hosted.session.agents.get(actor.name)
    return AgentState(
        name=actor.name,
        parent=actor.parent,
        state=actor.state,
        activity=actor.activity,
        run=actor.run,
        running=actor.run in hosted.session.runs,
        turn=actor.turn,
        model=actor.model,
        mode=actor.mode,
        retry=actor.retry,
        began=actor.began,
        usage=actor.usage,
        retryable=agent is not None and agent.conversation.retryable,
    )


def describe_start(view: AgentView) -> StartedAgent:
    """Return one start of an agent."""
    return StartedAgent(
        id=view.id,
        agent=view.agent,
        actor=view.actor,
        title=view.title,
        owner=view.owner,
        call=view.call,
        owner_run=view.owner_run,
        status=view.status,
        activity=view.activity,
        activity_parts=find_parts(view.activity),
        place=view.place,
        progress=view.progress,
        since=view.since,
        seconds=view.seconds,
        turns=view.turns,
        calls=view.calls,
        ended=view.ended,
        answer=view.answer[:MAX_TEXT],
        usage=view.usage,
    )


def describe_shell_line(hosted: HostedLine) -> ShellLineState:
    """Return a shell line, with the end of its output."""
    line = hosted.line
    return ShellLineState(
        id=hosted.id,
        command=line.command[:MAX_TEXT],
        user=hosted.user,
        running=not hosted.ended.is_set(),
        output=line.output[-MAX_TEXT:],
        characters=len(line.output),
        status=line.status,
        error=line.error,
        lost=line.lost,
        stopped=line.stopped,
        note=line.note,
        began=line.began,
        seconds=hosted.seconds,
    )


def describe_background(hosted: HostedSession, command: BackgroundCommand) -> BackgroundState:
    """Return a background command."""
    return BackgroundState(
        id=command.id,
        command=command.command[:MAX_TEXT],
        began=round(hosted.clock_began + command.began, 3),
    )


def list_todos(actors: Iterable[Actor]) -> list[TodoState]:
    """Return the todo lists of the agents that have one."""
    found = []
    for actor in actors:
        todos = actor.todos
        if todos.items:
            items = [TodoItem(each.id, each.content, each.status) for each in todos.items]
            found.append(TodoState(actor.name, items, todos.completed, todos.total))
    return found
