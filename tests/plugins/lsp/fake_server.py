"""A language server that misbehaves in the ways that its arguments name; nothing but the standard
library.
"""

import json
import os
import sys
import threading
import time

WAYS = set(sys.argv[1:])
SOURCE = sys.stdin.buffer
TARGET = sys.stdout.buffer


def write(data: bytes) -> None:
    TARGET.write(data)
    TARGET.flush()


def send(message: object) -> None:
    body = json.dumps(message).encode()
    write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


def read() -> dict | None:
    length = 0
    while line := SOURCE.readline().strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return json.loads(SOURCE.read(length)) if length else None


def span(line: int, begin: int, end: int) -> dict:
    return {"start": {"line": line, "character": begin}, "end": {"line": line, "character": end}}


def flood() -> None:
    note = {"jsonrpc": "2.0", "method": "window/logMessage", "params": {"message": "x" * 60_000}}
    for _ in range(2_000):
        send(note)


def misbehave() -> None:
    """What the server does on its own after `initialize`."""
    if "flood" in WAYS:
        flood()
    if "garbage" in WAYS:
        write(b"Traceback (most recent call last):\n" * 500)
    if "huge" in WAYS:
        write(b"Content-Length: 99999999999\r\n\r\n")
    if "negative" in WAYS:
        write(b"Content-Length: -5\r\n\r\n")
    if "text" in WAYS:
        write(b"Content-Length: 5\r\n\r\nhello")
    if "deep" in WAYS:
        body = b"[" * 200_000 + b"]" * 200_000
        write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    if "endless" in WAYS:
        while True:
            write(b"x" * 60_000)
    if "die" in WAYS:
        sys.stderr.write("panic: out of ideas\n")
        sys.exit(3)
    if "trace" in WAYS:
        sys.stderr.write("Error: Cannot find module 'ideas'\n    at Module.load\n\nNode.js v20\n")
        sys.exit(1)
    if "memory" in WAYS:
        held = bytearray(140_000_000)
        held[::4096] = b"x" * len(held[::4096])
        globals()["held"] = held
    if "ask" in WAYS:
        for number, method in enumerate(
            ("workspace/configuration", "client/registerCapability", "workspace/applyEdit", "x/y")
        ):
            params = {"items": [{"section": "a"}, {"section": "b"}], "edit": {}}
            send({"jsonrpc": "2.0", "id": f"q{number}", "method": method, "params": params})


INDEXED = threading.Event()


def report(kind: str) -> None:
    params = {"token": "index", "value": {"kind": kind}}
    send({"jsonrpc": "2.0", "method": "$/progress", "params": params})


def index() -> None:
    """Begin to read the project, and end a little later, or never."""

    def end() -> None:
        INDEXED.set()
        report("end")

    report("begin")
    if "never" not in WAYS:
        threading.Timer(0.3, end).start()


def main() -> None:
    versions: dict[str, int] = {}
    answers: dict[str, object] = {}
    cancelled: list[int] = []
    while (message := read()) is not None:
        method, params, identity = (message.get(key) for key in ("method", "params", "id"))
        if method is None:
            answers[identity] = message.get("result", message.get("error", {}).get("code"))
            continue
        if method == "initialize" and "mute" not in WAYS:
            capabilities = {"definitionProvider": True, "documentSymbolProvider": True}
            capabilities["renameProvider"] = True
            capabilities["referencesProvider"] = True
            if "push" not in WAYS:
                capabilities["diagnosticProvider"] = {}
            send({"jsonrpc": "2.0", "id": identity, "result": {"capabilities": capabilities}})
            continue
        if method == "initialized":
            misbehave()
        elif method in ("textDocument/didOpen", "textDocument/didChange"):
            document = params["textDocument"]
            versions[document["uri"]] = document["version"]
            if "index" in WAYS and len(versions) == 1:
                index()
            if "push" in WAYS:
                for version in (document["version"] - 1, document["version"]):
                    found = {"range": span(0, 0, 1), "message": f"version {version}", "severity": 1}
                    pushed = {"uri": document["uri"], "version": version, "diagnostics": [found]}
                    notice = "textDocument/publishDiagnostics"
                    send({"jsonrpc": "2.0", "method": notice, "params": pushed})
        elif method == "$/cancelRequest":
            cancelled.append(params["id"])
        elif method == "exit":
            return
        if identity is None or "hang" in WAYS or "mute" in WAYS:
            continue
        result: object = None
        if method == "textDocument/documentSymbol" and "ask" in WAYS:
            text = json.dumps([answers, cancelled])
            symbol = {"name": text, "kind": 12, "range": span(0, 0, 1)}
            result = [{**symbol, "selectionRange": span(0, 0, 1)}]
        elif method == "textDocument/documentSymbol" and "nowhere" in WAYS:
            result = [
                {"name": f"at {line}", "kind": 12, "range": here, "selectionRange": here}
                for line, here in ((line, span(line, 0, 1)) for line in (0, -1, 50))
            ]
        elif method == "textDocument/documentSymbol":
            result = []
        elif method == "textDocument/diagnostic":
            if "slow" in WAYS:
                time.sleep(2)
            result = {"kind": "full", "items": []}
        elif method == "textDocument/definition":
            result = {"uri": "file:///etc/hostname", "range": span(0, 0, 1)}
            if "wrong" in WAYS:
                result = {"nothing": "known"}
            if "uses" in WAYS:
                result = {"uri": params["textDocument"]["uri"], "range": span(0, 0, 5)}
            if "nowhere" in WAYS:
                result = {"uri": params["textDocument"]["uri"], "range": span(-1, 0, 5)}
        elif method == "textDocument/references":
            here = params["textDocument"]["uri"]
            known = 2 if INDEXED.is_set() else 1
            result = [{"uri": here, "range": span(number, 0, 1)} for number in range(known)]
            if "uses" in WAYS:
                others = [f"{os.path.dirname(here)}/b.py", "file:///etc/hostname"]
                result = [{"uri": each, "range": span(0, 0, 5)} for each in (here, *others)]
                result.append({"uri": here, "range": span(1, 0, 7)})
            if "nowhere" in WAYS:
                lines = (0, -1, 50, 99_999_999_999)
                result = [{"uri": here, "range": span(line, 0, 5)} for line in lines]
                result.append({"uri": "untitled:a", "range": span(0, 0, 5)})
        elif method == "textDocument/rename":
            result = rename(params, versions)
        send({"jsonrpc": "2.0", "id": identity, "result": result})


def rename(params: dict, versions: dict[str, int]) -> object:
    uri = params["textDocument"]["uri"]
    here = {"range": span(0, 0, 5), "newText": params["newName"]}
    folder = os.path.dirname(uri)
    elsewhere = {
        "outside": "file:///etc/hostname",
        "above": f"{folder}/../../outside.py",
        "encoded": f"{folder}/%2e%2e/%2e%2e/outside.py",
        "link": f"{folder}/link.py",
        "host": "file://example.org/etc/hostname",
        "scheme": "http://example.org/a.py",
        "installed": f"{folder}/.venv/lib/site-packages/pkg.py",
    }
    changes = {uri: [here]}
    for way, other in elsewhere.items():
        if way in WAYS:
            changes[other] = [here]
    if "shifted" in WAYS:
        changes[uri] = [{"range": span(0, 1, 6), "newText": params["newName"]}]
    if "overlap" in WAYS:
        changes[uri] = [here, {"range": span(0, 0, 7), "newText": "other"}]
    if "beyond" in WAYS:
        changes[uri] = [{"range": span(900, 0, 5), "newText": params["newName"]}]
    for way, text in {"code": "other; import os", "line": "other\nimport os", "gone": ""}.items():
        if way in WAYS:
            changes[uri] = [{**here, "newText": text}]
    if "disk" in WAYS:
        files = {uri: versions[uri], f"{folder}/b.c": 0}
        edited = [
            {"textDocument": {"uri": each, "version": version}, "edits": [here]}
            for each, version in files.items()
        ]
        return {"documentChanges": edited}
    if "old" in WAYS:
        document = {"uri": uri, "version": versions[uri] - 1}
        return {"documentChanges": [{"textDocument": document, "edits": [here]}]}
    if "create" in WAYS:
        return {"documentChanges": [{"kind": "create", "uri": f"{folder}/new.py"}]}
    return {"changes": changes}


main()
