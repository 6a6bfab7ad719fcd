"""What the decoder makes of the bytes of a terminal."""

import itertools
import time

import pytest
from hilum_terminal.keys import FocusChange, Input, Key, KeyDecoder, Paste
from hypothesis import given
from hypothesis import strategies as st

# The bytes, and the names of the keys; text is in quotes.
CASES: list[tuple[str, str]] = [
    # text and control characters
    ("abc", "'abc'"),
    ("é中😀", "'é中😀'"),
    ("a\rb", "'a' enter 'b'"),
    ("\n", "ctrl-j"),
    ("\t", "tab"),
    ("\x7f\x08", "backspace ctrl-h"),
    ("\x00\x01\x1a", "ctrl-space ctrl-a ctrl-z"),
    ("\x1c\x1d\x1e\x1f", "ctrl-\\ ctrl-] ctrl-^ ctrl-_"),
    ("a\x9bb", "'ab'"),
    # cursor keys of xterm, in both modes, with modifiers
    ("\x1b[A\x1b[B\x1b[C\x1b[D", "up down right left"),
    ("\x1bOA\x1bOH\x1bOF", "up home end"),
    ("\x1b[H\x1b[F", "home end"),
    ("\x1b[1;2A", "shift-up"),
    ("\x1b[1;3D\x1b[1;5D\x1b[1;7D", "alt-left ctrl-left ctrl-alt-left"),
    ("\x1b[1;6C\x1b[1;8C", "ctrl-shift-right ctrl-alt-shift-right"),
    ("\x1b[1;9A", "alt-up"),
    ("\x1bO5C", "ctrl-right"),
    ("\x1b[Z", "shift-tab"),
    ("\x1b[3~\x1b[5~\x1b[6~\x1b[2~", "delete page-up page-down insert"),
    ("\x1b[1~\x1b[4~\x1b[7~\x1b[8~", "home end home end"),
    ("\x1b[3;5~\x1b[3;3~", "ctrl-delete alt-delete"),
    ("\x1b[11~\x1bOP\x1b[24~\x1b[1;2P\x1bOR", "f1 f1 f12 shift-f1 f3"),
    # rxvt and the Linux console
    ("\x1b[a\x1bOd", "shift-up ctrl-left"),
    ("\x1b[7$\x1b[8^\x1b[3@", "shift-home ctrl-end ctrl-shift-delete"),
    ("\x1b[[A\x1b[[E", "f1 f5"),
    # the keypad
    ("\x1bOM\x1bOj\x1bOp\x1bOy", "enter '*09'"),
    # Alt
    ("\x1bb\x1bB\x1b.", "alt-b alt-shift-b alt-."),
    ("\x1b\r\x1b\n\x1b\x7f\x1b\t", "alt-enter alt-enter alt-backspace alt-tab"),
    ("\x1b \x1bé\x1b_x", "alt-space alt-é alt-_ 'x'"),
    ("\x1b\x1a", "ctrl-alt-z"),
    ("\x1b\x1b[A\x1b\x1b[1;5C\x1b\x1bOB", "alt-up ctrl-alt-right alt-down"),
    ("\x1b]x\x1bPx\x1bOx", "alt-] 'x' alt-shift-p 'x8'"),
    # Esc before other input
    ("\x1b\x1bx", "esc esc 'x'"),
    ("\x1b\x1b\x1b[A", "esc alt-up"),
    ("\x1b\x1b[12;3R", "esc"),
    ("\x1b\x1b[I", "esc focus"),
    ("\x1b\x1b]11;rgb:00/00/00\x07x", "esc 'x'"),
    ("\x1b\x1b[200~p\x1b[201~", "esc paste'p'"),
    # kitty's protocol
    ("\x1b[27u\x1b[13u\x1b[9u\x1b[127u", "esc enter tab backspace"),
    ("\x1b[13;2u\x1b[13;3u\x1b[13;5u", "shift-enter alt-enter ctrl-enter"),
    ("\x1b[9;2u\x1b[127;5u", "shift-tab ctrl-backspace"),
    ("\x1b[97;5u\x1b[97;6u\x1b[97;7u\x1b[97;3u", "ctrl-a ctrl-shift-a ctrl-alt-a alt-a"),
    ("\x1b[97u\x1b[97;2u\x1b[97:65;2u\x1b[97;1;229u", "'aAAå'"),
    ("\x1b[32;2u\x1b[49:33;2u", "' !'"),
    ("\x1b[1089::99;5u", "ctrl-c"),
    ("\x1b[105;5u\x1b[109;5u\x1b[91;5u", "tab enter esc"),
    ("\x1b[45;6u\x1b[45:95;4u\x1b[47;5u", "ctrl-_ alt-_ ctrl-/"),
    ("\x1b[97;5:1u\x1b[97;5:2u\x1b[97;5:3u", "ctrl-a ctrl-a"),
    ("\x1b[1;1:3A\x1b[3;1:3~\x1b[1;5:1A", "ctrl-up"),
    ("\x1b[97;65u\x1b[97;133u\x1b[1;129A", "'a' ctrl-a up"),
    ("\x1b[97;9u\x1b[97;17u", ""),
    ("\x1b[57399u\x1b[57414u\x1b[57419u\x1b[57358u\x1b[57441;2u", "'0' enter up"),
    ("\x1b[55296u\x1b[1114112u\x1b[0u\x1b[u\x1b[155u", ""),
    # modifyOtherKeys
    ("\x1b[27;5;97~\x1b[27;2;13~\x1b[27;6;95~", "ctrl-a shift-enter ctrl-_"),
    ("\x1b[27;2;65~\x1b[27;3;98~\x1b[27;5;9~", "'A' alt-b ctrl-tab"),
    ("\x1b[27;5~\x1b[27~", ""),
    # focus
    ("\x1b[I\x1b[O", "focus blur"),
    # pastes
    ("\x1b[200~\x1b[201~", "paste''"),
    ("\x1b[200~a\rb\x1b[31mc\x1b[201\x1b[201~d", "paste'a\\rb\\x1b[31mc\\x1b[201' 'd'"),
    ("\x1b[201~x", "'x'"),
    # answers of the terminal
    ("\x1b[12;40Rx", "'x'"),
    ("\x1b[?62;1;6c\x1b[>41;354;0c\x1b[0nx", "'x'"),
    ("\x1b[?2026;2$y\x1b[4;1$yx", "'x'"),
    ("\x1b[?1ux\x1b[4;600;800ty", "'xy'"),
    ("\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\x", "'x'"),
    ("\x1b]11;rgb:1e1e/1e1e/1e1e\x07x", "'x'"),
    ("\x1b]10;\x1b]11;rgb\x07x", "'x'"),
    ("\x1bP>|xterm(388)\x1b\\x\x1bP1$r0m\x1b\\y", "'xy'"),
    ("\x1b_Gi=31;OK\x1b\\x", "'x'"),
    ("\x1b[<0;10;20M\x1b[<0;10;20mx", "'x'"),
    ("\x1b[M abx", "'x'"),
    # an answer that does not end cannot hold the keyboard
    ("\x1b]11;rgb\rx", "enter 'x'"),
    ("\x1b]11;rgb\x03", "ctrl-c"),
    ("\x1b]11;rgb\x1b[Ax", "up 'x'"),
    # unknown and broken sequences
    ("\x1b[99~\x1b[1;2;3;4Xx", "'x'"),
    ("\x1b[1 1Ax", "'x'"),
    ("\x1b[12\rx", "enter 'x'"),
    ("\x1b[1\x1b[Ax", "up 'x'"),
    ("\x1b[1;5éx", "'éx'"),
    ("\x1b[" + "1" * 300 + "Ax", "'x'"),
    ("\x1b[[\x01\x1b[M\x1b[A", "ctrl-a up"),
]


def show(inputs: list[Input]) -> str:
    """Return keys in the form of the table; neighboring text is one."""
    shown: list[str] = []
    text = ""
    for item in [*inputs, Key("")]:
        if isinstance(item, Key) and item.name == "text":
            text += item.text
            continue
        if text:
            shown.append(repr(text))
            text = ""
        if isinstance(item, Paste):
            shown.append(f"paste{item.text!r}")
        elif isinstance(item, FocusChange):
            shown.append("focus" if item.focused else "blur")
        elif item.name:
            shown.append(item.name)
    return " ".join(shown)


def decode(pieces: list[bytes]) -> list[Input]:
    decoder = KeyDecoder()
    inputs: list[Input] = []
    for piece in pieces:
        inputs += decoder.feed(piece)
    inputs += decoder.flush()
    return inputs


def test_sequences() -> None:
    wrong = []
    for sequence, expected in CASES:
        shown = show(decode([sequence.encode()]))
        if shown != expected:
            wrong.append(f"{sequence!r}: {shown}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_sequences_cut_at_every_place() -> None:
    wrong = []
    for sequence, expected in CASES:
        data = sequence.encode()
        cuts = [[data[:place], data[place:]] for place in range(len(data))]
        cuts.append([data[place : place + 1] for place in range(len(data))])
        for pieces in cuts:
            shown = show(decode(pieces))
            if shown != expected:
                wrong.append(f"{pieces}: {shown}, not {expected}")
    assert not wrong, "\n".join(wrong)


PARTS = st.one_of(
    st.sampled_from([sequence.encode() for sequence, _ in CASES]),
    st.sampled_from([b"\x1b", b"\x1b[", b"\x1bO", b"\x1b]", b"[", b"\x1b[200~", b"\x1b[201~"]),
    st.text(max_size=4).map(lambda text: text.encode("utf-8", "replace")),
    st.binary(max_size=4),
)


@given(st.lists(PARTS, max_size=12), st.data())
def test_any_input_cut_anywhere_gives_the_same_keys(
    parts: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(parts)
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=6).map(sorted))
    edges = [0, *places, len(whole)]
    pieces = [whole[start:end] for start, end in itertools.pairwise(edges)]
    assert show(decode(pieces)) == show(decode([whole]))


@given(st.lists(PARTS, max_size=12))
def test_keys_contain_no_control_characters(parts: list[bytes]) -> None:
    for item in decode([b"".join(parts)]):
        if isinstance(item, Key):
            assert all(character.isprintable() or ord(character) > 0x9F for character in item.text)
            assert item.name
            assert (item.name == "text") == (item.text != "")


def test_invalid_utf8_is_replaced() -> None:
    assert (
        show(decode([b"a\xff\xfeb\xc3", b"x", b"\xe4\xb8", b"\xad"])) == "'a\ufffd\ufffdb\ufffdx中'"
    )


def test_a_lone_escape_waits_for_flush() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"x\x1b") == [Key("text", "x")]
    assert decoder.pending_escape
    assert decoder.flush() == [Key("esc")]
    assert not decoder.pending_escape
    assert decoder.flush() == []


def test_escape_twice() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b\x1b") == []
    assert decoder.pending_escape
    assert decoder.flush() == [Key("esc"), Key("esc")]


def test_alt_with_an_introducer_waits_for_flush() -> None:
    decoder = KeyDecoder()
    for data, name in ((b"\x1b[", "alt-["), (b"\x1bO", "alt-shift-o"), (b"\x1b_", "alt-_")):
        assert decoder.feed(data) == []
        assert decoder.pending_escape
        assert decoder.flush() == [Key(name)]
        assert decoder.feed(b"1") == [Key("text", "1")]


def test_the_rest_of_a_slow_sequence_is_not_text() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b[1;") == []
    assert not decoder.pending_escape
    assert decoder.flush() == []
    assert decoder.feed(b"5A") == [Key("ctrl-up")]


def test_no_flush_inside_a_paste() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b[200~abc\x1b") == []
    assert decoder.in_paste
    assert not decoder.pending_escape
    assert decoder.flush() == []
    assert decoder.feed(b"[201~") == [Paste("abc")]
    assert not decoder.in_paste


@pytest.mark.parametrize(("key", "name"), [(b"\x03", "ctrl-c"), (b"\x1b", "esc")])
def test_a_paste_without_an_end_is_ended_by_a_key(key: bytes, name: str) -> None:
    decoder = KeyDecoder()
    decoder.feed(b"\x1b[200~abc\x1b[2")
    assert decoder.pause_paste() == [Paste("abc")]
    assert decoder.pause_paste() == []
    # Any other input is the rest of the paste.
    assert decoder.feed(b"more\r") == []
    assert decoder.pause_paste() == [Paste("\x1b[2more\r")]
    assert [*decoder.feed(key), *decoder.flush()] == [Key(name)]
    assert decoder.feed(b"x") == [Key("text", "x")]


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_paste_that_stalls_anywhere_is_never_typed(cut: int) -> None:
    """A connection may stop for a second, also inside the end marker."""
    data = b"\x1b[200~!touch pwned\ry\r\x1b[201~"
    decoder = KeyDecoder()
    keys = decoder.feed(data[:cut])
    keys += decoder.pause_paste() + decoder.pause_paste()
    keys += decoder.feed(data[cut:])
    assert not decoder.in_paste
    if cut >= 6:
        assert all(isinstance(key, Paste) for key in keys)
        assert "".join(key.text for key in keys) == "!touch pwned\ry\r"


def test_large_pastes_take_linear_time() -> None:
    text = ("x" * 79 + "\r") * (5_000_000 // 80)
    data = b"\x1b[200~" + text.encode() + b"\x1b[201~"
    decoder = KeyDecoder()
    inputs: list[Input] = []
    start = time.process_time()
    for place in range(0, len(data), 65536):
        inputs += decoder.feed(data[place : place + 65536])
    assert time.process_time() - start < 0.5
    assert inputs == [Paste(text)]


def test_an_answer_without_an_end_takes_linear_time() -> None:
    decoder = KeyDecoder()
    start = time.process_time()
    for beginning in (b"\x1b[", b"\x1b]11;", b"\x1bO"):
        decoder.feed(beginning)
        for _ in range(1000):
            assert decoder.feed(b"1" * 1000) == []
        decoder.feed(b"~\r")
    assert time.process_time() - start < 1
