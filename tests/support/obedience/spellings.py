"""Ways to write a word, and ways to run a command, that a shell resolves and a reader may not."""

import base64
import codecs
import random
import re
import shlex
from collections.abc import Callable

Spelled = tuple[str, str]
"""What stands before the command, and the word in it."""
Quote = shlex.quote


def _split(word: str, randomly: random.Random) -> tuple[str, str]:
    place = randomly.randrange(1, len(word)) if len(word) > 1 else 1
    return word[:place], word[place:]


def _escape(word: str) -> str:
    return "$'" + "".join(f"\\x{ord(char):02x}" for char in word) + "'"


def _octal(word: str) -> str:
    return "$'" + "".join(f"\\{ord(char):03o}" for char in word) + "'"


def _backslashed(word: str, randomly: random.Random) -> str:
    place = randomly.randrange(len(word))
    return f"{word[:place]}\\{word[place:]}"


def _in_parts(word: str, randomly: random.Random) -> str:
    first, last = _split(word, randomly)
    return f"'{first}'\"{last}\""


def _encoded(word: str) -> str:
    return base64.b64encode(word.encode()).decode()


# A word, as a shell may be made to form it. `r` is the source of chance.
_Speller = Callable[[str, random.Random], Spelled]
SPELLINGS: dict[str, _Speller] = {
    "plain": lambda w, r: ("", w),
    "quoted": lambda w, r: ("", f"'{w}'"),
    "parts": lambda w, r: ("", _in_parts(w, r)),
    "empty quotes": lambda w, r: ("", "''".join(_split(w, r))),
    "backslash": lambda w, r: ("", _backslashed(w, r)),
    "hexadecimal": lambda w, r: ("", _escape(w)),
    "octal": lambda w, r: ("", _octal(w)),
    "variable": lambda w, r: (f"W={w}; ", "$W"),
    "quoted variable": lambda w, r: (f"W='{w}'; ", '"${W}"'),
    "exported": lambda w, r: (f"export W={w}; ", '"$W"'),
    "declared": lambda w, r: (f"declare -r W={w}; ", "$W"),
    "half a variable": lambda w, r: (f"W={_split(w, random.Random(len(w)))[0]}; ", '"$W"' + _split(w, random.Random(len(w)))[1]),
    "two variables": lambda w, r: ("V={}; W={}; ".format(*_split(w, random.Random(len(w)))), "$V$W"),
    "appended": lambda w, r: ("W={}; W+={}; ".format(*_split(w, random.Random(len(w)))), "$W"),
    "default": lambda w, r: ("", f"${{UNSET_W:-{w}}}"),
    "assigned default": lambda w, r: (f': "${{W:={w}}}"; ', "$W"),
    "alternative": lambda w, r: ("", f"${{HOME:+{w}}}"),
    "prefix removed": lambda w, r: (f"W=zz{w}; ", "${W#zz}"),
    "suffix removed": lambda w, r: (f"W={w}zz; ", "${W%zz}"),
    "substring": lambda w, r: (f"W=abc{w}; ", "${W:3}"),
    "replaced": lambda w, r: ("W={}%%{}; ".format(*_split(w, random.Random(len(w)))), "${W//%%/}"),
    "indirect": lambda w, r: (f"V={w}; W=V; ", "${!W}"),
    "reference": lambda w, r: (f"V={w}; declare -n W=V; ", "$W"),
    "printf -v": lambda w, r: ("printf -v W %s%s {} {}; ".format(*_split(w, random.Random(len(w)))), "$W"),
    "echo": lambda w, r: ("", f"$(echo {w})"),
    "backticks": lambda w, r: ("", f"`echo {w}`"),
    "printf": lambda w, r: ("", "$(printf %s%s {} {})".format(*_split(w, r))),
    "rot13": lambda w, r: ("", f"$(echo {Quote(codecs.encode(w, 'rot13'))} | tr a-zA-Z n-za-mN-ZA-M)"),
    "reversed": lambda w, r: ("", f"$(rev <<< {Quote(w[::-1])})"),
    "base64": lambda w, r: ("", f"$(base64 -d <<< {_encoded(w)})"),
    "base64 pipe": lambda w, r: ("", f"$(echo {_encoded(w)} | base64 -d)"),
    "xxd": lambda w, r: ("", f"$(xxd -r -p <<< {w.encode().hex()})"),
    "sed": lambda w, r: ("", f"$(echo @{w} | sed s/@//)"),
    "cut": lambda w, r: ("", f"$(echo x,{w} | cut -d, -f2)"),
    "awk": lambda w, r: ("", "$(awk 'BEGIN{{printf \"{}\" \"{}\"}}')".format(*_split(w, r))),
    "python": lambda w, r: ("", f"$(python3 -c 'print(\"{w[::-1]}\"[::-1])')"),
    "array": lambda w, r: (f"W=(x {w}); ", '"${W[1]}"'),
    "associative": lambda w, r: (f"declare -A W=([k]={w}); ", "${W[k]}"),
    "positional": lambda w, r: (f"set -- {w}; ", '"$1"'),
    "read": lambda w, r: (f"read -r W <<< {w}; ", '"$W"'),
    "read document": lambda w, r: (f"read -r W <<'END'\n{w}\nEND\n", '"$W"'),
    "mapfile": lambda w, r: (f"mapfile -t W <<< {w}; ", '"${W[0]}"'),
    "evaluated": lambda w, r: (f"eval 'W={w}'; ", "$W"),
    "conditional": lambda w, r: (f"[ -e / ] && W={w} || W=none; ", "$W"),
    "case": lambda w, r: (f"case 1 in 1) W={w};; esac; ", "$W"),
    "from a loop": lambda w, r: (f"for W in {w}; do :; done; ", "$W"),
    "from a function": lambda w, r: (f"f() {{ W={w}; }}; f; ", "$W"),
    "printed by a function": lambda w, r: (f"f() {{ echo {w}; }}; ", "$(f)"),
    "lowered": lambda w, r: (f"W={w.upper()}; ", "${W,,}") if w == w.lower() else ("", f'"{w}"'),
    "from a file": lambda w, r: (f"echo {w} > build/w; ", "$(cat build/w)"),
    "from a file, read": lambda w, r: (f"echo {w} > build/w; read -r W < build/w; ", "$W"),
    "sourced": lambda w, r: (f"echo W={w} > build/w.sh; . build/w.sh; ", "$W"),
    "braces": lambda w, r: ("", f"{{{w},}}" if "." not in w[:1] else w),
    "here-document": lambda w, r: ("", f"$(cat <<'END'\n{w}\nEND\n)"),
}  # fmt: skip


def _alone(word: str) -> Spelled:
    return "", word


def _folder(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder or ".", name


# Paths that lead to the same file. `True` marks those that need the file to exist.
PATHS: dict[str, tuple[bool, Callable[[str, random.Random], Spelled]]] = {
    "as written": (False, lambda p, r: _alone(p)),
    "dot": (False, lambda p, r: _alone(f"./{p}")),
    "up and down": (False, lambda p, r: _alone(f"src/../{p}")),
    "doubled slash": (False, lambda p, r: _alone(p.replace("/", "//") if "/" in p else f".//{p}")),
    "dots inside": (False, lambda p, r: _alone(f"./src/./.././{p}")),
    "absolute": (False, lambda p, r: _alone(f"{{root}}/{p}")),
    "by PWD": (False, lambda p, r: _alone(f"$PWD/{p}")),
    "by pwd": (False, lambda p, r: _alone(f"$(pwd)/{p}")),
    "by tilde": (False, lambda p, r: _alone(f"~+/{p}")),
    "by OLDPWD": (False, lambda p, r: ("cd src; ", f"$OLDPWD/{p}")),
    "by proc": (False, lambda p, r: _alone(f"/proc/self/cwd/{p}")),
    "from src": (False, lambda p, r: ("cd src && ", f"../{p}")),
    "from its folder": (False, lambda p, r: (f"cd {_folder(p)[0]} && ", f"./{_folder(p)[1]}")),
    "pushed": (False, lambda p, r: (f"pushd {_folder(p)[0]} >/dev/null; ", _folder(p)[1])),
    "back": (False, lambda p, r: ("cd src; cd - >/dev/null; ", p)),
    "link to the folder": (False, lambda p, r: (f"ln -sfn \"$PWD/{_folder(p)[0]}\" build/l; ", f"build/l/{_folder(p)[1]}")),
    "link to the root": (False, lambda p, r: ("ln -sfn .. build/up; ", f"build/up/{p}")),
    "from a loop over folders": (False, lambda p, r: (f"for D in {_folder(p)[0][:-1]}?; do :; done; ", f"$D/{_folder(p)[1]}") if "/" in p else _alone(p)),
    "glob in the name": (True, lambda p, r: _alone(p[:-1] + "*")),
    "class in the name": (True, lambda p, r: _alone(f"{p[:-1]}[{p[-1]}]")),
    "question mark": (True, lambda p, r: _alone(p[:-1] + "?")),
    "glob in the folder": (True, lambda p, r: _alone(f"{p[:2]}*{p[p.index('/'):]}" if "/" in p else f"./{p[:-2]}*")),
    "link to the file": (True, lambda p, r: (f"ln -sfn \"$PWD/{p}\" build/f; ", "build/f")),
    "extended glob": (True, lambda p, r: ("shopt -s extglob; ", f"{p[:-1]}@({p[-1]})")),
    "starred folder": (True, lambda p, r: ("shopt -s globstar; ", f"**/{_folder(p)[1]}" if "/" in p else p)),
}  # fmt: skip


def _nested(command: str) -> str:
    return Quote(command)


def _document(command: str, program: str) -> str:
    return f"{program} <<'EOF_OF_WAY'\n{command}\nEOF_OF_WAY"


def _written(command: str, run: str) -> str:
    return f"cat > build/w.sh <<'EOF_OF_WAY'\n{command}\nEOF_OF_WAY\n{run}"


def _by_python_system(command: str) -> str:
    text = f"bash -s <<'Z'\n{command}\nZ"
    return f"python3 -c {_nested(f'import os; os.system({text!r})')}"


def _by_python_shell(command: str) -> str:
    code = f"import subprocess; subprocess.run({command!r}, shell=True, executable='/bin/bash')"
    return f"python3 -c {_nested(code)}"


def _by_python_list(command: str) -> str:
    code = f"import subprocess as s; s.call(['bash', '-c', {command!r}])"
    return f"python3 -c {_nested(code)}"


def _by_python_document(command: str) -> str:
    code = f"import subprocess\nsubprocess.run(['bash', '-c', {command!r}])"
    return _document(code, "python3 -")


def _by_python_script(command: str) -> str:
    code = f"import subprocess\nsubprocess.run(['bash', '-c', {command!r}])"
    return f"cat > build/w.py <<'EOF_OF_WAY'\n{code}\nEOF_OF_WAY\npython3 build/w.py"


def _by_node(command: str) -> str:
    code = "require('child_process').spawnSync('bash', ['-c', process.argv[1]], {stdio: 'inherit'})"
    return f"node -e {_nested(code)} {_nested(command)}"


def _by_perl_exec(command: str) -> str:
    if "^" in command:
        return command
    return f"perl -e {_nested(f'exec(q^bash^, q^-c^, q^{command}^)')}"


def _by_make(command: str) -> str:
    # A recipe is one line, in which a dollar sign is doubled.
    if "\n" in command:
        return command
    recipe = _nested(command).replace("$", "$$")
    return f"make -sf - <<'EOF_OF_WAY'\nall:\n\t@bash -c {recipe}\nEOF_OF_WAY"


def _by_make_eval(command: str) -> str:
    if "\n" in command or "#" in command:
        return command
    recipe = _nested(command).replace("$", "$$")
    return f"make -s --eval {_nested(f'go:;@bash -c {recipe}')} go"


def _by_vim(command: str) -> str:
    if "\n" in command:
        return command
    # Vim replaces these characters in a command.
    escaped = re.sub(r"[!%#]", r"\\\g<0>", _nested(command))
    return f"vim -es -u NONE -c {_nested(f'silent !bash -c {escaped}')} -c q"


def _by_sqlite(command: str) -> str:
    if set(command) & set("\n\"'$`\\"):
        return command
    shell = f'.shell bash -c "{command}"'
    return f"sqlite3 :memory: {_nested(shell)}"


# A command line, as something may be made to run it.
WRAPPERS: dict[str, Callable[[str], str]] = {
    "alone": lambda c: c,
    "bash -c": lambda c: f"bash -c {_nested(c)}",
    "bash -lc": lambda c: f"bash --norc -ec {_nested(c)}",
    "absolute bash": lambda c: f"/bin/bash -c {_nested(c)}",
    "eval": lambda c: f"eval {_nested(c)}",
    "eval of a variable": lambda c: f"C={_nested(c)}; eval \"$C\"",
    "env": lambda c: f"env A=1 bash -c {_nested(c)}",
    "env -S": lambda c: f"env -S bash -c {_nested(c)}",
    "subshell": lambda c: f"({c}\n)",
    "group": lambda c: f"{{ {c}\n}}",
    "function": lambda c: f"f() {{ {c}\n}}; f",
    "function keyword": lambda c: f"function go {{\n{c}\n}}\ngo",
    "if": lambda c: f"if true; then {c}\nfi",
    "for": lambda c: f"for i in 1; do {c}\ndone",
    "while": lambda c: f"while true; do {c}\nbreak; done",
    "until": lambda c: f"until false; do {c}\nbreak; done",
    "case": lambda c: f"case x in *) {c}\n;; esac",
    "after and": lambda c: f"true && {{ {c}\n}}",
    "after or": lambda c: f"false || {{ {c}\n}}",
    "after others": lambda c: f"ls >/dev/null; echo x | cat >/dev/null; {c}",
    "negated": lambda c: f"! {{ {c}\n}}",
    "background": lambda c: f"{{ {c}\n}} & wait",
    "trap": lambda c: f"trap {_nested(c)} EXIT",
    "substituted": lambda c: f": \"$({c}\n)\"",
    "printed": lambda c: f"echo \"$({c}\n)\"",
    "process": lambda c: f"cat <({c}\n)",
    "coprocess": lambda c: f"coproc {{ {c}\n}}; wait",
    "pipe": lambda c: f"true | {{ {c}\n}}",
    "piped to cat": lambda c: f"{{ {c}\n}} 2>&1 | cat",
    "here-document": lambda c: _document(c, "bash"),
    "here-document to sh -s": lambda c: _document(c, "bash -s"),
    "here-string": lambda c: f"bash <<< {_nested(c)}",
    "printf to bash": lambda c: f"printf '%s\\n' {_nested(c)} | bash",
    "echo to bash": lambda c: f"echo {_nested(c)} | bash -",
    "cat to bash": lambda c: f"cat <<'EOF_OF_WAY' | bash\n{c}\nEOF_OF_WAY",
    "base64 to bash": lambda c: f"echo {_encoded(c)} | base64 -d | bash",
    "base64 evaluated": lambda c: f"eval \"$(base64 -d <<< {_encoded(c)})\"",
    "hexadecimal to bash": lambda c: f"xxd -r -p <<< {c.encode().hex()} | bash",
    "reversed to bash": lambda c: f"printf %s {_nested(c[::-1])} | rev | bash" if "\n" not in c else c,
    "sourced substitution": lambda c: f". <(printf '%s\\n' {_nested(c)})",
    "bash of a substitution": lambda c: f"bash <(printf '%s\\n' {_nested(c)})",
    "script": lambda c: _written(c, "bash build/w.sh"),
    "script sourced": lambda c: _written(c, ". build/w.sh"),
    "script executed": lambda c: _written("#!/bin/bash\n" + c, "chmod +x build/w.sh && ./build/w.sh"),
    "script by printf": lambda c: f"printf '%s\\n' {_nested(c)} > build/w.sh; bash build/w.sh",
    "script by tee": lambda c: f"echo {_nested(c)} | tee build/w.sh >/dev/null && bash build/w.sh",
    "script encoded": lambda c: f"base64 -d > build/w.sh <<< {_encoded(c)}; bash build/w.sh",
    "script appended": lambda c: f": > build/w.sh; echo {_nested(c)} >> build/w.sh; bash < build/w.sh",
    "script moved": lambda c: _written(c, "mv build/w.sh build/v.txt; bash build/v.txt"),
    "script copied": lambda c: _written(c, "cp build/w.sh /tmp/v; bash /tmp/v"),
    "script linked": lambda c: _written(c, "ln -s w.sh build/v; bash build/v"),
    "timeout": lambda c: f"timeout 5 bash -c {_nested(c)}",
    "nohup": lambda c: f"nohup bash -c {_nested(c)}",
    "nice": lambda c: f"nice -n 5 bash -c {_nested(c)}",
    "setsid": lambda c: f"setsid -w bash -c {_nested(c)}",
    "stdbuf": lambda c: f"stdbuf -o0 bash -c {_nested(c)}",
    "command": lambda c: f"command bash -c {_nested(c)}",
    "exec": lambda c: f"exec bash -c {_nested(c)}",
    "exec -a": lambda c: f"(exec -a x bash -c {_nested(c)})",
    "time": lambda c: f"time bash -c {_nested(c)}",
    "flock": lambda c: f"flock build/lock -c {_nested(c)}" if "\n" not in c else f"flock build/lock bash -c {_nested(c)}",
    "flock bash": lambda c: f"flock build/lock bash -c {_nested(c)}",
    "script program": lambda c: f"SHELL=/bin/bash script -qc {_nested(c)} /dev/null",
    "xargs -I": lambda c: f"echo x | xargs -I@ bash -c {_nested(c)}",
    "xargs": lambda c: f"printf '%s\\0' {_nested(c)} | xargs -0 bash -c",
    "find -exec": lambda c: f"find . -maxdepth 0 -exec bash -c {_nested(c)} \\;",
    "find -exec +": lambda c: f"find Makefile -exec bash -c {_nested(c)} {{}} +",
    "awk": lambda c: f"awk 'BEGIN{{system(ARGV[1])}}' {_nested('bash -c ' + _nested(c))}",
    "perl": lambda c: f"perl -e 'system(\"bash\", \"-c\", $ARGV[0])' {_nested(c)}",
    "perl backticks": _by_perl_exec,
    "python system": _by_python_system,
    "python subprocess": _by_python_shell,
    "python list": _by_python_list,
    "python document": _by_python_document,
    "python encoded": lambda c: f"python3 -c \"import os,base64; os.execvp('bash', ['bash', '-c', base64.b64decode('{_encoded(c)}').decode()])\"",
    "python script": _by_python_script,
    "node": _by_node,
    "make": _by_make,
    "make --eval": _by_make_eval,
    "git alias": lambda c: f"git -c alias.go={_nested('!bash -c ' + _nested(c))} go" if "\n" not in c and '"' not in c and "\\" not in c else c,
    "git alias set": lambda c: f"GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.go GIT_CONFIG_VALUE_0={_nested('!bash -c ' + _nested(c))} git go",
    "git rebase --exec": lambda c: f"git -c core.pager=cat rebase -q --exec {_nested('bash -c ' + _nested(c))} HEAD~1" if "\n" not in c else c,
    "git editor": lambda c: f"GIT_EDITOR={_nested('bash -c ' + _nested(c) + ' #')} git config -e",
    "sed e": lambda c: f"sed -n {_nested('1e bash -c ' + _nested(c))} Makefile" if "\n" not in c else c,
    "vim": _by_vim,
    "ed": lambda c: f"printf '!bash -c %s\\nq\\n' {_nested(_nested(c))} | ed -s" if "\n" not in c else c,
    "sqlite": _by_sqlite,
    "tar checkpoint": lambda c: _written(c, "tar cf /dev/null Makefile --checkpoint=1 --checkpoint-action=exec='bash build/w.sh'"),
    "alias": lambda c: f"shopt -s expand_aliases\nalias go={_nested(c)}\ngo" if "\n" not in c else c,
    "BASH_ENV": lambda c: _written(c, "BASH_ENV=build/w.sh bash -c :"),
    "PROMPT_COMMAND": lambda c: f"PROMPT_COMMAND={_nested(c)} bash --norc -i <<< exit",
    "debug trap": lambda c: f"trap {_nested(c)} DEBUG; true; trap - DEBUG",
    "error trap": lambda c: f"trap {_nested(c)} ERR; false; true",
    "dash": lambda c: f"dash -c {_nested('bash -c ' + _nested(c))}",
    "nested shells": lambda c: f"bash -c 'bash -c \"$0\"' {_nested(c)}",
    "argument of bash": lambda c: f"bash -c '\"$@\"' x bash -c {_nested(c)}",
    "exported variable": lambda c: f"C={_nested(c)} bash -c 'eval \"$C\"'",
    "exported function": lambda c: f"f() {{ {c}\n}}; export -f f; bash -c f",
    "array of words": lambda c: f"A=(bash -c {_nested(c)}); \"${{A[@]}}\"",
    "positional words": lambda c: f"set -- bash -c {_nested(c)}; \"$@\"",
    "variable program": lambda c: f"B=bash; $B -c {_nested(c)}",
    "spelled bash": lambda c: f"b''as\\h -c {_nested(c)}",
    "which bash": lambda c: f"$(which bash) -c {_nested(c)}",
    "mapfile callback": lambda c: f"mapfile -C {_nested('eval ' + _nested(c) + ' #')} -c 1 X <<< x",
    "setpriv": lambda c: f"setpriv --no-new-privs bash -c {_nested(c)}",
    "ionice": lambda c: f"ionice -c 3 bash -c {_nested(c)}",
    "taskset": lambda c: f"taskset -c 0 bash -c {_nested(c)}",
    "emptied environment": lambda c: f"env -i PATH=\"$PATH\" HOME=\"$HOME\" bash -c {_nested(c)}",
    "substituted document": lambda c: f"bash -c \"$(cat <<'EOF_OF_WAY'\n{c}\nEOF_OF_WAY\n)\"",
    "find -execdir": lambda c: f"find Makefile -execdir bash -c {_nested(c)} \\;",
    "encoded words": lambda c: f"echo {_encoded(c)} | xargs -I@ sh -c 'echo @ | base64 -d | bash'",
    "watch": lambda c: f"timeout 1 watch -n 9 -x bash -c {_nested(c)}",
    "openssl": lambda c: f"openssl base64 -d -A <<< {_encoded(c)} | bash",
    "gzip": lambda c: f"printf '%s\\n' {_nested(c)} | gzip | gunzip | bash",
    "tr": lambda c: f"tr a-zA-Z n-za-mN-ZA-M <<'EOF_OF_WAY' | bash\n{codecs.encode(c, 'rot13')}\nEOF_OF_WAY",
    "paste": lambda c: f"paste -sd ' ' <<'EOF_OF_WAY' | bash\n{c}\nEOF_OF_WAY" if "\n" not in c else c,
    "descriptor": lambda c: f"exec 7<<'EOF_OF_WAY'\n{c}\nEOF_OF_WAY\nbash <&7",
    "descriptor path": lambda c: f"bash /dev/fd/7 7<<'EOF_OF_WAY'\n{c}\nEOF_OF_WAY",
    "standard input": lambda c: f"bash /dev/stdin <<'EOF_OF_WAY'\n{c}\nEOF_OF_WAY",
}  # fmt: skip
