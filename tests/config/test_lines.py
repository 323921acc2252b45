"""The line of each key, in every shape TOML allows."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from textwrap import dedent

import pytest
from hypothesis import given

from ags.config.lines import MAX_DEPTH, KeyPath, excess, line_numbers, line_of
from tests.config.documents import documents, toml_like

DOCUMENT = dedent(
    '''\
    # [not.a.table]
    top = 1 # = [

    [plain]
    a = "x # y = 1"
    "quoted key" = 'C:\\'
    "tab\\tkey" = 2
    dotted.deep . er = 3
    text = """
    [fake]
    fake = 1 \\""" ""\\
    """""
    raw = \'\'\'
    fake = """ \'\'\'\'
    list = [ # [
      1.5, "]",
      # 2,
      [ 3,
        4 ], { x = 1979-05-27 07:32:00.5, y.z = [
          5 ] },
    ]
    inline = { p = { q = "}" }, r = [] }
    [[many]]
    a = 1
    [many.sub]
    b = 2
      [[many.inner]]
      c = 3
      [[ many . "inner" ]]
      c = 4
    [[many]]
    [[many.inner]]
    d.e = 5'''
)
EXPECTED: dict[KeyPath, int] = {
    ("top",): 2,
    ("plain",): 4,
    ("plain", "a"): 5,
    ("plain", "quoted key"): 6,
    ("plain", "tab\tkey"): 7,
    ("plain", "dotted"): 8,
    ("plain", "dotted", "deep"): 8,
    ("plain", "dotted", "deep", "er"): 8,
    ("plain", "text"): 9,
    ("plain", "raw"): 13,
    ("plain", "list"): 15,
    ("plain", "list", 0): 16,
    ("plain", "list", 1): 16,
    ("plain", "list", 2): 18,
    ("plain", "list", 2, 0): 18,
    ("plain", "list", 2, 1): 19,
    ("plain", "list", 3): 19,
    ("plain", "list", 3, "x"): 19,
    ("plain", "list", 3, "y"): 19,
    ("plain", "list", 3, "y", "z"): 19,
    ("plain", "list", 3, "y", "z", 0): 20,
    ("plain", "inline"): 22,
    ("plain", "inline", "p"): 22,
    ("plain", "inline", "p", "q"): 22,
    ("plain", "inline", "r"): 22,
    ("many",): 23,
    ("many", 0): 23,
    ("many", 0, "a"): 24,
    ("many", 0, "sub"): 25,
    ("many", 0, "sub", "b"): 26,
    ("many", 0, "inner"): 27,
    ("many", 0, "inner", 0): 27,
    ("many", 0, "inner", 0, "c"): 28,
    ("many", 0, "inner", 1): 29,
    ("many", 0, "inner", 1, "c"): 30,
    ("many", 1): 31,
    ("many", 1, "inner"): 32,
    ("many", 1, "inner", 0): 32,
    ("many", 1, "inner", 0, "d"): 33,
    ("many", 1, "inner", 0, "d", "e"): 33,
}


def keys(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every path in what tomllib found."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from keys(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from keys(item, (*path, index))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_key_has_its_line(newline: str) -> None:
    text = DOCUMENT.replace("\n", newline)
    assert line_numbers(text) == EXPECTED
    assert set(keys(tomllib.loads(text))) == set(EXPECTED)


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_a_long_string_may_end_in_quotes_of_its_own(quotes: str) -> None:
    for own in (1, 2):
        text = f"a = [{quotes}x{quotes}{quotes[0] * own}, 1]\nb = 2"
        assert line_numbers(text) == {("a",): 1, ("a", 0): 1, ("a", 1): 1, ("b",): 2}


def test_a_key_that_is_not_there_has_the_line_of_what_is_around_it() -> None:
    assert line_of(DOCUMENT, ("many", 1, "inner", 0, "missing")) == 32
    assert line_of(DOCUMENT, ("many", 1, "missing")) == 31
    assert line_of(DOCUMENT, ("missing",)) is None


@given(documents())
def test_the_keys_found_are_those_that_tomllib_finds(text: str) -> None:
    assert set(line_numbers(text)) == set(keys(tomllib.loads(text)))


@given(documents())
def test_a_key_that_is_put_behind_a_document_is_found_on_its_line(text: str) -> None:
    lines = line_numbers(f"{text}\n[zz]\nnew = 1\n")
    assert lines[("zz", "new")] == text.count("\n") + 3


@given(toml_like())
def test_in_any_valid_text_the_keys_found_are_those_that_tomllib_finds(text: str) -> None:
    if excess(text):
        return
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(line_numbers(text)) == set(keys(document))


@pytest.mark.parametrize(
    "line",
    [
        "a = " + "[" * (MAX_DEPTH + 1),
        "a = " + "{a=" * (MAX_DEPTH + 1),
        ".".join("a" * (MAX_DEPTH + 2)) + " = 1",
        "[" + " . ".join("a" * (MAX_DEPTH + 2)) + "]",
        "a = " + "9" * 5000,
    ],
)
def test_what_would_choke_the_parser_is_found_on_its_line(line: str) -> None:
    found = excess(f'# {"[" * 99}\nb = "{"." * 99}"\n{line}\n')
    assert found is not None
    assert found[0] == 3


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * MAX_DEPTH + "]" * MAX_DEPTH,
        ".".join("a" * (MAX_DEPTH + 1)) + " = 1",
        "a = [" + "1.5, " * 99 + "]",
        "a = 1.5\n" * 99,
        'a = "' + "[" * 99 + "9" * 5000 + '"',
        "a = '''" + "\n[.{" * 99 + "'''",
        "[[a]]\n" * 99,
    ],
)
def test_what_is_long_but_not_deep_is_left_alone(text: str) -> None:
    assert excess(text) is None


@pytest.mark.parametrize("unit", ['"""', '"""\\', "'''", '"', "'", '"\\', "a.", "[", "{a=", "\\"])
def test_a_mebibyte_of_anything_is_judged_in_a_blink(unit: str) -> None:
    text = unit * ((1 << 20) // len(unit))
    start = time.process_time()
    excess(text)
    assert time.process_time() - start < 5


def test_the_scanner_comes_to_an_end_on_what_is_not_toml() -> None:
    for text in ("[", "[[", "a", "a =", "a = [", "a = {", "= 1", "]", "}", "a = }", "a = [}", "."):
        assert isinstance(line_numbers(text), dict)
