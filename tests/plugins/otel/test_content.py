"""Content is exported only on request: nothing of a session full of planted texts goes out."""

import hilum_otel
from hilum import ModelError, UserQuestions, tool
from hilum.events import (
    ApprovalAnswered,
    ApprovalAsked,
    ModelFailed,
    PluginEvent,
    PluginFault,
    RunEnded,
)
from hilum.testing import open_bench, plugin, say, use
from otlp_receiver import read_attributes, receive

SECRET = "hunter2"
QUESTION = "plan.question_asked"
PATH = f"notes/{SECRET}/plan.txt"

# Attributes that are no content. Documented in docs/opentelemetry.md.
ALLOWED = {
    "error.type",
    "gen_ai.agent.name",
    "gen_ai.conversation.id",
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.request.stream",
    "gen_ai.response.finish_reasons",
    "gen_ai.response.model",
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.token.modality",
    "gen_ai.token.type",
    "gen_ai.tool.call.id",
    "gen_ai.tool.name",
    "gen_ai.tool.type",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.reasoning.output_tokens",
    "hilum.accepted",
    "hilum.action",
    "hilum.agent",
    "hilum.approve",
    "hilum.before",
    "hilum.by",
    "hilum.cause",
    "hilum.cost_usd",
    "hilum.kind",
    "hilum.mode",
    "hilum.model",
    "hilum.plugin",
    "hilum.prefix_breaks",
    "hilum.purpose",
    "hilum.retries",
    "hilum.risk",
    "hilum.run",
    "hilum.state",
    "hilum.summarized",
    "hilum.switched_off",
    "hilum.thinned",
    "hilum.turn",
    "hilum.turns",
    "hilum.wait",
    "hilum.wait.model",
    "hilum.wait.order",
    "hilum.wait.queue",
    "hilum.wait.retry",
    "hilum.wait.user",
}


@tool(risk="execute", effect="idempotent", reads=lambda arguments: [arguments["path"]])
async def inspect(path: str, command: str) -> str:
    """Inspect."""
    return f"{command} found hunter2"


@tool(risk="read", effect="pure")
async def explode(text: str) -> str:
    """Explode."""
    raise RuntimeError(f"{text} in an exception")


async def remind(results):
    """Fail with a text from the session."""
    raise ValueError(f"{results[0].text} {SECRET} in a plugin")


ANSWERS = [
    say(f"I think {SECRET}.") + use("inspect", path=PATH, command=f"echo {SECRET}"),
    use("explode", text=SECRET),
    use(f"tool_{SECRET}", text=SECRET),
    use("inspect", path=PATH, command=f"cat {SECRET}"),
    ModelError(f"{SECRET} is busy", kind="rate_limit", retry_after=0.01),
    f"It is {SECRET}.",
    ModelError(f"{SECRET} is wrong", kind="auth"),
]


async def run_session(url, **settings):
    """Run a session in which every kind of text contains the secret."""
    parts = [plugin("tools", inspect, explode)]
    parts.append(plugin("failing", remind=remind))
    chosen = {"otel.endpoint": url, "slow_hook": 0.000001, **settings}
    async with open_bench(
        hilum_otel, *parts, answers=ANSWERS, settings=chosen, approve="ask_first", faults=True
    ) as bench:
        run = await bench.start(f"The password is {SECRET}.")
        first = await bench.wait_for(ApprovalAsked)
        bench.session.answer(first.id, accepted=True)
        second = await bench.wait_for(ApprovalAsked, after=first.seq)
        bench.session.answer(second.id, accepted=False, reason=f"Not {SECRET}.")
        await bench.wait_for(RunEnded)
        await bench.run(f"{SECRET} again")
        assert run.id
    return bench


def collect_attributes(received):
    """Return the names of all attributes of all signals."""
    groups = [span.attributes for span in received.spans]
    groups += [event.attributes for span in received.spans for event in span.events]
    groups += [log.attributes for log in received.logs]
    for metric in received.metrics.values():
        data = metric.sum if metric.WhichOneof("data") == "sum" else metric.histogram
        groups += [point.attributes for point in data.data_points]
    return {name for group in groups for name in read_attributes(group)}


async def test_no_signal_contains_content_by_default():
    with receive() as received:
        bench = await run_session(received.url)
    # Each kind of text was there.
    assert [event.accepted for event in bench.of(ApprovalAnswered)] == [True, False]
    assert any(SECRET in event.message for event in bench.of(ModelFailed))
    assert any(SECRET in event.error for event in bench.of(PluginFault))
    codes = [result.code for result in bench.results]
    assert codes[0] == ""
    assert "E_UNKNOWN_TOOL" in codes
    assert received.named("execute_tool unknown")
    names = {span.name for span in received.spans}
    assert {"approval inspect", "execute_tool explode", "hook remind"} <= names
    assert received.metrics
    assert {log.event_name for log in received.logs} >= {
        "hilum.approval_answered",
        "hilum.model_failed",
        "hilum.plugin_fault",
        "hilum.run_ended",
    }
    assert SECRET.encode() not in received.raw
    assert b"notes" not in received.raw


async def test_what_the_agent_asks_the_user_is_content():
    for content in (False, True):
        with receive() as received:
            settings = {"otel.endpoint": received.url, "otel.content": content}
            call = use("ask_question", question=f"Is it {SECRET}?", options=["Yes", "No"])
            async with open_bench(
                hilum_otel, "plan", answers=[call, "Good."], settings=settings
            ) as bench:
                await bench.start("x")
                asked = await bench.wait_for(PluginEvent, lambda event: event.name == QUESTION)
                bench.session.plugin(UserQuestions).answer(asked.data["id"], ["Yes"])
                await bench.wait_for(RunEnded)
        assert received.named("question")
        assert (SECRET.encode() in received.raw) is content
        names = [span.name for span in received.spans]
        assert not [name for name in names if SECRET in name]


async def test_every_attribute_is_one_that_was_checked():
    with receive() as received:
        await run_session(received.url)
    assert collect_attributes(received) <= ALLOWED


async def test_the_same_texts_are_exported_on_request():
    """Otherwise the test above could not fail."""
    with receive() as received:
        await run_session(received.url, **{"otel.content": True})
    texts = [
        "The password is hunter2",
        "I think hunter2.",
        "echo hunter2",
        "hunter2 found",
        "in a plugin",
        "in an exception",
        "is busy",
    ]
    for text in texts[:2]:
        assert text.encode() in received.raw, text
