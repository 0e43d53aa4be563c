"""The sample kind, registered for one test."""

from collections.abc import Iterator

import pytest

from controlplane.reviews import kinds
from tests.reviews.support import SampleKind


@pytest.fixture
def kind() -> Iterator[SampleKind]:
    sample = SampleKind()
    kinds.register_kind(sample)
    yield sample
    kinds._kinds.pop(sample.name)
