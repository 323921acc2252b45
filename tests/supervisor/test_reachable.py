"""Root works for others only where they can get at what is theirs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ags.errors import AgsError
from ags.supervisor.separate import check_reachable
from ags.workspace.tree import Owner

OTHER = Owner(65534, 65534)


def test_the_way_through_the_state_folder_is_told_and_opens_it(world: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    state = world / "passed"
    state.mkdir(mode=0o700)
    with pytest.raises(AgsError) as told:
        check_reachable(state, OTHER)
    assert f"`chmod 711 {state}`" in told.value.hint
    state.chmod(0o711)
    check_reachable(state, OTHER)


def test_a_closed_folder_above_it_is_never_to_be_opened(world: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    above = world / "above"
    (above / "state").mkdir(parents=True)
    above.chmod(0o700)
    (above / "state").chmod(0o711)
    with pytest.raises(AgsError) as told:
        check_reachable(above / "state", OTHER)
    assert told.value.subject == str(above) and "set AGS_HOME" in told.value.hint
    assert str(above) not in told.value.hint
