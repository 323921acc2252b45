"""THREATS G2 to G5: what an agent brings into the project, moves there, or has run later."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from ags import runs
from ags.errors import AgsError
from ags.review import apply, review
from ags.workspace import collect, git
from tests.attack.whole import Whole, dashed, said, told
from tests.attack.whole import whole as whole
from tests.workspace.agent import done

# Python, since git itself does not write such objects.
RAW = r"""
raw() { python3 -c '
import hashlib, os, sys, zlib
kind, body = sys.argv[1], eval(sys.argv[2], {"id": bytes.fromhex(sys.argv[3])})
data = b"%s %d\0" % (kind.encode(), len(body)) + body
name = hashlib.sha1(data).hexdigest()
folder = os.environ["dir"] + "/objects/" + name[:2]
os.makedirs(folder, exist_ok=True)
open(folder + "/" + name[2:], "wb").write(zlib.compress(data))
print(name)' "$@"; }
export dir=$(git rev-parse --absolute-git-dir)
text() { printf "$1" | git hash-object -w --stdin; }
inner=$(printf '100644 blob %s\tconfig\n' $(text evil) | git mktree)
"""
MODULES = "b'100644 .gitmodules\\0' + id"
TREES = {
    "a git directory": "raw tree \"b'40000 .git\\0' + id\" $inner",
    "a git directory in other letters": "raw tree \"b'40000 .GiT\\0' + id\" $inner",
    "a git directory as some systems read it": "raw tree \"b'40000 git~1\\0' + id\" $inner",
    "a folder above": "raw tree \"b'40000 ..\\0' + id\" $inner",
    "the same folder": "raw tree \"b'40000 .\\0' + id\" $inner",
    "a path as a name": "raw tree \"b'100644 ../../evil\\0' + id\" $(text x)",
    "two of one name": "raw tree \"b'100644 a\\0' + id + b'100644 a\\0' + id\" $(text x)",
    "a file and a folder of one name": (
        "raw tree \"b'100644 a\\0' + id + b'40000 a\\0' + id\" $inner"
    ),
    "names out of order": "raw tree \"b'100644 b\\0' + id + b'100644 a\\0' + id\" $(text x)",
    "an empty name": "raw tree \"b'100644 \\0' + id\" $(text x)",
    "module settings that are a link": "raw tree \"b'120000 .gitmodules\\0' + id\" $(text /etc)",
    "a module address that is an option": (
        f'raw tree "{MODULES}" $(text \'[submodule "x"]\\n\\turl = -u./p\\n\')'
    ),
    "a module path that is an option": (
        f'raw tree "{MODULES}" $(text \'[submodule "x"]\\n\\tpath = --x\\n\\turl = a\\n\')'
    ),
    "a module name that leads out": (
        f'raw tree "{MODULES}" $(text \'[submodule "../../x"]\\n\\turl = h\\n\')'
    ),
    "a module update that is a command": (
        f'raw tree "{MODULES}" $(text \'[submodule "x"]\\n\\turl = a\\n\\tupdate = !touch x\\n\')'
    ),
    "an address with a line break": (
        f'raw tree "{MODULES}" '
        '$(text \'[submodule "x"]\\n\\turl = "https://h.test?%%0ahost=other.test/r.git"\\n\')'
    ),
}


def committed(tree: str) -> str:
    """A goal: a commit of a tree that git itself would not write."""
    commit = "git update-ref HEAD $(git commit-tree -p HEAD -m evil $tree)"
    return f"{RAW}\ntree=$({tree}); {commit}; git read-tree HEAD 2> /dev/null; echo tree=$tree"


@pytest.mark.parametrize("name", TREES, ids=dashed)
def test_hostile_objects_do_not_come_into_the_project(whole: Whole, name: str) -> None:
    refs = whole.refs()
    run = whole.run("evil", committed(TREES[name]))
    run_dir = runs.directory(whole.state, run.id)
    tree = said(run_dir).partition("tree=")[2][:40]
    assert len(tree) == 40, told(run_dir)
    assert whole.sh(f"git cat-file -e {tree} 2> /dev/null && echo there || true") == ""
    assert {name: at for name, at in whole.refs().items() if "/ags/" not in name} == refs
    assert run.state == "failed"
    # The twin: the agent's own git has it, and the person's takes it from there without a word.
    there = f"git --git-dir={whole.git_dir(run)} cat-file -e {tree}"
    borrowed = f"GIT_ALTERNATE_OBJECT_DIRECTORIES={whole.root}/.git/objects"
    whole.sh(f"{borrowed} {there} 2> /dev/null")


def test_a_sound_tree_made_the_same_way_comes_back(whole: Whole) -> None:
    run = whole.run("good", committed("raw tree \"b'100644 a\\0' + id\" $(text fine)"))
    assert run.result is not None, told(runs.directory(whole.state, run.id))
    assert "fine" in whole.sh("git show agent--good")


OTHER = "git init -q ../outside/other; cd ../outside/other; echo canary-1234 > secret; git add -A; "
BORROW = """
dir=$(git rev-parse --absolute-git-dir)
echo {other}/.git/objects >> $dir/objects/info/alternates
git update-index --add --cacheinfo 100644,{blob},taken || true
tree=$(git write-tree --missing-ok) && git update-ref HEAD $(git commit-tree -p HEAD -m x $tree)
git checkout-index -fq taken
:
"""


def test_objects_of_another_project_cannot_be_borrowed(whole: Whole) -> None:
    whole.sh(f"{OTHER} git commit -qm secret")
    other = whole.outside / "other"
    blob = whole.sh("git rev-parse HEAD:secret", other).strip()
    run = whole.run("thief", BORROW.format(other=other, blob=blob))
    assert "taken" not in whole.sh("git log --branches --name-only")
    assert whole.sh(f"git cat-file -e {blob} 2> /dev/null && echo there || true") == ""
    assert "canary-1234" not in told(runs.directory(whole.state, run.id))
    # The twin: a blob of its own project is there to be used.
    own = whole.sh("git rev-parse HEAD:d/two").strip()
    whole.run("fair", BORROW.format(other=other, blob=own))
    assert whole.sh("git show agent--fair:taken") == "two\n"


def test_a_bundle_that_counts_on_what_another_project_has_is_refused(whole: Whole) -> None:
    """Handed over as if the script inside were the agent's own."""
    project = done(git.find(whole.root))
    base = done(git.resolve(project, "HEAD"))
    whole.sh("git clone -q . ../outside/clone; cd ../outside/clone; echo canary > secret; "
             "git add -A; git commit -qm x; git update-ref refs/ags/result HEAD")  # fmt: skip
    clone = whole.outside / "clone"
    blob = whole.sh("git rev-parse HEAD:secret", clone).strip()
    whole.sh(f"(echo '# v2 git bundle'; echo -{base}; git for-each-ref refs/ags --format="
             "'%(objectname) %(refname)'; echo; git rev-list --objects HEAD --not "
             f"{base} | cut -c1-40 | grep -v {blob} | git pack-objects -q --stdout) > gap; "
             f"git bundle create -q whole refs/ags/result ^{base}", clone)  # fmt: skip
    with (clone / "gap").open("rb") as file, pytest.raises(AgsError, match="take in"):
        done(collect.take_in(project, file, base=base, subject="x"))
    assert whole.sh("git fsck --strict 2>&1; ls .git/objects | grep tmp_ || true") == ""
    with (clone / "whole").open("rb") as file:
        assert done(collect.take_in(project, file, base=base, subject="x"))


@pytest.mark.parametrize(
    "head",
    [
        b"# v2 git bundle\n" + b"-%s\n" % (b"a" * 40) * 50_000 + b"\n",
        b"# v2 git bundle\n" + b"a" * (4 << 20) + b" refs/ags/result\n\n",
        b"\n" * (2 << 20),
    ],
    ids=["many needs", "a long line", "no end"],
)
def test_a_bundle_with_a_huge_head_is_refused(whole: Whole, head: bytes) -> None:
    project = done(git.find(whole.root))
    file = whole.outside / "huge"
    file.write_bytes(head + b"PACK")
    with file.open("rb") as opened, pytest.raises(AgsError, match="take in"):
        done(collect.take_in(project, opened, base=None, subject="x"))
    assert isinstance(opened, io.BufferedReader)


WRECK = """
git checkout -q main; echo mine >> file; git commit -qam 'on main'
git branch -f theirs HEAD; git tag -f v1 HEAD; git branch -f agent--other HEAD
git branch -D gone; git tag -d v2; git update-ref refs/ags/base/other HEAD
git update-ref refs/heads/-x HEAD; git update-ref refs/heads/new HEAD
git symbolic-ref refs/heads/link refs/heads/main; git update-ref refs/remotes/origin/main HEAD
git update-ref refs/stash HEAD
git for-each-ref --format='delete %(refname)' refs/notes | git update-ref --stdin
:
"""


def test_refs_that_an_agent_moves_stay_where_the_person_has_them(whole: Whole) -> None:
    whole.sh("for each in theirs agent--other gone; do git branch $each; done; git tag v1; "
             "git tag -am two v2; git notes add -m note; git update-ref refs/ags/base/other HEAD; "
             "git update-ref refs/remotes/origin/main HEAD")  # fmt: skip
    head = whole.sh("cat .git/HEAD; git reflog show main")
    before = whole.refs()
    run = whole.run("mover", WRECK)
    assert run.result is not None, told(runs.directory(whole.state, run.id))
    after = whole.refs()
    assert after.pop("refs/heads/agent--mover") == run.result.commit != run.base
    assert after.pop(f"refs/ags/base/{run.id}") == run.base
    assert after == before
    assert whole.sh("cat .git/HEAD; git reflog show main") == head
    # The twin: the same, done by the person, moves them.
    whole.sh(WRECK)
    assert whole.refs() != before | after


def test_a_branch_that_the_person_made_meanwhile_is_left_alone(whole: Whole) -> None:
    run_dir = whole.at_work("late", "echo work > work")
    mine = whole.sh("git commit -q --allow-empty -m mine; git branch agent--late; "
                    "git rev-parse HEAD").strip()  # fmt: skip
    run = done(whole.engine().stop("late"))
    assert whole.refs()["refs/heads/agent--late"] == mine
    assert "agent--late" in " ".join(run.notes) or run.state == "failed", told(run_dir)
    # The twin: without it, the work is there.
    whole.sh("git branch -D agent--late")
    assert done(whole.engine().gather("late")).result is not None
    assert whole.sh("git show agent--late:work") == "work\n"


def test_a_replaced_object_shows_as_what_it_is(whole: Whole) -> None:
    """Inside, the agent's git shows a harmless file in the place of what was committed."""
    goal = (
        "echo evil > file; git commit -qam x; git replace $(git rev-parse HEAD:file) "
        "$(echo harmless | git hash-object -w --stdin); git show HEAD:file; "
        "git rev-parse HEAD > .git/info/grafts"
    )
    run = whole.run("mask", goal)
    assert "harmless" in told(runs.directory(whole.state, run.id))
    assert not any(name.startswith("refs/replace") for name in whole.refs())
    shown = done(review(whole.engine(), "mask"))
    added = [text for file in shown.diff.files for _, text in file.added_lines()]
    assert added == ["evil"]


ADDRESSES = ("ext::sh -c touch% {}", "--upload-pack=touch {}", "--output={}", "-o{}", "@{{-1}}")


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_is_a_command_is_nothing_to_us(whole: Whole, address: str) -> None:
    mark = whole.outside / "mark"
    word = address.format(mark)
    whole.run("one", "echo 1 > one")
    attempts = (
        lambda: whole.start("two", "true", base=word),
        lambda: whole.start("two", "true", folder=Path(word)),
        lambda: whole.start(word, "true"),
        lambda: done(apply(whole.engine(), "one", into=word)),
        lambda: done(apply(whole.engine(), word)),
    )
    for attempt in attempts:
        with pytest.raises((AgsError, OSError)):
            attempt()
    assert not mark.exists()


def test_an_address_in_the_settings_runs_nothing_and_is_not_there_inside(whole: Whole) -> None:
    mark = whole.outside / "mark"
    whole.sh(f"git config remote.origin.url 'ext::sh -c touch% {mark}'; "
             "git config protocol.ext.allow always")  # fmt: skip
    run = whole.run("one", "git config --list; git fetch origin; git remote -v; echo 1 > one")
    assert run.state == "done"
    assert "ext::" not in told(runs.directory(whole.state, run.id)).replace(run.goal, "")
    done(review(whole.engine(), "one"))
    done(apply(whole.engine(), "one"))
    assert not mark.exists()
    whole.sh("git fetch origin", check=False)
    assert mark.exists()


LATER = {
    ".husky/pre-commit": "git runs it",
    ".githooks/post-merge": "git runs it",
    ".pre-commit-config.yaml": "git runs it",
    ".github/workflows/x.yml": "",
    ".gitlab-ci.yml": "",
    "Makefile": "build",
    "sub/makefile": "build",
    "package.json": "scripts.postinstall",
    "setup.py": "build",
    ".vscode/tasks.json": "",
    ".idea/workspace.xml": "",
    ".claude/settings.json": "",
    ".mcp.json": "",
    "CLAUDE.md": "",
    ".envrc": "",
    ".gitattributes": "",
    "d/.gitattributes": "",
    ".gitmodules": "",
    ".lfsconfig": "",
    "tool": "can be run by its name",
    "bare/config": "git run in this folder",
}
MAKE_LATER = r"""
for each in %s; do mkdir -p "$(dirname "$each")"; echo x > "$each"; done
echo '{"scripts": {"postinstall": "touch x"}}' > package.json
printf '* diff=x\n' | tee .gitattributes > d/.gitattributes
printf '[submodule "x"]\n\tpath = x\n\turl = h\n' > .gitmodules
echo 'ref: refs/heads/main' > bare/HEAD; mkdir -p bare/objects bare/refs
echo x > tool; chmod +x tool; ln -s /etc/passwd out; echo plain > plain.txt
git add -f .; git commit -qm all
"""


def test_what_the_host_would_run_later_is_listed_at_review(whole: Whole) -> None:
    run = whole.run("later", MAKE_LATER % " ".join(f"'{path}'" for path in LATER))
    assert run.result is not None, told(runs.directory(whole.state, run.id))
    shown = done(review(whole.engine(), "later"))
    listed: dict[str, str] = {}
    for risk in shown.risks:
        listed[risk.path] = listed.get(risk.path, "") + risk.reason
    assert set(LATER) <= set(listed), set(LATER) - set(listed)
    assert {path: listed[path] for path, why in LATER.items() if why not in listed[path]} == {}
    assert "leads out" in listed["out"]
    assert "plain.txt" not in listed
    assert "plain.txt" in {file.path for file in shown.diff.files}
