from __future__ import annotations

import pytest

from tests.faults.conftest import workshop as workshop
from tests.faults.workshop import Workshop


@pytest.fixture(autouse=True)
def identity(workshop: Workshop) -> None:
    """Without a name of the person's, git inside commits nothing."""
    settings = "[user]\nname = Ann\nemail = ann@example.org\n"
    (workshop.place / "home/.gitconfig").write_text(settings)
