"""The models of guests: counted, paid for and stopped by hilum, without a key in the guest."""

import json
from contextlib import asynccontextmanager

import pytest
import trio
from hilum.events import ModelUsed

from tests.plugins.acp.conftest import answer

CALLS = """
for number in range({count}):
    print(call_model("Hello")[0])
"""


async def test_each_model_call_of_a_guest_counts_towards_its_run(open_guest):
    async with open_guest("bypassing") as guest:
        result = await guest.execute(CALLS.format(count=3))
        assert guest.said == "200\n200\n200\n"
        assert result["usage"]["total"] == 300
        assert result["cost"] == pytest.approx(300 / 1e6)
        used = guest.bench.of(ModelUsed)
        assert [(each.model, each.purpose) for each in used] == [("openai/priced", "guest")] * 3


async def test_the_proxy_adds_the_key_and_the_model(open_guest):
    async with open_guest("bypassing") as guest:
        await guest.execute("print(call_model('Hi', model='the-most-expensive'))")
        request = guest.models.requests[0]
        assert request.headers["authorization"] == "Bearer sk-the-users-own-key-0123456789"
        assert b'"model":"priced"' in request.body
        assert guest.said.startswith("(200, ")


async def test_a_request_without_the_token_is_refused(open_guest):
    async with open_guest("bypassing") as guest:
        await guest.execute("print(call_model('Hi', key='guessed')[0])")
        await guest.execute("print(call_model('Hi', path='/v1/files')[0])")
        assert guest.said == "401\n404\n"
        assert guest.models.count == 0


async def test_a_guest_is_stopped_at_its_token_limit_after_at_most_one_call_more(open_guest):
    front = "limits: {token_limit: 250}"
    async with open_guest("bypassing", front) as guest:
        result = await guest.execute(CALLS.format(count=50) + "\ntime.sleep(99)")
        assert guest.models.count == 3
        assert result["usage"]["total"] == 300
        assert result["status"] != "completed"
        assert "token" in result["error"]["message"]


async def test_calls_at_the_same_time_do_not_exceed_the_limit_together(open_guest):
    front = "limits: {token_limit: 250}"
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(20) as pool:
    print(sorted(pool.map(lambda _: call_model("Hello", max_tokens=200)[0], range(20))))
"""
    async with open_guest("bypassing", front) as guest:
        result = await guest.execute(code)
        assert guest.models.count <= 3
        assert result["usage"]["total"] <= 300


async def test_a_call_that_the_guest_breaks_off_counts_all_the_same(open_guest):
    async def slowly(request):
        return answer("word " * 2_000, used=5_000)

    code = """
address = os.environ["GUEST_MODEL_URL"].rpartition("/")[2].split(":")
connection = socket.create_connection((address[0], int(address[1])))
body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]})
connection.sendall((
    "POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json\\r\\n"
    f"Authorization: Bearer {os.environ['OPENAI_API_KEY']}\\r\\n"
    f"Content-Length: {len(body)}\\r\\n\\r\\n{body}"
).encode())
print(connection.recv(10)[:8])
connection.close()
time.sleep(0.3)
"""
    async with open_guest("bypassing", script=slowly) as guest:
        result = await guest.execute(code)
        assert result["usage"]["total"] > 0


async def test_garbage_on_the_port_of_the_proxy_harms_nothing(open_guest):
    code = """
address = os.environ["GUEST_MODEL_URL"].rpartition("/")[2].split(":")
for data in (b"", b"\\x00" * 100, b"GET", b"POST / HTTP/1.1\\r\\nContent-Length: x\\r\\n\\r\\n"):
    connection = socket.create_connection((address[0], int(address[1])))
    connection.sendall(data)
    connection.close()
held = [socket.create_connection((address[0], int(address[1]))) for _ in range(20)]
print(call_model("Hello")[0])
"""
    async with open_guest("bypassing") as guest:
        await guest.execute(code)
        assert guest.said == "200\n"


async def test_an_error_of_the_provider_reaches_the_guest_without_the_key(open_guest):
    body = b'{"error":{"message":"Incorrect API key: sk-the-users-own-key-0123456789"}}'
    async with (
        serve_bytes(b"HTTP/1.1 401 No", body) as url,
        open_guest("bypassing", models_url=url) as guest,
    ):
        await guest.execute("print(call_model('Hi'))")
        assert "Incorrect API key: ***" in guest.said
        assert guest.said.startswith("(401, ")


async def test_an_answer_in_one_document_counts_too(open_guest):
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": "Hi"},
    }
    usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
    body = json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    async with (
        serve_bytes(b"HTTP/1.1 200 OK", body) as url,
        open_guest("bypassing", models_url=url) as guest,
    ):
        result = await guest.execute("print(call_model('Hi', stream=False)[0])")
        assert guest.said == "200\n"
        assert result["usage"]["total"] == 100


@asynccontextmanager
async def serve_bytes(status, body):
    """Serve one response to every request, and yield the server's address."""

    async def answer_all(stream):
        async with stream:
            await stream.receive_some(65536)
            head = b"\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: "
            await stream.send_all(status + head + str(len(body)).encode() + b"\r\n\r\n" + body)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, answer_all, listeners)
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


async def test_the_time_limit_of_the_file_ends_a_guest(open_guest):
    async with open_guest("bypassing", "limits: {timeout: 1}") as guest:
        began = trio.current_time()
        result = await guest.execute("time.sleep(1000)")
        assert result["status"] == "timed_out"
        assert trio.current_time() - began < 15
