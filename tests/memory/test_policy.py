"""What a team's configuration says of memory."""

from typing import Any

import pytest

from controlplane.core.redaction import PERSONAL_KINDS, Personal
from controlplane.memory.policy import personal_kinds


@pytest.mark.parametrize(
    ("document", "kinds"),
    [
        ({}, set(PERSONAL_KINDS)),
        ({"memory": None}, set(PERSONAL_KINDS)),
        ({"memory": {"redact_personal": None}}, set(PERSONAL_KINDS)),
        ({"memory": {"redact_personal": "email"}}, set(PERSONAL_KINDS)),
        ({"memory": {"redact_personal": ["email", "shoe size"]}}, set(PERSONAL_KINDS)),
        ({"memory": {"redact_personal": [["email"]]}}, set(PERSONAL_KINDS)),
        ({"memory": {"redact_personal": []}}, set()),
        ({"memory": {"redact_personal": ["email", "payment-card"]}}, {Personal.EMAIL, Personal.CARD}),
    ],
)
def test_personal_kinds__configuration__kinds_or_all_of_them(document: dict[str, Any], kinds: set[Personal]) -> None:
    assert personal_kinds(document) == kinds
