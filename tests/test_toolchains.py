"""The person's toolchains are there inside; their credentials, and everything else, are not."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ags.backends import bwrap
from ags.errors import AgsError
from ags.model import Bind, Link, Mask, MountStep
from ags.toolchains import PROGRAMS_PER_ENTRY, STANDARD_PATH, Toolchains, discover
from ags.toolchains.known import KNOWN, Known
from bootstrap.packages import find_program

STRANGER, SECRET = 54321, "hunter2-canary"


@dataclass(frozen=True)
class Person:
    """A home with a workspace and a folder of keys in it, and a folder elsewhere."""

    home: Path
    workspace: Path
    keys: Path
    elsewhere: Path

    def write(self, path: str, text: str = "#!/bin/sh\necho ran\n", mode: int = 0o755) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def link(self, path: str, to: str | Path) -> Path:
        place = self.home / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(to)
        return place

    def look(
        self,
        *path: str | Path,
        env: Mapping[str, object] | None = None,
        uid: int = -1,
        gid: int = -1,
    ) -> Toolchains:
        return discover(
            self.home,
            {"PATH": ":".join(map(str, path)), **{k: str(v) for k, v in (env or {}).items()}},
            uid=os.getuid() if uid < 0 else uid,
            gid=os.getgid() if gid < 0 else gid,
            covered=[Path("/usr"), self.workspace],
            forbidden=[self.home, self.home / ".ags", self.keys],
        )


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """A place that every user can reach, which the temporary folders of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="ags-toolchains-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


def make_person(ground: Path) -> Person:
    base = Path(tempfile.mkdtemp(dir=ground))
    base.chmod(0o755)
    home = base / "homes" / "person"
    person = Person(home, home / "work", home / ".ssh", base / "data")
    for folder in (person.workspace, person.keys, person.elsewhere, home / ".ags"):
        folder.mkdir(parents=True)
    person.write(".ssh/id_ed25519", SECRET, 0o700)
    return person


@pytest.fixture
def person(ground: Path) -> Person:
    return make_person(ground)


def binds(found: Toolchains) -> dict[str, str]:
    steps = (step for step in found.steps if isinstance(step, Bind))
    return {str(step.target): str(step.source) for step in steps}


def links(found: Toolchains) -> dict[str, str]:
    return {str(step.target): step.to for step in found.steps if isinstance(step, Link)}


def inside(steps: Sequence[MountStep], path: Path) -> str:
    """What is at a path once the steps are done, one after the other."""
    state = "absent"
    for step in steps:
        if PurePosixPath(path).is_relative_to(step.target):
            state = "hidden" if isinstance(step, Mask) else "shown"
    return state


def plant(root: Path, known: Known) -> set[str]:
    """Make a folder that looks like the toolchain, and say what should be bound of it."""
    for name in (*known.marks.split(), *known.parts.split(), "any/thing"):
        (root / name.replace("*", "1")).mkdir(parents=True, exist_ok=True)
    return {str(root / part) for part in known.parts.split() or [""]}


def plant_at_home(home: Path, known: Known) -> set[str]:
    folders = (folder for folder in known.folders.split() if not folder.startswith("/"))
    planted = [plant(home / folder.replace("*", "1"), known) for folder in folders]
    return set().union(*planted)


def name_of(known: Known) -> str:
    return f"{known.name} {known.variable}"


@pytest.mark.parametrize("known", KNOWN, ids=name_of)
def test_every_known_toolchain_is_found_in_its_usual_places(person: Person, known: Known) -> None:
    expected = plant_at_home(person.home, known)
    found = person.look()
    assert expected <= set(binds(found)) and not found.environment


@pytest.mark.parametrize("known", [known for known in KNOWN if known.variable], ids=name_of)
def test_every_variable_moves_its_toolchain(person: Person, known: Known) -> None:
    expected = plant(person.elsewhere, known)
    if known.variable not in ("ASDF_DIR", "ASDF_DATA_DIR"):  # one home, two variables
        plant_at_home(person.home, known)
    found = person.look(env={known.variable: person.elsewhere})
    assert set(binds(found)) == expected
    assert found.environment == ((known.variable, str(person.elsewhere)),)
    assert not found.notes


@pytest.mark.parametrize(
    "value",
    ["relative", "/", "{home}", "{home}/..", "{home}/../..", "{home}/.ssh", "{home}/.ssh/deep",
     "{home}/.ags/deep", "{home}/innocent", "{home}/nothing", "{home}/plain", "{home}/loop",
     "{home}/.ssh/id_ed25519", "/etc", "/proc/self/cwd", "/run", "{home}/shared"],
)  # fmt: skip
def test_a_variable_that_leads_astray_is_not_believed(person: Person, value: str) -> None:
    for folder in (".ssh/deep", ".ags/deep", "shared", "."):
        (person.home / folder / "versions").mkdir(parents=True)
    (person.home / "shared").chmod(0o777)
    (person.home / "plain").mkdir()
    person.link("innocent", person.keys)
    person.link("loop", "loop")
    found = person.look(env={"PYENV_ROOT": value.format(home=person.home)})
    assert found.steps == () and found.environment == ()
    assert len(found.notes) == 1 and "PYENV_ROOT" in found.notes[0]


def test_of_a_list_only_what_is_believed_is_passed_on(person: Person) -> None:
    (person.elsewhere / "pkg/mod").mkdir(parents=True)
    found = person.look(env={"GOPATH": f"{person.keys}:{person.elsewhere}:/"})
    assert dict(found.environment) == {"GOPATH": str(person.elsewhere)}
    assert len(found.notes) == 2


def test_a_home_that_is_no_absolute_path_is_an_error(person: Person) -> None:
    with pytest.raises(AgsError, match="not an absolute path"):
        replace(person, home=Path("here")).look()


def test_a_credential_is_hidden_after_whatever_would_show_it(person: Person) -> None:
    token = person.write(".nvm/versions/node/v1/etc/npmrc", SECRET, 0o600)
    top = person.write(".nvm/.npmrc", SECRET, 0o600)
    tool = person.write(".nvm/versions/node/v1/bin/node")
    steps = person.look(tool.parent).steps
    assert [inside(steps, path) for path in (token, top, tool)] == ["hidden", "hidden", "shown"]
    assert inside(steps[::-1], token) == inside(steps[::-1], top) == "shown"


def test_a_credential_behind_a_link_is_hidden_where_it_really_is(person: Person) -> None:
    real = person.write(".pyenv/deep/kept", SECRET)
    person.link(".pyenv/.netrc", "deep/kept")
    person.link(".pyenv/.npmrc", person.home / "nothing")
    steps = person.look().steps
    assert inside(steps, real) == "hidden"
    assert sum(isinstance(step, Mask) for step in steps) == 1


def test_a_folder_of_credentials_is_hidden_as_a_folder(person: Person) -> None:
    person.write("miniconda3/pkgs/cache/1.json", SECRET)
    person.write("miniconda3/.condarc", SECRET)
    masks = {step.target.name: step.kind for step in person.look().steps if isinstance(step, Mask)}
    assert masks == {".condarc": "file", "cache": "dir"}


def test_a_socket_beside_programs_is_hidden(person: Person) -> None:
    daemon = person.write(".pyenv/program").with_name("daemon")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(daemon))
        assert inside(person.look().steps, daemon) == "hidden"


def test_a_linked_toolchain_is_bound_at_its_end_and_linked_as_seen(person: Person) -> None:
    (person.elsewhere / "versions").mkdir()
    seen = person.link(".pyenv", person.elsewhere)
    found = person.look(seen / "shims", seen / "versions")
    assert binds(found) == {str(person.elsewhere): str(person.elsewhere)}
    assert links(found) == {str(seen): str(person.elsewhere)}
    assert found.path[0] == str(seen / "versions")


def test_a_link_into_a_toolchain_stays_a_link(person: Person) -> None:
    real = person.write(".local/share/uv/python/cpython-3/bin/python3")
    seen = person.link(".local/bin/python", real)
    system = person.link(".local/bin/sh", "/usr/bin/sh")
    found = person.look(seen.parent)
    assert links(found) == {str(seen): str(real), str(system): "/usr/bin/sh"}


def test_links_that_lead_nowhere_or_to_keys_are_left_out(person: Person) -> None:
    good = person.write("bin/good")
    person.link("bin/loop", "loop")
    person.link("bin/dangling", "nothing")
    person.link("bin/folder", person.elsewhere)
    person.link("bin/key", person.keys / "id_ed25519")
    person.link("bin/harmless", person.write(".netrc", SECRET))
    assert binds(person.look(good.parent)) == {str(good): str(good)}


def test_a_link_is_followed_unless_an_agent_may_have_put_it_there(person: Person) -> None:
    private = person.write("private/tool")
    mine = person.link("mine/tool", private)
    theirs = person.link("work/tool", private)
    good, bad = person.link("bin/good", mine), person.link("bin/bad", theirs)
    folder = person.link("more", person.link("work/folder", private.parent))
    found = person.look(good.parent, folder)
    assert binds(found) == {str(good): str(private)}
    assert links(found) == {str(bad): str(theirs), str(folder): str(person.workspace / "folder")}


def test_the_path_keeps_its_order_and_ends_with_the_standard_folders(person: Person) -> None:
    first, second = person.write("b/one").parent, person.write("a/two").parent
    path = person.look("", ".", "relative/bin", first, "/usr/bin", f"{second}/", first, "~/x").path
    assert path == (str(first), "/usr/bin", str(second), *STANDARD_PATH)
    path = person.look(first, "/usr/bin", "/bin").path
    assert path[:3] == (str(first), "/usr/bin", "/bin")
    assert sorted(path[1:]) == sorted(STANDARD_PATH)


def test_what_is_mounted_anyway_stays_on_the_path_and_takes_no_step(person: Person) -> None:
    entries = (f"{person.workspace}/node_modules/.bin", f"{person.workspace}/.venv/bin", "/bin")
    found = person.look(*entries)
    assert (found.path[:3], found.steps, found.notes) == (entries, (), ())


def test_a_folder_of_nothing_but_programs_is_bound_once(person: Person) -> None:
    folder = person.write("bin/one").parent
    person.link("bin/two", "one")
    assert binds(person.look(folder)) == {str(folder): str(folder)}


@pytest.mark.parametrize("other", ["README", "token", ".netrc", "id_rsa.pub", "server.PEM"])
def test_a_folder_that_holds_more_shows_only_its_programs(person: Person, other: str) -> None:
    program = person.write("bin/one")
    person.write(f"bin/{other}", SECRET, 0o644 if other == "README" else 0o755)
    assert binds(person.look(program.parent)) == {str(program): str(program)}


def test_of_very_many_programs_the_first_are_shown_and_it_is_said(person: Person) -> None:
    person.write("bin/README", mode=0o644)
    for number in range(PROGRAMS_PER_ENTRY + 1):
        program = person.write(f"bin/p{number:04}")
    found = person.look(program.parent)
    assert len(binds(found)) == PROGRAMS_PER_ENTRY and str(program) not in binds(found)
    assert len(found.notes) == 1 and str(PROGRAMS_PER_ENTRY) in found.notes[0]


@pytest.mark.parametrize(
    "entry", ["/", "{home}", "{home}/..", "{home}/.ssh", "{home}/.ags", "{home}/all", "/proc/self",
              "/dev/fd", "/etc"],
)  # fmt: skip
def test_an_entry_that_would_show_too_much_is_dropped(person: Person, entry: str) -> None:
    person.link("all", person.home.parent)
    found = person.look(entry.format(home=person.home))
    assert (found.steps, found.path, len(found.notes)) == ((), STANDARD_PATH, 1)


def test_programs_that_others_may_have_put_there_are_dropped(person: Person) -> None:
    folder = person.write("bin/one").parent
    owner = os.getuid() or STRANGER
    os.chown(folder, owner, -1)
    somebody = replace(person, home=Path("/usr/share"))  # whose home is root's
    assert str(folder) in somebody.look(folder, uid=owner).path
    assert str(folder) not in somebody.look(folder, uid=STRANGER + 1).path
    folder.chmod(0o777)
    found = somebody.look(folder, uid=owner)
    assert found.path == STANDARD_PATH and "everybody may write" in found.notes[0]


def test_dots_are_resolved_before_an_entry_is_judged(person: Person) -> None:
    person.write(f"{person.elsewhere}/x/one")
    far = person.link("far", person.write(f"{person.elsewhere}/deep/two").parent)
    found = person.look(f"{far}/../x", f"{person.workspace}/../.ssh")
    assert found.path == (str(person.elsewhere / "x"), *STANDARD_PATH)


def test_a_toolchain_makes_way_for_a_mount_below_it_that_it_cannot_carry(person: Person) -> None:
    person.write(f"{person.elsewhere}/mine/x")
    person.link(".pyenv", person.elsewhere)
    for workspace, steps in (("mine", 2), ("missing", 0), (f"{person.home}/.pyenv/mine", 0)):
        other = replace(person, workspace=person.elsewhere / workspace)
        assert len(other.look().steps) == steps, workspace


def test_names_that_are_not_text_are_shown_like_any_other(person: Person) -> None:
    odd = os.fsdecode(b"caf\xe9")
    program = person.write(f"{odd}/{odd}")
    person.write(f"{odd}/README", mode=0o644)
    assert binds(person.look(program.parent)) == {str(program): str(program)}
    program.parent.chmod(0o777)
    (note,) = person.look(program.parent).notes
    assert note.isprintable() and note.encode()


def test_a_virtual_environment_on_the_path_brings_its_packages(person: Person) -> None:
    person.write("venv/pyvenv.cfg", "home = /usr/bin\n", 0o644)
    private = person.write("venv/notes", SECRET)
    python = person.link("venv/bin/python", "/usr/bin/python3")
    package = person.write("venv/lib/python3/site-packages/x.py", mode=0o644)
    found = person.look(python.parent, env={"VIRTUAL_ENV": person.workspace / ".venv"})
    shown = [inside(found.steps, path) for path in (package, python, private)]
    assert shown == ["shown", "shown", "absent"]
    assert dict(found.environment) == {"VIRTUAL_ENV": str(person.workspace / ".venv")}


@pytest.mark.skipif(not os.access("/opt", os.W_OK), reason="only root can put programs in /opt")
def test_a_folder_in_opt_is_there_if_the_path_leads_into_it(person: Person) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as root:
        Path(root).chmod(0o755)
        Path(root, "deep/bin").mkdir(parents=True)
        assert binds(person.look()) == {}
        assert binds(person.look(f"{root}/deep/bin")) == {root: root}


def test_what_the_user_inside_cannot_reach_is_left_out_with_a_note(person: Person) -> None:
    program = person.write(".cargo/bin/cargo")
    assert inside(person.look(program.parent, uid=STRANGER).steps, program) == "shown"
    person.home.chmod(0o700)
    assert inside(person.look(program.parent).steps, program) == "shown"
    found = person.look(program.parent, uid=STRANGER, gid=STRANGER)
    assert found.steps == () and found.path == STANDARD_PATH
    assert [f"user {STRANGER} cannot reach it" in note for note in found.notes] == [True, True]


def test_nobody_reaches_more_than_the_mode_bits_allow_not_even_user_0(person: Person) -> None:
    folder = person.write(".pyenv/versions/x").parent.parent
    assert str(folder) in binds(person.look(uid=0, gid=0))
    os.chown(folder, os.getuid() or STRANGER, -1)
    folder.chmod(0o750)
    assert str(folder) in binds(person.look(uid=0, gid=folder.stat().st_gid))
    assert binds(person.look(uid=0, gid=STRANGER)) == {}


def test_what_nobody_inside_can_enter_needs_no_mask(person: Person) -> None:
    token = person.write(".nvm/versions/node/v1/etc/npmrc")
    token.parent.chmod(0o700)
    assert inside(person.look().steps, token) == "hidden"
    assert inside(person.look(uid=STRANGER, gid=STRANGER).steps, token) == "shown"


@pytest.fixture(scope="module")
def maze(ground: Path) -> Person:
    """A home full of traps, for paths nobody thought of."""
    person = make_person(ground)
    for root in (person.elsewhere, person.keys, person.home):
        for name in ("versions", "bin", "lib/node_modules", "conda-meta", "pyvenv.cfg", "registry"):
            (root / name).mkdir(parents=True)
    person.write(".cargo/bin/cargo")
    person.write("bin/tool")
    person.link("bin/key", "../.ssh/id_ed25519")
    for name, to in (("all", "../.."), ("loop", "loop"), ("k", ".ssh"), ("root", "/")):
        person.link(name, to)
        person.link(f"work/{name}", person.home / to)
    return person


PARTS = ["bin", ".ssh", ".ags", "all", "loop", "k", "root", "work", "..", ".", "", ".cargo", "etc",
         "homes", "person", "data", "versions"]  # fmt: skip
places = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=5).map(lambda parts: "/".join(("HOME", *parts))),
    st.sampled_from(["/", "//", "/..", "/proc/self/root", "/usr/bin", "/bin", "HOME/../../data"]),
    st.text(max_size=8),
    st.text(max_size=8).map("/".__add__),
)
paths = st.lists(places, max_size=5).map(":".join)
variables = st.sampled_from([known.variable for known in KNOWN if known.variable])


@settings(max_examples=200, deadline=None)
@given(paths, st.dictionaries(variables, paths, max_size=3))
def test_whatever_the_environment_says_nothing_forbidden_is_shown(
    maze: Person, path: str, named: dict[str, str]
) -> None:
    home = str(maze.home)
    env = {name: value.replace("HOME", home) for name, value in named.items()}
    found = maze.look(path.replace("HOME", home), env=env)
    for step in found.steps:
        if isinstance(step, Bind):
            assert not step.writable
            assert step.source == step.source.resolve(strict=True)
            assert not maze.home.is_relative_to(step.source)
            for closed in (maze.keys, maze.home / ".ags"):
                assert not closed.is_relative_to(step.source)
                assert not step.source.is_relative_to(closed)
    targets = [step.target for step in found.steps if not isinstance(step, Mask)]
    for number, target in enumerate(targets):
        assert not {target, *target.parents} & set(targets[:number])
        assert not any(target in earlier.parents for earlier in targets[:number])
        assert target not in PurePosixPath(home, "x").parents
    assert all(entry.startswith("/") for entry in found.path)


def shell(person: Person, found: Toolchains, script: str) -> subprocess.Popen[str]:
    """A script in a sandbox made of the system, an empty home and the steps."""
    words = ["--unshare-user", "--unshare-pid", "--unshare-net", "--cap-drop", "ALL", "--clearenv"]
    for folder in ("/usr", "/bin", "/lib", "/lib64"):
        words += ["--ro-bind-try", folder, folder]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", str(person.home)]
    empty = person.write("../empty", "", 0o644)
    for step in found.steps:
        words += rendered(step, empty)
    own = (("HOME", str(person.home)), ("PATH", ":".join(found.path)))
    for name, value in (*found.environment, *own):
        words += ["--setenv", name, value]
    argv = [str(bwrap.wheel()), *words, "--", "/bin/sh", "-c", script]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def rendered(step: MountStep, empty: Path) -> Sequence[str]:
    match step:
        case Bind(source=source, target=target):
            return ("--ro-bind", str(source), str(target))
        case Link(target=target, to=to):
            return ("--symlink", to, str(target))
        case Mask(target=target, kind="file"):
            return ("--ro-bind", str(empty), str(target))
        case _:
            return ("--tmpfs", str(step.target), "--remount-ro", str(step.target))


def printed(person: Person, found: Toolchains, script: str) -> list[str]:
    with shell(person, found, script) as process:
        out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out.split()


def test_a_shim_of_a_linked_pyenv_runs_and_nothing_can_be_written(person: Person) -> None:
    root = person.link("pyenv", person.elsewhere)
    person.write("pyenv/versions/1/bin/hello")
    shim = person.write("pyenv/shims/hello", '#!/bin/sh\nexec "$PYENV_ROOT/versions/1/bin/hello"\n')
    found = person.look(root / "shims", env={"PYENV_ROOT": root})
    script = f"hello; echo evil > {shim} || echo refused; echo evil > {root}/new || echo refused"
    assert printed(person, found, script) == ["ran", "refused", "refused"]
    assert "evil" not in shim.read_text() and not (person.elsewhere / "new").exists()


def test_node_of_an_nvm_runs_a_linked_program_and_its_token_reads_as_empty(person: Person) -> None:
    token = person.write(".nvm/versions/node/v1/etc/npmrc", SECRET, 0o600)
    version = token.parent.parent
    person.write(".nvm/credentials", SECRET)
    real_node = find_program("node") or "install your distribution's `nodejs` package"
    shutil.copy(real_node, person.write(".nvm/versions/node/v1/bin/node"))
    cli = person.write(".nvm/t/cli.js", "#!/usr/bin/env node\nconsole.log(require('./lib.js'))\n")
    person.write(".nvm/t/lib.js", "module.exports = process.execPath\n", 0o644)
    tool = person.link(".local/bin/tool", cli)
    found = person.look(tool.parent, version / "bin", env={"NVM_DIR": person.home / ".nvm"})
    script = f"tool; cat {token} $NVM_DIR/credentials; echo x > {token} || echo refused"
    assert printed(person, found, script) == [str(version / "bin/node"), "refused"]
    assert token.read_text() == SECRET
    bare = replace(found, steps=tuple(step for step in found.steps if not isinstance(step, Mask)))
    assert printed(person, bare, f"cat {token}") == [SECRET]


def test_cargo_runs_and_its_token_is_not_there_nor_one_saved_meanwhile(person: Person) -> None:
    cargo = person.write(".cargo/bin/cargo")
    person.write(".cargo/credentials.toml", SECRET, 0o600)
    script = "cargo; read go; cat ~/.cargo/cred* $(command -v cargo); echo x > ~/.cargo/bin/new"
    with shell(person, person.look(cargo.parent), f"{script} || echo refused") as process:
        assert process.stdout and process.stdout.readline() == "ran\n"
        person.write(".cargo/credentials", SECRET, 0o600)
        (person.home / ".cargo/credentials.toml").unlink()
        person.write(".cargo/credentials.toml", SECRET, 0o600)
        out, _ = process.communicate("go\n", timeout=120)
    assert SECRET not in out and "echo ran" in out and out.endswith("refused\n")
    assert not cargo.with_name("new").exists()
