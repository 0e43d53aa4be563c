"""``manage.py bench NAME``: measure, as ratios of things measured in the same run."""

import importlib
import json
import pkgutil
from argparse import ArgumentParser
from types import ModuleType
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

PACKAGE = "tests.bench"


class Command(BaseCommand):
    help = "Run a benchmark of the checkout (they live in tests/bench and need requirements-dev.txt)."

    @override
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="which one; 'list' names them")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")

    @override
    def handle(self, *args: Any, name: str, **options: Any) -> None:
        benchmarks = _benchmarks()
        if name == "list":
            self.stdout.write("\n".join(sorted(benchmarks)))
            return
        if name not in benchmarks:
            raise CommandError(f"There is no benchmark {name!r}; there are: {', '.join(sorted(benchmarks))}.")
        result = benchmarks[name].run(self.stderr.write)
        self.stdout.write(json.dumps(result) if options["json"] else benchmarks[name].table(result))


def _benchmarks() -> dict[str, ModuleType]:
    """Return the modules of the package that can ``run``, by name."""
    try:
        package = importlib.import_module(PACKAGE)
    except ModuleNotFoundError:
        raise CommandError("Benchmarks come with the source checkout; this installation has none.") from None
    modules = {
        info.name: importlib.import_module(f"{PACKAGE}.{info.name}") for info in pkgutil.iter_modules(package.__path__)
    }
    return {name: module for name, module in modules.items() if hasattr(module, "run")}
