"""A mount that is or contains what must stay outside is refused, in every spelling."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ags.errors import AgsError
from ags.places import (
    CREDENTIAL_FOLDERS,
    MADE_INSIDE,
    SHARED_FOLDERS,
    Places,
    check_source,
    check_target,
    resolve,
)

parts = st.lists(st.sampled_from(["work", "deep", ".ssh", ".config", "ags", "..", "."]), max_size=5)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("world").resolve()
    home = base / "home" / "person"
    for folder in ("work/deep", ".ssh/keys", ".config/ags/hooks", ".ags/runs", ".ags/work", ".aws"):
        (home / folder).mkdir(parents=True)
    (home / "innocent").symlink_to(home / ".ssh")
    (home / "work" / "up").symlink_to(base)
    return home


@pytest.fixture
def world(home: Path) -> Places:
    return Places((home,), home / ".ags", home / ".config" / "ags")


def touches(path: Path, places: Places) -> bool:
    """Said again, plainly: above, at or below anything forbidden (the home itself: above or at)."""
    home = places.homes[0]
    guarded = [p.resolve() for p in places.forbidden if p != home]
    return home.is_relative_to(path) or any(
        g.is_relative_to(path) or path.is_relative_to(g) for g in guarded
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(parts)
def test_writable_mounts_are_judged_by_where_they_really_lie(
    world: Places, steps: list[str]
) -> None:
    spelled = Path(os.path.join(world.homes[0], *steps))
    if not spelled.exists():
        with pytest.raises(AgsError):
            resolve(spelled, "--add-dir")
        return
    real = resolve(spelled, "--add-dir")
    if touches(real, world) or str(real) in SHARED_FOLDERS:
        with pytest.raises(AgsError):
            check_source(real, world, writable=True, flag="--add-dir")
    else:
        assert check_source(real, world, writable=True, flag="--add-dir") is None


@pytest.mark.parametrize("name", CREDENTIAL_FOLDERS)
def test_every_credential_folder_is_refused_and_its_neighbour_is_not(home: Path, name: str) -> None:
    folder = home / name
    folder.mkdir(parents=True, exist_ok=True)
    world = Places((home,), home / ".ags", home / ".config" / "ags")
    neighbour = folder.with_name(folder.name + "-not")
    neighbour.mkdir(exist_ok=True)
    with pytest.raises(AgsError, match="credentials|contains"):
        check_source(folder, world, writable=True, flag="--mount-rw")
    assert check_source(neighbour, world, writable=True, flag="--mount-rw") is None


@pytest.mark.parametrize("link", ["innocent", "work/up"])
def test_a_link_is_followed_before_judging(world: Places, link: str) -> None:
    with pytest.raises(AgsError):
        check_source(resolve(world.homes[0] / link, "-d"), world, writable=True, flag="-d")


def test_a_bind_mount_of_the_home_is_still_the_home(world: Places, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("making a bind mount needs root")
    import subprocess

    subprocess.run(["mount", "--bind", world.homes[0], tmp_path], check=True)
    try:
        with pytest.raises(AgsError, match="contains"):
            check_source(tmp_path.resolve(), world, writable=True, flag="-d")
        with pytest.raises(AgsError, match="lies in"):
            check_source(tmp_path.resolve() / ".ssh" / "keys", world, writable=True, flag="-d")
        assert check_source(tmp_path.resolve() / "work", world, writable=True, flag="-d") is None
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_credential_folder_read_only_is_a_recorded_weakening(world: Places) -> None:
    weakening = check_source(world.homes[0] / ".aws", world, writable=False, flag="--mount")
    assert weakening is not None and ".aws" in weakening.detail


@pytest.mark.parametrize("place", ["", ".ags", ".config/ags", ".ags/runs"])
def test_not_even_read_only_the_home_our_state_and_our_settings(world: Places, place: str) -> None:
    with pytest.raises(AgsError):
        check_source(world.homes[0] / place, world, writable=False, flag="--mount")


@given(
    st.sampled_from([*MADE_INSIDE, *SHARED_FOLDERS]),
    st.lists(st.sampled_from(["x", "y"]), max_size=2),
)
def test_a_target_cannot_cover_what_the_sandbox_makes(folder: str, below: list[str]) -> None:
    places = Places((Path("/home/p"),), Path("/home/p/.ags"), Path("/home/p/.config/ags"))
    target = PurePosixPath(folder, *below)
    ours = any(target.is_relative_to(made) for made in MADE_INSIDE) or str(target) in SHARED_FOLDERS
    if ours:
        with pytest.raises(AgsError):
            check_target(target, places, "--mount")
    else:
        check_target(target, places, "--mount")


@pytest.mark.parametrize("target", ["relative", "/a/../etc", "/home/p", "//etc"])
def test_odd_targets_are_refused(target: str) -> None:
    places = Places((Path("/home/p"),), Path("/home/p/.ags"), Path("/home/p/.config/ags"))
    with pytest.raises(AgsError):
        check_target(PurePosixPath(target), places, "--mount")
