"""Identifiers of rows."""

import os
import time
import uuid


def new_id() -> uuid.UUID:
    """Return a UUID version 7: 48 bits of Unix milliseconds, then 74 random bits.

    Time order keeps the indexes of append-heavy tables dense. Source: RFC 9562, section 5.7.
    """
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & (1 << 48) - 1) << 80 | random
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)
