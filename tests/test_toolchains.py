"""The person's toolchains are there inside; their credentials, and everything else, are not."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ags.backends import bwrap
from ags.errors import AgsError
from ags.model import Bind, Link, Mask, MountStep
from ags.toolchains import KNOWN, PROGRAMS_PER_ENTRY, STANDARD_PATH, Known, Toolchains, discover

STRANGER = 54321
SECRET = "hunter2-canary"


@dataclass(frozen=True)
class Person:
    """A home on a machine of its own, with a workspace and a folder of keys."""

    home: Path

    @property
    def workspace(self) -> Path:
        return self.home / "work"

    @property
    def keys(self) -> Path:
        return self.home / ".ssh"

    @property
    def elsewhere(self) -> Path:
        return self.home.parent.parent / "data"

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

    def look(self, *path: str | Path, uid: int = -1, gid: int = -1, **env: Path | str) -> Toolchains:
        return discover(
            self.home,
            {"PATH": ":".join(map(str, path)), **{name: str(value) for name, value in env.items()}},
            uid=os.getuid() if uid < 0 else uid,
            gid=os.getgid() if gid < 0 else gid,
            covered=[Path("/usr"), self.workspace],
            forbidden=[self.home, self.home / ".ags", self.keys],
        )


def make_person(base: Path) -> Person:
    person = Person(base / "homes" / "person")
    for folder in (person.workspace, person.keys, person.elsewhere, person.home / ".ags"):
        folder.mkdir(parents=True)
    person.write(".ssh/id_ed25519", SECRET, 0o700)
    return person


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """A place that every user can reach, which the temporary folders of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="ags-toolchains-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


@pytest.fixture
def person(ground: Path) -> Person:
    base = Path(tempfile.mkdtemp(dir=ground))
    base.chmod(0o755)
    return make_person(base)


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


def name_of(known: Known) -> str:
    return f"{known.name}-{known.variable}".replace(" ", "-")


def plant(root: Path, known: Known) -> None:
    """A folder that looks like the toolchain."""
    for name in (*known.marks.split(), *known.parts.split(), "any/thing"):
        (root / name.replace("*", "1")).mkdir(parents=True, exist_ok=True)


# The table


@pytest.mark.parametrize("known", [known for known in KNOWN if known.folders], ids=name_of)
def test_every_known_toolchain_is_found_in_its_usual_place(person: Person, known: Known) -> None:
    folders = [folder for folder in known.folders.split() if not folder.startswith("/")]
    for folder in folders:
        root = person.home / folder.replace("*", "1")
        plant(root, known)
        found = person.look()
        expected = {str(root / part) for part in known.parts.split() or [""]}
        assert expected <= set(binds(found)), folder
        assert not found.environment


@pytest.mark.parametrize("known", [known for known in KNOWN if known.variable], ids=name_of)
def test_every_variable_moves_its_toolchain(person: Person, known: Known) -> None:
    for folder in known.folders.split():
        plant(person.home / folder.lstrip("/").replace("*", "1"), known)
    plant(person.elsewhere, known)
    found = person.look(**{known.variable: person.elsewhere})
    assert {str(person.elsewhere / p) for p in known.parts.split() or [""]} <= set(binds(found))
    assert found.environment == ((known.variable, str(person.elsewhere)),)
    assert not found.notes


def test_a_moved_toolchain_is_no_longer_looked_for_at_home(person: Person) -> None:
    (person.home / ".pyenv/versions").mkdir(parents=True)
    (person.elsewhere / "versions").mkdir()
    assert str(person.home / ".pyenv") in binds(person.look())
    assert list(binds(person.look(PYENV_ROOT=person.elsewhere))) == [str(person.elsewhere)]


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
    text = value.format(home=person.home)
    found = person.look(PYENV_ROOT=text)
    assert found.steps == () and found.environment == ()
    assert len(found.notes) == 1 and "PYENV_ROOT" in found.notes[0]


def test_of_a_list_only_what_is_believed_is_passed_on(person: Person) -> None:
    (person.elsewhere / "pkg/mod").mkdir(parents=True)
    found = person.look(GOPATH=f"{person.keys}:{person.elsewhere}:/")
    assert dict(found.environment) == {"GOPATH": str(person.elsewhere)}
    assert len(found.notes) == 2


def test_of_go_packages_only_programs_and_modules_are_shown(person: Person) -> None:
    for part in ("bin", "pkg/mod", "src/private"):
        (person.home / "go" / part).mkdir(parents=True)
    found = person.look()
    assert inside(found.steps, person.home / "go/bin/tool") == "shown"
    assert inside(found.steps, person.home / "go/pkg/mod/x") == "shown"
    assert inside(found.steps, person.home / "go/src/private") == "absent"


def test_a_home_that_is_no_absolute_path_is_an_error() -> None:
    with pytest.raises(AgsError, match="not an absolute path"):
        Person(Path("here")).look()


# Credentials


def test_a_credential_is_hidden_after_whatever_would_show_it(person: Person) -> None:
    token = person.write(".nvm/versions/node/v1/etc/npmrc", SECRET, 0o600)
    top = person.write(".nvm/.npmrc", SECRET, 0o600)
    tool = person.write(".nvm/versions/node/v1/bin/node")
    found = person.look(tool.parent)
    assert [inside(found.steps, path) for path in (token, top, tool)] == [
        *("hidden", "hidden", "shown")
    ]
    flipped = found.steps[::-1]
    assert inside(flipped, token) == inside(flipped, top) == "shown"


def test_a_credential_behind_a_link_is_hidden_where_it_really_is(person: Person) -> None:
    real = person.write(".pyenv/deep/kept", SECRET)
    person.link(".pyenv/.netrc", "deep/kept")
    person.link(".pyenv/.npmrc", person.home / ".npmrc-that-is-not-there")
    found = person.look()
    assert inside(found.steps, real) == "hidden"
    assert sum(isinstance(step, Mask) for step in found.steps) == 1


def test_a_folder_of_credentials_is_hidden_as_a_folder(person: Person) -> None:
    person.write("miniconda3/pkgs/cache/1.json", SECRET)
    person.write("miniconda3/.condarc", SECRET)
    masks = [step for step in person.look().steps if isinstance(step, Mask)]
    assert {(step.target.name, step.kind) for step in masks} == {
        *((".condarc", "file"), ("cache", "dir"))
    }


def test_a_socket_beside_programs_is_hidden(person: Person) -> None:
    (person.home / ".pyenv").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(person.home / ".pyenv/daemon"))
        found = person.look()
    assert inside(found.steps, person.home / ".pyenv/daemon") == "hidden"


def test_a_credential_made_later_is_outside_what_is_shown_of_cargo(person: Person) -> None:
    cargo = person.write(".cargo/bin/cargo")
    found = person.look()
    assert inside(found.steps, cargo) == "shown"
    for name in ("credentials", "credentials.toml", "config.toml"):
        assert inside(found.steps, person.home / ".cargo" / name) == "absent"


# Links


def test_a_linked_toolchain_is_bound_where_it_is_and_linked_where_it_is_seen(
    person: Person,
) -> None:
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
    assert found.path[0] == str(seen.parent)


def test_a_link_to_anywhere_else_is_bound_with_its_resolved_source(person: Person) -> None:
    real = person.write("projects/tool/run.sh")
    person.link("middle", real)
    seen = person.link("bin/tool", "../middle")
    assert binds(person.look(seen.parent)) == {str(seen): str(real)}


def test_links_that_lead_nowhere_or_to_keys_are_left_out(person: Person) -> None:
    good = person.write("bin/good")
    person.link("bin/loop", "loop")
    person.link("bin/dangling", "nothing")
    person.link("bin/folder", person.elsewhere)
    person.link("bin/key", person.keys / "id_ed25519")
    person.link("bin/netrc", person.write(".netrc", SECRET))
    assert binds(person.look(good.parent)) == {str(good): str(good)}


def test_a_link_that_an_agent_put_in_the_workspace_is_not_followed(person: Person) -> None:
    private = person.write("private/tool")
    person.link("work/tool", private)
    seen = person.link("bin/tool", person.workspace / "tool")
    folder = person.link("more", person.workspace / "folder")
    person.link("work/folder", private.parent)
    found = person.look(seen.parent, folder)
    assert binds(found) == {}
    assert links(found)[str(seen)] == str(person.workspace / "tool")
    assert links(found)[str(folder)] == str(person.workspace / "folder")


def test_a_link_that_the_person_put_outside_the_workspace_is_followed(person: Person) -> None:
    private = person.write("private/tool")
    person.link("mine/tool", private)
    seen = person.link("bin/tool", person.home / "mine/tool")
    assert binds(person.look(seen.parent)) == {str(seen): str(private)}


# PATH


def test_the_path_keeps_its_order_and_ends_with_the_standard_folders(person: Person) -> None:
    first, second = person.write("b/one").parent, person.write("a/two").parent
    path = person.look("", ".", "relative/bin", first, "/usr/bin", f"{second}/", first, "~/x").path
    assert path == (str(first), "/usr/bin", str(second), *STANDARD_PATH)
    assert person.look().path == STANDARD_PATH
    assert person.look(first, "/usr/bin", "/bin").path == (
        *(str(first), "/usr/bin", "/bin"),
        *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/sbin"),
    )


def test_what_is_mounted_anyway_stays_on_the_path_and_takes_no_step(person: Person) -> None:
    entries = [person.workspace / "node_modules/.bin", person.workspace / ".venv/bin", "/bin"]
    found = person.look(*entries)
    assert found.path[:3] == tuple(map(str, entries))
    assert found.steps == found.notes == ()


def test_a_folder_of_nothing_but_programs_is_bound_once(person: Person) -> None:
    folder = person.write("bin/one").parent
    person.write("bin/two")
    person.link("bin/three", "two")
    assert binds(person.look(folder)) == {str(folder): str(folder)}


@pytest.mark.parametrize("other", ["README", "token", ".netrc", "id_rsa.pub", "server.PEM"])
def test_a_folder_that_holds_more_shows_only_its_programs(person: Person, other: str) -> None:
    program = person.write("bin/one")
    person.write(f"bin/{other}", SECRET, 0o644 if other == "README" else 0o755)
    (person.home / "bin/folder").mkdir()
    assert binds(person.look(program.parent)) == {str(program): str(program)}


def test_of_very_many_programs_the_first_are_shown_and_it_is_said(person: Person) -> None:
    person.write("bin/README", mode=0o644)
    for number in range(PROGRAMS_PER_ENTRY + 1):
        program = person.write(f"bin/p{number:04}")
    found = person.look(program.parent)
    assert len(binds(found)) == PROGRAMS_PER_ENTRY
    assert str(program) not in binds(found)
    assert len(found.notes) == 1 and str(PROGRAMS_PER_ENTRY) in found.notes[0]


@pytest.mark.parametrize(
    "entry", ["/", "{home}", "{home}/..", "{home}/.ssh", "{home}/.ags", "{home}/all", "/proc/self",
              "/dev/fd", "/etc"],
)  # fmt: skip
def test_an_entry_that_would_show_too_much_is_dropped_with_a_note(
    person: Person, entry: str
) -> None:
    person.link("all", person.home.parent)
    found = person.look(entry.format(home=person.home))
    assert found.steps == () and found.path == STANDARD_PATH
    assert len(found.notes) == 1


def test_programs_that_everybody_may_change_are_dropped(person: Person) -> None:
    folder = person.write("bin/one").parent
    assert str(folder) in person.look(folder).path
    folder.chmod(0o777)
    found = person.look(folder)
    assert found.steps == () and found.path == STANDARD_PATH
    assert "everybody may write" in found.notes[0]


def test_programs_of_another_user_are_dropped(person: Person) -> None:
    folder = person.write("bin/one").parent
    owner = os.getuid() or STRANGER
    os.chown(folder, owner, -1)
    # As seen by somebody whose home belongs to root.
    other = Person(Path("/usr/share"))
    assert str(folder) not in other.look(folder, uid=STRANGER + 1).path
    assert str(folder) in other.look(folder, uid=owner).path


def test_names_that_are_not_text_are_shown_like_any_other(person: Person) -> None:
    odd = os.fsdecode(b"caf\xe9")
    program = person.write(f"{odd}/{odd}")
    person.write(f"{odd}/README", mode=0o644)
    found = person.look(program.parent)
    assert binds(found) == {str(program): str(program)}
    program.parent.chmod(0o777)
    (note,) = person.look(program.parent).notes
    assert note.isprintable() and note.encode()


def test_a_virtual_environment_on_the_path_brings_its_packages(person: Person) -> None:
    person.write("venv/pyvenv.cfg", "home = /usr/bin\n", 0o644)
    private = person.write("venv/notes", SECRET)
    python = person.link("venv/bin/python", "/usr/bin/python3")
    package = person.write("venv/lib/python3/site-packages/x.py", mode=0o644)
    found = person.look(python.parent, VIRTUAL_ENV=person.workspace / ".venv")
    assert inside(found.steps, package) == inside(found.steps, python) == "shown"
    assert inside(found.steps, private) == "absent"
    assert dict(found.environment) == {"VIRTUAL_ENV": str(person.workspace / ".venv")}


@pytest.mark.skipif(not os.access("/opt", os.W_OK), reason="only root can put programs in /opt")
def test_a_folder_in_opt_is_there_if_the_path_leads_into_it(person: Person) -> None:
    with tempfile.TemporaryDirectory(dir="/opt") as root:
        Path(root).chmod(0o755)
        Path(root, "deep/bin").mkdir(parents=True)
        assert binds(person.look()) == {}
        assert binds(person.look(f"{root}/deep/bin")) == {root: root}


# Who reaches what


def test_what_the_user_inside_cannot_reach_is_left_out_with_a_note(person: Person) -> None:
    program = person.write(".cargo/bin/cargo")
    assert inside(person.look(program.parent, uid=STRANGER).steps, program) == "shown"
    person.home.chmod(0o700)
    assert inside(person.look(program.parent).steps, program) == "shown"
    found = person.look(program.parent, uid=STRANGER, gid=STRANGER)
    assert found.steps == () and found.path == STANDARD_PATH
    assert [f"user {STRANGER} cannot reach it" in note for note in found.notes] == [True, True]


def test_user_0_without_capabilities_reaches_no_more_than_its_mode_bits(person: Person) -> None:
    folder = person.write(".pyenv/versions/x").parent.parent
    assert str(folder) in binds(person.look(uid=0, gid=0))
    folder.chmod(0o700)
    os.chown(folder, os.getuid() or STRANGER, -1)
    assert binds(person.look(uid=0, gid=STRANGER)) == {}


def test_the_group_reaches_what_its_bits_allow(person: Person) -> None:
    folder = person.write(".pyenv/versions/x").parent.parent
    folder.chmod(0o750)
    assert str(folder) in binds(person.look(uid=STRANGER, gid=os.stat(folder).st_gid))
    assert binds(person.look(uid=STRANGER, gid=STRANGER)) == {}


# Anything at all


@pytest.fixture(scope="module")
def maze(ground: Path) -> Person:
    """A home full of traps, for PATHs and variables nobody thought of."""
    base = ground / "maze"
    base.mkdir()
    person = make_person(base)
    for known in KNOWN:
        for folder in known.folders.split():
            plant(person.home / folder.lstrip("/").replace("*", "1"), known)
    for name in ("versions", "bin", "lib/node_modules", "conda-meta", "pyvenv.cfg"):
        (person.elsewhere / name).mkdir(parents=True)
        (person.keys / name).mkdir(parents=True)
    person.write("bin/tool")
    person.link("bin/key", "../.ssh/id_ed25519")
    person.link("bin/up", "..")
    for name, to in (("all", "../.."), ("loop", "loop"), ("k", ".ssh"), ("root", "/")):
        person.link(name, to)
        person.link(f"work/{name}", to)
    return person


SPELLED = ("bin", ".ssh", ".ssh/bin", ".ags", "all", "loop", "k", "k/bin", "root", "work/all", "..",
           "../..", ".cargo/bin", ".pyenv", "work/k", "root/etc", "bin/up", ".nvm", "")  # fmt: skip
places = st.one_of(
    st.sampled_from(SPELLED).map("{home}/".__add__),
    st.lists(st.sampled_from(SPELLED), max_size=4).map(lambda parts: "/".join(("{home}", *parts))),
    st.sampled_from(
        ["/", "//", "/..", "/proc/self/root", "/usr/bin", "/bin", "{data}", "{data}/bin"]
    ),
    st.text(max_size=8),
    st.text(max_size=8).map("/".__add__),
)
paths = st.lists(places, max_size=6).map(":".join)


@settings(max_examples=300, deadline=None)
@given(
    paths, st.dictionaries(st.sampled_from([known.variable for known in KNOWN]), paths, max_size=3)
)
def test_whatever_the_environment_says_nothing_forbidden_is_shown(
    maze: Person, path: str, variables: dict[str, str]
) -> None:
    def real(text: str) -> str:
        return text.replace("{home}", str(maze.home)).replace("{data}", str(maze.elsewhere))

    found = maze.look(real(path), **{name: real(value) for name, value in variables.items()})
    closed = [maze.keys, maze.home / ".ags"]
    for step in found.steps:
        if isinstance(step, Bind):
            assert not step.writable
            assert step.source == step.source.resolve(strict=True)
            assert not maze.home.is_relative_to(step.source)
            assert not any(place.is_relative_to(step.source) for place in closed)
            assert not any(step.source.is_relative_to(place) for place in closed)
    targets = [step.target for step in found.steps if not isinstance(step, Mask)]
    assert len(set(targets)) == len(targets)
    for number, target in enumerate(targets):
        assert not any(target.is_relative_to(above) for above in targets[:number])
        assert not any(above.is_relative_to(target) for above in targets[:number])
        assert not PurePosixPath(maze.home).is_relative_to(target)
    assert all(entry.startswith("/") for entry in found.path)


# For real


def run_inside(person: Person, found: Toolchains, script: str, given: str = "") -> str:
    """What a shell script prints in a sandbox made of the system, an empty home and the steps."""
    with inside_shell(person, found, script) as shell:
        out, errors = shell.communicate(given, timeout=60)
    assert shell.returncode == 0, errors
    return out


def inside_shell(person: Person, found: Toolchains, script: str) -> subprocess.Popen[str]:
    program = bwrap.wheel()
    assert program is not None
    words = ["--unshare-user", "--unshare-pid", "--unshare-net", "--cap-drop", "ALL"]
    words += ["--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for name in ("bin", "lib", "lib64"):
        if Path("/", name).is_symlink():
            words += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif Path("/", name).is_dir():
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    words += ["--tmpfs", str(person.home)]
    empty = person.write("../empty", "", 0o444)
    for step in found.steps:
        words += rendered(step, empty)
    words += ["--clearenv", "--setenv", "HOME", str(person.home)]
    words += ["--setenv", "PATH", ":".join(found.path)]
    for name, value in found.environment:
        words += ["--setenv", name, value]
    return subprocess.Popen(
        [str(program), *words, "--", "/bin/sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rendered(step: MountStep, empty: Path) -> list[str]:
    target = str(step.target)
    match step:
        case Bind(source=source):
            return ["--ro-bind", str(source), target]
        case Link(to=to):
            return ["--symlink", to, target]
        case Mask(kind="file"):
            return ["--ro-bind", str(empty), target]
        case Mask():
            return ["--tmpfs", target, "--remount-ro", target]
        case _:
            raise AssertionError(step)


def test_a_shim_of_a_moved_and_linked_pyenv_runs_and_nothing_can_be_written(
    person: Person,
) -> None:
    person.elsewhere.rmdir()
    shutil.copytree(person.write("x/versions/1/bin/hello").parents[3], person.elsewhere)
    root = person.link("pyenv", person.elsewhere)
    shim = person.write("pyenv/shims/hello", '#!/bin/sh\nexec "$PYENV_ROOT/versions/1/bin/hello"\n')
    found = person.look(root / "shims", PYENV_ROOT=root)
    script = f"hello; echo evil > {shim} || echo refused; echo evil > {root}/new || echo refused"
    assert run_inside(person, found, script).split() == ["ran", "refused", "refused"]
    assert "evil" not in shim.read_text() and not (person.elsewhere / "new").exists()


def test_node_of_an_nvm_runs_a_linked_program_and_its_token_reads_as_empty(person: Person) -> None:
    node = shutil.which("node", path="/usr/local/bin:/usr/bin")
    assert node is not None, "install your distribution's `nodejs` package"
    version = person.home / ".nvm/versions/node/v1"
    token = person.write(".nvm/versions/node/v1/etc/npmrc", SECRET, 0o600)
    person.write(".nvm/credentials", SECRET)
    shutil.copy(node, person.write(".nvm/versions/node/v1/bin/node"))
    package = ".nvm/versions/node/v1/lib/node_modules/tool"
    person.write(f"{package}/cli.js", "#!/usr/bin/env node\nconsole.log(require('./lib.js'))\n")
    person.write(f"{package}/lib.js", "module.exports = process.execPath\n", 0o644)
    person.link(".local/bin/tool", version / "lib/node_modules/tool/cli.js")
    found = person.look(person.home / ".local/bin", version / "bin", NVM_DIR=person.home / ".nvm")
    script = f"tool; cat {token} $NVM_DIR/credentials; echo x > {token} || echo refused"
    assert run_inside(person, found, script).split() == [str(version / "bin/node"), "refused"]
    assert token.read_text() == SECRET
    unmasked = [step for step in found.steps if not isinstance(step, Mask)]
    open_wide = Toolchains(tuple(unmasked), found.path, found.environment, ())
    assert SECRET in run_inside(person, open_wide, f"cat {token}")


def test_cargo_runs_while_its_token_is_not_there_not_even_one_saved_meanwhile(
    person: Person,
) -> None:
    cargo = person.write(".cargo/bin/cargo")
    person.write(".cargo/credentials.toml", SECRET, 0o600)
    found = person.look(cargo.parent)
    script = "cargo; read go; cat ~/.cargo/cred* ~/.cargo/bin/cargo 2>&1; echo x > ~/.cargo/bin/n"
    with inside_shell(person, found, f"{script} || echo refused") as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "ran\n"
        person.write(".cargo/credentials", SECRET, 0o600)
        person.write(".cargo/credentials.toml", f"{SECRET}-again", 0o600)
        out, _ = shell.communicate("go\n", timeout=60)
    assert SECRET not in out and "echo ran" in out and out.endswith("refused\n")
    assert not (cargo.parent / "n").exists()
