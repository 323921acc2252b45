"""Made-up TOML for the property tests: valid documents, and texts that only look like it."""

from __future__ import annotations

import json

from hypothesis import strategies as st

_words = st.sampled_from(["a", "b", "c-d", "e_f", "0", "10", "mount"])
_odd = st.sampled_from(["", " ", "a.b", "[x]", "#", "=", "é", "tab\t", 'quo"te', "back\\slash"])
_comments = st.sampled_from(["", "", " # [c] = {", "\t#"])
_breaks = st.sampled_from(["", " ", "\n", " # ], }\n", "\n\n  "])


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _keys() -> st.SearchStrategy[str]:
    literal = st.sampled_from(["'a'", "'c-d'", "'x = [\"'", "''"])
    return st.one_of(_words, _odd.map(quoted), _words.map(quoted), literal)


def _scalars() -> st.SearchStrategy[str]:
    fixed = (
        "1", "-2.5e+3", "true", "inf", "1979-05-27 07:32:00.5", "07:32:00", "0xff", "''", '""',
        "'it is # = [ {'", '"""x""""', "'''x''''",
        '"""\n[x]\na = 1 # \\""" "" \\\n  """""', "'''\n]}, ' '' \"\"\"'''''",
    )  # fmt: skip
    plain = st.text(st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc")), max_size=8)
    return st.one_of(st.sampled_from(fixed), plain.map(quoted))


def values() -> st.SearchStrategy[str]:
    return st.recursive(_scalars(), lambda inner: _arrays(inner) | _inline(inner), max_leaves=6)


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = [f"{draw(_breaks)}{item}{draw(_breaks)}" for item in draw(st.lists(inner, max_size=3))]
    last = draw(st.sampled_from(["", ","])) if items else ""
    return f"[{','.join(items)}{last}{draw(_breaks)}]"


@st.composite
def _inline(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    # Each key in a family of its own, so that none is said twice.
    found = enumerate(draw(st.lists(inner, max_size=3)))
    pairs = [f"k{index}{_tail(draw)} = {item}" for index, item in found]
    return "{ " + ", ".join(pairs) + " }"


def _tail(draw: st.DrawFn) -> str:
    return draw(st.one_of(st.just(""), _keys().map(lambda key: f" . {key}")))


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A valid document. Names carry a number, so that none is said twice by accident."""
    lines = _pairs(draw)
    for number in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["table", "tables", "nested"]))
        name = f"t{number}{_tail(draw)}"
        if kind == "table":
            lines += [f"[ {name}]{draw(_comments)}", *_pairs(draw)]
        else:
            for _ in range(draw(st.integers(1, 3))):
                lines += [f"[[{name} ]]{draw(_comments)}", *_pairs(draw)]
                if kind == "nested":
                    lines += [f"  [[{name}.inner]]", *_pairs(draw), f"[[{name} . inner]]"]
                    lines += [f"[{name}.other]", *_pairs(draw)]
    return "\n".join(lines)


def _pairs(draw: st.DrawFn) -> list[str]:
    lines = []
    for number in range(draw(st.integers(0, 2))):
        lines.append(f"  k{number}{_tail(draw)} = {draw(values())}{draw(_comments)}")
        lines += draw(st.sampled_from(["", "\n", "# [x]\n"])).splitlines()
    return lines


def toml_like() -> st.SearchStrategy[str]:
    """Pieces of settings in any order: most are not TOML, some are, a few are even settings."""
    pieces = (
        "[", "]", "[[", "]]", "{", "}", "=", " = ", ".", ",", "\n", "\n", "\r\n", "#", " ", '"',
        '"""', "'", "'''", "\\", "\\u0000", "\x00", "\x1b", "\ufeff", "é", "1", "-1", "1.5", "nan",
        "true", "1979-05-27", "99999999999999999999", "sandbox", "limits", "mount", "tool",
        "workspace", "directory", "[sandbox]\n", "[limits]\n", "[[mount]]\n", "[[tool]]\n",
        "[[tool.directory]]\n", "[workspace]\n", 'host = "/x"\n', 'name = "x"\n', "env", "path",
        "pids", "cpus", "memory", "ptrace", "protect", '"8G"', '"none"', '"x"', "[]", "{}",
    )  # fmt: skip
    return st.lists(st.sampled_from(pieces) | st.text(max_size=3), max_size=25).map("".join)
