from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ags.workspace.diff import FileChange, contents, diff
from ags.workspace.leaks import Leaks, entropy
from ags.workspace.patchtext import Hunk, Line
from ags.workspace.risky import Risk, Sort, leads_out, risky, wants_content
from tests.workspace.repositories import Checkout, checkout, go


def added(path: str, text: str = "", mode: int = 0o100644) -> FileChange:
    lines = tuple(Line("added", line) for line in text.split("\n"))
    hunk = Hunk(0, 0, 1, len(lines), "", lines)
    return FileChange(path, "added", new_mode=mode, new_id="a", hunks=(hunk,) if text else ())


def sorts(*files: FileChange) -> list[Sort]:
    return [risk.sort for risk in risky(files)]


def words(text: str) -> list[str]:
    return text.split()


RUNS = words(
    """
.husky/pre-commit .githooks/x .pre-commit-config.yaml lefthook.yml .gitattributes
sub/.gitattributes .gitmodules .github/workflows/ci.yml .github/CODEOWNERS .gitlab-ci.yml
Jenkinsfile .circleci/config.yml azure-pipelines.yml .travis.yml .drone.yml Makefile GNUmakefile
sub/dir/Makefile rules.mk MAKEFILE CMakeLists.txt justfile Taskfile.yml build.gradle
build.gradle.kts pom.xml build.rs Cargo.toml .cargo/config.toml package.json package-lock.json
.npmrc .yarnrc.yml .yarn/releases/y.cjs yarn.lock vite.config.ts .eslintrc.js setup.py setup.cfg
pyproject.toml conftest.py tests/conftest.py tox.ini sitecustomize.py evil.pth requirements.txt
requirements-dev.txt .vscode/tasks.json .idea/x.xml a.code-workspace
.devcontainer/devcontainer.json .vimrc .exrc .dir-locals.el .claude/settings.json .mcp.json
.cursor/mcp.json .codex/config.toml .gemini/settings.json .ags/config.toml opencode.json .envrc
.env .env.local mise.toml .tool-versions .bashrc .zshenv .profile .ssh/authorized_keys
Dockerfile Dockerfile.dev docker-compose.yml compose.yaml Containerfile x.service Vagrantfile
flake.nix shell.nix Rakefile Gemfile composer.json binding.gyp App.csproj Directory.Build.props
"""
)
STEERS = words(
    """
CLAUDE.md sub/CLAUDE.md AGENTS.md agents.md GEMINI.md .cursorrules CLAUDE.local.md
"""
)
HARMLESS = words(
    """
src/main.py README.md docs/makefiles.md src/hooks/useThing.ts app/github/x.py image.png
lib/build_it.py test_setup.py mypackage.json claude.py src/environment.ts notes.env.md
x/dockerfiles/readme.txt
"""
)


@pytest.mark.parametrize("path", RUNS)
def test_a_file_that_the_host_will_run_is_listed(path: str) -> None:
    (risk,) = risky([added(path)])
    assert (risk.path, risk.sort) == (path, "runs")
    assert len(risk.reason.split()) > 3


@pytest.mark.parametrize("path", STEERS)
def test_instructions_for_the_next_agent_are_listed(path: str) -> None:
    assert sorts(added(path)) == ["steers"]


@pytest.mark.parametrize("path", HARMLESS)
def test_an_ordinary_file_is_not(path: str) -> None:
    assert sorts(added(path, "print('hello')\n")) == []


def test_programs_are_listed_when_they_become_or_change() -> None:
    assert sorts(added("tool", "x", 0o100755)) == ["runs"]
    became = FileChange("tool", "mode-changed", None, 0o100644, 0o100755, "a", "a")
    assert sorts(became) == ["runs"]
    changed = FileChange("tool", "modified", None, 0o100755, 0o100755, "a", "b")
    assert sorts(changed) == ["runs"]
    lost = FileChange("tool", "mode-changed", None, 0o100755, 0o100644, "a", "a")
    moved = FileChange("to", "renamed", "from", 0o100755, 0o100755, "a", "a")
    assert sorts(lost, moved) == []


def test_taking_away_a_check_is_listed_and_taking_away_a_makefile_is_not() -> None:
    assert sorts(FileChange(".github/CODEOWNERS", "deleted", None, 0o100644)) == ["runs"]
    assert sorts(FileChange("x", "renamed", ".npmrc", 0o100644, 0o100644)) == ["runs"]
    assert sorts(FileChange("Makefile", "deleted", None, 0o100644)) == []


@pytest.mark.parametrize(
    ("path", "target", "out"),
    [
        ("link", "file", False),
        ("link", "folder/file", False),
        ("a/b/link", "../../file", False),
        ("a/link", "./../file", False),
        ("link", "..", True),
        ("link", "../x", True),
        ("a/link", "../../x", True),
        ("link", "/etc/passwd", True),
        ("link", "/", True),
        ("a/link", "b/../x", True),
        ("a/b/link", ".././../../x", True),
        ("link", "a/../../x", True),
    ],
)
def test_a_link_out_of_the_repository_is_listed(path: str, target: str, out: bool) -> None:
    assert leads_out(path, target) == out
    assert sorts(added(path, target, 0o120000)) == ["leads-out"] * out


@given(
    st.lists(st.sampled_from(["a", "b", "link"]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["..", ".", "", "a", "b"]), max_size=6),
)
def test_a_link_that_is_said_to_stay_inside_does(path: list[str], steps: list[str]) -> None:
    if leads_out("/".join(path), "/".join(steps)):
        return
    depth = len(path) - 1
    for step in steps:
        depth += {"..": -1, ".": 0, "": 0}.get(step, 1)
        assert depth >= 0


def test_a_link_that_cannot_be_read_or_leads_into_git_is_listed() -> None:
    assert sorts(added("link", "", 0o120000)) == ["leads-out"]
    assert sorts(added("link", ".git/hooks", 0o120000)) == ["leads-out"]
    assert sorts(FileChange("b", "renamed", "a", 0o120000, 0o120000, "a", "a")) == ["leads-out"]


def test_a_submodule_and_a_repository_in_disguise_are_listed() -> None:
    assert sorts(FileChange("module", "added", new_mode=0o160000)) == ["runs"]
    inner = [added(f"docs/x/{name}") for name in ("HEAD", "config", "objects/keep", "refs/keep")]
    assert {risk.path for risk in risky(inner)} == {"docs/x/HEAD", "docs/x/config"}
    assert sorts(added("config"), added("HEAD")) == ["runs", "runs"]
    assert sorts(added("docs/HEAD"), added("src/config")) == []


def manifest(path: str, before: object, after: object) -> tuple[Risk, ...]:
    change = FileChange(path, "modified", None, 0o100644, 0o100644, "a", "b")
    sides = tuple(
        x if isinstance(x, bytes) else None if x is None else json.dumps(x).encode()
        for x in (before, after)
    )
    return risky([change], {path: (sides[0], sides[1])})


def test_of_a_manifest_only_what_makes_something_run_counts() -> None:
    assert wants_content(added("sub/package.json"))
    assert not wants_content(added("other.json"))
    base = {"name": "x", "version": "1", "scripts": {"test": "jest"}}
    assert manifest("package.json", base, base | {"version": "2", "description": "d"}) == ()
    (risk,) = manifest("package.json", base, base | {"scripts": {"test": "x", "postinstall": "y"}})
    assert risk.reason.endswith(": scripts.postinstall, scripts.test")
    (risk,) = manifest("package.json", base, base | {"unheard-of": 1})
    assert risk.reason.endswith(": unheard-of")
    (risk,) = manifest("package.json", None, base)
    assert "scripts.test" in risk.reason


@pytest.mark.parametrize("broken", [b"{", b"[]", b"\xff", b"[" * 100_000, b"1" * 5000])
@pytest.mark.parametrize("path", ["package.json", "pyproject.toml"])
def test_a_manifest_that_cannot_be_read_is_listed(path: str, broken: bytes) -> None:
    (risk,) = manifest(path, b"", broken)
    assert risk.sort == "runs"


def test_a_python_project_is_read_too() -> None:
    old = b"[project]\nname = 'x'\nversion = '1'\ndependencies = []\n[build-system]\nrequires=[]\n"
    assert manifest("pyproject.toml", old, old.replace(b"'1'", b"'2'")) == ()
    (risk,) = manifest("pyproject.toml", old, old.replace(b"requires=[]", b"build-backend='evil'"))
    assert risk.reason.endswith(": build-system")
    (risk,) = manifest("pyproject.toml", old, old.replace(b"[]\n[", b"['evil']\n["))
    assert risk.reason.endswith(": project.dependencies")


def test_a_name_that_is_a_table_is_no_description() -> None:
    (risk,) = manifest("package.json", {"author": "x"}, {"author": {"name": "x"}, "name": {"a": 1}})
    assert risk.reason.endswith(": author, name")


# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "a private key": "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
    "an AWS access key": "key = AKIA" + "IOSFODNN7EXAMPLQ",
    "a GitHub token": "ghp_" + "a1B2" * 9,
    "a GitLab token": "glpat-" + "a1B2c3D4e5F6g7H8i9J0",
    "a Slack token": "xoxb-" + "123456789012-abcdefghij",
    "an Anthropic key": "ANTHROPIC=sk-ant-" + "api03-abcdefghijklmnop1234",
    "an OpenAI key": "sk-" + "proj-" + "Ab3" * 14,
    "a Google API key": "AIza" + "Sy" * 17 + "x",
    "a Stripe key": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "an npm token": "//host/:_authToken=npm_" + "a1B2" * 9,
    "a PyPI token": "pypi-" + "AgEI" * 15,
    "a signed web token": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "abc_" * 10,
    "a password in an address": "postgres://admin:" + "hunter2hunter2@db/prod",
    "a secret value": 'API_KEY = "' + "9f8Ks0aLq2Zx7Vb4Nm1Pw6Tr" + '"',
}


@pytest.mark.parametrize("what", SECRETS)
def test_what_looks_like_a_secret_is_flagged_by_line_and_not_repeated(what: str) -> None:
    text = f"first\n{SECRETS[what]}\nlast"
    (risk,) = risky([added("notes", text)])
    assert (risk.sort, risk.line, risk.reason) == ("secret", 2, f"this looks like {what}")


@pytest.mark.parametrize(
    "line",
    [
        "password = os.environ['PASSWORD']",
        "token = get_token_from_the_keyring()",
        'API_KEY = "your-api-key-goes-here-1234"',
        "secret: ${{ secrets.DEPLOY_TOKEN_FOR_PRODUCTION_1 }}",
        "postgres://user:password@localhost/db".replace("password", "<password>"),
        "sha256 = 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "integrity: sha512-" + "Ab1/" * 20 + "==",
        "tokenizer_class_name = LlamaTokenizerFastVersionTwo",
        "const sk = 'sk-learn'; // scikit",
        "token_count_by_document_kind = compute_all_of_them_2()",
        "http://localhost:8080/a@b",
    ],
)
def test_ordinary_text_is_not_taken_for_a_secret(line: str) -> None:
    assert Leaks(line).of(line) == ""


def test_a_removed_secret_and_one_in_the_context_are_no_news() -> None:
    key = SECRETS["a GitHub token"]
    hunk = Hunk(1, 2, 1, 1, "", (Line("removed", key), Line("context", key)))
    assert (
        risky([FileChange("x", "modified", None, 0o100644, 0o100644, "a", "b", hunks=(hunk,))])
        == ()
    )


def test_text_that_reads_otherwise_than_it_runs_is_listed() -> None:
    assert sorts(added("a.py", "if x: \u202e return")) == ["hidden"]
    assert sorts(added("a.py", "naïve → ünïcode")) == []


def test_a_file_too_large_to_look_through_says_so() -> None:
    big = FileChange("data", "added", new_mode=0o100644, left_out="90000 changed lines")
    assert sorts(big) == ["unseen"]


def test_a_flood_is_cut_with_a_word() -> None:
    found = risky([added("x", "\n".join([SECRETS["a GitHub token"]] * 500))])
    assert len(found) == 21
    assert "more" in found[-1].reason


@given(st.text(alphabet="aeyJ.:/@=-_ \"'1passwordBEGIN", max_size=300))
def test_no_text_raises(text: str) -> None:
    Leaks(text).of(text)


@pytest.mark.parametrize(
    "unit", ["eyJ", "-eyJ", "-sk-", "a://", "password", "token=a", "-----BEGIN ", "x:y@", "_1"]
)
def test_no_text_keeps_us_busy(unit: str) -> None:
    start = time.process_time()
    text = unit * (200_000 // len(unit))
    Leaks(text).of(text)
    assert time.process_time() - start < 5


def test_entropy_is_that_of_the_text() -> None:
    assert entropy("aaaa") == 0
    assert entropy("abcd") == 2


def test_a_real_diff_with_its_contents(tmp_path: Path) -> None:
    project: Checkout = checkout(tmp_path / "project")
    project.write("package.json", '{"version": "1"}')
    old = project.commit()
    project.write("package.json", '{"version": "2"}')
    project.write("run\n.sh", "#!/bin/sh\n", 0o755)
    (project.folder / "out").symlink_to("../../etc")
    project.write("src/a.py", "x = 1\n")
    new = project.commit()
    made = go(diff(project.repository, old, new))
    assert [r.path for r in risky(made.files)] == ["out", "package.json", "run\n.sh"]
    given = go(contents(project.repository, filter(wants_content, made.files)))
    assert given == {"package.json": (b'{"version": "1"}', b'{"version": "2"}')}
    assert [r.path for r in risky(made.files, given)] == ["out", "run\n.sh"]


def test_a_great_many_files_are_looked_at_in_good_time() -> None:
    files = [added(f"src/some/where/module_{n}.py") for n in range(20_000)]
    start = time.process_time()
    assert risky(files) == ()
    assert time.process_time() - start < 10
