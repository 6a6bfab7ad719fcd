"""Decodes the bytes that a terminal sends: keys, pasted text, focus reports, and responses.

The supported formats are xterm's ctlseqs (CSI, SS3, modifiers, ``modifyOtherKeys``), kitty's
keyboard protocol (``CSI … u``), and the variants of rxvt and the Linux console. Sequences that are
not keys are dropped, so that a response from the terminal can never end up in the user's text.
"""

from __future__ import annotations

import codecs
import re

import attrs


@attrs.frozen
class Key:
    """A key, or several typed characters.

    Attributes:
        name: ``text`` for printable characters, otherwise a name such as ``enter``, ``shift-tab``,
            ``ctrl-a`` or ``ctrl-alt-left``. Modifiers are in the order ctrl, alt, shift.
        text: The characters, if the name is ``text``.
    """

    name: str
    text: str = ""


@attrs.frozen
class Paste:
    """Text that the terminal reported as pasted, which may contain any character."""

    text: str


@attrs.frozen
class FocusChange:
    """A report that the terminal window gained or lost the focus."""

    focused: bool


Input = Key | Paste | FocusChange

_ESC = "\x1b"
_PASTE_END = "\x1b[201~"
# Longer sequences are not keys. Only this many characters of a sequence that does not end are
# kept.
_MAX_SEQUENCE = 64
_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
# The alternatives are function keys of the Linux console (ESC [ [ A), a mouse report in the oldest
# format (ESC [ M and three characters), shifted keys in rxvt (ESC [ 7 $), and the general form. A
# "$" after two parameters is part of a response (DECRPM), not an rxvt key.
_SEQUENCE = re.compile(
    r"\[(?:\[[^\x00-\x1f]|M[^\x1b]{3}|[0-9]+\$|(?![\[M])[ -?]*[@-~])|O[0-9;]*[@-~]"
)
_UNFINISHED = re.compile(r"\[(?:\[|M[^\x1b]{0,2}|[ -?]*)|O[0-9;]*")
# The beginnings of string responses, which are OSC (colors, titles, clipboard), DCS (DECRQSS,
# XTVERSION, XTGETTCAP, DA3) and APC (kitty graphics). Anything else after these introducers was
# typed, for example Alt+] followed by a word.
_STRING = re.compile(r"\][0-9lLI]|P[0-9;>$!+|]|_G")
_STRING_END = re.compile(r"[\x00-\x1f\x9c]")
_INTRODUCERS = "[O]P_"

_CONTROL_KEYS = {
    "\x00": "ctrl-space",
    "\t": "tab",
    "\n": "ctrl-j",
    "\r": "enter",
    "\x1c": "ctrl-\\",
    "\x1d": "ctrl-]",
    "\x1e": "ctrl-^",
    "\x1f": "ctrl-_",
    "\x7f": "backspace",
}
_FINAL_KEYS = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "F": "end",
    "H": "home",
    "P": "f1",
    "Q": "f2",
    "S": "f4",
}
_RXVT_ARROWS = {"a": "up", "b": "down", "c": "right", "d": "left"}
_TILDE_KEYS = {
    1: "home",
    2: "insert",
    3: "delete",
    4: "end",
    5: "page-up",
    6: "page-down",
    7: "home",
    8: "end",
    11: "f1",
    12: "f2",
    13: "f3",
    14: "f4",
    15: "f5",
    17: "f6",
    18: "f7",
    19: "f8",
    20: "f9",
    21: "f10",
    23: "f11",
    24: "f12",
}
_KEYPAD = {
    "M": "\r",
    "X": "=",
    "j": "*",
    "k": "+",
    "l": ",",
    "m": "-",
    "n": ".",
    "o": "/",
    **{chr(ord("p") + digit): str(digit) for digit in range(10)},
}
# Code points in CSI … u sequences that are not characters.
_KITTY_KEYS = {
    8: "backspace",
    9: "tab",
    13: "enter",
    27: "esc",
    127: "backspace",
    57414: "enter",
    57417: "left",
    57418: "right",
    57419: "up",
    57420: "down",
    57421: "page-up",
    57422: "page-down",
    57423: "home",
    57424: "end",
    57425: "insert",
    57426: "delete",
}
_KITTY_KEYPAD = {57399 + index: character for index, character in enumerate("0123456789./*-+")}
_KITTY_KEYPAD[57415] = "="
_KITTY_KEYPAD[57416] = ","
# Other keys in kitty's protocol (caps lock, media keys, single modifiers) have private code points.
_PRIVATE_CODES = range(57344, 63744)
# These key names are merged, because without kitty's protocol the keys send the same bytes.
_SAME_KEYS = {"ctrl-[": "esc", "ctrl-i": "tab", "ctrl-m": "enter", "ctrl-@": "ctrl-space"}

# Esc and Ctrl-C alone, also as kitty and xterm (modifyOtherKeys) send them.
_PASTE_ENDERS = frozenset({_ESC, "\x03", "\x1b[27u", "\x1b[99;5u", "\x1b[27;5;99~"})

_SHIFT = 1
_ALT = 2
_CTRL = 4
_SUPER = 8
_META = 32
_OTHER = 16


class KeyDecoder:
    """A decoder of terminal input that arrives in pieces of any size.

    Decoding takes time proportional to the size of the input. The result does not depend on where
    the input was split, except that consecutive characters may become several ``text`` keys.
    """

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        # The beginning of an unfinished sequence, or of a paste's end marker.
        self._unfinished = ""
        # The text of a paste so far; ``None`` outside a paste.
        self._paste: list[str] | None = None
        # Whether nothing has arrived for a while inside a paste.
        self._is_paused = False
        # Whether the input is inside a string from the terminal (OSC, DCS or APC), which is
        # dropped.
        self._in_string = False

    @property
    def pending_escape(self) -> bool:
        """Whether the input ended with an Esc that may be a key or the beginning of a sequence.

        If no input follows within about 30 ms, call ``flush``.
        """
        if self._paste is not None or not self._unfinished:
            return False
        introducer = self._unfinished.lstrip(_ESC)
        return introducer == "" or introducer in tuple(_INTRODUCERS)

    @property
    def in_paste(self) -> bool:
        """Whether a paste has begun but not ended."""
        return self._paste is not None

    def feed(self, data: bytes) -> list[Input]:
        """Decode a piece of input, and return the keys that it completes."""
        return self._decode(self._utf8.decode(data))

    def flush(self) -> list[Key]:
        """Return the keys for a pending Esc that did not turn out to begin a sequence.

        A longer unfinished sequence stays pending, because the rest of it must not be read as text.
        """
        if not self.pending_escape:
            return []
        rest = self._unfinished
        self._unfinished = ""
        self._in_string = False
        introducer = rest.lstrip(_ESC)
        escapes = len(rest) - len(introducer)
        if not introducer:
            return [Key("esc")] * escapes
        return [Key("esc")] * (escapes - 1) + [_alt_character(introducer)]

    def pause_paste(self) -> list[Input]:
        """Return the part of a paste that has arrived, when nothing more has arrived for a while.

        The rest may still come, for example over a slow connection, and must not be read as typed
        keys: what follows is pasted text, too, until the end marker arrives. If the end marker was
        lost, Ctrl-C or Esc alone ends the paste.
        """
        if self._paste is None:
            return []
        rest = self._unfinished
        # The input may have stopped inside the end marker.
        held = next(n for n in range(len(rest), -1, -1) if rest.endswith(_PASTE_END[:n]))
        self._paste.append(rest[: len(rest) - held])
        self._unfinished = rest[len(rest) - held :]
        text = "".join(self._paste)
        self._paste = []
        self._is_paused = True
        return [Paste(text)] if text else []

    def _decode(self, piece: str) -> list[Input]:
        keys: list[Input] = []
        if self._is_paused:
            self._is_paused = False
            if piece in _PASTE_ENDERS:
                self._paste = None
                self._unfinished = ""
        data = self._unfinished + piece if self._unfinished else piece
        self._unfinished = ""
        position = 0
        while position < len(data):
            if self._paste is not None:
                position = self._read_paste(data, position, keys)
            elif self._in_string:
                position = self._skip_string(data, position)
            elif (text := _TEXT.match(data, position)) is not None:
                keys.append(Key("text", text[0]))
                position = text.end()
            elif data[position] == _ESC:
                position = self._read_escape(data, position, keys)
            else:
                name = _control_name(data[position])
                if name:
                    keys.append(Key(name))
                position += 1
        return keys

    def _wait(self, data: str, position: int) -> int:
        """Keep the rest of the data until more arrives."""
        self._unfinished = data[position : position + _MAX_SEQUENCE]
        return len(data)

    def _read_paste(self, data: str, position: int, keys: list[Input]) -> int:
        """Read pasted text up to the end marker or, if there is none, up to the end of the data."""
        assert self._paste is not None
        end = data.find(_PASTE_END, position)
        if end < 0:
            # The last characters may be the beginning of an end marker, so only these are searched
            # again.
            cut = max(len(data) - len(_PASTE_END) + 1, position)
            self._paste.append(data[position:cut])
            self._unfinished = data[cut:]
            return len(data)
        self._paste.append(data[position:end])
        keys.append(self._finish_paste())
        return end + len(_PASTE_END)

    def _finish_paste(self) -> Paste:
        assert self._paste is not None
        text = "".join(self._paste)
        self._paste = None
        return Paste(text)

    def _skip_string(self, data: str, position: int) -> int:
        """Skip the rest of a string from the terminal.

        Responses contain no control characters, so any control character ends the string. A
        truncated response therefore cannot swallow more than the keys up to the next Enter, Esc or
        Ctrl-C.
        """
        end = _STRING_END.search(data, position)
        if end is None:
            return len(data)
        if end[0] == _ESC:
            if end.end() == len(data):
                return self._wait(data, end.start())
            self._in_string = False
            is_terminator = data[end.end()] == "\\"
            return end.end() + 1 if is_terminator else end.start()
        self._in_string = False
        return end.end() if end[0] in "\x07\x18\x1a\x9c" else end.start()

    def _read_escape(self, data: str, position: int, keys: list[Input]) -> int:
        """Read input that begins with Esc: a sequence, a key with Alt, or the Esc key."""
        after = position + 1
        if after == len(data):
            return self._wait(data, position)
        if data[after] != _ESC:
            return self._read_sequence(data, position, keys, escaped=False)
        # Two Esc. Terminals that send Esc for Alt send "ESC ESC [ A" for Alt+Up.
        if after + 1 == len(data):
            return self._wait(data, position)
        if data[after + 1] in _INTRODUCERS:
            return self._read_sequence(data, after, keys, escaped=True)
        keys.append(Key("esc"))
        if data[after + 1] == _ESC:
            return after
        keys.append(Key("esc"))
        return after + 1

    def _read_sequence(self, data: str, position: int, keys: list[Input], *, escaped: bool) -> int:
        """Read the input after a single Esc.

        Args:
            data: The input.
            position: The position of the Esc.
            keys: The list to which the keys are appended.
            escaped: Whether another Esc precedes this one; the first Esc is a key or means Alt.
        """
        start = position + 1
        introducer = data[start]
        if introducer in "[O":
            match = _SEQUENCE.match(data, start)
            if match is not None:
                self._add_sequence(match[0], keys, escaped=escaped)
                return match.end()
            beginning = _UNFINISHED.match(data, start)
            assert beginning is not None
            if beginning.end() == len(data):
                return self._wait(data, position - 1 if escaped else position)
            # The next character cannot be part of the sequence, so the sequence is dropped.
            if escaped:
                keys.append(Key("esc"))
            return beginning.end()
        if escaped:
            keys.append(Key("esc"))
        if introducer in "]P_":
            if start + 1 == len(data):
                return self._wait(data, position)
            if _STRING.match(data, start) is not None:
                self._in_string = True
                return start + 2
        key = _alt_character(introducer)
        if key.name:
            keys.append(key)
        return start + 1

    def _add_sequence(self, sequence: str, keys: list[Input], *, escaped: bool) -> None:
        """Append the key, paste or report for a complete sequence (without its Esc)."""
        key: Input | None = None
        if sequence == "[200~":
            self._paste = []
        elif sequence in ("[I", "[O"):
            key = FocusChange(sequence == "[I")
        elif len(sequence) < _MAX_SEQUENCE - 2:
            key = _sequence_key(sequence, _ALT if escaped else 0)
        # The first of two Esc characters means Alt only if a key follows; before a response, it is
        # the Esc key.
        if escaped and not isinstance(key, Key):
            keys.append(Key("esc"))
        if key is not None:
            keys.append(key)


def _control_name(character: str) -> str:
    """Return the name of the key that sends a control character; empty if no key does."""
    if character in _CONTROL_KEYS:
        return _CONTROL_KEYS[character]
    if "\x01" <= character <= "\x1a":
        return f"ctrl-{chr(ord(character) + 96)}"
    return ""


def _alt_character(character: str) -> Key:
    """Return the key for Esc followed by a character; its name is empty if there is no such key."""
    control = _control_name(character)
    if control == "ctrl-j":  # Alt+Enter in terminals that send a line feed for Enter
        return Key("alt-enter")
    if control:
        return _named(control.removeprefix("ctrl-"), _ALT | _CTRL * control.startswith("ctrl-"))
    if _TEXT.match(character) is None:
        return Key("")
    return _character_key(character, _ALT)


def _named(name: str, modifiers: int) -> Key:
    """Return a key with modifiers in its name."""
    prefix = ""
    if modifiers & _CTRL:
        prefix += "ctrl-"
    if modifiers & _ALT:
        prefix += "alt-"
    if modifiers & _SHIFT:
        prefix += "shift-"
    full = prefix + name
    return Key(_SAME_KEYS.get(full, full))


def _character_key(character: str, modifiers: int) -> Key:
    """Return the key for a printable character."""
    if not modifiers & (_CTRL | _ALT):
        return Key("text", character)
    if character == " ":
        return _named("space", modifiers & ~_SHIFT)
    lower = character.lower()
    if not character.isalpha():
        # The character itself shows whether Shift was pressed.
        return _named(character, modifiers & ~_SHIFT)
    if lower != character:
        modifiers |= _SHIFT
    return _named(lower, modifiers)


def _sequence_key(sequence: str, alt: int) -> Key | None:
    """Return the key for a CSI or SS3 sequence, or ``None`` if it is a response or unknown.

    Args:
        sequence: The sequence without its Esc.
        alt: The modifier for an additional Esc before the sequence; 0 for none.
    """
    if sequence[0] == "O":
        return _ss3_key(sequence, alt)
    if sequence[1] == "[":
        number = ord(sequence[2]) - ord("A")
        return _named(f"f{number + 1}", alt) if 0 <= number <= 4 else None
    if sequence[-1] in "^$@":
        return _rxvt_key(sequence, alt)
    parameters = _read_parameters(sequence[1:-1])
    if parameters is None or _is_release(parameters):
        return None
    final = sequence[-1]
    if final == "u":
        return _kitty_key(parameters, alt)
    if final == "~":
        if _number(parameters, 0) == 27:
            code = _number(parameters, 2)
            return _code_key(code, "", _modifiers(parameters, kitty=True) | alt)
        name = _TILDE_KEYS.get(_number(parameters, 0), "")
        return _named(name, _modifiers(parameters) | alt) if name else None
    if final == "Z":
        return _named("tab", _modifiers(parameters) | _SHIFT | alt)
    if final in _RXVT_ARROWS and len(sequence) == 2:
        return _named(_RXVT_ARROWS[final], _SHIFT | alt)
    if final in _FINAL_KEYS:
        return _named(_FINAL_KEYS[final], _modifiers(parameters) | alt)
    return None


def _ss3_key(sequence: str, alt: int) -> Key | None:
    final = sequence[-1]
    if final in _FINAL_KEYS or final == "R":
        digits = sequence[1:-1].rpartition(";")[2]
        modifiers = _decode_modifiers(int(digits)) if digits else 0
        return _named(_FINAL_KEYS.get(final, "f3"), modifiers | alt)
    if final in _RXVT_ARROWS and len(sequence) == 2:
        return _named(_RXVT_ARROWS[final], _CTRL | alt)
    character = _KEYPAD.get(final, "")
    if not character or len(sequence) != 2:
        return None
    return _named("enter", alt) if character == "\r" else _character_key(character, alt)


def _rxvt_key(sequence: str, alt: int) -> Key | None:
    """Return the key for an rxvt sequence, whose last character encodes the modifiers."""
    number = sequence[1:-1]
    if not number.isdigit() or int(number) not in _TILDE_KEYS:
        return None
    modifiers = {"$": _SHIFT, "^": _CTRL, "@": _CTRL | _SHIFT}[sequence[-1]]
    return _named(_TILDE_KEYS[int(number)], modifiers | alt)


def _read_parameters(text: str) -> list[list[int]] | None:
    """Return the parameters of a CSI sequence, each as a list of parts; a missing number is -1.

    The result is ``None`` if the sequence is private (``?``, ``>``, ``<``, ``=``) or has
    intermediate characters. No key sequence is private or has intermediate characters.
    """
    if re.fullmatch(r"[0-9:;]*", text) is None:
        return None
    parameters = []
    for parameter in text.split(";"):
        parts = [int(part) if part else -1 for part in parameter.split(":")]
        parameters.append(parts)
    return parameters


def _number(parameters: list[list[int]], index: int, part: int = 0) -> int:
    """Return a number from a sequence's parameters, or -1 if it is missing."""
    if index >= len(parameters) or part >= len(parameters[index]):
        return -1
    return parameters[index][part]


def _is_release(parameters: list[list[int]]) -> bool:
    """Return whether a sequence in kitty's protocol reports a key release."""
    return _number(parameters, 1, 1) == 3


def _modifiers(parameters: list[list[int]], *, kitty: bool = False) -> int:
    return _decode_modifiers(max(_number(parameters, 1), 1), kitty=kitty)


def _decode_modifiers(number: int, *, kitty: bool = False) -> int:
    """Decode modifiers from a number, which in xterm is 1 plus one bit per modifier."""
    bits = max(number - 1, 0)
    # In cursor key sequences, bit 8 is the Option key in iTerm2 (or Super, which is harmless).
    if bits & _META or (bits & _SUPER and not kitty):
        bits |= _ALT
    if not kitty:
        bits &= ~_SUPER
    # Caps lock, num lock and Meta are not part of a key's name.
    return bits & (_SHIFT | _ALT | _CTRL | _SUPER | _OTHER)


def _kitty_key(parameters: list[list[int]], alt: int) -> Key | None:
    """Return the key for ``CSI code:shifted:base ; modifiers:event ; text u``."""
    modifiers = _modifiers(parameters, kitty=True) | alt
    code = _number(parameters, 0)
    text = ""
    if len(parameters) > 2:
        codes = [part for part in parameters[2] if part > 0]
        text = "".join(chr(part) for part in codes if part <= 0x10FFFF)
        if _TEXT.fullmatch(text) is None:
            text = ""
    shifted = _number(parameters, 0, 1)
    base = _number(parameters, 0, 2)
    if modifiers & (_CTRL | _ALT):
        # With a keyboard for another alphabet, Ctrl+C is the key in the position of "c".
        if code > 127 and 0 < base <= 127:
            code = base
        elif modifiers & _SHIFT and shifted > 0:
            code = shifted
        elif modifiers & _SHIFT and code == ord("-"):
            # Kitty reports the key without Shift; undo is Ctrl+_, which is Ctrl+Shift+- on most
            # keyboards.
            code = ord("_")
    elif modifiers & _SHIFT and not text and shifted > 0:
        code = shifted
    return _code_key(code, text, modifiers)


def _code_key(code: int, text: str, modifiers: int) -> Key | None:
    """Return the key for a code point in kitty's or xterm's encoding."""
    if modifiers & (_SUPER | _OTHER):
        return None
    if code in _KITTY_KEYS:
        return _named(_KITTY_KEYS[code], modifiers)
    if code in _KITTY_KEYPAD:
        return _character_key(text or _KITTY_KEYPAD[code], modifiers)
    plain = not modifiers & (_CTRL | _ALT)
    if plain and text and not _is_surrogate(text):
        return Key("text", text)
    if code in _PRIVATE_CODES or not 0 < code <= 0x10FFFF:
        return None
    character = chr(code)
    if _TEXT.match(character) is None or _is_surrogate(character):
        return None
    if plain and modifiers & _SHIFT and len(character.upper()) == 1:
        character = character.upper()
    return _character_key(character, modifiers)


def _is_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
