"""Projects over a real socket: added, cloned meanwhile, pulled, removed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.listening import listening
from tests.server.shop import Shop, eventually, opened, problem
from tests.workspace.repositories import Checkout, checkout


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened(tmp_path_factory.mktemp("shop")) as made:
        yield made


@pytest.fixture
def origin(shop: Shop, request: pytest.FixtureRequest) -> Checkout:
    """Another repository for each test, so that none is known yet."""
    made = checkout(shop.server.home / "origins" / request.node.name[:60])
    made.write("a.txt", "hello\n")
    made.commit("first")
    return made


def added(shop: Shop, origin: Checkout, **more: object) -> Any:
    wish = {"url": str(origin.folder), **more}
    told = shop.told("POST", "/projects", wish, 201)
    eventually(lambda: shop.get(f"/projects/{told['id']}")["state"] != "cloning")
    return shop.get(f"/projects/{told['id']}")


def test_a_project_is_cloned_while_the_request_is_long_answered(
    shop: Shop, origin: Checkout
) -> None:
    told = shop.told("POST", "/projects", {"url": str(origin.folder)}, 201)
    assert (told["url"], told["client"], told["runs"]) == (str(origin.folder), "", 0)
    path = f"/projects/{told['id']}"
    eventually(lambda: shop.get(path)["state"] == "ready")
    found = shop.get(path)
    assert (found["head"], found["error"], found["progress"]) == ("main", "", None)
    again = shop.told("POST", "/projects", {"url": str(origin.folder)}, 200)
    assert again == found
    assert found in shop.get("/projects")["items"]


def test_a_run_is_made_on_a_project_by_its_id(shop: Shop, origin: Checkout) -> None:
    project = added(shop, origin)
    name = shop.done(name="on-project", project=project["id"])
    run = shop.get(f"/runs/{name}")
    assert run["project_id"] == project["id"] and run["result"]["files"] == 1
    (row,) = shop.get(f"/runs?project={project['id']}")["items"]
    assert (row["name"], row["project_id"]) == (name, project["id"])
    assert shop.get(f"/projects/{project['id']}")["runs"] == 1
    branches = {
        each["name"]: each for each in shop.get(f"/projects/{project['id']}/branches")["items"]
    }
    assert branches["main"]["title"] == "first" and branches["main"]["run"] is None
    assert branches[f"agent--{name}"]["run"] == name
    assert "on-project" in shop.refused(409, "DELETE", f"/projects/{project['id']}")["detail"]
    assert shop.server.call("DELETE", f"/projects/{project['id']}?force=true").status == 204
    shop.refused(404, "GET", f"/runs/{name}")
    shop.refused(404, "GET", f"/projects/{project['id']}")


def test_what_is_new_is_pulled(shop: Shop, origin: Checkout) -> None:
    project = added(shop, origin)
    origin.write("b.txt", "new\n")
    commit = origin.commit("second")
    told = shop.told("POST", f"/projects/{project['id']}/pull", {}, 202)
    assert told["state"] in ("pulling", "ready")
    path = f"/projects/{project['id']}/branches"
    eventually(lambda: shop.get(path)["items"][0]["commit"] == commit)
    eventually(lambda: shop.get(f"/projects/{project['id']}")["state"] == "ready")


def test_branches_that_went_apart_are_told_in_the_answer_and_on_the_board(
    shop: Shop, origin: Checkout
) -> None:
    origin.git("branch", "old")
    project = added(shop, origin)
    path = f"/projects/{project['id']}"
    assert project["apart"] == {"diverged": [], "gone": [], "more": 0}
    origin.git("commit", "--quiet", "--amend", "--allow-empty", "-m", "rewritten")
    origin.git("branch", "--delete", "--force", "old")
    with listening(shop.server, "/stream") as board:
        shop.told("POST", f"{path}/pull", {}, 202)
        told = board.until(
            lambda each: each.event == "project" and each.json()["apart"]["diverged"]
        ).json()
    eventually(lambda: shop.get(path)["state"] == "ready")
    assert told["apart"] == {"diverged": ["main"], "gone": ["old"], "more": 0}
    assert shop.get(path)["apart"] == told["apart"]


def test_a_clone_that_fails_says_why(shop: Shop, origin: Checkout) -> None:
    empty = shop.server.home / "no-repository"
    empty.mkdir()
    answer = shop.server.call("POST", "/projects", json={"url": str(empty)})
    if answer.status == 201:
        path = f"/projects/{answer.json()['id']}"
        eventually(lambda: shop.get(path)["state"] == "failed")
        assert shop.get(path)["error"]
        shop.refused(409, "POST", f"{path}/pull")
        shop.refused(409, "POST", "/runs", shop.wish("true", project=answer.json()["id"]))
    else:
        problem(answer, 409)
    assert added(shop, origin)["state"] == "ready"


def test_clients_have_projects_of_their_own(shop: Shop, origin: Checkout) -> None:
    own, theirs = added(shop, origin), added(shop, origin, client="acme")
    assert own["id"] != theirs["id"] and theirs["client"] == "acme"
    assert [each["id"] for each in shop.get("/projects?client=acme")["items"]] == [theirs["id"]]
    mine = [each["id"] for each in shop.get("/projects?client=default&limit=500")["items"]]
    assert own["id"] in mine and theirs["id"] not in mine
    for project, client in ((own, "acme"), (theirs, "default"), (theirs, "other")):
        wish = shop.wish("true", project=project["id"], client=client)
        assert "project of" in shop.refused(422, "POST", "/runs", wish)["detail"]
    name = shop.done("true", name="for-acme", project=theirs["id"])
    assert shop.get(f"/runs/{name}")["client"] == "acme"
    assert [each["name"] for each in shop.get("/runs?client=acme")["items"]] == [name]
    both = shop.get(f"/runs?client=default&project={theirs['id']}")
    assert both == {"items": [], "total": 0}


def test_a_client_s_clone_is_not_had_by_its_path(shop: Shop, origin: Checkout) -> None:
    theirs = added(shop, origin, client="acme")
    folder = shop.server.ags_home / "projects" / theirs["id"] / "repo.git"
    wish = shop.wish("true", project=str(folder), client="other")
    shop.refused(422, "POST", "/runs", wish)
    inside = shop.wish("true", project=str(folder / "refs"), client="other")
    shop.refused(422, "POST", "/runs", inside)


@pytest.mark.parametrize(
    "url",
    [
        "",
        " ",
        "ext::sh -c id",
        "-oProxyCommand=x",
        "--upload-pack=x",
        "http://somewhere.example/x",
        "https://user:secret@somewhere.example/x",
        "relative/folder",
        "~/folder",
        "ftp://x/y",
        "a\nb",
        "x" * 5000,
        "/" + "x" * 1500,
        "/dev/null",
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_an_address_that_cannot_be_meant_is_refused(shop: Shop, url: str) -> None:
    before = shop.get("/projects")["total"]
    shop.refused(422, "POST", "/projects", {"url": url})
    assert shop.get("/projects")["total"] == before


def test_a_list_is_paged(shop: Shop, origin: Checkout) -> None:
    added(shop, origin)
    whole = shop.get("/projects?limit=500")
    total = whole["total"]
    pages = [shop.get(f"/projects?limit=1&offset={n}")["items"][0] for n in range(total)]
    assert pages == whole["items"] and shop.get(f"/projects?offset={total}")["items"] == []


def test_all_of_it_was_done_in_one_thread(shop: Shop) -> None:
    assert shop.server.threads() == 1


def test_a_folder_of_the_servers_own_machine_is_linked_and_nothing_is_cloned(
    shop: Shop, origin: Checkout
) -> None:
    wish = {"url": str(origin.folder), "link": True}
    told = shop.told("POST", "/projects", wish, 201)
    assert told["state"] == "ready" and told["head"] == "main"
    assert shop.told("POST", "/projects", wish, 200) == told
    assert not (shop.server.ags_home / "projects" / told["id"] / "repo.git").exists()
    cloned = added(shop, origin)
    assert cloned["id"] != told["id"]
    for far in ("https://git.example/x", "/nowhere"):
        shop.refused(422, "POST", "/projects", {"url": far, "link": True})


def test_a_clone_that_hangs_can_be_taken_away(shop: Shop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x.git"
        told = shop.told("POST", "/projects", {"url": url}, 201)
        path = f"/projects/{told['id']}"
        with silent.accept()[0]:  # git is there, and waits
            shop.refused(409, "DELETE", path)
            assert shop.server.call("DELETE", f"{path}?force=true").status == 204
        shop.refused(404, "GET", path)
