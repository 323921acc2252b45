"""A commit's ignore files as one list: git must judge every path by it as by the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ags.workspace.ignored import rules
from tests.workspace.repositories import checkout, go

FILES = {
    "": "*.log\n/top\nbuild/\na/b\n# no rule\n!keep.log\n\\#odd\nspace \\ \n**/deep\n",
    "inner/": "*.txt\n/here\n!wanted.log\nx/y\n\r\n",
    "inner/most/": "!*.txt\nother\n",
    "odd [x]/": "*.o\n",
}
PATHS = (
    *("x.log", "keep.log", "top", "sub/top", "build/x", "sub/build/x", "a/b", "sub/a/b", "#odd"),
    *("inner/x.log", "inner/wanted.log", "inner/n.txt", "inner/here", "inner/sub/here"),
    *("inner/x/y", "inner/sub/x/y", "inner/most/n.txt", "inner/most/other", "other"),
    *("odd [x]/m.o", "m.o", "one/two/deep", "inner/sub/n.txt", "plain"),
)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_ignored_by_the_list_if_it_is_by_the_files(tmp_path: Path, path: str) -> None:
    project = checkout(tmp_path / "project")
    for folder, text in FILES.items():
        project.write(f"{folder}.gitignore", text)
    commit = project.commit("rules")
    project.write(path, "new")
    expected = project.git("ls-files", "-o", "-z", "--exclude-standard")
    listed = tmp_path / "list"
    listed.write_bytes(go(rules(project.repository, commit)))
    assert project.git("ls-files", "-o", "-z", f"--exclude-from={listed}") == expected
