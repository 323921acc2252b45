"""The agents' own programs: installed apart from everything else, and read-only to every run."""

from ags.programs.install import Installer, Outcome, ensure
from ags.programs.installed import Installed, current, held, remove_unused, versions
from ags.programs.login import Login, login_state
from ags.programs.node import NodeInside, node_for_inside
from ags.programs.table import names, program

__all__ = (
    "Installed",
    "Installer",
    "Login",
    "NodeInside",
    "Outcome",
    "current",
    "ensure",
    "held",
    "login_state",
    "names",
    "node_for_inside",
    "program",
    "remove_unused",
    "versions",
)
