"""Starts the service, calls every path, and checks that its tests notice a broken service."""

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from hilum_eval.checking import Checks, compare_with_fixture, copy_with_originals, run_program

FIXTURE = Path(__file__).parent / "files"
START_TIMEOUT = 15.0  # seconds
# Changes of the service that its tests must notice: other status codes.
BREAKS = [
    (r"\b201\b|\bCREATED\b", {"201": "200", "CREATED": "OK"}),
    (r"\b404\b|\bNOT_FOUND\b", {"404": "410", "NOT_FOUND": "GONE"}),
]


class Service:
    """The service of a workspace while it runs."""

    def __init__(self, root: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-B", "-m", "notes_api", "--port", str(self.port)]
        self.process = subprocess.Popen(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self) -> bool:
        end = time.monotonic() + START_TIMEOUT
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            except OSError:
                time.sleep(0.02)
        return False

    def call(
        self, method: str, path: str, body: object = None, *, raw: bytes | None = None
    ) -> tuple:
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if method != "DELETE" or text:
                kind = answer.getheader("Content-Type") or ""
                if "json" not in kind:
                    return answer.status, f"Content-Type {kind}"
            return answer.status, json.loads(text) if text else None
        except (OSError, http.client.HTTPException, ValueError) as error:
            return 0, f"{type(error).__name__}: {error}"
        finally:
            connection.close()


def is_error(answer: tuple, status: int) -> bool:
    return (
        answer[0] == status
        and isinstance(answer[1], dict)
        and isinstance(answer[1].get("error"), str)
    )


def check_service(service: Service, checks: Checks) -> None:
    first = service.call("GET", "/notes")
    texts = ["tea", "Zoë’s cup ☕", " spaces "]
    created = [service.call("POST", "/notes", {"text": text}) for text in texts]
    expected = [(201, {"id": number, "text": text}) for number, text in enumerate(texts, 1)]
    checks.goal("create", first == (200, []) and created == expected, f"{first}, {created}")
    everything = service.call("GET", "/notes")
    one = service.call("GET", "/notes/2")
    notes = [note for _, note in expected]
    checks.goal(
        "read", (everything, one) == ((200, notes), (200, notes[1])), f"{everything}, {one}"
    )
    invalid = [
        service.call("POST", "/notes", raw=body)
        for body in (
            b"",
            b"{",
            b"[]",
            b'"a"',
            b"null",
            b"{}",
            b'{"text": 5}',
            b'{"text": ""}',
            b'{"text": null}',
            b"\xff",
        )
    ]
    wrong = [answer for answer in invalid if not is_error(answer, 400)]
    checks.goal("invalid", not wrong, f"instead of 400: {wrong[:3]}")
    removed = service.call("DELETE", "/notes/3")
    gone = [service.call(method, "/notes/3") for method in ("GET", "DELETE")]
    again = service.call("POST", "/notes", {"text": "new"})
    deleted = removed == (204, None) and all(is_error(each, 404) for each in gone)
    checks.goal(
        "delete",
        deleted and again == (201, {"id": 4, "text": "new"}),
        f"{removed}, {gone}, {again}",
    )
    missing = [
        service.call("GET", path) for path in ("/", "/other", "/notes/99", "/notes/x", "/notes/1/x")
    ]
    methods = [
        service.call(*each)
        for each in (("DELETE", "/notes"), ("PUT", "/notes/1", {}), ("POST", "/notes/1", {}))
    ]
    right = all(is_error(each, 404) for each in missing) and all(
        is_error(each, 405) for each in methods
    )
    checks.goal("paths and methods", right, f"{missing}, {methods}")
    threads = [
        threading.Thread(target=service.call, args=("POST", "/notes", {"text": "x"}))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status, notes = service.call("GET", "/notes")
    ids = [note["id"] for note in notes] if status == 200 and isinstance(notes, list) else []
    checks.goal("many at once", ids == [1, 2, *range(4, 10)], f"ids are {ids}")


def run_tests(root: Path) -> tuple[int, int]:
    """Return the exit code, and the number of tests that ran."""
    code, output = run_program([sys.executable, "-B", "-m", "unittest"], root, timeout=40)
    ran = re.search(r"^Ran (\d+) test", output, re.M)
    return code, int(ran.group(1)) if ran else 0


def notice_breaks(root: Path) -> list[str]:
    """Return the changes of the service that its tests do not notice."""
    unnoticed = []
    for pattern, replacements in BREAKS:
        broken = copy_with_originals(FIXTURE, [], root)
        for path in (broken / "notes_api").rglob("*.py"):
            text = path.read_text("utf-8")
            path.write_text(
                re.sub(pattern, lambda match, new=replacements: new[match.group()], text), "utf-8"
            )
        if run_tests(broken)[0] == 0:
            unnoticed.append(pattern)
    return unnoticed


checks = Checks()
root = copy_with_originals(FIXTURE, [])
service = Service(root)
try:
    started = service.wait()
    checks.goal("starts", started, "python3 -m notes_api --port PORT does not listen")
    if started:
        check_service(service, checks)
    else:
        checks.goal("answers", False, "the service cannot be called", weight=6)
finally:
    service.process.kill()
    service.process.wait()
code, ran = run_tests(root)
checks.goal("tests pass", code == 0 and ran >= 2, f"exit code {code}, {ran} tests")
unnoticed = notice_breaks(root) if code == 0 and ran else ["everything"]
checks.goal("tests notice", not unnoticed, f"the tests do not notice {unnoticed}")
others = sorted(path for path, change in compare_with_fixture(FIXTURE).items() if change != "added")
others = [path for path in others if path != "README.md"]
checks.guard("others", not others, f"other files changed: {others}")
checks.report()
