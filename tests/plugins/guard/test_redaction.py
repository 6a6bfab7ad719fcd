"""The one redactor: what looks like a secret is taken out, and programs are left alone."""

import json
import os
import time
from pathlib import Path

import hilum
import pytest
from hilum_guard import Redactor
from hilum_guard.secrets.redaction import is_settings, is_source
from hilum_guard.secrets.settings_secrets import SettingsRedactor, read_settings_secrets

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
ENVIRON = {
    "ACME_API_KEY": 'va"lue\\of-the-environment',
    "MY_TOKEN": "short",
    "HOME_PAGE": "https://example.org/page",
}


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
    """In the text and inside JSON, at the beginning of a line, after a tab and after an escaped
    letter.
    """
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
        found = json.loads(redact(json.dumps({"a": text, "b": [text]})))
        assert found.keys() == {"a", "b"}
        assert ENVIRON["ACME_API_KEY"] not in found["a"]
        assert (SHAPES["sk"] in found["a"], SHAPES["sk"] in found["b"][0]) == (False, False)


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


@pytest.mark.parametrize(
    "text", ["token=" * 20_000, "a-b_" * 30_000 + "token", "token=1" * 20_000 + "(", "_" * 90_000]
)
def test_redaction_takes_no_time_for_odd_texts(text: str) -> None:
    """No pattern looks at the same text again and again."""
    began = time.process_time()
    Redactor({})(text + " KEY")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "db-password",
        "MYSQL_PWD",
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "HILUM_OTEL_HEADERS",
    ],
)
def test_sandbox_and_redactor_share_what_a_secret_is_called(name: str) -> None:
    """A variable that is kept from child processes is taken out of texts, too."""
    from hilum_guard.sandbox.environment import looks_secret

    value = "a-value-that-is-long"
    assert looks_secret(name, value)
    assert value not in Redactor({name: value})(f"it is {value}.")


async def test_secrets_are_taken_out_of_results_before_they_are_logged(bench) -> None:
    """Known values from environment and settings, and known shapes: in what the model reads and in
    data for faces.
    """
    import hilum_files
    import hilum_guard
    import hilum_shell

    known = "va-lue-of-the-environment"
    kit = await bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        environ={"ACME_TOKEN": known},
        files={"notes.txt": f"{TEXT} {known}"},
    )
    result = await kit.call("read_file", path="notes.txt")
    assert "[REDACTED:ACME_TOKEN]" in result.text
    shown = await kit.call("run_terminal_cmd", command="cat notes.txt")
    logged = "".join(repr(event) for event in kit.events)
    for secret in (known, SHAPES["sk"], SHAPES["github"], SHAPES["block"]):
        assert secret not in result.text + shown.text + logged


async def test_what_stands_for_a_secret_is_not_written_over_it(bench) -> None:
    """A model that saw a placeholder in a file may edit around it, and not write it."""
    import hilum_files
    import hilum_guard

    kit = await bench(
        hilum_guard, hilum_files, files={"conf.ini": f"a = 1\nkey = {SHAPES['github']}\n"}
    )
    seen = (await kit.call("read_file", path="conf.ini")).text
    assert "[REDACTED:GITHUB_TOKEN]" in seen
    result = await kit.call(
        "write_file", path="./conf.ini", content="a = 2\nkey = [REDACTED:GITHUB_TOKEN]\n"
    )
    assert result.code == "E_DENIED"
    assert (
        await kit.call("edit_file", path="conf.ini", old_string="a = 1", new_string="a = 2")
    ).code == ""
    assert SHAPES["github"] in (kit.workspace / "conf.ini").read_text()


def test_secrets_in_settings_are_known() -> None:
    """By their names, and all headers of requests."""
    from hilum_guard.secrets.redaction import find_settings_secrets

    data = {"models": {"providers": {"x": {"headers": {"X-Id": "Bearer header-value"}, "key_env": "X_KEY", "base_url": "u"}}},
            "tracker": {"api_token": "token-value", "timeout": 3}}  # fmt: skip
    assert set(find_settings_secrets(data).values()) == {"header-value", "token-value"}


def test_kept_keys_are_known(tmp_path: Path) -> None:
    """Those in the file of ``hilum models key``; an invalid file hides nothing in the other."""
    key = "abcdefgh-kept-key"
    (tmp_path / "keys.toml").write_text(f'[local]\nkey = "{key}"\naddress = "http://x"\n')
    (tmp_path / "settings.toml").write_text("this is [ no TOML")
    secrets = read_settings_secrets(tmp_path)
    assert (
        Redactor({}, secrets)(f"echo {key} http://x") == "echo [REDACTED:keys.local.key] http://x"
    )


BODY = "\n".join("MIIEowIBAAKCAQEA" + "abcdEFGH0123+/zz" * 3 for _ in range(5))
VENDORS = {
    "telegram": "123456789" + ":AA" + "abcdefghijklmnopqrstuvwxyz0123456",
    "twilio": "SK" + "0123456789abcdef" * 2,
    "aws": "aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "aws json": '"SecretAccessKey": "' + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" + '"',
    "azure": "AccountKey=" + "abcDEF123+/" * 8 + "==",
    "discord": "M" + "TIzNDU2Nzg5MDEyMzQ1Njc4" + ".AbCdEf." + "abcdefghijklmnopqrstuvwxyz0",
    "gitlab": "glrt-" + "abcdefghijklmnop1234",
    "vault": "hvs." + "CAESIabcdefghijklmnopqrstuv",
    "docker": "dckr_pat_" + "abcdefghijklmnopqrstuv",
    "shopify": "shpat_" + "0123456789abcdef" * 2,
    "databricks": "dapi" + "0123456789abcdef" * 2,
    "linear": "lin_api_" + "abcdefghijklmnopqrstuvwxyz012345",
    "mailgun": "key-" + "0123456789abcdef" * 2,
    "stripe": "whsec_" + "abcdefghijklmnopqrstuvwx",
}


@pytest.mark.parametrize("name", VENDORS)
def test_keys_of_common_vendors_are_found_in_source_too(name: str) -> None:
    """By their shape, wherever they stand."""
    redact = Redactor({})
    for text in (f'x = "{VENDORS[name]}"', json.dumps({"a": VENDORS[name]})):
        cleaned = redact(text, guess=False)
        assert "[REDACTED:" in cleaned
        assert VENDORS[name].split()[-1].strip('"')[-20:] not in cleaned


@pytest.mark.parametrize(
    "text",
    [
        f"{BODY}\n-----END RSA PRIVATE KEY-----", f"{BODY}\r\n-----END PRIVATE KEY-----\n",
        "\n".join(f"{n} | {row}" for n, row in enumerate(BODY.split("\n"), 12)) + "\n17 | -----END EC PRIVATE KEY-----",
        json.dumps(f"{BODY}\n-----END RSA PRIVATE KEY-----"),
    ],
)  # fmt: skip
def test_a_private_key_without_its_first_line_is_found(text: str) -> None:
    """As a page of a file, or the end of one, has it."""
    assert "MIIE" not in Redactor({})(text)


def test_a_certificate_is_no_secret() -> None:
    """It is public."""
    text = f"-----BEGIN CERTIFICATE-----\n{BODY}\n-----END CERTIFICATE-----"
    assert Redactor({})(text) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password: horsebattery", False), ('  "password": "horsebattery",', False), ("db_password = horsebattery", False),
        ("secret: 'horsebattery'", False), ("password=horsebattery", False), ("password: ${DB_PASSWORD}", True),
        ("password: <your password>", True), ("password: changeme", True), ("password: null", True),
        ('"password": {"type": "string"}', True), ("password: string", True), ("passwords are stored elsewhere", True),
        ("secret: !vault |", True), ("password: required", True),
    ],
)  # fmt: skip
def test_in_a_file_of_settings_a_word_is_a_password(text: str, kept: bool) -> None:
    """Not a reference, a placeholder or a type."""
    assert (Redactor({})(text, settings=True) == text) is kept
    assert Redactor({})(text, guess=False) == text


@pytest.mark.parametrize(
    ("path", "kind"),
    [("a.yml", "settings"), ("conf/app.json", "settings"), ("notes.txt", "settings"), (".env", "settings"),
     (".env.local", "settings"),
     ("a.py", "source"), ("README.md", "source"), ("a.tsx", "source"), ("Makefile", ""), ("x.sh", "")],
)  # fmt: skip
def test_files_are_told_apart_by_their_names(path: str, kind: str) -> None:
    """Settings, programs and the rest."""
    assert (is_settings(path), is_source(path)) == (kind == "settings", kind == "source")


@pytest.mark.parametrize(
    "text", ["A" * 64 + "\n", "a1B2" * 16 + "\n", "password: " * 3, "pat" + "a" * 14 + "."]
)
def test_large_outputs_take_little_time(text: str) -> None:
    """A quarter of a megabyte of what looks like the beginning of a secret."""
    began = time.process_time()
    Redactor({})(text * (250_000 // len(text)) + "-----END PRIVATE KEY-----", settings=True)
    assert time.process_time() - began < 5


async def test_files_of_settings_are_redacted_when_they_are_read(bench) -> None:
    """Through the tool; a program stays as it is."""
    import hilum_files
    import hilum_guard

    files = {"conf.yml": "password: horsebattery1\n",
             "conf.json": '{"password": "horsebattery1"}', "a.txt": "password: horsebattery1",
             "a.py": 'password = "horsebattery1"\n'}  # fmt: skip
    kit = await bench(hilum_guard, hilum_files, approve="auto", files=files)
    for name in files:
        shown = (await kit.call("read_file", path=name)).text
        assert ("horsebattery1" in shown) is (name == "a.py")


def test_a_short_secret_is_named_and_not_looked_for() -> None:
    """A key of one letter would mangle every text; switches are no secrets."""
    redact = Redactor({"MY_TOKEN": "a", "USE_AUTH": "true", "OTHER_TOKEN": "long enough"})
    assert redact("a banana") == "a banana"
    assert redact.too_short == ["MY_TOKEN"]


@pytest.mark.parametrize(
    "value",
    ["your-key", "your-key-here", "changeme", "xxxxxxxxxxxx", "<your-token>", "example-token", ""],
)
def test_placeholders_of_example_files_are_no_secrets(value: str) -> None:
    """A model needs them to fill in the real file."""
    assert (
        Redactor({})(f"STRIPE_KEY={value}\nPORT=1\n", settings=True)
        == f"STRIPE_KEY={value}\nPORT=1\n"
    )


@pytest.mark.parametrize(
    "value", ["your-key1234567", "changeme1234", "xxxxxxxxxxxxa9f8", "<hunter2hunter2>"]
)
def test_what_only_begins_like_a_placeholder_is_a_secret(value: str) -> None:
    """The whole value counts."""
    assert value not in Redactor({})(f"STRIPE_KEY={value}\n", settings=True)


def test_a_key_that_is_stored_during_a_session_is_redacted(tmp_path: Path) -> None:
    """A key that was replaced or removed stays redacted, because earlier texts may contain it."""
    redact = SettingsRedactor({}, tmp_path)
    first, second = "kept-first-0123456789", "kept-second-987654321"
    text = f"{first} and {second}"
    assert redact(text, guess=False) == text
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[acme]\nkey = "{first}"\n')
    assert first not in redact(text, guess=False)
    os.replace(write_aside(keys, f'[acme]\nkey = "{second}"\n'), keys)
    cleaned = redact(text, guess=False)
    assert first not in cleaned
    assert second not in cleaned
    keys.unlink()
    cleaned = redact(text, guess=False)
    assert first not in cleaned
    assert second not in cleaned


def write_aside(file: Path, text: str) -> Path:
    """Write the new content of a file next to it, as hilum does before it replaces the file."""
    new = file.with_suffix(".new")
    new.write_text(text)
    return new


def test_redactors_without_a_session_know_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history of prompts and exported sessions have no session's redactor."""
    monkeypatch.setenv("HILUM_CONFIG", str(tmp_path))
    (tmp_path / "keys.toml").write_text('[acme]\nkey = "kept-first-0123456789"\n')
    assert "kept-first" not in hilum.make_redactor({})("kept-first-0123456789", guess=False)
