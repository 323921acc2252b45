"""Looking at a run's work, applying it and taking that back, over a real socket."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from ags.server import schema
from tests.server.shop import Shop, opened
from tests.workspace.repositories import checkout


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as made:
        yield made


@pytest.fixture(autouse=True)
def _clean(shop: Shop) -> Iterator[None]:
    before = shop.project.ask("rev-parse", "main")
    yield
    shop.project.git("reset", "--quiet", "--hard", before)


def test_the_diff_is_as_its_schema_says(shop: Shop) -> None:
    odd = "printf x > \"$(printf 'caf\\351')\"; ln -s /etc/passwd link; head -c 99 /dev/zero > z"
    name = shop.done(f"echo world >> a.txt; echo all: > Makefile; {odd}", name="shown")
    told = shop.get(f"/runs/{name}/diff")
    schema.Diff.model_validate(told, strict=True)
    files = {each["path"]: each for each in told["files"]}
    assert files["a.txt"]["hunks"][0]["lines"][-1] == {
        "kind": "added",
        "text": "world",
        "no_newline": False,
    }
    assert files["caf\\xe9"]["path_base64"] and files["z"]["binary"]
    assert "Makefile" in {risk["path"] for risk in told["risks"]}
    assert told["new"] == shop.get(f"/runs/{name}")["result"]["commit"]


def test_the_beginning_of_a_diff_is_the_same_with_all_that_is_known_of_its_files(
    shop: Shop,
) -> None:
    names = "a/HEAD a/config b/Makefile c.txt d/Makefile"
    goal = f"mkdir a b d; for name in {names}; do seq 10 > $name; done"
    name = shop.done(goal, name="begun")
    whole = shop.get(f"/runs/{name}/diff")
    told = shop.get(f"/runs/{name}/diff?beginning=30")
    schema.Diff.model_validate(told, strict=True)
    assert told["files"] == whole["files"][:3] and len(whole["files"]) == 5
    assert {**told, "files": [], "risks": []} == {**whole, "files": [], "risks": []}
    assert {risk["path"] for risk in told["risks"]} == {"a/HEAD", "a/config", "b/Makefile"}
    assert [risk for risk in whole["risks"] if risk["path"] != "d/Makefile"] == told["risks"]
    # What its neighbour makes of it is known, even where that one is not told.
    first = shop.get(f"/runs/{name}/diff?beginning=1")
    assert first["risks"] == [risk for risk in whole["risks"] if risk["path"] == "a/HEAD"] != []
    assert shop.get(f"/runs/{name}/diff?beginning=50") == whole
    for wrong in ("0", "-1", "x", "100001"):
        shop.refused(422, "GET", f"/runs/{name}/diff?beginning={wrong}")


def test_the_patch_makes_the_same_tree(shop: Shop) -> None:
    name = shop.done("echo world >> a.txt; head -c 99 /dev/urandom > blob", name="patched")
    answer = shop.server.call("GET", f"/runs/{name}/diff.patch")
    assert answer.headers["Content-Type"].startswith("text/x-diff")
    assert "patched.patch" in answer.headers["Content-Disposition"]
    shop.project.git("apply", "--index", stdin=answer.body)
    assert shop.project.ask("write-tree") == shop.project.tree(f"agent--{name}")


def test_a_run_at_work_has_nothing_to_look_at_yet(shop: Shop) -> None:
    with shop.working(name="busy") as name:
        assert "still at work" in shop.refused(409, "GET", f"/runs/{name}/diff")["detail"]
        shop.refused(404, "GET", f"/runs/{name}/diff.patch")
        shop.refused(409, "POST", f"/runs/{name}/apply", {})


@pytest.mark.parametrize("how", ["merge", "squash", "patch"])
def test_work_is_applied_and_taken_back(shop: Shop, how: str) -> None:
    name = shop.done(name=f"by-{how}")
    before, file = shop.project.state(), shop.project.folder / "a.txt"
    commit = shop.get(f"/runs/{name}")["result"]["commit"]
    done = shop.told("POST", f"/runs/{name}/apply", {"how": how, "expected": commit})
    outcome = {"merge": "fast-forward"}.get(how, how)
    assert (done["outcome"], done["source"]) == (outcome, commit)
    assert done["target"] == "main"
    assert file.read_text() == "hello\nworld\n"
    assert shop.get(f"/runs/{name}")["left"] == ["tell", "restart", "undo", "remove"]
    shop.refused(409, "POST", f"/runs/{name}/apply", {"how": how})
    undone = shop.told("POST", f"/runs/{name}/undo", {})
    assert undone == done
    assert shop.project.state() == before
    shop.refused(409, "POST", f"/runs/{name}/undo")


def test_what_is_there_already_is_nothing_to_apply(shop: Shop) -> None:
    name = shop.done("true", name="idle")
    told = shop.told("POST", f"/runs/{name}/apply", {})
    assert told == {"outcome": "nothing", **dict.fromkeys(("target", "before", "after", "source"))}


def test_another_commit_than_expected_is_not_applied(shop: Shop) -> None:
    name = shop.done(name="unseen")
    before = shop.project.state()
    told = shop.refused(409, "POST", f"/runs/{name}/apply", {"expected": "0" * 40})
    assert "newer work" in told["detail"]
    assert shop.project.state() == before


def test_a_conflict_names_its_files_and_changes_nothing(shop: Shop) -> None:
    name = shop.done(name="clash")
    shop.project.write("a.txt", "hello\nmoon\n")
    shop.project.commit("meanwhile")
    before = shop.project.state()
    told = shop.refused(409, "POST", f"/runs/{name}/apply", {"how": "merge"})
    assert told["files"] == ["a.txt"]
    assert shop.project.state() == before


def test_work_is_pushed_to_a_branch_elsewhere(shop: Shop) -> None:
    bare = checkout(shop.server.home / "elsewhere.git", "--bare")
    shop.project.git("remote", "add", "there", str(bare.folder))
    name = shop.done(name="pushes")
    commit = shop.get(f"/runs/{name}")["result"]["commit"]
    wish = {"how": "push", "remote": "there", "into": "from-ags", "expected": commit}
    done = shop.told("POST", f"/runs/{name}/apply", wish)
    assert (done["outcome"], done["target"], done["after"]) == ("push", "there/from-ags", commit)
    assert bare.ask("rev-parse", "refs/heads/from-ags") == commit
    (pushed,) = shop.get(f"/runs/{name}")["pushed"]
    assert (pushed["remote"], pushed["branch"], pushed["commit"]) == ("there", "from-ags", commit)
    shop.refused(422, "POST", f"/runs/{name}/apply", {"how": "merge", "remote": "there"})
    told = shop.server.call("POST", f"/runs/{name}/apply", json={"how": "push", "remote": "no"})
    assert told.status in (404, 409, 422)


def test_an_interrupted_run_is_collected_when_it_is_looked_at(shop: Shop) -> None:
    goal = "echo half > done.txt; echo at work; while ! [ -e go ]; do sleep 0.05; done"
    name = shop.at_work(goal, name="killed")
    found = shop.get(f"/runs/{name}")
    record = shop.server.ags_home / "runs" / found["id"] / "run.json"
    os.kill(_supervisor(record.read_text()), signal.SIGKILL)
    shop.until(name, lambda run: run["state"] == "interrupted")
    assert shop.get(f"/runs/{name}")["left"] == ["tell", "restart", "apply", "remove"]
    told = shop.get(f"/runs/{name}/diff")
    assert [each["path"] for each in told["files"]] == ["done.txt"]
    assert b"+half" in shop.server.call("GET", f"/runs/{name}/diff.patch").body


def _supervisor(record: str) -> int:
    pid: int = json.loads(record)["supervisor"]["pid"]
    return pid
