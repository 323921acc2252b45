"""What may be written in the settings, and how a mistake is answered."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.config.load import EXAMPLE, parse
from ags.config.schema import (
    LimitsConfig,
    MountConfig,
    Network,
    Sandbox,
    SecretConfig,
    Settings,
    Tool,
    Workspace,
)
from ags.config.values import Percent
from ags.errors import ConfigError
from ags.model import Limits
from tests.config.documents import documents, toml_like

FILE = Path("/home/ada/.config/ags/config.toml")
HOME = Path("/home/ada")


def settings(text: str) -> Settings:
    return parse(text, FILE, HOME)


def uncommented(text: str) -> str:
    """The example with every key set: prose has a blank after its `#`, keys have none."""
    return re.sub(r"(?m)^#(?=\S)", "", text)


def test_an_empty_file_holds_the_defaults() -> None:
    assert settings("") == Settings(source=FILE)


def test_the_example_holds_exactly_the_defaults() -> None:
    assert settings(EXAMPLE.read_text()) == Settings(source=FILE)


def test_the_example_with_every_key_set_still_holds_the_defaults_and_one_of_each_list() -> None:
    full = settings(uncommented(EXAMPLE.read_text()))
    plain = Settings()
    assert (full.sandbox, full.limits, full.workspace, full.network) == (
        plain.sandbox,
        plain.limits,
        plain.workspace,
        plain.network,
    )
    (secret,) = full.secrets
    usual = SecretConfig("company-api", "COMPANY_API_KEY", host="api.company.example")
    assert secret == replace(usual, secret_store="company-api", template="Bearer {}")
    assert (usual.sent_as, replace(usual, header="x-key").sent_as) == ("Bearer {}", "{}")
    datasets, tool = HOME / "datasets", HOME / "opt/mytool"
    assert full.mounts == (MountConfig(datasets, PurePosixPath(datasets), kind="dir"),)
    assert full.tools == (
        Tool(
            "mytool",
            path=(PurePosixPath(tool / "bin"),),
            env=(("MYTOOL_COLOR", "always"),),
            directories=(MountConfig(tool, PurePosixPath(tool), kind="dir"),),
        ),
    )


def test_the_example_has_every_key_there_is() -> None:
    document = tomllib.loads(uncommented(EXAMPLE.read_text()))

    def names(cls: type, *, without: str = "", **spelled: str) -> list[str]:
        return [spelled.get(f.name, f.name) for f in fields(cls) if f.name != without]

    assert sorted(document) == sorted(
        names(Settings, without="source", mounts="mount", tools="tool", secrets="secret")
    )
    assert list(document["sandbox"]) == names(Sandbox)
    assert list(document["limits"]) == names(LimitsConfig)
    assert list(document["workspace"]) == names(Workspace)
    assert list(document["network"]) == names(Network)
    # Of the places a secret can come from, one is set; the others are in the text beside it.
    sources = ("from_env", "from_file", "command")
    assert all(f"{name} = " in EXAMPLE.read_text() for name in sources)
    assert list(document["secret"][0]) == [n for n in names(SecretConfig) if n not in sources]
    assert list(document["mount"][0]) == names(MountConfig)
    assert list(document["tool"][0]) == names(Tool, directories="directory")
    assert list(document["tool"][0]["directory"][0]) == names(MountConfig)


def test_every_key_of_the_example_can_be_found_out_to_be_wrong() -> None:
    """A date fits nowhere: whatever key it is given to, that key and its line are named."""
    text = uncommented(EXAMPLE.read_text()).splitlines()
    places = [n for n, line in enumerate(text) if re.match(r"[a-z_]+ = ", line)]
    assert len(places) == 52
    for place in places:
        key = text[place].split(" = ")[0]
        broken = [*text[:place], f"{key} = 1979-05-27", *text[place + 1 :]]
        with pytest.raises(ConfigError) as caught:
            settings("\n".join(broken))
        assert caught.value.line == place + 1
        assert caught.value.key.endswith(f".{key}")
        assert "not a date" in caught.value.cause


def test_every_key_is_read() -> None:
    found = settings(
        """
        [sandbox]
        backend = "bubblewrap"
        passthrough_env = ["EDITOR", "_x", "MY_APP_*"]
        tmp_size = "1G"
        home_size = "512 MiB"
        shm_size = "1.5M"
        ptrace = true
        toolchains = false
        hostname = "box-1"
        [limits]
        memory = "8G"
        cpus = 1.5
        pids = "none"
        timeout = "10m"
        file_size = "none"
        open_files = 1
        disk_free = "none"
        memory_free = "none"
        [workspace]
        protect = ["deploy/", "a/./b", "app/[slug]"]
        unprotect = [".vscode", ".claude/settings*"]
        hard_links = "refuse"
        [[mount]]
        host = "~/data"
        [[mount]]
        host = "$HOME/cache"
        container = "/cache"
        mode = "rw"
        create = true
        optional = true
        [[tool]]
        name = "go-1.22"
        path = ["/opt/go/bin"]
        env.GOPATH = "/home/ada/go"
        """
    )
    assert found == Settings(
        source=FILE,
        sandbox=Sandbox(
            passthrough_env=("EDITOR", "_x", "MY_APP_*"),
            tmp_size=1 << 30,
            home_size=1 << 29,
            shm_size=3 << 19,
            ptrace=True,
            toolchains=False,
            hostname="box-1",
        ),
        limits=LimitsConfig(8 << 30, 1.5, None, 600, None, 1, None, None),
        workspace=Workspace(
            protect=(PurePosixPath("deploy"), PurePosixPath("a/b"), PurePosixPath("app/[slug]")),
            unprotect=(PurePosixPath(".vscode"), PurePosixPath(".claude/settings*")),
            hard_links="refuse",
        ),
        mounts=(
            MountConfig(HOME / "data"),
            MountConfig(HOME / "cache", PurePosixPath("/cache"), "rw", create=True, optional=True),
        ),
        tools=(Tool("go-1.22", (PurePosixPath("/opt/go/bin"),), (("GOPATH", "/home/ada/go"),)),),
    )


def test_without_a_container_path_a_mount_is_at_its_own() -> None:
    mount = settings('[[mount]]\nhost = "~/data"').mounts[0]
    assert mount.target == PurePosixPath("/home/ada/data")
    assert not mount.writable


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("text", "line", "key", "cause", "hint"),
    [
        # unknown
        ("[sandbox]\n\nbakend = 1", 3, "sandbox.bakend", "is unknown", "`backend`"),
        ("[sandbox]\nBackend = 1", 2, "sandbox.Backend", "is unknown", "`backend`"),
        ("\n[sandbx]", 2, "sandbx", "is unknown", "`sandbox`"),
        ("\n[[mounts]]", 2, "mounts", "is unknown", "`mount`"),
        ("zzz = 1", 1, "zzz", "is unknown", "known here: sandbox, limits, mount, tool, workspace"),
        ("source = '/x'", 1, "source", "is unknown", "known here"),
        ("[[mount]]\nhost = '/x'\nwhen = 'always'", 3, "mount[0].when", "is unknown", "known"),
        ("[[tool]]\nname='x'\ndirectories = []", 3, "tool[0].directories", "unkn", "`directory`"),
        ("[[tool]]\nname='x'\n[[tool.directory]]\nhost='/x'\n[[tool.directory]]\nhots='/x'", 6,
         "tool[0].directory[1].hots", "is unknown", "`host`"),
        ("limits.memry = '1G'", 1, "limits.memry", "is unknown", "`memory`"),
        ("limits = { pids = 1, x = 2 }", 1, "limits.x", "is unknown", "known here"),
        ('"\\u001b[31m" = 1', 1, r"'\x1b[31m'", "is unknown", "known here"),
        # missing
        ("[[mount]]\nhost = '/x'\n[[mount]]\nmode = 'ro'", 3, "mount[1].host", "is missing", ""),
        ("mount = [{host='/x'},\n{}]", 2, "mount[1].host", "is missing", ""),
        ("[[tool]]", 1, "tool[0].name", "is missing", ""),
        ("[[tool]]\nname='x'\n[[tool.directory]]", 3, "tool[0].directory[0].host", "missing", ""),
        # of the wrong type
        ("sandbox = 1", 1, "sandbox", "must be a table, not a whole number", ""),
        ("[[sandbox]]", 1, "sandbox", "must be a table, not a list", "[sandbox]"),
        ("[mount]\nhost='/x'", 1, "mount", "must be a list of tables, not a table", "[[mount]]"),
        ("[[tool]]\nname='x'\n[tool.directory]", 3, "tool[0].directory", "list", "[[tool.dir"),
        ("mount = [1]", 1, "mount[0]", "must be a table, not a whole number", ""),
        ("[limits]\npids = true", 2, "limits.pids", "must be a whole number, not true or", "none"),
        ("[limits]\npids = 4096.0", 2, "limits.pids", "must be a whole number, not a number", ""),
        ("[limits]\npids = '4096'", 2, "limits.pids", "must be a whole number, not text", "none"),
        ("[limits]\ncpus = true", 2, "limits.cpus", "must be a number, not true or false", ""),
        ("[limits]\ncpus = '2'", 2, "limits.cpus", "must be a number, not text", "none"),
        ("[limits]\nmemory = 8", 2, "limits.memory", "text in quotes, not a whole number", ""),
        ("[limits]\ntimeout = 90", 2, "limits.timeout", "must be text in quotes", ""),
        ("[sandbox]\nptrace = 1", 2, "sandbox.ptrace", "must be true or false, not a whole", ""),
        ("[sandbox]\nptrace = 'true'", 2, "sandbox.ptrace", "true or false, not text", ""),
        ("[sandbox]\npassthrough_env = 'A'", 2, "sandbox.passthrough_env", "must be a list", ""),
        ("[sandbox]\npassthrough_env = [\n'A',\n1]", 4, "sandbox.passthrough_env[1]", "text", ""),
        ("[[tool]]\nname='x'\nenv = ['A=1']", 3, "tool[0].env", "must be a table, not a list", ""),
        ("[[tool]]\nname='x'\nenv.A = 1", 3, "tool[0].env.A", "text in quotes, not a whole", ""),
        # of the right type and still not meant
        ("[sandbox]\nbackend = 'podman'", 2, "sandbox.backend", "'podman' is unk", '"bubblewrap"'),
        ("[sandbox]\npassthrough_env = ['A=B']", 2, "sandbox.passthrough_env[0]", "name", "APP_*"),
        ("[sandbox]\npassthrough_env = ['*']", 2, "sandbox.passthrough_env[0]", "name", ""),
        ("[sandbox]\npassthrough_env = ['A*']", 2, "sandbox.passthrough_env[0]", "name", ""),
        ("[sandbox]\npassthrough_env = ['_*']", 2, "sandbox.passthrough_env[0]", "name", ""),
        ("[sandbox]\npassthrough_env = ['']", 2, "sandbox.passthrough_env[0]", "name", ""),
        ("[sandbox]\ntmp_size = '2'", 2, "sandbox.tmp_size", "'2' is not a size", '"8G"'),
        ("[sandbox]\ntmp_size = 'none'", 2, "sandbox.tmp_size", "'none' is not a size", ""),
        ("[sandbox]\ntmp_size = '50%'", 2, "sandbox.tmp_size", "'50%' is not a size", ""),
        ("[sandbox]\nhostname = '-x'", 2, "sandbox.hostname", "is not a host name", ""),
        ("[sandbox]\nhostname = 'a.b'", 2, "sandbox.hostname", "is not a host name", ""),
        ("[sandbox]\nhostname = ''", 2, "sandbox.hostname", "is not a host name", ""),
        ("[limits]\nmemory = '0%'", 2, "limits.memory", "is not between 1% and 100%", ""),
        ("[limits]\npids = 0", 2, "limits.pids", "it is not between 1 and", ""),
        ("[limits]\npids = 99999999999999999999", 2, "limits.pids", "it is not between 1", ""),
        ("[limits]\ncpus = nan", 2, "limits.cpus", "it is not between 0.01 and", ""),
        ("[limits]\ncpus = -inf", 2, "limits.cpus", "it is not between 0.01 and", ""),
        ("[limits]\ncpus = 0", 2, "limits.cpus", "it is not between 0.01 and", ""),
        (f"[limits]\ncpus = 0x{'f' * 900}", 2, "limits.cpus", "it is not between 0.01 and", ""),
        ("[limits]\ntimeout = '1h30m'", 2, "limits.timeout", "is not a time", '"10m"'),
        ("[[mount]]\nhost = 'data'", 2, "mount[0].host", "is not absolute", "~/"),
        ("[[mount]]\nhost = '~bob/x'", 2, "mount[0].host", "is not absolute", "~/"),
        ("[[mount]]\nhost = '/a/../b'", 2, "mount[0].host", "has a ..", "without it"),
        ("[[mount]]\nhost = '/x'\ncontainer = 'x'", 3, "mount[0].container", "not absolute", ""),
        ("[[mount]]\nhost = '/x'\nmode = 'wr'", 3, "mount[0].mode", "'wr' is unk", '"ro", "rw"'),
        ("[[mount]]\nhost = '/x'\nkind = 'fifo'", 3, "mount[0].kind", "'fifo' is unkn", '"dir"'),
        ("[[mount]]\nhost='/x'\nkind='file'\ncreate=true", 4, "mount[0].create", "direct", "kind"),
        ("[[tool]]\nname = 'My Tool'", 2, "tool[0].name", "is not a tool name", "small letters"),
        ("[[tool]]\nname = '../x'", 2, "tool[0].name", "is not a tool name", "small letters"),
        ("[[tool]]\nname='x'\n[[tool]]\nname='x'", 4, "tool[1].name", "already", ""),
        ("[[tool]]\nname='x'\npath=['/a:/b']", 3, "tool[0].path[0]", "colon", ""),
        ("[[tool]]\nname='x'\npath=['bin']", 3, "tool[0].path[0]", "is not absolute", ""),
        ("[[tool]]\nname='x'\nenv={'A-B'='1'}", 3, "tool[0].env.A-B", "name of a variable", ""),
        ("[[tool]]\nname='x'\n[tool.env]\nPATH='/x'", 4, "tool[0].env.PATH", "not set", "`path`"),
        ("[workspace]\nprotect = ['/etc']", 2, "workspace.protect[0]", "not below", "relative"),
        ("[workspace]\nprotect = ['a/../..']", 2, "workspace.protect[0]", "not below", ""),
        ("[workspace]\nprotect = ['.']", 2, "workspace.protect[0]", "not below", ""),
        ("[workspace]\nprotect = ['']", 2, "workspace.protect[0]", "not below", ""),
        ("[workspace]\nprotect = ['~/x']", 2, "workspace.protect[0]", "not below", ""),
        ("[workspace]\nprotect = ['*.pem']", 2, "workspace.protect[0]", "patterns", "each path"),
        ("[workspace]\nunprotect = ['/x']", 2, "workspace.unprotect[0]", "not below", ""),
        ("[workspace]\nhard_links = 'copy'", 2, "workspace.hard_links", "unknown", '"unshare"'),
        # control characters
        ('[[mount]]\nhost = "/x\\u0000"', 2, "mount[0].host", "has a control character", ""),
        ('[[mount]]\nhost = "/x\\n"', 2, "mount[0].host", "has a control character", ""),
        ('[[mount]]\nhost = """/x\n"""', 2, "mount[0].host", "has a control character", ""),
        ('[[tool]]\nname="x"\nenv.A = "\\u001b[31m"', 3, "tool[0].env.A", "has a control char", ""),
        ('[[tool]]\nname="x"\nenv.A = "\\u009b"', 3, "tool[0].env.A", "has a control char", ""),
        ('[workspace]\nprotect = ["a\\tb"]', 2, "workspace.protect[0]", "has a control char", ""),
        ('[sandbox]\nhostname = "ags\\n"', 2, "sandbox.hostname", "has a control character", ""),
        # no TOML at all
        ("[sandbox]\nptrace = yes", 2, "", "Invalid value", "TOML"),
        ("\n\na = 1\na = 2", 4, "", "Cannot overwrite a value", "TOML"),
        ("[sandbox]\n[limits]\n[sandbox]", 3, "", "Cannot declare", "TOML"),
        ("[sandbox]\nhostname = 'x", 2, "", "", "TOML"),
        ("[sandbox]\nhostname = '''x\n\n", 2, "", "Expected", "TOML"),
        ("a = 1\nb = \x00", 2, "", "Invalid value", "TOML"),
        ("a = 1\nb = " + "[" * 5000, 2, "", "nested more than 32 deep", ""),
        ("a = 1\n" + "a." * 5000 + "b = 1", 2, "", "nested more than 32 deep", ""),
        ("a = 1\nb = " + "9" * 5000, 2, "", "a word or number of more than", ""),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_with_file_line_key_and_cause(
    text: str, line: int, key: str, cause: str, hint: str, newline: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(text.replace("\n", newline))
    error = caught.value
    assert (error.file, error.line, error.key) == (str(FILE), line, key)
    assert cause in error.cause
    assert hint in error.hint
    assert str(error).startswith(f"cannot read the settings ({FILE}:{line}): {key}")
    assert str(error).isprintable()


def test_a_variable_goes_inside_by_its_name_or_by_how_it_starts() -> None:
    sandbox = Sandbox(passthrough_env=("EDITOR", "MY_*"))
    assert [sandbox.passes(name) for name in ("EDITOR", "MY_X", "MY_")] == [True] * 3
    assert [sandbox.passes(name) for name in ("EDITOR_X", "MYX", "XMY_X", "")] == [False] * 4


def test_limits_depend_on_the_machine_only_where_a_share_is_asked_for() -> None:
    assert LimitsConfig().resolve(1000) == Limits(memory=750)
    assert LimitsConfig(memory=5).resolve(1000).memory == 5
    assert LimitsConfig(memory=None).resolve(1000).memory is None
    odd = LimitsConfig(Percent(10), 1.5, 2, 3.5, 4, 5, 6, 7)
    assert odd.resolve(1000) == Limits(100, 1.5, 2, 3.5, 4, 5, 6, 7)


@given(toml_like())
def test_any_text_is_settings_or_a_settings_error(text: str) -> None:
    try:
        found = settings(text)
    except ConfigError as error:
        assert error.line is not None
        assert 1 <= error.line <= text.count("\n") + 1
        assert str(error).isprintable()
    else:
        assert found.source == FILE


@given(documents())
def test_any_other_toml_is_answered_with_a_line_of_it(text: str) -> None:
    if not tomllib.loads(text):
        assert settings(text) == Settings(source=FILE)
        return
    with pytest.raises(ConfigError) as caught:
        settings(text)
    assert caught.value.line is not None


BLOCKS = (
    ("[sandbox]", ('hostname = "x"', "passthrough_env = [\n  'A', # ]\n  'B_*',\n]")),
    ("[limits]", ("pids = 5", 'memory = """50%"""', "cpus = 'none'")),
    ("[workspace]", ("protect = [ 'a',\n'b'\n]",)),
    ("[[mount]]", ("host = '/x'", "create = false")),
    ("[[tool]]", ("name = 'NAME'", 'env = { A = "}", B = "#" }', "directory = [{host='/x'},\n]")),
    ("[[tool]]", ("name = 'NAME'", 'env.A = \'"""\'', "[[tool.directory]]", "host = '/x'")),
)


@given(st.data())
def test_an_unknown_key_anywhere_is_reported_with_its_own_line(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=6))
    seen, pieces = set(), []
    for number, (header, body) in enumerate(chosen):
        if header in seen and not header.startswith("[["):
            continue
        seen.add(header)
        pieces += [header, *(line.replace("NAME", f"n{number}") for line in body), "# [x]\n"]
    assert settings("\n".join(pieces)).source == FILE

    at = data.draw(st.integers(0, len(pieces)))
    before = "\n".join(pieces[:at])
    key = data.draw(st.sampled_from(["zzz", '"z z"', "'z.z'", "zzz.deeper", '"\\u007a"']))
    with pytest.raises(ConfigError) as caught:
        settings("\n".join([*pieces[:at], f"{key} = 1", *pieces[at:]]))
    assert caught.value.cause.endswith("is unknown")
    assert caught.value.line == (before.count("\n") + 2 if at else 1)
    assert "z" in caught.value.key.split(".")[-1]
