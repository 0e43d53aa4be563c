"""Figures as a person reads them: the same wherever a metric is shown."""

from datetime import datetime

_BINARY = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def figure(value: float, unit: str = "") -> str:
    """Return a measured value with its unit: ``1.9 GiB``, ``94.1 %``, ``4,998``, ``1,140 s``."""
    name = unit.strip().lower()
    if name.startswith("bytes"):
        rate = "/s" if name.endswith(("/second", "/s")) else ""
        for size, symbol in _BINARY:
            if abs(value) >= size:
                return f"{plain(value / size)} {symbol}{rate}"
        return f"{plain(value)} B{rate}"
    known = {
        "percent": " %",
        "seconds": " s",
        "milliseconds": " ms",
        "microseconds": " µs",
        "count/second": "/s",
        "count": "",
        "none": "",
        "average active sessions": " sessions",
    }
    return plain(value) + known.get(name, f" {unit.strip()}" if unit.strip() else "")


def plain(value: float) -> str:
    """Return a number with three significant digits below a thousand and thousands separated above."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def clock(moment: datetime) -> str:
    """Return the time of day in UTC, to the second when there are seconds."""
    return f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"


def clock_dated(moment: datetime) -> str:
    """Return date and time of day in UTC."""
    return f"{moment:%Y-%m-%d} {clock(moment)}"
