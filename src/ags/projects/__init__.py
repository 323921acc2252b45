"""Projects: repositories that runs are made on, each of one client.

A project is cloned once, bare, from wherever it is; or it is linked: the person's own folder, used
as it is, so that branches and applies land there. `projects/<id>/project.json` is its record. The
repository is made beside its place and moved there whole, so half a clone is never a project.
Whoever clones or pulls holds `lock`: if nobody does and there is no repository, it has failed.
"""

from ags.projects.adding import Adding, add, begin, link
from ags.projects.record import Apart, Project, State, find, find_by_folder, folder_of, get, listed
from ags.projects.upkeep import Branch, branches, head, pull, remove, runs_of

__all__ = [
    "Adding",
    "Apart",
    "Branch",
    "Project",
    "State",
    "add",
    "begin",
    "branches",
    "find",
    "find_by_folder",
    "folder_of",
    "get",
    "head",
    "link",
    "listed",
    "pull",
    "remove",
    "runs_of",
]
