"""Reading alarms of Amazon CloudWatch, inside the envelope of Amazon SNS or as they are.

Sources: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/AlarmThatSendsEmail.html and
.../cloudwatch-and-eventbridge.html (``detail-type`` "CloudWatch Alarm State Change"); for the envelope
https://docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from controlplane.alerts.normalised import (
    FIRING,
    RESOLVED,
    Reading,
    Signal,
    first,
    no_alert,
    require_object,
    severity_of,
    tags,
    texts,
    time_of,
    word,
)
from controlplane.alerts.parsers import paired
from controlplane.alerts.vendors import tolerant
from controlplane.core.errors import AppError
from controlplane.core.strict_json import parse_json
from controlplane.runtimes.loose_json import mapping, moment, objects

_MAX_MESSAGE: Final = 1024 * 1024
#: Dimensions that say what an alarm is about. Source: the CloudWatch metrics that AWS services publish.
_SERVICES: Final = ("ServiceName", "Service", "FunctionName", "DBInstanceIdentifier", "DBClusterIdentifier",
                    "QueueName", "TopicName", "TableName", "ApiName", "LoadBalancer", "CacheClusterId", "StreamName",
                    "StateMachineArn", "BucketName", "TargetGroup")  # fmt: skip
_HOSTS: Final = ("InstanceId", "Host", "host", "NodeName", "BrokerId")
_WORKLOADS: Final = ("PodName", "ClusterName", "AutoScalingGroupName", "TaskDefinitionFamily", "ContainerName")


def message_of(envelope: Mapping[str, Any]) -> Any:
    """Return the message in an envelope of SNS: its JSON value, or its text where it is none."""
    raw = envelope.get("Message")
    if not isinstance(raw, str):
        return raw
    try:
        return parse_json(paired(raw.encode("utf-8", "replace")), max_bytes=_MAX_MESSAGE)
    except AppError:
        return raw


def is_envelope(body: Any) -> bool:
    """Return whether a body is an envelope of SNS."""
    return isinstance(body, dict) and isinstance(body.get("Type"), str) and isinstance(body.get("TopicArn"), str)


def read(body: Any) -> Reading:
    """Return the alarm.

    Raises:
        MalformedRequest, InvalidInput: there is no alarm in it.
    """
    body = require_object(body)
    if not is_envelope(body):
        return _alarm(body)
    if body["Type"] != "Notification":
        return Reading(ignored=f"{word(body['Type'])[:40]} is about the subscription itself")
    message = message_of(body)
    plain = not isinstance(message, dict)
    reading = Reading([_plain(body, word(message))], original=body) if plain else _alarm(message)
    return replace(reading, delivery_id=word(body.get("MessageId")), occurred_at=moment(body.get("Timestamp")))


def _plain(body: Mapping[str, Any], message: str) -> Signal:
    """Return a message that is a text: whoever published it to the topic meant it as an alert."""
    title = first(body.get("Subject"), message, "SNS message")[:200]
    topic = word(body.get("TopicArn"))
    return Signal(
        name=title,
        labels={"topic": topic.rpartition(":")[2]},
        annotations={"summary": title, "description": message},
        starts_at=time_of(body.get("Timestamp")),
        fingerprint=title,
        group=f"{topic} {title}",
    )


def _alarm(message: Mapping[str, Any]) -> Reading:
    detail = mapping(message.get("detail"))
    if "AlarmName" in message:
        return _reading(_classic(message), message)
    if detail and first(detail.get("alarmName")):
        return _reading(_event(message, detail), message)
    reading = tolerant.try_read(message)
    if reading is None:
        raise no_alert("CloudWatch", ("/AlarmName", "the name of an alarm"))
    return reading


def _reading(signal: Signal, message: Mapping[str, Any]) -> Reading:
    service = first(signal.labels.get("service"), signal.about.get("service"))
    return Reading([signal], identifiers={"service": service} if service else {}, original=message)


def _status(state: str) -> str:
    """ALARM fires, OK is over; with INSUFFICIENT_DATA nothing is known, so that nobody is told it is over."""
    return RESOLVED if state.upper() == "OK" else FIRING


def _classic(message: Mapping[str, Any]) -> Signal:
    trigger = mapping(message.get("Trigger"))
    dimensions = {
        first(one.get("name"), one.get("Name")): first(one.get("value"), one.get("Value"))
        for one in objects(trigger.get("Dimensions"))
    }
    if not dimensions:
        for metric in objects(trigger.get("Metrics")):
            inner = mapping(mapping(metric.get("MetricStat")).get("Metric"))
            for one in objects(inner.get("Dimensions")):
                dimensions.setdefault(
                    first(one.get("name"), one.get("Name")), first(one.get("value"), one.get("Value"))
                )
    arn = word(message.get("AlarmArn"))
    return _signal(
        name=word(message.get("AlarmName")),
        state=word(message.get("NewStateValue")),
        reason=word(message.get("NewStateReason")),
        said=word(message.get("AlarmDescription")),
        at=time_of(message.get("StateChangeTime"), message.get("AlarmConfigurationUpdatedTimestamp")),
        account=word(message.get("AWSAccountId")),
        region=first(arn.split(":")[3] if arn.count(":") > 4 else "", message.get("Region")),
        arn=arn,
        dimensions={name: value for name, value in dimensions.items() if name and value},
        metric={
            "namespace": word(trigger.get("Namespace")),
            "metric": word(trigger.get("MetricName")),
            "statistic": first(trigger.get("Statistic"), trigger.get("ExtendedStatistic")),
            "threshold": word(trigger.get("Threshold")),
            "comparison": word(trigger.get("ComparisonOperator")),
        },
    )


def _event(message: Mapping[str, Any], detail: Mapping[str, Any]) -> Signal:
    state = mapping(detail.get("state"))
    metrics = list(objects(mapping(detail.get("configuration")).get("metrics")))
    metric = mapping(mapping(mapping(metrics[0].get("metricStat")).get("metric"))) if metrics else {}
    resources = message.get("resources")
    arn = word(resources[0]) if isinstance(resources, list) and resources else ""
    return _signal(
        name=word(detail.get("alarmName")),
        state=word(state.get("value")),
        reason=word(state.get("reason")),
        said=word(mapping(detail.get("configuration")).get("description")),
        at=time_of(state.get("timestamp"), message.get("time")),
        account=word(message.get("account")),
        region=word(message.get("region")),
        arn=arn,
        dimensions=texts(metric.get("dimensions")),
        metric={"namespace": word(metric.get("namespace")), "metric": word(metric.get("name"))},
    )


def _signal(
    *, name: str, state: str, reason: str, said: str, at: str, account: str, region: str, arn: str,
    dimensions: Mapping[str, str], metric: Mapping[str, str],
) -> Signal:  # fmt: skip
    status = _status(state)
    written = tags(said) if ":" in said and len(said) < 500 else {}
    return Signal(
        name=name or "CloudWatch alarm",
        status=status,
        severity=severity_of(written.get("severity")),
        labels={
            "namespace": metric.get("namespace", ""),
            "metric": metric.get("metric", ""),
            "state": state,
            "account": account,
            "region": region,
            **dimensions,
        },
        annotations={"summary": said or reason, "description": reason, "alarm_arn": arn,
                     "statistic": metric.get("statistic", ""), "threshold": metric.get("threshold", ""),
                     "comparison": metric.get("comparison", "")},
        starts_at=at if status == FIRING else "",
        ends_at=at if status == RESOLVED else "",
        fingerprint=arn or f"{account} {region} {name}",
        group=arn or f"{account} {region} {name}",
        about={
            "service": next((dimensions[key] for key in _SERVICES if dimensions.get(key)), ""),
            "host": next((dimensions[key] for key in _HOSTS if dimensions.get(key)), ""),
            "workload": next((dimensions[key] for key in _WORKLOADS if dimensions.get(key)), ""),
        },
    )  # fmt: skip
