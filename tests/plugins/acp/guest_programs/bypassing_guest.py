"""A guest that never asks: it runs the Python code of its prompt and says what it printed."""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

from guest_wire import Client

client = Client()


def call_model(text, key=None, stream=True, path="/v1/chat/completions", model="theirs", **more):
    """Call the model through the address that the environment names."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    if stream:
        body["stream"] = True
    request = urllib.request.Request(
        os.environ["GUEST_MODEL_URL"] + path,
        data=json.dumps(body).encode(),
        headers={
            "content-type": "application/json",
            "authorization": f"Bearer {key or os.environ['OPENAI_API_KEY']}",
        },
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def work(text):
    if "#begin" not in text:
        client.say(f"I was told: {text}")
        return
    code = text[text.rindex("#begin") :]
    printed = io.StringIO()
    names = {
        "client": client,
        "prompt": text,
        "call_model": call_model,
        "json": json,
        "os": os,
        "socket": socket,
        "subprocess": subprocess,
        "sys": sys,
        "time": time,
    }
    try:
        with contextlib.redirect_stdout(printed):
            # The client writes to the real standard output.
            client_out = sys.__stdout__
            client.send = lambda message: (
                client_out.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n"),
                client_out.flush(),
            )
            exec(code, names)
    except Exception:
        printed.write(traceback.format_exc(limit=-1))
    client.say(printed.getvalue() or "nothing")


client.serve(work)
