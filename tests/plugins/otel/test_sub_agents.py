"""The runs of sub-agents are parts of the trace of the run that started them."""

import hilum_otel
from hilum.events import RunEnded
from hilum.testing import open_bench, use
from hilum_agents import runs
from otlp_receiver import read_attributes, receive


async def test_the_run_of_a_sub_agent_is_below_the_call_that_started_it():
    with receive() as received:
        answers = [
            use("task", description="Count files", prompt="Count the files."),
            "There are three.",
            "Three files.",
        ]
        settings = {"otel.endpoint": received.url}
        async with open_bench(hilum_otel, runs, answers=answers, settings=settings) as bench:
            await bench.run("x")
            ended = bench.of(RunEnded)
    assert len(ended) == 2
    spans = {span.span_id: span for span in received.spans}
    main = received.named("invoke_agent main")
    (inner,) = [
        span
        for span in received.spans
        if span.name.startswith("invoke_agent ") and span is not main
    ]
    call = spans[inner.parent_span_id]
    assert call.name.startswith("execute_tool ")
    assert call.parent_span_id == main.span_id
    assert inner.trace_id == main.trace_id
    below = [span for span in received.spans if span.parent_span_id == inner.span_id]
    assert [span.name for span in below] == ["chat model"]
    attributes = read_attributes(inner.attributes)
    assert inner.name == "invoke_agent task"
    assert attributes["gen_ai.agent.name"] == "task"
    assert attributes["hilum.agent"] in {event.agent for event in ended}
    points = received.metrics["gen_ai.invoke_agent.duration"].histogram.data_points
    names = {read_attributes(point.attributes)["gen_ai.agent.name"] for point in points}
    assert names == {"main", "task"}
