"""The protocol for the small guests of the tests: JSON-RPC over standard input and output."""

import itertools
import json
import sys


class Client:
    """The client, which is hilum. A request blocks until its response; prompts are handled."""

    def __init__(self):
        self._ids = itertools.count(1)
        self.session = "s1"

    def send(self, message):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def request(self, method, **params):
        identity = next(self._ids)
        self.send(
            {"id": identity, "method": method, "params": {"sessionId": self.session, **params}}
        )
        while True:
            message = self.read()
            if message.get("id") == identity and "method" not in message:
                return message.get("result"), message.get("error")
            if message.get("method") == "session/cancel":
                raise SystemExit(0)

    def update(self, session_update, **fields):
        update = {"sessionUpdate": session_update, **fields}
        self.send(
            {
                "method": "session/update",
                "params": {"sessionId": self.session, "update": update},
            }
        )

    def say(self, text):
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def read(self):
        line = sys.stdin.readline()
        if not line:
            raise SystemExit(0)
        return json.loads(line)

    def permission(self, identity, title, kind, **more):
        call = {"toolCallId": identity, "title": title, "kind": kind, "status": "pending", **more}
        result, _ = self.request(
            "session/request_permission",
            toolCall=call,
            options=[
                {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
            ],
        )
        return bool(result) and result["outcome"].get("optionId") == "yes"

    def serve(self, work):
        """Answer hilum's requests; `work` does what a prompt says."""
        while True:
            message = self.read()
            method = message.get("method")
            result = {}
            if method == "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []}
            elif method == "session/new":
                result = {"sessionId": self.session}
            elif method == "session/prompt":
                text = "".join(part.get("text", "") for part in message["params"]["prompt"])
                result = {"stopReason": work(text) or "end_turn"}
            if "id" in message:
                self.send({"id": message["id"], "result": result})
