"""Bytes, seconds and shares, as people read them."""

_BYTES = ("KB", "MB", "GB", "TB", "PB")


def bytes_text(size: float) -> str:
    """`512 bytes`, `3.4 MB`, `120 GB`: decimal units, as disks and downloads are sold."""
    if abs(size) < 1000:
        return f"{round(size):,} {'byte' if abs(round(size)) == 1 else 'bytes'}"
    power = 0
    while power < len(_BYTES) and (power == 0 or abs(size) >= 999.5):
        size /= 1000
        power += 1
    unit = _BYTES[power - 1]
    return f"{size:,.0f} {unit}" if abs(size) >= 99.95 else f"{size:.1f} {unit}"


def duration_text(seconds: float) -> str:
    """`under a second`, `42 s`, `3 min 20 s`, `5 h 10 min`, `2 days 3 h`."""
    if seconds < 1:
        return "under a second"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole // 60, "min", whole % 60, "s")
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = round(seconds / 3600)
    days = hours // 24
    return _two(days, "day" if days == 1 else "days", hours % 24, "h")


def share_text(share: float) -> str:
    """`12.5%`; what is neither none nor all is never shown as 0% or 100%."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "<0.1%"
    if 99.9 < percent < 100:
        return ">99.9%"
    return f"{percent:.1f}%" if percent not in {0, 100} else f"{percent:.0f}%"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit}" + (f" {small} {small_unit}" if small else "")
