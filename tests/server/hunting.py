"""Requests made from the OpenAPI document, good and bad, and answers that break its word."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig
from schemathesis.core.failures import FailureGroup
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from tests.server.conftest import Server

Case: TypeAlias = schemathesis.Case[Any]
Operation: TypeAlias = schemathesis.APIOperation[Any, Any, Any, Any]
Fit: TypeAlias = Callable[[str, Case], Mapping[str, str]]
"""Makes a case harmless and its names real ones; the headers that it is sent with."""

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
]
BODIES = [checks.response_schema_conformance]
"""Not of streams: what is text in the document would be looked at event by event."""
BY_THE_GATE = {400, 401, 403, 405, 408, 413, 415, 421, 431}
"""What is refused before a route is looked for: `default`, in the document."""
ACCEPTED = [checks.negative_data_rejection]
"""Not of what the gate refused: a status such as 413 is no refusal to schemathesis."""
LONG = bool(os.environ.get("AGS_FUZZ"))
EXAMPLES = int(os.environ.get("AGS_FUZZ") or 0) or 8
MOST_EDGES = 10_000 if LONG else 36
"""Of one operation: cases at the edges of its values, evenly taken from all there are."""


@dataclass
class Hunt:
    """All that was sent and came back."""

    server: Server
    fit: Fit
    document: dict[str, Any] = field(default_factory=dict)
    """As the server has it, unless another one is given."""
    answers: dict[str, Counter[int]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        load_all_checks()
        self.document = self.document or self.server.call("GET", "/openapi.json").json()
        self._session = requests.Session()
        self._session.trust_env = False
        generation = GenerationConfig(with_security_parameters=False)
        projects = ProjectsConfig(default=ProjectConfig(generation=generation))
        config = schemathesis.Config(projects=projects)
        self._schema = schemathesis.openapi.from_dict(self.document, config=config)

    def operations(self) -> Iterator[tuple[str, Operation]]:
        for found in self._schema.get_all_operations():
            assert isinstance(found, Ok), found.err()
            operation = found.ok()
            yield operation.definition.raw["operationId"], operation

    def search(self, name: str, operation: Operation) -> None:
        self.answers[name] = Counter()
        for case in spread(list(self._edges(operation)), MOST_EDGES):
            self.send(name, case)
        for mode in schemathesis.GenerationMode:
            self._guess(name, operation, mode)

    def _edges(self, operation: Operation) -> Iterator[Case]:
        generation = self._schema.config.generation_for(operation=operation)
        yield from self._schema.iter_coverage_cases(
            operation,
            generation_modes=list(schemathesis.GenerationMode),
            generation_config=generation,
        )

    def _guess(self, name: str, operation: Operation, mode: schemathesis.GenerationMode) -> None:
        @hypothesis.seed(1)
        @hypothesis.settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def one(case: Case) -> None:
            self.send(name, case)

        # There is nothing bad to be sent where there is nothing to be chosen.
        with contextlib.suppress(hypothesis.errors.Unsatisfiable):
            one()

    def send(self, name: str, case: Case) -> None:
        given = {"Authorization": f"Bearer {self.server.token}"} | dict(self.fit(name, case))
        answer = case.call(
            base_url=self.server.url, session=self._session, headers=given, timeout=120
        )
        self.answers[name][answer.status_code] += 1
        is_stream = answer.headers.get("content-type", [""])[0].startswith("text/event-stream")
        wanted = [*CHECKS, *([] if is_stream else BODIES)]
        if answer.status_code not in BY_THE_GATE:
            wanted += ACCEPTED
        try:
            case.validate_response(answer, checks=wanted)
        except FailureGroup as group:
            self.failures.append(f"{name}: {group}")
        documented = case.operation.definition.raw["responses"]
        if str(answer.status_code) not in documented and answer.status_code not in BY_THE_GATE:
            self.failures.append(f"{name}: {answer.status_code} is not documented: {answer.text}")


def is_bad(case: Case, location: ParameterLocation) -> bool:
    """Whether what the case has there was made to be refused."""
    found = case.meta.components.get(location) if case.meta else None
    return found is not None and found.mode.is_negative


def spread(cases: list[Case], most: int) -> list[Case]:
    step = max(1.0, len(cases) / most)
    return [cases[int(number * step)] for number in range(int(len(cases) / step))]
