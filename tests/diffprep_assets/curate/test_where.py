"""The condition's grammar: what is understood, and that nothing else is."""

import subprocess
import sys

import pytest

from diffprep_assets.curate.where import (
    MAX_LENGTH,
    WhereError,
    check_where,
    locked_connection,
    parsed_where,
)

ATTACKS = {
    "score > (select 1)": "subquery",
    "exists (select 1)": "subquery",
    "score in (select 1)": "subquery",
    "score = any([1, 2])": "subquery",
    "score > 1) from read_csv('/etc/passwd') where (true": "cannot be read",
    "score > 1) union select (true": "one condition",
    "score > 1) as other, (true": "one condition",
    "score > 1) -- (": "one condition",
    "score > 1 -- and more": "cannot be read",
    "score > 1; drop table rows": "cannot be read at character 10, `;`",
    "read_csv('/etc/passwd') = score": "the function read_csv",
    "read_text(score) = ''": "the function read_text",
    "random() < score": "the function random",
    "getenv('HOME') = score": "the function getenv",
    "getvariable('x') = score": "the function getvariable",
    "query('select 1') = score": "the function query",
    "repeat(score, 1000000) = ''": "the function repeat",
    "pragma database_list": "cannot be read",
    "set threads = 8": "cannot be read",
    "list_filter([1], x -> x > score) = 1": "the function list_filter",
    "list_transform([1], lambda x: x) = score": "the function list_transform",
    "score -> score > 1": "lambda",
    "row_number() over () < score": "window",
    "count(*) > score": "the function count_star",
    "score::decimal(3, 2) > 1": "a cast to DECIMAL",
    "score::int[] = 1": "a cast to list",
    "score::varchar(3) = 'x'": "a cast to",
    "score::my.type = 1": "a cast to",
    "date '2020-01-01' < score": "a cast to date",
    "interval 1 day > score": "the function to_days",
    "score = ?": "parameter",
    "score = $name": "parameter",
    "score = #1": "positional reference",
    "columns('.*') > 1": "star",
    "score.* > 1": "star",
    "x'00' = score": "a literal of another kind",
    "main.lower(score) = 'x'": "the function lower",
    "lower(distinct score) = 'x'": "the function lower",
    "lower(score order by score) = 'x'": "the function lower",
    "lower(score) filter (where score) = 'x'": "the function lower",
    "lower(string := score) = 'x'": "the function lower",
    "case when score then true end": "case",
    "score['x'] = 1": "array extract",
    "{'a': score} = 1": "the function",
    "score collate nocase = 'x'": "collate",
    "(score, 1) = (1, 2)": "the function row",
    "try(score) = 1": "operator try",
    "default": "default",
    "'a\0' = score": "a literal of another kind",
}


@pytest.mark.parametrize("text", ATTACKS)
def test_what_is_no_plain_condition_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(WhereError, match=r"character|one condition|cannot be read") as refused:
        check_where(text)
    assert ATTACKS[text] in str(refused.value)


WRITTEN = {
    "score >= 5 and nsfw < 0.2": "((c0 >= (5)) and (c1 < (0.2)))",
    "not (a or b) and a is not null": "((not (c0 or c1)) and (c0 is not null))",
    "a between -1 and 2e3": "(c0 between (-1) and (2e3))",
    "a not in ('x', 'it''s')": "(not (c0 in ('x', 'it''s')))",
    "a like 'x%' or a not ilike '%y'": "((c0 like 'x%') or (c0 not ilike '%y'))",
    "-a + 2 * b % 3 > 1": "(((- c0) + (((2) * c1) % (3))) > (1))",
    "regexp_matches(lower(a), 'x+')": "regexp_matches(lower(c0), 'x+')",
    "coalesce(a, 0) > 1": "(coalesce(c0, (0)) > (1))",
    "try_cast(a as double) > 1": "(try_cast(c0 as double) > (1))",
    "a is true": "(cast(c0 as boolean) is not distinct from true)",
    "a is distinct from null": "(c0 is distinct from null)",
    "flag": "c0",
    " or ".join(["a"] * 300): f"({' or '.join(['c0'] * 300)})",
}


@pytest.mark.parametrize("text", WRITTEN)
def test_what_is_understood_is_written_anew_with_names_of_our_own(text: str) -> None:
    assert parsed_where(text).sql == WRITTEN[text]


def test_columns_are_told_in_order_dotted_and_quoted_ones_too() -> None:
    text = 'json.meta.score > 1 and "a name" = current_date and "A Name" > json.meta.score'
    assert check_where(text) == ("json.meta.score", "a name", "current_date", "A Name")


def test_a_condition_that_names_no_column_or_is_no_truth_is_refused() -> None:
    for text, words in {
        "true": "names no column",
        "1 < 2": "names no column",
        "score + 1": "must be true or false",
        "lower(name)": "must be true or false",
        "": "got nothing",
        "score >=": "not finished",
        "score 5": "character 7, `5`",
        "a and " * MAX_LENGTH + "a": "characters",
        "not " * 1500 + "a": "nests too deeply",
        "not " * 900 + "a": "nests too deeply",
        "a" + " + 1" * 150 + " > 0": "nests too deeply",
    }.items():
        with pytest.raises(ValueError, match=words):
            check_where(text)


def test_a_refusal_counts_characters_not_bytes() -> None:
    with pytest.raises(WhereError, match="at character 17 "):
        check_where("name = '\u00e9\u00e9' and random() > 1")


def test_the_connection_reaches_nothing_and_stays_locked() -> None:
    import duckdb

    rows = 5  # noqa: F841 (must not be found)
    with locked_connection() as connection:
        for query in (
            "select * from read_csv('/etc/passwd')",
            "select * from rows",
            "copy (select 1) to '/tmp/x'",
            "attach '/tmp/x.db'",
            "install httpfs",
            "set enable_external_access = true",
            "set lock_configuration = false",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(query)


def test_duckdb_is_imported_only_when_there_is_a_condition() -> None:
    code = (
        "import sys, diffprep_assets.curate.where_values, diffprep_assets.source_columns.wanted\n"
        "print('duckdb' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
