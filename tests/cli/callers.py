"""Who calls ags: root and an ordinary user, each with a checkout that is set up and a home that
holds nothing of the person who runs the tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests import people
from tests.once import once
from tests.people import Person

CALLERS = ("root", "user") if os.geteuid() == 0 else ("user",)


@pytest.fixture(scope="session")
def user(ordinary: Person, world: Path) -> Person:
    return ordinary if os.geteuid() == 0 else _in_home(ordinary, world / "home-of-user")


@pytest.fixture(scope="session")
def root(world: Path, person_environment: Mapping[str, str]) -> Iterator[Person]:
    if os.geteuid() != 0:
        pytest.skip("only root can be root")

    def in_checkout(place: Path) -> Person:
        person = people.myself(place / "checkout", person_environment)
        return _in_home(person, world / "home-of-root")

    def fill(place: Path) -> None:
        people.settled(in_checkout(place))

    # Workers share it, as does every folder of tests that imports the fixture.
    with once("root", fill, mode=0o755) as place:
        yield in_checkout(place)


def _in_home(person: Person, home: Path) -> Person:
    home.mkdir(mode=0o700, exist_ok=True)
    return replace(person, home=home, environment={**person.environment, "HOME": str(home)})


@pytest.fixture(params=CALLERS)
def person(request: pytest.FixtureRequest) -> Person:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Person)
    return found


# For what cannot depend on who calls.
as_user = pytest.mark.parametrize("person", ["user"], indirect=True)


def new_folder(world: Path, owner: Person) -> Path:
    """An empty one that belongs to this person, in nobody's home."""
    folder = Path(tempfile.mkdtemp(prefix="folder-", dir=world))
    folder.chmod(0o755)
    os.chown(folder, owner.uid, owner.gid)
    return folder


@pytest.fixture
def workspace(world: Path, person: Person) -> Path:
    return new_folder(world, person)
