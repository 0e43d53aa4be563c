"""``manage.py evaluate``: how a runtime does on recorded incidents whose cause is known."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection
from typing_extensions import override

from controlplane.core.errors import AppError
from controlplane.runtimes.evaluation import SUITES, SuiteResult, run_suite
from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.models import Evaluation
from controlplane.runtimes.services import evaluation_record


class Command(BaseCommand):
    help = "Run every case of a suite blind, score it as the suite's data says, and keep the result."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("suite", choices=sorted(SUITES), help="which suite")
        parser.add_argument("path", type=Path, metavar="DIR", help="the folder of the suite's data")
        parser.add_argument("--runtime", default=settings.DEFAULT_RUNTIME, help="which runtime (default: %(default)s)")
        parser.add_argument("--json", action="store_true", help="the result as one JSON object")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            result = run_suite(options["suite"], options["path"], runtime=options["runtime"])
        except CaseError as error:
            raise CommandError(f"{error}.") from None
        except AppError as error:
            raise CommandError(error.detail) from None
        if options["json"]:
            self.stdout.write(json.dumps(result.as_json(), ensure_ascii=False))
        else:
            self._table(result)
        self._keep(result)

    def _table(self, result: SuiteResult) -> None:
        width = max(len(case.id) for case in result.cases)
        for case in result.cases:
            verdict = "pass" if case.passed else "FAIL"
            told = case.found if case.passed else f"{case.found}; expected {case.expected}: {'; '.join(case.reasons)}"
            self.stdout.write(f"{case.id:<{width}}  {verdict}  {case.seconds:6.2f} s  {told}")
        passed = sum(case.passed for case in result.cases)
        self.stdout.write(f"\n{result.suite}, runtime {result.runtime}: {passed} of {len(result.cases)} cases pass")
        for name, value in {"score": result.score, **result.totals}.items():
            self.stdout.write(f"  {name.replace('_', ' '):<20} {value:.2f}")
        self.stdout.write(f"  {'median seconds':<20} {result.median_seconds:.2f}")

    def _keep(self, result: SuiteResult) -> None:
        try:
            table = Evaluation._meta.db_table  # noqa: SLF001 (Django's public name for it)
            if table in connection.introspection.table_names():
                evaluation_record(result=result)
                return
            why = "the database is not set up yet (make setup)"
        except DatabaseError as error:
            why = f"the database does not take it ({type(error).__name__})"
        self.stderr.write(f"The result is not kept: {why}.")
