import pytest
from dagster._utils.schedules import is_valid_cron_schedule

from diffprep_assets.recipe.cron import MACROS, check_cron

GOOD = [
    "0 3 * * *",
    "*/5 * * * *",
    "0 0 * * mon",
    "0 0 * * MON-FRI",
    "0 0 * jan *",
    "0 0 * * 7",
    "0 0 1-5/2 * *",
    "5/10 * * * *",
    "0 0 5-1 * *",
    "0 0 * * fri-mon",
    "0 0 ? * *",
    "0 0 * * 1#2",
    "0 0 L * *",
    "1,2,3 * * * *",
    "*/90 * * * *",
    "0  3 * * *",
    "0 0 29 2 *",
    "0 0 31 2,4,5 *",
    *MACROS,
]
BAD = [
    "",
    "daily",
    "@reboot",
    "0 3 * *",
    "0 3 * * * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * 32 * *",
    "* * * 0 *",
    "* * * 13 *",
    "* * * * 8",
    "*/0 * * * *",
    "a * * * *",
    ",1 * * * *",
    "1, * * * *",
    "*-5 * * * *",
    "-1 * * * *",
    "0 0 31 2 *",
    "0 0 30 2 1",
]


@pytest.mark.parametrize("line", GOOD)
def test_a_good_line_is_good_for_dagster_too(line: str):
    assert check_cron(line) == line
    assert is_valid_cron_schedule(line)


@pytest.mark.parametrize("line", BAD)
def test_a_line_that_dagster_refuses_is_refused(line: str):
    assert not is_valid_cron_schedule(line)
    with pytest.raises(ValueError, match="must be a cron line"):
        check_cron(line)


def test_the_message_names_the_field():
    with pytest.raises(ValueError, match=r"field 2, the hour, takes 0 to 23.*not '25'"):
        check_cron("0 25 * * *")


def test_a_recipe_with_a_wrong_schedule_is_refused_with_its_line(refuse):
    text = (
        "source: {type: directory, input_dir: x}\noutput: {output_dir: o}\nschedule: 0 25 * * *\n"
    )
    assert refuse(text).startswith('line 3: schedule must be a cron line, got "0 25 * * *"; its')
