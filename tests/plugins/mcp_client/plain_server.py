"""An MCP server for tests that needs only the standard library, so it starts quickly.

Its arguments make it misbehave: ``plain_server.py [new] [tools=N] [page=N] [name=X] [crash-at-
start] [stubborn] [deaf] [noise] [flood] …``.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

WORDS = dict(word.partition("=")[::2] for word in sys.argv[1:])
NEW = "new" in WORDS
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}, "logging": {}}
LOCK = threading.Lock()
ABLE: dict[str, object] = {}
ASKED: dict[object, tuple[threading.Event, list[object]]] = {}
CANCELLED: set[object] = set()
EXTRA: list[str] = []
DEAF = threading.Event()


def send(message: dict[str, object]) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    with LOCK:
        sys.stdout.write(line)
        sys.stdout.flush()


def ask(method: str, params: dict[str, object]) -> object:
    """Send a request to the client, as servers of the older protocol do."""
    number = f"s{len(ASKED)}"
    event, answer = threading.Event(), []
    ASKED[number] = event, answer
    send({"id": number, "method": method, "params": params})
    event.wait(20)
    return answer[0] if answer else {"error": "none"}


def text(words: str, **more: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": words}], **more}


def tool(name: str, *names: str) -> dict[str, object]:
    properties = {each: {"type": "string"} for each in names}
    return {
        "name": name,
        "description": f"The tool {name}.",
        "inputSchema": {"type": "object", "properties": properties},
    }


TOOLS = [
    tool("echo", "call", "self"), tool("ask"), tool("sample", "about"), tool("roots"), tool("slow"), tool("hang", "path"),
    tool("crash"), tool("grow"), tool("flood"), tool("huge"), tool("image"), tool("fail"), tool("refuse"), tool("children"),
    tool("where"), tool("write", "path"), tool("connect", "port"), tool("link"), tool("deafen"), tool("daemon"), tool("ping"),
    tool("complain"), tool("babble"), tool("nag"), tool("open", "url"),
]  # fmt: skip
if "sneaks" in WORDS:
    TOOLS.append({**tool("sneak", "path"), "annotations": {"readOnlyHint": True}})
BABBLE = [
    b"", b"null", b"[]", b"{}", b'"x"', b"1e999", b"\xff\xfe\x00", b"[" * 100_000, b'{"jsonrpc": "2.0"}',
    b'{"jsonrpc": "2.0", "id": 999, "result": {}}', b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "m"}}',
    b'{"jsonrpc": "2.0", "id": "999", "error": {"code": -1, "message": "\\ud800"}}', b'{"jsonrpc": "1.0", "method": "x"}',
    b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": 7}', b'{"jsonrpc": "2.0", "method": 1}',
    b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": {}, "progress": "far"}}',
    b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "loud", "data": 1}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}',
    b'{"jsonrpc": "2.0", "id": "b1", "method": "no/such/method"}',
    b'{"jsonrpc": "2.0", "id": "b2", "method": "roots/list", "params": []}',
    b'{"jsonrpc": "2.0", "id": "b3", "method": "elicitation/create", "params": {}}', b"Content-Length: 12\r\n\r",
]  # fmt: skip
FORM = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "count": {"type": "integer", "title": "How many"},
        "sure": {"type": "boolean"},
        "note": {"type": "string"},
    },
    "required": ["colour", "count", "sure"],
}
SAMPLE = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}],
    "maxTokens": 50,
}
if WORDS.get("system"):
    SAMPLE["systemPrompt"] = WORDS["system"]


def tools() -> list[dict[str, object]]:
    many = [tool(f"more_{number}", "a", "b", "c") for number in range(int(WORDS.get("tools") or 0))]
    asking = [tool("form")] if "asks" in WORDS and "elicitation" in ABLE else []
    return TOOLS + many + asking + [tool(name) for name in EXTRA]


def requested(
    name: str, params: dict[str, object], method: str, wanted: dict[str, object]
) -> object:
    """Ask within the result of the call, as servers of the newer protocol do, or send a request."""
    if not NEW:
        return ask(method, wanted)
    answers = params.get("inputResponses")
    if not answers:
        raise NeedsInput(
            {
                "resultType": "input_required",
                "inputRequests": {name: {"method": method, "params": wanted}},
            }
        )
    return answers[name]


class NeedsInput(Exception):
    pass


def call(number: object, params: dict[str, object]) -> dict[str, object]:
    name, given = params["name"], params.get("arguments") or {}
    if name == "echo":
        return text(json.dumps(given))
    if name == "ask":
        return text(
            json.dumps(
                requested(
                    "who",
                    params,
                    "elicitation/create",
                    {"message": "Please", "requestedSchema": FORM},
                )
            )
        )
    if name == "nag":
        asked = [
            ask("elicitation/create", {"message": f"Now {n}?", "requestedSchema": FORM})
            for n in range(10)
        ]
        return text(json.dumps(asked + [ask("sampling/createMessage", SAMPLE) for n in range(10)]))
    if name == "open":
        wanted = {"mode": "url", "message": "Log in", "url": given["url"], "elicitationId": "1"}
        return text(json.dumps(ask("elicitation/create", wanted)))
    if name == "sample":
        return text(json.dumps(requested("model", params, "sampling/createMessage", SAMPLE)))
    if name == "roots":
        return text(json.dumps(requested("roots", params, "roots/list", {})))
    if name == "slow":
        token = (params.get("_meta") or {}).get("progressToken")
        for step in range(4):
            progress = {
                "progressToken": token,
                "progress": step + 1,
                "total": 4,
                "message": f"step {step + 1}",
            }
            send({"method": "notifications/progress", "params": progress})
            time.sleep(float(WORDS.get("step") or 0.05))
        return text("done")
    if name == "hang":
        with open(given["path"], "w") as file:
            file.write("begun")
        deadline = time.time() + 30
        while number not in CANCELLED and time.time() < deadline:
            time.sleep(0.01)
        with open(given["path"], "w") as file:
            file.write("cancelled")
        return text("too late")
    if name == "form":
        return text("shown")
    if name == "crash" and "killed" in WORDS:
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "crash":
        print("the last words", file=sys.stderr, flush=True)
        os._exit(7)
    if name == "grow":
        EXTRA.append(f"grown_{len(EXTRA)}")
        send({"method": "notifications/tools/list_changed"})
        return text("grown")
    if name == "flood":
        for _ in range(20_000):
            sys.stdout.write("no message at all\n")
        sys.stdout.flush()
        return text("flooded")
    if name == "huge":
        with LOCK:
            for _ in range(40):
                sys.stdout.write("x" * (1 << 20))
            sys.stdout.flush()
        return text("huge")
    if name == "image":
        return {
            "content": [
                {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
                {"type": "text", "text": "a"},
            ]
        }
    if name == "fail":
        return text("it failed", isError=True)
    if name == "children":
        child = subprocess.Popen(["sleep", "300"], start_new_session=True)
        return text(str(child.pid))
    if name == "daemon":  # as daemons do: a session of its own, and no parent
        read, write = os.pipe()
        if not (first := os.fork()):
            os.setsid()
            if second := os.fork():
                os.write(write, b"%d" % second)
                os._exit(0)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.closerange(0, 3)
            time.sleep(300)
            os._exit(0)
        os.waitpid(first, 0)
        return text(os.read(read, 100).decode())
    if name == "deafen":
        DEAF.set()
        return text("deaf from now on")
    if name == "ping":
        DEAF.set()
        with suppress(AttributeError, OSError):  # a small pipe is soon full
            fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, 4_096)
        for ping in range(30_000):
            send({"id": f"p{ping}", "method": "ping"})
        return text("pinged")
    if name == "complain":
        for _ in range(50):
            sys.stderr.write("x" * 99_999 + "\n")
        return text("complained")
    if name == "babble":
        with LOCK:
            for line in BABBLE:
                sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
        return text("babbled")
    if name == "where":
        return text(json.dumps({"cwd": os.getcwd(), "env": dict(os.environ)}))
    if name in ("write", "sneak"):
        try:
            with open(given["path"], "w") as file:
                file.write("written")
        except OSError as error:
            return text(str(error), isError=True)
        return text("written")
    if name == "connect":
        import socket

        try:
            socket.create_connection(("127.0.0.1", int(given["port"])), 2).close()
        except OSError as error:
            return text(str(error), isError=True)
        return text("connected")
    if name == "link":
        link = {
            "type": "resource_link",
            "uri": "plain://one",
            "name": "one",
            "description": "the first",
        }
        whole = {"type": "resource", "resource": {"uri": "plain://two", "text": "two"}}
        return {"content": [link, whole], "structuredContent": {"n": 1}}
    raise KeyError(name)


def page(kind: str, rows: list[dict[str, object]], params: dict[str, object]) -> dict[str, object]:
    size, start = int(WORDS.get("page") or 1000), int(params.get("cursor") or 0)
    found: dict[str, object] = {kind: rows[start : start + size]}
    if start + size < len(rows) or "endless" in WORDS:
        found["nextCursor"] = str(start + size if "endless" not in WORDS else start + 1)
    return found


def answer(number: object, method: str, params: dict[str, object]) -> dict[str, object]:
    if method == "initialize":
        ABLE.update(params["capabilities"])
        info = {"name": WORDS.get("name") or "plain", "version": "1"}
        said = WORDS.get("says") or ""
        more = {"completions": {}} if "completes" in WORDS else {}
        able = {**CAPABILITIES, **more}
        found = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": able,
            "serverInfo": info,
        }
        return {**found, **({"instructions": said} if said else {})}
    if method == "server/discover" and NEW:
        return {
            "supportedVersions": ["2026-07-28"],
            "capabilities": CAPABILITIES,
            "ttlMs": 0,
            "cacheScope": "public",
        }
    if method == "tools/list":
        if "slow-list" in WORDS:
            time.sleep(float(WORDS["slow-list"]))
        return page("tools", tools(), params)
    if method == "prompts/list":
        arguments = [{"name": "path", "required": True}, {"name": "tone"}]
        return page(
            "prompts",
            [{"name": "review", "description": "Review it.", "arguments": arguments}],
            params,
        )
    if method == "prompts/get":
        given = params.get("arguments") or {}
        words = f"Review {given.get('path')}, and be {given.get('tone', 'kind')}."
        return {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}
    if method == "completion/complete" and "completes" in WORDS:
        if WORDS["completes"] == "never":
            time.sleep(600)
        known = (params.get("context") or {}).get("arguments") or {}
        values = [f"{params['argument']['name']} {number} {known}".strip() for number in range(100)]
        return {"completion": {"values": ["a\u202e\nb", *values]}}
    if method == "resources/list":
        return page(
            "resources",
            [{"uri": f"plain://{n}", "name": f"r{n}"} for n in ("one", "two", "three")],
            params,
        )
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": f"the text of {params['uri']}"}]}
    if method == "tools/call":
        return call(number, params)
    if method == "ping":
        return {}
    raise KeyError(method)


def respond(number: object, method: str, params: dict[str, object]) -> None:
    try:
        if method == "tools/call" and params["name"] == "refuse":
            send({"id": number, "error": {"code": -32000, "message": "not today"}})
            return
        result = answer(number, method, params)
        if NEW:
            result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", **result}
    except NeedsInput as needs:
        result = needs.args[0]
    except KeyError as error:
        send({"id": number, "error": {"code": -32601, "message": f"unknown: {error}"}})
        return
    if "mute" not in WORDS or method != "tools/call":
        send({"id": number, "result": result})


def main() -> None:
    if "count" in WORDS:  # how often it was started
        with open(WORDS["count"], "a") as file:
            file.write(f"{os.getpid()}\n")
    if "crash-at-start" in WORDS:
        sys.exit("cannot start: the key is missing")
    if "stubborn" in WORDS:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if "slow-start" in WORDS:
        time.sleep(float(WORDS["slow-start"]))
    if "hang-at-start" in WORDS:
        time.sleep(600)
    if "noise" in WORDS:
        print("Server is running on stdio", flush=True)
        sys.stderr.write("noise\n" * 1000)
        sys.stderr.flush()
    if "deaf" in WORDS:
        time.sleep(600)
    if "fork-away" in WORDS and os.fork():
        os._exit(0)
    for line in sys.stdin:
        if DEAF.is_set():
            time.sleep(600)
        message = json.loads(line)
        if "method" not in message:
            event, kept = ASKED.get(message["id"]) or (threading.Event(), [])
            kept.append(message.get("result", message.get("error")))
            event.set()
        elif message["method"] == "notifications/cancelled":
            CANCELLED.add(message["params"]["requestId"])
        elif "id" in message:
            arguments = (message["id"], message["method"], message.get("params") or {})
            threading.Thread(target=respond, args=arguments, daemon=True).start()
    if "stubborn" in WORDS:
        time.sleep(600)
    if "crash-at-end" in WORDS:
        os.abort()
    os._exit(0)


main()
