from pathlib import Path

from controlplane.core.redaction import redact_json
from controlplane.runtimes import samples
from controlplane.runtimes.report import Category, ReportStatus
from controlplane.runtimes.samples import load_sample
from controlplane.runtimes.sources import snapshot_validate
from tests.support.evidence import run_turn


def test_sample__folder__is_small_complete_and_free_of_secrets() -> None:
    sample = load_sample()
    folder = Path(samples.__file__).parent / "checkout_storage"
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 100_000
    assert sample.snapshot["unreadable"] == {}
    assert snapshot_validate(sample.snapshot) == sample.snapshot
    assert redact_json(dict(sample.snapshot)) == sample.snapshot


async def test_sample__investigated__finds_the_cause_and_sees_through_the_red_herring() -> None:
    sample = load_sample()
    ran = await run_turn(sample.snapshot, prompt=sample.prompt, alert=sample.alert)
    report = ran.report
    assert report.title == "checkout-db runs out of storage"
    assert report.status is ReportStatus.ONGOING
    assert report.root_cause is not None
    assert report.root_cause.category is Category.RESOURCE_EXHAUSTION
    assert "replication slot" in report.summary
    assert "orders-feed" in ran.text(), "the log that names the stopped consumer is cited"
    assert "causally independent" in ran.text(), "the CPU is not blamed"
    assert len(report.timeline) >= 5
    assert "aws_cloudtrail_changes" in {item.what for item in report.not_checked}
    assert len(ran.result.text) < 8_000
