"""Whether a line is a cron schedule that Dagster accepts, checked without Dagster."""

import re

MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_ITEM = re.compile(r"(?P<first>\*|\w+)(-(?P<last>\w+))?(/(?P<step>\d{1,4}))?")
_NTH_DAY = re.compile(r"(?P<day>\w+)#[1-5]")


def check_cron(line: str) -> str:
    """The line itself. Raises ValueError saying which of the five fields is wrong."""
    if line.strip().lower() in MACROS:
        return line
    texts = line.split()
    if len(texts) != len(_FIELDS):
        raise ValueError(
            "must be a cron line of five fields (minute, hour, day of month, month, day of week) "
            f"like '0 3 * * *', or one of {', '.join(MACROS)}"
        )
    values = [_field_values(text.lower(), index) for index, text in enumerate(texts)]
    days, months = values[2], values[3]
    if not any(day <= _DAYS_IN_MONTH[month - 1] for month in months for day in days):
        raise ValueError("must be a cron line that names a date that exists")
    return line


def _field_values(text: str, index: int) -> set[int]:
    name = _FIELDS[index][0]
    if text == "?" and name in ("day of month", "day of week"):
        text = "*"
    values: set[int] = set()
    for item in text.split(","):
        values |= _item_values(item, index)
    return values


def _item_values(item: str, index: int) -> set[int]:
    name, low, high, _ = _FIELDS[index]
    if name == "day of month" and item == "l":
        return {28}
    nth = _NTH_DAY.fullmatch(item) if name == "day of week" else None
    match = _ITEM.fullmatch(nth["day"] if nth else item)
    if match is None or (match["first"] == "*" and match["last"]):
        raise _wrong(item, index)
    step = int(match["step"] or 1)
    if step == 0:
        raise _wrong(item, index)
    if match["first"] == "*":
        return set(range(low, high + 1, step))
    first = _number(match["first"], index, item)
    if match["last"]:
        last = _number(match["last"], index, item)
    else:
        last = high if match["step"] else first
    if first <= last:
        return set(range(first, last + 1, step))
    return {*range(first, high + 1), *range(low, last + 1)}


def _number(text: str, index: int, item: str) -> int:
    _, low, high, names = _FIELDS[index]
    number = names.get(text, int(text) if text.isascii() and text.isdecimal() else -1)
    if not low <= number <= high:
        raise _wrong(item, index)
    return number


def _wrong(item: str, index: int) -> ValueError:
    name, low, high, names = _FIELDS[index]
    also = f" or {next(iter(names))}..{list(names)[-1]}" if names else ""
    return ValueError(
        f"must be a cron line; its field {index + 1}, the {name}, takes {low} to {high}{also}, "
        f"ranges, lists and steps like */5, not '{item[:40]}'"
    )
