"""Command line words: greedy options, flags in any place, hex numbers in SQL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.analyze.sql import rewrite_numbers
from tracecorr.cli.parser import expand_greedy, take_flag


@pytest.mark.parametrize(
    ("words", "expanded"),
    [
        ("import --amd-log a b -o x", "import --amd-log a --amd-log b -o x"),
        ("import --amd-log a --amd-log b", "import --amd-log a --amd-log b"),
        ("import --ftrace a b --amd-log c d", "import --ftrace a --ftrace b --amd-log c --amd-log d"),
        ("import -o x --force", "import -o x --force"),
        ("serve a b", "serve a b"),
        ("", ""),
    ],
)
def test_an_option_takes_the_words_that_follow_it(words: str, expanded: str) -> None:
    assert expand_greedy(words.split()) == expanded.split()


def test_flag_is_taken_before_the_double_dash_only() -> None:
    assert take_flag(["info", "--traceback", "--", "--traceback"], "--traceback") == (
        ["info", "--", "--traceback"],
        True,
    )
    assert take_flag(["info", "--", "--traceback"], "--traceback") == (["info", "--", "--traceback"], False)


@given(st.integers(0, 2**64 - 1))
def test_hex_numbers_become_decimal(number: int) -> None:
    assert rewrite_numbers(f"SELECT * FROM queues WHERE hwq={number:#x}") == f"SELECT * FROM queues WHERE hwq={number}"


@pytest.mark.parametrize(
    "sql", ["SELECT '0x10'", 'SELECT "0x10" FROM a', "SELECT 1 -- 0x10", "SELECT a0x10", "SELECT 'it''s 0x10'"]
)
def test_quoted_hex_stays(sql: str) -> None:
    assert rewrite_numbers(sql) == sql


def test_numbers_with_a_point_become_floats() -> None:
    sql = "SELECT dur_ns / 1000.0, .5, 1., t.a, 1.5e3, 'v1.0', \"b.1\" FROM t /* 1.0 */"
    assert rewrite_numbers(sql) == sql.replace("1000.0", "1000.0e0").replace(".5, 1.,", ".5e0, 1.e0,")
