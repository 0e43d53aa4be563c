import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controlplane.core import metrics

NAME = re.compile(r"opensre(_[a-z]+){2,}")


@pytest.mark.django_db
def test_render__all_metrics__parse_and_keep_the_naming_rule() -> None:
    metrics.observe_request(method="GET", route="test", status=200, duration_s=0.2)
    families = {family.name: family.type for family in text_string_to_metric_families(metrics.render().decode())}
    assert families["opensre_http_request_duration_seconds"] == "histogram"
    assert families["opensre_database_busy"] == "counter"
    assert [name for name in families if not NAME.fullmatch(name)] == []


def test_observe_request__value__falls_into_its_buckets() -> None:
    def bucket(limit: str) -> float:
        labels = {"method": "GET", "route": "bucket-test", "status": "200", "le": limit}
        return metrics.registry.get_sample_value("opensre_http_request_duration_seconds_bucket", labels) or 0.0

    metrics.observe_request(method="GET", route="bucket-test", status=200, duration_s=0.2)
    assert (bucket("0.1"), bucket("0.25"), bucket("+Inf")) == (0.0, 1.0, 1.0)
