"""Traces, metrics and logs of real sessions, received over OTLP/HTTP and decoded."""

import json
from tempfile import TemporaryDirectory

import hilum_otel
import pytest
import trio
import trio.testing
from hilum import ModelError, hookimpl, tool
from hilum.events import CallDone, HookCalled, ModelFailed, ModelStarted, RunEnded
from hilum.store import MemoryStore
from hilum.testing import open_bench, pause, plugin, say, use
from hilum_otel.session_export import SessionExport
from hilum_trace.spans import FORGOTTEN
from otlp_receiver import read_attributes, receive


@tool(risk="write", effect="idempotent")
async def shout(text: str) -> str:
    """Shout."""
    return f"{text.upper()} (quoted from a file)"


TOOLS = plugin("tools", shout)


def look(place: str) -> str:
    """Look."""
    return place


look.__doc__ = f"Look.\n\nArgs:\n    place: {'place ' * 200}\n"


async def export(received, *, answers, settings=None, prompt="A prompt about cats.", **options):
    chosen = {"otel.endpoint": received.url, **(settings or {})}
    async with open_bench(hilum_otel, TOOLS, answers=answers, settings=chosen, **options) as bench:
        await bench.run(prompt)
        return bench


async def test_a_run_is_a_trace_of_agent_model_and_tool():
    with receive() as received:
        bench = await export(received, answers=[use("shout", text="meow"), "Done."])
    run = received.named("invoke_agent main")
    first, second = (span for span in received.spans if span.name == "chat model")
    call = received.named("execute_tool shout")
    assert {span.trace_id for span in received.spans} == {run.trace_id}
    assert not run.parent_span_id
    assert {each.parent_span_id for each in (first, second, call)} == {run.span_id}
    assert (run.kind, first.kind, call.kind) == (1, 3, 1)
    assert run.start_time_unix_nano <= first.start_time_unix_nano <= first.end_time_unix_nano
    assert first.end_time_unix_nano <= second.end_time_unix_nano <= run.end_time_unix_nano
    attributes = read_attributes(first.attributes)
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.provider.name"] == "scripted"
    assert attributes["gen_ai.request.model"] == "model"
    assert attributes["gen_ai.conversation.id"] == bench.session.id
    assert attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
    tool_attributes = read_attributes(call.attributes)
    assert tool_attributes["gen_ai.tool.name"] == "shout"
    assert tool_attributes["gen_ai.agent.name"] == "main"
    assert received.resources[0]["service.name"] == "hilum"


async def test_token_counts_are_those_of_the_log():
    with receive() as received:
        bench = await export(received, answers=["One."])
    (ended,) = bench.of(RunEnded)
    attributes = read_attributes(received.named("chat model").attributes)
    assert ended.usage.input > 0
    assert attributes["gen_ai.usage.input_tokens"] == ended.usage.input
    assert attributes["gen_ai.usage.output_tokens"] == ended.usage.output
    points = received.metrics["gen_ai.client.token.usage"].histogram.data_points
    counts = {read_attributes(p.attributes)["gen_ai.token.type"]: p.sum for p in points}
    assert counts == {"input": ended.usage.input, "output": ended.usage.output}
    (total,) = received.metrics["gen_ai.client.inference.usage.input_tokens"].sum.data_points
    assert total.as_int == ended.usage.input
    attributes = read_attributes(total.attributes)
    assert attributes["gen_ai.token.modality"] == "unknown"
    assert attributes["gen_ai.provider.name"] == "scripted"


async def test_a_model_call_that_failed_counts_no_tokens():
    with receive() as received:
        await export(received, answers=[ModelError("no key", kind="auth")])
    (total,) = received.metrics["gen_ai.client.inference.usage.input_tokens"].sum.data_points
    assert total.as_int == 0
    assert "error.type" not in read_attributes(total.attributes)
    attributes = read_attributes(received.named("chat model").attributes)
    assert attributes["gen_ai.response.finish_reasons"] == ["error"]
    (point,) = received.metrics["gen_ai.client.inference.duration"].histogram.data_points
    assert read_attributes(point.attributes)["error.type"] == attributes["error.type"]


async def test_durations_are_histograms():
    with receive() as received:
        await export(received, answers=[use("shout", text="meow"), "Done."])
    counts = {}
    for name in ("client.operation", "client.inference", "invoke_agent", "execute_tool"):
        metric = received.metrics[f"gen_ai.{name}.duration"]
        assert metric.unit == "s"
        (point,) = metric.histogram.data_points
        counts[name] = point.count
        # The conventions have other limits for runs, which take minutes.
        assert point.explicit_bounds[0] == (0.1 if name == "invoke_agent" else 0.01)
    assert counts == {
        "client.operation": 2,
        "client.inference": 2,
        "invoke_agent": 1,
        "execute_tool": 1,
    }
    assert "gen_ai.client.operation.time_to_first_chunk" in received.metrics


SECRETS = ("cats", "meow", "MEOW", "quoted", "Purr", "fluff")


async def test_no_text_of_the_session_is_exported_by_default():
    """Names and counts only: no prompt, answer, argument, result or error text."""
    with receive() as received:
        failing = ModelError("The fluff is broken.", kind="auth")
        bench = await export(received, answers=[use("shout", text="meow"), "Purr.", failing])
        assert bench.of(RunEnded)[0].text == "Purr."
    with receive() as failed:
        await export(failed, answers=[failing])
    assert failed.logs
    for each in (received, failed):
        assert each.messages
        for secret in SECRETS:
            assert secret.encode() not in each.raw, secret


async def test_content_is_exported_on_request():
    with receive() as received:
        answers = [say("I shout.") + use("shout", text="meow"), "Purr."]
        await export(received, answers=answers, settings={"otel.content": True})
    first, second = (
        read_attributes(span.attributes) for span in received.spans if span.name == "chat model"
    )
    (asked,) = json.loads(first["gen_ai.input.messages"])
    assert asked["role"] == "user"
    assert "A prompt about cats." in asked["parts"][0]["content"]
    (answered,) = json.loads(first["gen_ai.output.messages"])
    assert answered["parts"][0] == {"type": "text", "content": "I shout."}
    assert answered["parts"][1]["arguments"] == {"text": "meow"}
    assert answered["finish_reason"] == "tool_calls"
    assert "shout" in first["gen_ai.tool.definitions"]
    (result,) = json.loads(second["gen_ai.input.messages"])
    assert result["parts"][0]["response"] == "MEOW (quoted from a file)"
    call = read_attributes(received.named("execute_tool shout").attributes)
    assert json.loads(call["gen_ai.tool.call.arguments"]) == {"text": "meow"}
    assert call["gen_ai.tool.call.result"] == "MEOW (quoted from a file)"
    run = read_attributes(received.named("invoke_agent main").attributes)
    assert "Purr." in run["gen_ai.output.messages"]


async def test_content_contains_no_secret_that_hilum_detected():
    def redact(texts):
        return [text.replace("hunter2", "[REDACTED:password]") for text in texts]

    redacting = plugin("redacting", redact_texts=redact, gates=("redact_texts",))
    with receive() as received:
        settings = {"otel.endpoint": received.url, "otel.content": True}
        answers = [use("shout", text="hunter2"), "It is hunter2."]
        async with open_bench(
            hilum_otel, TOOLS, redacting, answers=answers, settings=settings
        ) as bench:
            await bench.run("The password is hunter2.")
    assert b"[REDACTED:password]" in received.raw
    assert b"hunter2" not in received.raw


async def test_long_texts_are_shortened():
    with receive() as received:
        settings = {"otel.content": True, "otel.content_limit": 100}
        await export(received, answers=["a" * 5000], settings=settings)
    run = read_attributes(received.named("invoke_agent main").attributes)
    (answer,) = json.loads(run["gen_ai.output.messages"])
    assert answer["parts"][0]["content"] == "a" * 99 + "…"


async def test_long_error_texts_are_shortened():
    with receive() as received:
        settings = {"otel.content": True, "otel.content_limit": 100}
        failing = ModelError("b" * 5000, kind="auth")
        bench = await export(received, answers=[failing], settings=settings)
    assert len(bench.of(RunEnded)[0].error) >= 5000
    bodies = [log.body.string_value for log in received.logs]
    assert any("bbb" in body for body in bodies)
    assert max(map(len, bodies)) == 100
    messages = [span.status.message for span in received.spans]
    assert any("bbb" in message for message in messages)
    assert max(map(len, messages)) == 100


async def test_long_descriptions_in_the_parameters_of_tools_are_shortened():
    described = tool(risk="read", effect="pure", name="look")(look)
    with receive() as received:
        settings = {"otel.endpoint": received.url, "otel.content": True, "otel.content_limit": 100}
        async with open_bench(
            hilum_otel, plugin("described", described), answers=["a"], settings=settings
        ) as bench:
            await bench.run("x")
    chat = read_attributes(received.named("chat model").attributes)
    definitions = json.loads(chat["gen_ai.tool.definitions"])
    (definition,) = [each for each in definitions if each["name"] == "look"]
    description = definition["parameters"]["properties"]["place"]["description"]
    assert description.startswith("place ")
    assert len(description) == 100


async def test_a_run_that_continues_another_one_has_a_link_to_it():
    with receive() as received:
        settings = {"otel.endpoint": received.url}
        failing = ModelError("no key", kind="auth")
        async with open_bench(hilum_otel, answers=[failing, "Done."], settings=settings) as bench:
            await bench.run("x")
            await (await bench.session.retry()).wait()
    first, second = (span for span in received.spans if span.name == "invoke_agent main")
    assert not first.links
    (link,) = second.links
    assert (link.trace_id, link.span_id) == (first.trace_id, first.span_id)
    assert second.trace_id != first.trace_id


async def test_errors_are_logs_within_their_spans():
    with receive() as received:
        bench = await export(received, answers=[ModelError("no key", kind="auth")])
    (ended,) = bench.of(RunEnded)
    assert ended.state == "failed"
    run = received.named("invoke_agent main")
    assert run.status.code == 2
    assert read_attributes(run.attributes)["error.type"] == ended.code
    logs = {log.event_name: log for log in received.logs}
    log = logs["hilum.run_ended"]
    assert (log.trace_id, log.span_id) == (run.trace_id, run.span_id)
    assert log.severity_text == "ERROR"
    assert read_attributes(log.attributes)["error.type"] == ended.code
    chat = received.named("chat model")
    assert logs["hilum.model_failed"].span_id == chat.span_id


async def test_retries_are_events_of_the_model_call():
    with receive() as received:
        bench = await export(
            received, answers=[ModelError("busy", kind="rate_limit", retry_after=0.01), "Done."]
        )
    assert len(bench.of(ModelFailed)) == 1
    span = received.named("chat model")
    (event,) = span.events
    assert event.name == "hilum.model_failed"
    assert read_attributes(event.attributes)["error.type"] == bench.of(ModelFailed)[0].code
    assert read_attributes(span.attributes)["hilum.retries"] == 1
    assert span.status.code != 2


async def test_spans_are_exported_while_the_run_continues():
    going_on = trio.Event()
    with receive() as received:
        settings = {"otel.endpoint": received.url}
        environ = {"OTEL_BSP_SCHEDULE_DELAY": "20"}
        answers = [use("shout", text="x"), pause(going_on) + say("Done.")]
        async with open_bench(
            hilum_otel, TOOLS, answers=answers, settings=settings, environ=environ
        ) as bench:
            run = await bench.start("x")
            with bench.guard():
                await received.wait_for_span("execute_tool shout")
            assert "invoke_agent main" not in {span.name for span in received.spans}
            going_on.set()
            await bench.wait_for(RunEnded)
            assert run.id
    assert received.named("invoke_agent main")


async def test_headers_and_the_variables_of_the_sdk_are_used():
    with receive() as received:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": received.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=from-env",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_SERVICE_NAME": "my-hilum",
        }
        settings = {"otel.enabled": True}
        async with open_bench(
            hilum_otel, answers=["ok"], settings=settings, environ=environ
        ) as bench:
            await bench.run("x")
    assert {path for path, _ in received.requests} == {"/v1/traces", "/v1/logs"}
    assert {headers["x-key"] for _, headers in received.requests} == {"from-env"}
    assert received.resources[0]["service.name"] == "my-hilum"
    with receive() as received:
        await export(received, answers=["ok"], settings={"otel.headers": "x-key=a b,y=2"})
    assert {headers["x-key"] for _, headers in received.requests} == {"a b"}


async def test_a_sampler_keeps_or_drops_whole_traces():
    environ = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}
    with receive() as received:
        await export(received, answers=[use("shout", text="x"), "Done."], environ=environ)
    assert received.spans == []
    assert received.metrics


@pytest.mark.parametrize(
    "environ",
    [{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, {"OTEL_SDK_DISABLED": "true"}],
)
async def test_the_variables_alone_do_not_turn_the_export_on(environ):
    """They may be meant for the program that the user develops."""
    with receive() as received:
        is_disabled = "OTEL_SDK_DISABLED" in environ
        settings = {"otel.endpoint": received.url} if is_disabled else {}
        async with open_bench(
            hilum_otel, answers=["ok"], settings=settings, environ=environ
        ) as bench:
            await bench.run("x")
            assert bench.session.plugin(SessionExport) is None
    assert received.requests == []


async def test_a_resumed_session_continues_its_traces():
    """The run was interrupted by the end of the process; its trace has the parts of both."""
    store = MemoryStore()
    with receive() as received, TemporaryDirectory() as folder:
        settings = {"otel.endpoint": received.url}
        options = {"settings": settings, "store": store, "folder": folder}
        never = trio.Event()
        first_answers = [use("shout", text="x"), pause(never) + say("never")]
        async with open_bench(hilum_otel, TOOLS, answers=first_answers, **options) as bench:
            await bench.start("x")
            await bench.wait_for(CallDone)
            await bench.wait_for(ModelStarted, lambda event: event.turn == 2)
            session = bench.session.id
        before = {span.name for span in received.spans}
        assert "invoke_agent main" not in before
        async with open_bench(
            hilum_otel, TOOLS, answers=["Done."], resume=session, **options
        ) as bench:
            bench.session.resume()
            await bench.wait_for(RunEnded)
    run = received.named("invoke_agent main")
    assert {span.trace_id for span in received.spans} == {run.trace_id}
    call = received.named("execute_tool shout")
    assert call.parent_span_id == run.span_id
    assert len({span.span_id for span in received.spans}) == len(received.spans)


async def test_two_prompts_are_two_traces_of_one_conversation():
    with receive() as received:
        settings = {"otel.endpoint": received.url}
        async with open_bench(hilum_otel, answers=["1", "2"], settings=settings) as bench:
            await bench.run("x")
            await bench.run("y")
    runs = [span for span in received.spans if span.name == "invoke_agent main"]
    assert len({span.trace_id for span in runs}) == 2
    ids = {read_attributes(span.attributes)["gen_ai.conversation.id"] for span in runs}
    assert ids == {bench.session.id}


async def test_hooks_while_a_prompt_is_prepared_are_part_of_its_trace():
    """Also those without an agent, such as a program that starts to gather context."""

    class Gathers:
        def __init__(self, session):
            self.session = session

        @hookimpl
        async def gather_context(self):
            hook = HookCalled(plugin="guard", hook="wrap_process", seconds=0.01)
            self.session.emit(hook)
            return []

    gathering = plugin("gathering", open_session=lambda session: Gathers(session))
    with receive() as received:
        chosen = {"otel.endpoint": received.url}
        async with open_bench(hilum_otel, gathering, answers=["a"], settings=chosen) as bench:
            await bench.run("x")
    run = received.named("invoke_agent main")
    assert received.named("hook wrap_process").trace_id == run.trace_id


async def test_a_long_session_keeps_no_spans_that_were_exported():
    count = 60
    with receive() as received:
        answers = [answer for _ in range(count) for answer in (use("shout", text="m"), "Done.")]
        chosen = {"otel.endpoint": received.url}
        async with open_bench(hilum_otel, TOOLS, answers=answers, settings=chosen) as bench:
            for _ in range(count):
                await bench.run("x")
            export = bench.session.plugin(SessionExport)
            spans = export._fold.trace.spans
            while export._seq < bench.session.journal.last:
                await trio.testing.wait_all_tasks_blocked()
            kept = [span.kind for span in spans if span is not FORGOTTEN]
            assert len(export._runs) <= 2
    assert len(spans) > 4 * count
    for kind in ("turn", "model", "tool"):
        assert kept.count(kind) <= 2
    assert len([span for span in received.spans if span.name == "chat model"]) == 2 * count
    assert len([span for span in received.spans if span.name == "execute_tool shout"]) == count
