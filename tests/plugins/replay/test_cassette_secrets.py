"""Secrets never enter a cassette; paths of one machine do not either."""

import json
import time

import pytest
from hilum.events import CallDone, LayersSealed, ModelAnswered, RoundEnded, RunStarted, SessionOpened
from hilum.messages import AssistantMessage, Layer, Text, Thinking, ToolCall, ToolResult, UserMessage
from hilum_replay import Places, Recorder, Redactor

AWS = "AKIA" + "ABCDEFGHIJKLMNOP"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc/+\n-----END RSA PRIVATE KEY-----"
SHAPES = {
    "sk": "sk-" + "ant-api03-abcdefghijklmnop_qrst",
    "github": "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789",
    "aws": AWS,
    "google": "AIza" + "SyA-abcdefghijklmnopqrstuvwxyz01234",
    "slack": "xoxb-" + "1234567890-abcdefghij",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
    "bearer": "tok3n.value_123",
    "url": "hunter2hunter2",
    "block": "MIIEow",
    "assigned": "correct-horse-battery",
    "basic": "dXNlcjpwYXNzd29yZA==",
}
TEXT = f"""key {SHAPES["sk"]} and {SHAPES["github"]}; {SHAPES["aws"]} {SHAPES["google"]} {SHAPES["slack"]} {SHAPES["jwt"]}
Authorization: Bearer {SHAPES["bearer"]}
{{"Authorization": "Basic {SHAPES["basic"]}"}}
curl -H 'authorization: {SHAPES["bearer"]}' https://me:{SHAPES["url"]}@example.org/x
export DB_PASSWORD="{SHAPES["assigned"]}"
{KEY}
the end"""
ENVIRON = {"ACME_API_KEY": 'va"lue\\of-the-environment', "MY_TOKEN": "short", "HOME_PAGE": "https://example.org/page"}


def test_planted_secrets_are_in_no_part_of_a_cassette(tmp_path) -> None:
    """Prompts, context, results, answers, reasoning, arguments and vendor fields are cleaned, in file and memory."""
    secret = ENVIRON["ACME_API_KEY"]
    text = TEXT + "\n" + secret
    arguments = json.dumps({"content": text, "path": "x"})
    path = tmp_path / "c.toml"
    recorder = Recorder(redactor=Redactor(ENVIRON), path=path, title=text)
    call = ToolCall("c1", "write_file", arguments, {"extra": text})
    parts = (Thinking(text, {"signature": text}), Text(text, "model"), call)
    events = [
        SessionOpened(session="s", workspace="/srv/ws"),
        RunStarted(text=text, message=UserMessage((Text(text), Text(text, f"context:{secret}")))),
        LayersSealed(layers=(Layer(0, "meta", text),), tools=()),
        ModelAnswered(message=AssistantMessage(parts, "m", "calls")),
        CallDone(result=ToolResult("c1", "write_file", (Text(text, "tool:write_file"),))),
        RoundEnded(notes=(text,)),
        ModelAnswered(message=AssistantMessage((Text("bye", "model"),), "m")),
    ]
    for event in events:
        recorder.feed(event)
    written = path.read_text() + repr(recorder.cassette)
    for name, value in {**SHAPES, "environment": secret, "inside JSON": json.dumps(secret)[1:-1]}.items():
        assert value not in written, name
    assert "[REDACTED:ACME_API_KEY]" in written
    assert "the end" in written
    assert json.loads(recorder.cassette.exchanges[0].answer.calls[0].arguments)["path"] == "x"


@pytest.mark.parametrize(
    "text",
    [
        "see https://example.org/a:b@c and sk-learn, task-sk-1; authorization is needed",
        "def f(token: str) -> None: token = get_token()",
        "MY_TOKEN = short and PATH=/usr/bin:/bin KEY=$OTHER_VARIABLE",
        "Bearer of bad news; the bearer authentication; a task-of-some-length-here",
        "https://example.org/page",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    """What only speaks of secrets stays readable."""
    assert Redactor(ENVIRON)(text) == text


def test_redacting_twice_changes_nothing_more() -> None:
    """A cassette made from a cassette is the same."""
    redact = Redactor(ENVIRON)
    assert redact(redact(TEXT)) == redact(TEXT)


def test_secrets_are_found_wherever_a_line_begins() -> None:
    """In the text and inside JSON, at the beginning of a line, after a tab and after an escaped letter."""
    redact = Redactor({})
    for value in [SHAPES[name] for name in ("sk", "github", "aws", "google", "slack", "jwt")] + [
        f"Bearer {SHAPES['bearer']}"
    ]:
        for before in ("", "\n", "\t", "\u00e9 ", "\x1b[0m", "(", "="):
            text = f"a{before or ' '}{value} z"
            assert SHAPES["bearer"] not in redact(text)
            for form in (text, json.dumps(text)):
                assert value not in redact(form), form


def test_redaction_keeps_json_valid() -> None:
    """Arguments stay JSON whatever is taken out of them."""
    redact = Redactor(ENVIRON)
    for text in (TEXT, *TEXT.split("\n"), ENVIRON["ACME_API_KEY"]):
        json.loads(redact(json.dumps({"a": text, "b": [text]})))


@pytest.mark.parametrize(
    "text",
    [
        "in /srv/ws/a.py", "/srv/ws", "{/srv/ws}", "{workspace}", "{{workspace}}", "{literal:workspace}",
        "{literal:{workspace}}", "/srv/ws-2 and /srv/ws.old and /srv/ws2", "cd /srv/ws.",
        "/home/me/x {home}", "{literal:/srv/ws}", "no path",
    ],
)  # fmt: skip
def test_paths_become_placeholders_and_come_back(text: str) -> None:
    """Every text, placeholders in it included, comes back as it was."""
    places = Places("/srv/ws", "/home/me")
    assert places.concrete(places.abstract(text)) == text
    inside = json.dumps({"a": text})
    assert places.concrete_json(places.abstract_json(inside)) == inside


def test_paths_move_to_another_machine() -> None:
    """What was recorded in one workspace is played in another, also inside JSON with awkward names."""
    here, there = Places("/srv/ws", "/home/me"), Places('/data/o"dd', "/home/ana")
    assert there.concrete(here.abstract("/srv/ws/a /home/me/b /srv/ws-2")) == '/data/o"dd/a /home/ana/b /srv/ws-2'
    moved = there.concrete_json(here.abstract_json(json.dumps({"path": "/srv/ws/a"})))
    assert json.loads(moved) == {"path": '/data/o"dd/a'}
    assert "/srv" not in here.abstract("see file:///srv/ws/a, /srv/ws.")


def test_a_workspace_inside_the_home_folder_wins() -> None:
    """The longer path is replaced first."""
    places = Places("/home/me/ws", "/home/me")
    assert places.abstract("/home/me/ws/a /home/me/b") == "{workspace}/a {home}/b"


LOOSE = "hunter2hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"TOKEN={LOOSE}", f"PASSWORD={LOOSE}", f"export DB_PASS={LOOSE}", f"password: {LOOSE}", f'"password": "{LOOSE}"',
        f"api_key = '{LOOSE}'", f"x-api-key: {LOOSE}", f"aws_secret_access_key = {LOOSE}/K7", f"Cookie: session={LOOSE}",
        f"https://{LOOSE}abcdef@example.org/x", f"gsk_{LOOSE}abcdefgh", f"https://hooks.slack.com/services/T0/B0/{LOOSE}",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{LOOSE}\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
)  # fmt: skip
def test_secrets_of_settings_files_and_headers_are_found(text: str) -> None:
    """As .env files, YAML, JSON and headers write them, also inside JSON text."""
    redact = Redactor({})
    assert LOOSE not in redact(text)
    assert LOOSE not in redact(json.dumps({"content": text}))
    json.loads(redact(json.dumps({"content": text})))


@pytest.mark.parametrize("name", ["DB_PASS", "SECRETKEY", "GITHUB_PAT", "PGPASSWORD"])
def test_variables_that_speak_of_passwords_are_known(name: str) -> None:
    """The value of such a variable is taken out wherever it stands."""
    assert "correct-horse" not in Redactor({name: "correct-horse"})("it is correct-horse, no?")


@pytest.mark.parametrize(
    "code",
    [
        'authorization = request.headers["Authorization"]', "token = tokens.popleft_2(1)", "password = get_password2(user)",
        "self.token = token_2", "secret: str = field2", 'key = data["token_1"]', "PRIMARY = True; token: Token2 | None",
    ],
)  # fmt: skip
def test_code_is_left_alone(code: str) -> None:
    """A program that handles secrets is not changed: what was written must play back."""
    assert Redactor({})(code) == code


@pytest.mark.parametrize("text", ["token=" * 20_000, "a-b_" * 30_000 + "token", "token=1" * 20_000 + "(", "_" * 90_000])
def test_redaction_takes_no_time_for_odd_texts(text: str) -> None:
    """No pattern looks at the same text again and again."""
    began = time.perf_counter()
    Redactor({})(text + " KEY")
    assert time.perf_counter() - began < 5
