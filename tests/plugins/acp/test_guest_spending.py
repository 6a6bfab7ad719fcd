"""What a guest's requests to its model use: reserved before, counted after, in every budget."""

import json
import resource
from contextlib import suppress
from functools import partial

import pytest
import trio
from hilum.events import ModelUsed, RunEnded
from hilum.models import ModelInfo
from hilum_acp.guests import model_proxy
from hilum_acp.guests.model_proxy import ModelProxy, _Meter
from hilum_acp.guests.request_filter import Files, RequestRefused
from hilum_acp.guests.request_formats import FORMATS, restrict_request
from hilum_acp.guests.request_sizes import limit_output, measure_input
from hilum_agents.runs import Runs
from hilum_models.failures import Endpoint
from hilum_models.gateway import HttpModel
from hilum_models.openai_chat import ChatReader
from hilum_trace.bill import budgets
from hilum_trace.bill.bill import Bill, ChargedSession
from hilum_trace.bill.budgets.spending_fold import SpendingFold
from hilum_trace.bill.charges import fold_charges
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.acp.conftest import answer

CALLS = "for number in range(20):\n    print(call_model('Hello', max_tokens=50)[0])\ntime.sleep(99)"
PARALLEL = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(12) as pool:
    print(list(pool.map(lambda _: call_model("Hello", max_tokens=80)[0], range(12))))
time.sleep(99)
"""
DOLLAR_CALL = 100 / 1e6  # the price of an answer of the emulator, in US dollars


def used_events(guest):
    return [event for event in guest.bench.of(ModelUsed) if event.purpose == "guest"]


# --- budgets of the session, the agent and the day ------------------------------------------------


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize("code", [CALLS, PARALLEL], ids=["in turn", "at once"])
@pytest.mark.parametrize(
    "setting",
    [
        {"budgets.session.dollars": 3.5 * DOLLAR_CALL},
        {"budgets.session.tokens": 350},
        {"budgets.agents": {"*": {"dollars": 3.5 * DOLLAR_CALL}}},
        {"budgets.plugins": {"guests": {"tokens": 350}}},
        {"budgets.day.dollars": 3.5 * DOLLAR_CALL},
    ],
    ids=lambda setting: next(iter(setting)),
)
async def test_a_guest_exceeds_a_budget_by_one_call_at_most(open_guest, setting, code):
    async with open_guest("bypassing", plugins=(budgets,), settings=setting) as guest:
        with trio.fail_after(60):
            result = await guest.execute(code)
        assert 3 <= guest.models.count <= 4
        assert result["usage"]["total"] == 100 * guest.models.count
        ended = guest.bench.of(RunEnded)[-1]
        assert (ended.state, ended.code) == ("partial_success", "E_BUDGET")
        assert "The budget of" in result["error"]["message"]


async def test_a_guest_works_within_a_budget_in_dollars(open_guest):
    """The request that runs the guest itself costs nothing, and nothing waits for its end."""
    settings = {"budgets.session": {"dollars": 1.0, "tokens": 1_000_000, "minutes": 60}}
    async with open_guest("bypassing", plugins=(budgets,), settings=settings) as guest:
        with trio.fail_after(60):
            result = await guest.execute("print(call_model('Hello')[0])")
        assert (result["status"], guest.said) == ("completed", "200\n")


async def test_the_time_of_a_guests_requests_counts_once(open_guest):
    async def slowly(request):
        await trio.sleep(1)
        return answer()

    async with open_guest("bypassing", script=slowly) as guest:
        began = trio.current_time()
        await guest.execute("print(call_model('Hello')[0])")
        elapsed = trio.current_time() - began
        fold = SpendingFold(lambda model: None)
        fold.apply(guest.bench.events)
        seconds = fold.total.minutes * 60
        assert 1 <= seconds <= elapsed

        bill = Bill("model")
        for charge in fold_charges(guest.bench.events):
            bill.add(charge, ChargedSession("session", "/folder"))
        assert bill.total.seconds == pytest.approx(seconds)
        # The request that runs the guest goes to no provider, so it is not one without counts.
        assert (bill.total.requests, bill.uncounted) == (1, 0)


async def test_what_the_guest_said_before_a_budget_is_reached_is_kept(open_guest):
    settings = {"budgets.session.tokens": 10}
    code = "client.say('First words.')\nprint(call_model('Hello')[0])\ntime.sleep(99)"
    async with open_guest("bypassing", plugins=(budgets,), settings=settings) as guest:
        result = await guest.execute(code)
        assert guest.said == "First words."
        assert guest.models.count == 0
        assert result["error"]["code"] == "E_BUDGET"


async def test_without_a_price_a_budget_in_dollars_refuses_the_requests_of_a_guest(open_guest):
    settings = {"budgets.session.dollars": 1.0, "models.models": {}}
    async with open_guest("bypassing", plugins=(budgets,), settings=settings) as guest:
        result = await guest.execute("print(call_model('Hello'))\ntime.sleep(99)")
        assert guest.models.count == 0
        assert "the price of openai/priced is not known" in result["error"]["message"]


async def test_the_bill_charges_a_guests_requests_to_the_plugin(open_guest):
    async with open_guest("bypassing") as guest:
        await guest.execute("print(call_model('Hello')[0])")
        bill = Bill("plugin")
        for charge in fold_charges(guest.bench.events):
            bill.add(charge, ChargedSession("session", "/folder"))
        rows = {row.name: row.amount for row in bill.rows()}
        assert rows["guests"].cost == pytest.approx(DOLLAR_CALL)
        assert "(not recorded)" not in rows
        assert used_events(guest)[0].price.input == 1.0


FALSE_LIMITS = """
for more in {"max_output_tokens": 1}, {"n": "50"}, {"n": 50.0}, {"max_tokens": 2**63, "n": 10**9}:
    print(call_model("Hello", **more)[0])
print(call_model("Hello", max_tokens=2**63)[0], call_model("Hello")[0])
"""


async def test_a_false_limit_reserves_nothing_and_is_not_sent(open_guest):
    settings = {"budgets.day.tokens": 1_000_000}
    async with open_guest("bypassing", plugins=(budgets,), settings=settings) as guest:
        await guest.execute(FALSE_LIMITS)
        assert guest.said == "400\n400\n400\n400\n200 200\n"
        given_limit, added_limit = map(json.loads, guest.models.bodies)
        assert given_limit["max_tokens"] == 4_096
        assert added_limit["max_tokens"] == 4_096


# --- requests that break off ----------------------------------------------------------------------

SEND_HEAD = """
address = os.environ["GUEST_MODEL_URL"].rpartition("/")[2].split(":")

def send_head(key, size):
    connection = socket.create_connection((address[0], int(address[1])))
    connection.settimeout(20)
    connection.sendall((
        "POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\n"
        f"Authorization: Bearer {key}\\r\\nContent-Length: {size}\\r\\n\\r\\n"
    ).encode())
    return connection
"""


class SlowModel:
    """A model that answers when it may; `arrived` is set with the first request."""

    def __init__(self):
        self.arrived = trio.Event()
        self.may_answer = trio.Event()

    async def __call__(self, request):
        self.arrived.set()
        await self.may_answer.wait()
        return answer()


CALL_IN_BACKGROUND = """
import threading
threading.Thread(target=call_model, args=("word " * 400,), daemon=True).start()
"""


async def test_a_request_in_flight_when_a_run_is_stopped_is_counted(open_guest):
    model = SlowModel()
    async with open_guest("bypassing", script=model) as guest:
        job = await guest.start(f"#begin\n{CALL_IN_BACKGROUND}\ntime.sleep(99)")
        with trio.fail_after(20):
            await model.arrived.wait()
        runs = guest.bench.session.plugin(Runs)
        runs.stop(job)
        await runs.wait(job)
        event = await guest.bench.wait_for(ModelUsed)
        assert event.usage.input > 300
        # The user broke it off, and not the guest.
        assert event.usage.output == 1
        assert event.run == guest.bench.of(RunEnded)[-1].run
        assert event.usage.cost > 0


async def test_a_request_in_flight_when_the_guest_has_answered_counts_towards_its_run(
    open_guest, monkeypatch
):
    monkeypatch.setattr(model_proxy, "SETTLE_TIMEOUT", 0.05)
    model = SlowModel()
    code = f"{CALL_IN_BACKGROUND}\nwhile not os.path.exists('go'):\n    time.sleep(0.01)"
    async with open_guest("bypassing", script=model) as guest:
        job = await guest.start(f"#begin\n{code}")
        with trio.fail_after(20):
            await model.arrived.wait()
        (guest.bench.workspace / "go").write_text("")
        result = await guest.bench.session.plugin(Runs).wait(job)
        assert result["status"] == "completed"
        assert result["usage"]["total"] > 300


async def test_a_request_that_the_guest_breaks_off_before_the_response_is_counted(open_guest):
    model = SlowModel()
    code = """
address = os.environ["GUEST_MODEL_URL"].rpartition("/")[2].split(":")
connection = socket.create_connection((address[0], int(address[1])))
body = json.dumps({"stream": True, "messages": [{"role": "user", "content": "word " * 400}]})
connection.sendall((
    "POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\n"
    f"Authorization: Bearer {os.environ['OPENAI_API_KEY']}\\r\\n"
    f"Content-Length: {len(body)}\\r\\n\\r\\n{body}"
).encode())
while not os.path.exists("go"):
    time.sleep(0.01)
# The connection is reset, so that the head of the response cannot be written.
connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
connection.close()
open("closed", "w").close()
while not os.path.exists("end"):
    time.sleep(0.01)
"""
    async with open_guest("bypassing", script=model) as guest:
        job = await guest.start(f"#begin\n{code}")
        with trio.fail_after(20):
            await model.arrived.wait()
        (guest.bench.workspace / "go").write_text("")
        with trio.fail_after(20):
            while not (guest.bench.workspace / "closed").exists():  # noqa: ASYNC110 (of the guest)
                await trio.sleep(0.01)
            model.may_answer.set()
            await guest.bench.wait_for(ModelUsed)
        (guest.bench.workspace / "end").write_text("")
        result = await guest.bench.session.plugin(Runs).wait(job)
        # The whole answer counts: the provider may have written it, and the guest could repeat it.
        assert used_events(guest)[0].usage.output == 4_096
        assert result["usage"]["total"] >= 4_096


async def test_a_request_after_the_end_of_the_run_is_refused(open_guest):
    """A guest that is asked to end its work has a moment, but no further request."""
    code = """
client.say("begun")
while client.read().get("method") != "session/cancel":
    pass
open("result", "w").write(str(call_model("Hello")))
"""
    async with open_guest("bypassing") as guest:
        job = await guest.start(f"#begin\n{code}")
        with trio.fail_after(20):
            async for item in guest.bench.session.events(0, deltas=True):
                if getattr(item, "text", "") == "begun":
                    break
        runs = guest.bench.session.plugin(Runs)
        runs.stop(job)
        await runs.wait(job)
        path = guest.bench.workspace / "result"
        with trio.fail_after(20):
            while not (path.exists() and path.read_text()):  # noqa: ASYNC110 (of another process)
                await trio.sleep(0.01)
        assert "(402, " in path.read_text()
        assert guest.models.count == 0


UNLIMITED = """
connection = send_head(os.environ["OPENAI_API_KEY"], len(body))
connection.sendall(body)
received = b""
while b"enough" not in received:
    received = received[-100:] + connection.recv(1 << 16)
connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
connection.close()
while not os.path.exists("end"):
    time.sleep(0.01)
"""


async def test_all_that_a_server_without_limit_has_sent_counts(open_guest, nursery):
    """The guest breaks the response off before the server reports the tokens."""

    def make_event(text):
        return b"data: %s\n\n" % json.dumps({"choices": [{"delta": {"content": text}}]}).encode()

    async def serve_without_end(stream):
        await stream.receive_some()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
        with suppress(trio.BrokenResourceError):
            await stream.send_all(head + make_event("word " * 20_000) + make_event("enough"))
            while True:
                await stream.send_all(b": waiting\n\n")
                await trio.sleep(0.01)

    listeners = await nursery.start(partial(trio.serve_tcp, serve_without_end, 0, host="127.0.0.1"))
    port = listeners[0].socket.getsockname()[1]
    body = 'body = json.dumps({"stream": True, "messages": [], "max_tokens": 1}).encode()'
    code = f"{SEND_HEAD}\n{body}\n{UNLIMITED}"
    async with open_guest("bypassing", models_url=f"http://127.0.0.1:{port}") as guest:
        job = await guest.start(f"#begin\n{code}")
        with trio.fail_after(20):
            event = await guest.bench.wait_for(ModelUsed)
        (guest.bench.workspace / "end").write_text("")
        await guest.bench.session.plugin(Runs).wait(job)
        assert 25_000 <= event.usage.output < 25_100
    nursery.cancel_scope.cancel()


AFTER_THE_ANSWER = """
import threading
body = json.dumps({"stream": True, "messages": []}).encode()
connection = send_head(os.environ["OPENAI_API_KEY"], len(body))
connection.sendall(body)

def work_on():
    while not os.path.exists("settling"):
        time.sleep(0.01)
    result = call_model("Hello")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
    connection.close()
    with open("new", "w") as file:
        file.write(str(result))
    os.rename("new", "result")

threading.Thread(target=work_on, daemon=True).start()
while not os.path.exists("go"):
    time.sleep(0.01)
"""


async def test_after_its_answer_a_guest_evades_no_budget(open_guest, monkeypatch):
    """New requests are refused, and one that it breaks off counts with its whole answer."""
    monkeypatch.setattr(model_proxy, "SETTLE_TIMEOUT", 30.0)
    settling = trio.Event()
    settle = ModelProxy.settle

    async def report_settling(proxy):
        settling.set()
        await settle(proxy)

    monkeypatch.setattr(ModelProxy, "settle", report_settling)
    model = SlowModel()
    async with open_guest("bypassing", script=model) as guest:
        folder = guest.bench.workspace
        job = await guest.start(f"#begin\n{SEND_HEAD}\n{AFTER_THE_ANSWER}")
        with trio.fail_after(20):
            await model.arrived.wait()
            (folder / "go").write_text("")
            await settling.wait()
            (folder / "settling").write_text("")
            while not (folder / "result").exists():  # noqa: ASYNC110 (of another process)
                await trio.sleep(0.01)
        model.may_answer.set()
        result = await guest.bench.session.plugin(Runs).wait(job)
        assert "(402, " in (folder / "result").read_text()
        assert result["status"] == "completed"
        assert [event.usage.output for event in used_events(guest)] == [4_096]


@pytest.mark.parametrize(
    "beginning",
    [[b""], [b"\n", b"\n"], [b": ka\n\n"], [b"\xef", b"\xbb\xbf"], [b"\r\n: k", b"a\r", b"\n"]],
)
@pytest.mark.parametrize("is_document", [True, False])
def test_signs_of_life_before_an_answer_do_not_hide_its_tokens(beginning, is_document):
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 40_000}
    content = json.dumps({"choices": [choice], "usage": usage}).encode()
    if not is_document:
        content = b"data: " + content + b"\n\ndata: [DONE]\n\n"
    for pieces in ([*beginning, content], [b"".join(beginning) + content]):
        meter = model_proxy._Meter(make_model("http://127.0.0.1"), b"{}")
        for piece in pieces:
            meter.feed(piece)
        used = meter.usage()
        assert (used.input, used.output, meter.is_reported) == (100, 40_000, True)


# --- sizes ----------------------------------------------------------------------------------------


CHAT, RESPONSES, MESSAGES, GEMINI = FORMATS
REQUESTS = {CHAT: {"messages": []}, RESPONSES: {"input": "Hi"}, MESSAGES: {}, GEMINI: {}}


def make_model(url):
    endpoint = Endpoint("openai", "m", "key")
    return HttpModel(
        ModelInfo("openai/m"), None, f"{url}/chat/completions", {}, endpoint, ChatReader, None
    )


def reserve(name, fields, max_output=1_000):
    """Return the tokens that are reserved for an answer, and the request that is sent."""
    request = restrict_request({**REQUESTS[name], **fields}, name, Files())
    return limit_output(request, name, max_output), request


@pytest.mark.parametrize(
    ("name", "fields", "output", "sent"),
    [
        (CHAT, {}, 1_000, {"max_tokens": 1_000}),
        (CHAT, {"max_tokens": 50}, 50, {"max_tokens": 50}),
        (CHAT, {"max_tokens": 50, "n": 4}, 200, {"max_tokens": 50, "n": 4}),
        (CHAT, {"n": 3}, 3_000, {"max_tokens": 1_000, "n": 3}),
        # Servers that know only the older name would ignore the other.
        (CHAT, {"max_completion_tokens": 1}, 1, {"max_tokens": 1}),
        (CHAT, {"max_completion_tokens": 2**63}, 1_000, {"max_tokens": 1_000}),
        (CHAT, {"max_tokens": 50, "max_completion_tokens": 70}, 50, {"max_tokens": 50}),
        (RESPONSES, {}, 1_000, {"max_output_tokens": 1_000}),
        (RESPONSES, {"max_output_tokens": 9}, 9, {"max_output_tokens": 9}),
        (MESSAGES, {}, 1_000, {"max_tokens": 1_000}),
        (MESSAGES, {"max_tokens": None}, 1_000, {"max_tokens": 1_000}),
        (GEMINI, {}, 1_000, {"generationConfig": {"maxOutputTokens": 1_000}}),
        (
            GEMINI,
            {"generation_config": {"max_output_tokens": 60, "candidate_count": 2}},
            120,
            {"generationConfig": {"maxOutputTokens": 60, "candidateCount": 2}},
        ),
    ],
)
def test_the_reserved_answer_is_the_longest_that_the_request_allows(name, fields, output, sent):
    reserved, request = reserve(name, fields)
    assert reserved == output
    assert {field: request[field] for field in request if field not in REQUESTS[name]} == {
        **FORMATS[name].fixed,
        **sent,
    }


THINKING = [
    (CHAT, "reasoning", "max_tokens"),
    (CHAT, "thinking", "budget_tokens"),
    (MESSAGES, "thinking", "budget_tokens"),
    (GEMINI, "thinkingConfig", "thinkingBudget"),
    (GEMINI, "thinking_config", "thinking_budget"),
]


@pytest.mark.parametrize(("name", "part", "field"), THINKING)
@pytest.mark.parametrize(("given", "sent"), [(0, 0), (500, 500), (1_000, 999), (2**62, 999)])
def test_thinking_is_shorter_than_the_reserved_answer(name, part, field, given, sent):
    options = {part: {field: given}}
    reserved, request = reserve(name, {"generationConfig": options} if name == GEMINI else options)
    assert reserved == 1_000
    place = request["generationConfig"] if name == GEMINI else request
    [found] = [
        value for key, value in place.items() if key in ("reasoning", "thinking", "thinkingConfig")
    ]
    assert list(found.values()) == [sent]


@pytest.mark.parametrize(("name", "part", "field"), THINKING)
@pytest.mark.parametrize("given", ["99999", True, 1e9])
def test_a_limit_for_thinking_is_a_number(name, part, field, given):
    options = {part: {field: given}}
    with pytest.raises(RequestRefused, match="is not an integer"):
        reserve(name, {"generationConfig": options} if name == GEMINI else options)


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_the_last_event_counts_also_without_a_blank_line(end):
    meter = _Meter(make_model("http://localhost"), b"{}")
    meter.feed(
        b'data: {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
    )
    usage = '"usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}'
    meter.feed(f'data: {{"choices": [], {usage}}}{end}'.encode())
    used = meter.usage()
    assert (used.input, used.output) == (7, 3)
    assert meter.is_reported


def test_a_stream_that_breaks_off_within_an_event_keeps_what_was_reported():
    meter = _Meter(make_model("http://localhost"), b"{}")
    usage = '"usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}'
    end = '{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}'
    meter.feed(f'data: {end}\n\ndata: {{"choices": [], {usage}}}\n\ndata: {{"choi'.encode())
    assert (meter.usage().input, meter.is_reported) == (7, True)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("api.openai.com", "max_completion_tokens"),
        ("eu.api.openai.com", "max_completion_tokens"),
        ("mine.openai.azure.com", "max_completion_tokens"),
        ("127.0.0.1:11434", "max_tokens"),
        ("api.openai.com.example.org", "max_tokens"),
    ],
)
@pytest.mark.parametrize("given_name", ["max_tokens", "max_completion_tokens"])
def test_the_limit_has_the_name_that_the_server_knows(host, name, given_name):
    """Whatever the provider is called: `OPENAI_BASE_URL` may name any server."""
    proxy = ModelProxy(None, make_model(f"https://{host}/v1"), None, lambda: None)
    body = json.dumps({"messages": [], given_name: 7}).encode()
    sent, size = proxy.prepare_body(body)
    assert json.loads(sent) == {"messages": [], name: 7, "model": "m"}
    assert size.output == 7


LIMITS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["1", [], {}])
LIMIT_NAMES = "max_tokens max_completion_tokens max_output_tokens maxOutputTokens n".split()
LIMIT_NAMES += ["max_new_tokens", "candidateCount", "candidate_count", "best_of", "num_ctx"]


@given(st.sampled_from(list(FORMATS)), st.dictionaries(st.sampled_from(LIMIT_NAMES), LIMITS))
def test_no_request_is_sent_that_allows_more_than_is_reserved(name, fields):
    given_fields = {"generationConfig": fields} if name == GEMINI else fields
    try:
        reserved, request = reserve(name, given_fields)
    except RequestRefused:
        return
    sent = request["generationConfig"] if name == GEMINI else request
    limits = [sent[each] for each in LIMIT_NAMES if "okens" in each and sent.get(each) is not None]
    assert limits
    assert all(type(limit) is int and 1 <= limit <= 1_000 for limit in limits)
    answers = sent.get("n") or sent.get("candidateCount") or 1
    assert reserved >= max(limits) * answers


def test_too_many_answers_are_refused():
    with pytest.raises(RequestRefused, match="more than"):
        reserve(CHAT, {"n": 10**9})


def test_a_file_is_not_counted_as_text_but_the_arguments_of_a_tool_are():
    content = "QUJD" * 100_000
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{content}"}}
    chat = {"messages": [{"role": "user", "content": [url]}]}
    inline = {"inlineData": {"mimeType": "image/png", "data": content}}
    for name, request in ((CHAT, chat), (GEMINI, {"contents": [{"parts": [inline]}]})):
        assert 1_200 < measure_input(request, name) < 1_400
    file = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{content}"}}
    chat = {"messages": [{"role": "user", "content": [file]}]}
    # Pages of a PDF count, which are not known: by its size, and at least one.
    assert 75_000 < measure_input(chat, CHAT) < 75_200
    file["file"]["file_data"] = "data:application/pdf;base64,QUJD"
    assert 3_000 < measure_input(chat, CHAT) < 3_200
    file["file"]["file_data"] = "data:application/pdf;base64," + content * 20
    assert 1_000_000 < measure_input(chat, CHAT) < 1_000_200
    text = {"functionCall": {"name": "f", "args": {"data": content}}}
    assert measure_input({"contents": [{"parts": [text]}]}, GEMINI) > 100_000


# --- memory ---------------------------------------------------------------------------------------


async def test_a_request_without_the_token_is_refused_before_its_body(open_guest):
    code = f"""{SEND_HEAD}
connection = send_head("guessed", 60_000_000)
print(connection.recv(100).split(b"\\r\\n")[0].decode())
"""
    async with open_guest("bypassing") as guest:
        await guest.execute(code)
        assert guest.said.startswith("HTTP/1.1 401")


async def test_the_bodies_of_all_requests_together_are_limited(open_guest, monkeypatch):
    monkeypatch.setattr(model_proxy, "MAX_BODIES", 1_000_000)
    code = f"""{SEND_HEAD}
key = os.environ["OPENAI_API_KEY"]
held = send_head(key, 900_000)
held.sendall(b"x" * 800_000)
time.sleep(0.5)
other = send_head(key, 900_000)
other.sendall(b"x" * 800_000)
print(other.recv(100).split(b"\\r\\n")[0].decode())
held.close()
other.close()
time.sleep(0.2)
print(call_model("Hello")[0])
"""
    async with open_guest("bypassing") as guest:
        await guest.execute(code)
        assert guest.said.startswith("HTTP/1.1 413")
        assert guest.said.endswith("200\n")


async def test_a_request_that_would_take_much_memory_is_refused_before_it_is_decoded(open_guest):
    code = """
unit = '{"":0},'
for place in "messages", "x":
    connection = http.client.HTTPConnection(os.environ["GUEST_MODEL_URL"].rpartition("/")[2])
    body = '{"%s":[%s0]}' % (place, unit * (20_000_000 // len(unit)))
    key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    connection.request("POST", "/v1/chat/completions", body, key)
    print(connection.getresponse().read().decode())
print(call_model("{[,]}" * 500_000)[0])
"""
    async with open_guest("bypassing") as guest:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await guest.execute(f"import http.client\n{code}")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert guest.said.count("more than 1,000,000 values") == 2
        assert guest.said.endswith("200\n")
        # Decoded, each of the two takes about 700 MB.
        assert grown < 300_000
