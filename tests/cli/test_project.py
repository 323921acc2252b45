"""`ags project`: adding, listing, pulling and removing as a person does it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from ags import projects
from ags.cli import main
from ags.runs import Order
from tests.cli.desk import HOSTILE, Desk, is_harmless, on_terminal
from tests.workspace.repositories import Checkout, checkout, go

VERBS = ("add", "list", "pull", "branches", "remove")


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.VERBS, "project", "")


@pytest.fixture
def shop(desk: Desk) -> Checkout:
    """A repository elsewhere."""
    made = checkout(desk.home.parent / "elsewhere/shop")
    made.write("a.txt", "hello\n")
    made.commit("first")
    return made


def facts(desk: Desk, *flags: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(desk.ags("project", "list", "--json", *flags).out)
    return found


def test_every_verb_has_help_with_an_example(desk: Desk) -> None:
    assert all(verb in desk.ags("project", "--help").out for verb in VERBS)
    for verb in VERBS:
        said = desk.ags("project", verb, "--help")
        assert said.code == 0 and f"ags project {verb}" in said.out.partition("Options")[0]


def test_a_project_is_added_listed_pulled_and_removed(desk: Desk, shop: Checkout) -> None:
    assert "no projects yet" in desk.ags("project", "list").out
    said = desk.ags("project", "add", str(shop.folder))
    assert said.code == 0 and "shop (project-" in said.out and "is cloned" in said.out
    assert "receiving objects\n" in said.err and "\r" not in said.err
    listed = desk.ags("project", "list").out
    assert re.search(r"^shop +ready +0 +\d+[sm] +/", listed, re.MULTILINE)
    assert "nothing new" in desk.ags("project", "pull", "shop").out
    shop.git("checkout", "--quiet", "-b", "topic")
    shop.commit("second one")
    assert desk.ags("project", "pull", "shop").out == "shop: new: topic\n"
    told = desk.ags("project", "branches", "shop").out
    assert re.search(r"^topic +\d+[sm] +[0-9a-f]{10}  second one$", told, re.MULTILINE)
    names = json.loads(desk.ags("project", "branches", "--json", "shop").out)
    assert {each["name"] for each in names} == {"main", "topic"}
    assert desk.ags("project", "remove", "shop").out == "removed shop\n"
    assert facts(desk) == []


def test_a_pull_tells_which_branches_went_apart(desk: Desk, shop: Checkout) -> None:
    shop.git("branch", "old")
    desk.ags("project", "add", str(shop.folder))
    shop.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "rewritten")
    shop.git("branch", "--delete", "--force", "old")
    said = desk.ags("project", "pull", "shop")
    assert said.code == 0 and said.out == "shop: nothing new\n"
    assert "note: have commits of their own, and stay: main\n" in said.err
    assert "note: are gone where they came from, and stay: old\n" in said.err
    assert facts(desk)[0]["apart"] == {"diverged": ["main"], "gone": ["old"], "more": 0}


def test_the_current_repository_is_linked_if_none_is_named(
    desk: Desk, shop: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.project.folder)
    assert "project (project-" in desk.ags("project", "add").out
    desk.ags("project", "add", "--here", str(shop.folder), "--client", "acme")
    assert [(each["folder"], each["client"], each["linked"]) for each in facts(desk)] == [
        (str(desk.project.folder), "", True),
        (str(shop.folder), "acme", True),
    ]
    assert "linked" in desk.ags("project", "list").out
    assert [each["name"] for each in facts(desk, "--client", "acme")] == ["shop"]
    said = desk.ags("project", "remove", "project")
    assert said.out == f"removed project; {desk.project.folder} stays\n"
    assert (desk.project.folder / "a.txt").exists()
    assert "your own folder" in desk.refused("project", "pull", "shop")


def test_a_run_on_a_cloned_project_brings_its_work_there(desk: Desk, shop: Checkout) -> None:
    desk.ags("project", "add", str(shop.folder))
    folder = str(projects.folder_of(desk.state, "shop"))
    script = "echo changed > a.txt; git log --oneline; git remote -v"
    said = desk.ags("start", "--agent", "shell", "--project", folder, "fix", script)
    assert said.code == 0 and "first" in said.out, said
    branches = desk.ags("project", "branches", "shop").out
    assert re.search(r"^agent--fix +fix ", branches, re.MULTILINE)
    assert facts(desk)[0]["runs"] == 1
    assert "+changed" in desk.ags("diff", "fix").out
    assert desk.ags("apply", "--into", "main", "fix").code == 0
    found = projects.find(desk.state, "shop")
    assert go(projects.branches(found))[0].name in ("main", "agent--fix")
    assert shop.ask("show", "main:a.txt") == "hello"
    refusal = desk.refused("project", "remove", "shop")
    assert "there are runs on it: fix" in refusal and "ags rm fix" in refusal
    desk.ags("rm", "fix")
    assert "nowhere else" in desk.refused("project", "remove", "shop")
    assert desk.ags("project", "remove", "--force", "shop").code == 0
    assert not Path(folder).exists()


def test_runs_are_counted_for_their_own_client(desk: Desk, shop: Checkout) -> None:
    desk.ags("project", "add", "--here", str(shop.folder), "--client", "acme")
    desk.ags("project", "add", "--here", str(shop.folder))
    desk.record("one", project=shop.folder, order=Order(client="acme"))
    assert {each["client"]: each["runs"] for each in facts(desk)} == {"acme": 1, "": 0}


@pytest.mark.parametrize(
    "url", ["ext::sh -c 'touch ran'", "https://ann:s3cr3t@h/x", "http://h.example.org/x", "nowhere"]
)
def test_what_is_no_address_is_refused_and_leaves_nothing(desk: Desk, url: str) -> None:
    assert "s3cr3t" not in desk.refused("project", "add", url)
    assert not (desk.state / "projects").exists()


def test_a_clone_that_fails_is_told_with_a_way_on_and_leaves_nothing(desk: Desk) -> None:
    said = desk.refused("project", "add", "https://127.0.0.1:9/shop.git")
    assert "clone the repository" in said and "git ls-remote https://127.0.0.1:9/shop.git" in said
    assert facts(desk) == []


def test_one_that_is_not_there_is_told(desk: Desk) -> None:
    for verb in ("pull", "remove", "branches"):
        assert "there is no such project" in desk.refused("project", verb, "none")


def test_nothing_that_a_terminal_obeys_is_shown(desk: Desk, shop: Checkout) -> None:
    folder = shop.folder.rename(shop.folder.with_name("sh\u202eop"))
    hostile = Checkout(folder, shop.environment)
    hostile.commit(HOSTILE.replace("\0", "").replace("\r", ""))
    hostile.git("branch", "bränch\u202e")
    for arguments in (("add", str(folder)), ("list",), ("branches", "sh-op")):
        said = desk.ags("project", *arguments)
        assert said.code == 0 and is_harmless(said.out) and is_harmless(said.err), said
    assert "evil" in desk.ags("project", "branches", "sh-op").out


def test_progress_is_one_line_on_a_terminal(desk: Desk, shop: Checkout) -> None:
    script = (
        "import sys; from ags.cli import main; main.VERBS['project'] = '';"
        f" sys.exit(main.main(['project', 'add', {str(shop.folder)!r}]))"
    )
    code, shown = on_terminal((sys.executable, "-c", script), desk.environment(), {})
    assert code == 0 and "\r\x1b[Kreceiving objects" in shown
    last = shown.split("\r\x1b[K")[-1]
    assert last.startswith("shop (project-") and last.count("\n") == 1
