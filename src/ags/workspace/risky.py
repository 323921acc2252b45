"""What in a diff deserves a second look before it is applied.

Files that the person's machine, or a service that acts for them, will run or obey later without
being asked again; and what looks like a secret. A rule names a file by how tools find it, so the
list is long and in plain words; case is ignored, since some file systems ignore it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from pathlib import PurePosixPath
from typing import Literal, TypeAlias

from ags.workspace.diff import FileChange
from ags.workspace.leaks import Leaks

Sort: TypeAlias = Literal["runs", "steers", "leads-out", "hidden", "secret", "unseen"]
Contents: TypeAlias = Mapping[str, tuple[bytes | None, bytes | None]]
MOST_PER_FILE = 20


@dataclass(frozen=True, slots=True)
class Risk:
    """One thing to look at: where, of which sort, and why, for a person to read."""

    path: str
    sort: Sort
    reason: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    reason: str
    names: tuple[str, ...] = ()
    """Patterns for the last part of a path."""
    folders: frozenset[str] = frozenset()
    """Everything below a folder of that name, wherever it is."""
    sort: Sort = "runs"
    restrains: bool = False
    """Taking it away matters too: it holds checks or limits."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _folders(text: str) -> frozenset[str]:
    return frozenset(text.split())


RULES = (
    Rule(
        "git runs it on commit, push or checkout",
        _words(
            "lefthook.y*ml .lefthook.y*ml lefthook-local.y*ml .pre-commit-config.y*ml"
            " .pre-commit-hooks.y*ml .overcommit.yml .huskyrc* .lintstagedrc* lint-staged.config.*"
            " pre-commit commit-msg pre-push post-checkout post-merge prepare-commit-msg"
        ),
        _folders(".husky .githooks .git-hooks githooks git-hooks .pre-commit"),
        restrains=True,
    ),
    Rule(
        "it tells git which programs to call for files, or where to fetch code from",
        _words(".gitattributes .gitmodules .gitconfig .lfsconfig"),
        restrains=True,
    ),
    Rule(
        "a build service runs it, often with credentials",
        _words(
            ".gitlab-ci*.y*ml .travis.yml azure-pipelines*.y*ml jenkinsfile* *.jenkinsfile"
            " bitbucket-pipelines.yml .drone.* .woodpecker.y*ml .cirrus.* appveyor.yml"
            " .appveyor.yml cloudbuild.y*ml buildspec*.y*ml .build.yml codefresh.y*ml"
            " netlify.toml vercel.json wercker.yml action.y*ml render.y*ml fly.toml"
        ),
        _folders(
            ".github .gitlab .circleci .buildkite .woodpecker .teamcity .forgejo .gitea"
            " .semaphore .builds .tekton .azure-pipelines .gitlab-ci"
        ),
        restrains=True,
    ),
    Rule(
        "an agent started here obeys it, and may run the programs it names",
        _words(
            ".mcp.json mcp.json opencode.json* .opencode.json* .aider* .goosehints"
            " .claude.json .codex.toml"
        ),
        _folders(
            ".claude .cursor .codex .gemini .opencode .pi .ags .continue .roo .kilocode .windsurf"
            " .aider .amazonq .augment .kiro"
        ),
    ),
    Rule(
        "an agent started here reads it as instructions",
        _words(
            "claude.md claude.*.md agents.md agent.md gemini.md .cursorrules .windsurfrules"
            " .clinerules .roorules copilot-instructions.md *.instructions.md skill.md"
        ),
        _folders(".clinerules"),
        sort="steers",
    ),
    Rule(
        "an editor obeys it when the folder is opened",
        _words(
            "*.code-workspace *.sublime-project .vimrc .exrc .nvimrc .nvim.lua .lvimrc"
            " .dir-locals.el .dir-locals-2.el .emacs .emacs.el .projectile devcontainer.json"
            " .devcontainer.json *.iml .gdbinit .lldbinit .pdbrc* .pythonrc* .irbrc .pryrc"
            " .rprofile .renviron .octaverc .psqlrc .sqliterc"
        ),
        _folders(".vscode .idea .devcontainer .vim .nvim .zed .fleet .vs .nova .theia"),
    ),
    Rule(
        "a shell or program of yours obeys it once you are in this folder",
        _words(
            ".envrc .env .env.* .autoenv* .tool-versions .mise.* mise.toml .mise.*.toml .rtx.toml"
            " .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv"
            " .zprofile .zlogin .inputrc .kshrc .cshrc .tcshrc config.fish .tmux.conf .screenrc"
            " .xinitrc .xprofile .xsession authorized_keys crontab .wgetrc .curlrc .netrc"
            " shell.nix default.nix flake.nix devenv.nix devbox.json"
        ),
        _folders(".ssh .gnupg .direnv .mise .config"),
    ),
    Rule(
        "it says where packages come from, or whether they may run programs when installed",
        _words(
            ".npmrc .yarnrc .yarnrc.yml .pnpmfile.* pnpmfile.* pnpm-workspace.y*ml bunfig.toml"
            " .pypirc pip.conf uv.toml .condarc nuget.config settings.xml"
        ),
        _folders(".yarn .cargo .mvn .bundle"),
        restrains=True,
    ),
    Rule(
        "it decides which packages are installed, and packages run programs",
        _words(
            "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.y*ml bun.lock* poetry.lock"
            " uv.lock pdm.lock pipfile pipfile.lock requirements*.txt requirements*.in"
            " constraints*.txt environment.y*ml conda*.y*ml gemfile gemfile.lock gems.rb"
            " composer.json composer.lock cargo.lock go.mod go.sum mix.lock pubspec.y*ml"
            " pubspec.lock flake.lock package.resolved podfile podfile.lock deno.lock cartfile"
        ),
        _folders("requirements"),
    ),
    Rule(
        "a build or test runs it",
        _words(
            "makefile makefile.* gnumakefile *.mk *.mak cmakelists.txt *.cmake cmakepresets.json"
            " cmakeuserpresets.json meson.build meson_options.txt configure configure.ac"
            " configure.in *.m4 *.am build build.bazel build.sh workspace workspace.bazel"
            " module.bazel .bazelrc *.bzl buck .buckconfig justfile .justfile *.just taskfile.y*ml"
            " rakefile *.rake *.gemspec *.gradle *.gradle.kts gradlew gradlew.bat"
            " gradle.properties gradle-wrapper.* pom.xml mvnw mvnw.cmd build.xml build.sbt"
            " build.rs cargo.toml rust-toolchain* sconstruct sconscript wscript earthfile dune"
            " dune-project *.opam *.cabal cabal.project setup.hs stack.y*ml *.nix *.csproj"
            " *.fsproj *.vbproj *.vcxproj *.props *.targets *.sln directory.build.* global.json"
            " mix.exs rebar.config package.swift *.podspec binding.gyp *.gyp *.gypi dub.json"
            " gulpfile.* gruntfile.* *.config.js *.config.ts *.config.mjs *.config.cjs"
            " *.config.mts *.config.cts .eslintrc* .babelrc* .mocharc* .prettierrc*"
            " .stylelintrc* .swcrc nx.json turbo.json lerna.json deno.json* tsconfig*.json"
            " package.json pyproject.toml setup.py setup.cfg conftest.py pytest.ini tox.ini"
            " noxfile.py dodo.py fabfile.py tasks.py sitecustomize.py usercustomize.py *.pth"
            " .coveragerc mypy.ini .mypy.ini .pylintrc pylintrc *.pyc vagrantfile tiltfile"
            " skaffold.y*ml"
        ),
        _folders("buildsrc"),
    ),
    Rule(
        "it is run or built as a container or service",
        _words(
            "dockerfile* *.dockerfile containerfile* compose*.y*ml docker-compose*.y*ml"
            " docker-bake.* procfile *.service *.timer *.socket *.desktop *.plist *.tf *.tfvars"
        ),
    ),
)

# One pattern a rule: an agent may change a great many files.
_PATTERNS = tuple((rule, re.compile("|".join(map(translate, rule.names)))) for rule in RULES)


def risky(changes: Iterable[FileChange], contents: Contents | None = None) -> tuple[Risk, ...]:
    """Everything worth a look, file by file.

    With the `contents` (before, after) of the files that `wants_content` names, a change of
    only a version or a description in them is not one.
    """
    files = tuple(changes)
    given = contents or {}
    inner = _inner_repositories(files)
    return tuple(risk for file in files for risk in _of(file, given, inner))


def wants_content(change: FileChange) -> bool:
    """Whether it takes the whole file to judge what changed in it."""
    return _parts(change.path)[-1] in _MANIFESTS


def _of(file: FileChange, contents: Contents, inner: set[str]) -> Iterator[Risk]:
    if file.old_path is not None and file.kind == "renamed":
        yield from _removed(file.old_path)
    if file.kind == "deleted":
        yield from _removed(file.path)
        return
    rule = _rule(file.path)
    if rule is not None:
        if reason := _manifest_reason(file, rule, contents):
            yield Risk(file.path, rule.sort, reason)
    elif file.became_executable:
        yield Risk(file.path, "runs", "it can be run by its name now")
    elif file.new_mode == 0o100755 and file.old_id != file.new_id:
        yield Risk(file.path, "runs", "a program of the project was changed")
    if _folder(file.path) in inner:
        yield Risk(file.path, "runs", "git run in this folder would obey settings in it")
    if file.is_submodule:
        yield Risk(file.path, "runs", "a submodule: its code comes from elsewhere")
    elif file.is_link:
        yield from _link(file)
    elif file.left_out:
        yield Risk(file.path, "unseen", f"not looked through for secrets: {file.left_out}")
    yield from _lines(file)


def _removed(path: str) -> Iterator[Risk]:
    if (rule := _rule(path)) is not None and rule.restrains:
        yield Risk(path, rule.sort, f"removed; {rule.reason}")


def _rule(path: str) -> Rule | None:
    *folders, name = _parts(path)
    for rule, pattern in _PATTERNS:
        if pattern.match(name) or not rule.folders.isdisjoint(folders):
            return rule
    return None


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.casefold().split("/"))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _inner_repositories(files: Iterable[FileChange]) -> set[str]:
    """Folders that git would take for a bare repository: it obeys a `config` found there."""
    paths = {file.path.casefold(): file.path for file in files if file.kind != "deleted"}
    heads = [path for path in paths if path == "head" or path.endswith("/head")]
    found = {_folder(paths[head]) for head in heads}
    return {
        folder
        for folder in found
        if any(_beside(folder, name) in paths for name in ("config", "commondir"))
    }


def _beside(folder: str, name: str) -> str:
    return f"{folder}/{name}".casefold().lstrip("/")


def _link(file: FileChange) -> Iterator[Risk]:
    # A link's text is one line, or more if it holds line breaks.
    target = "\n".join(text for _, text in file.added_lines())
    if not target:
        if file.kind not in ("renamed", "mode-changed"):
            yield Risk(file.path, "leads-out", "a link, and where it leads cannot be shown")
        elif file.kind == "renamed":
            yield Risk(file.path, "leads-out", "a link was moved: it may lead elsewhere now")
    elif leads_out(file.path, target):
        yield Risk(file.path, "leads-out", "a link that leads out of the repository")
    elif ".git" in _parts(target):
        yield Risk(file.path, "leads-out", "a link into the git directory")


def leads_out(path: str, target: str) -> bool:
    """Whether a link at `path` may leave the repository.

    A way down and up again may pass another link, so that going up only counts at the start.
    """
    if target.startswith("/"):
        return True
    steps = [step for step in target.split("/") if step not in ("", ".")]
    up = next((at for at, step in enumerate(steps) if step != ".."), len(steps))
    return ".." in steps[up:] or up > len(PurePosixPath(path).parts) - 1


# Text that reads otherwise than it runs: order overrides and isolates.
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")


def _lines(file: FileChange) -> Iterator[Risk]:
    found = 0
    added = list(file.added_lines())
    leaks = Leaks("\n".join(text for _, text in added))
    for number, text in added:
        if what := leaks.of(text):
            yield Risk(file.path, "secret", f"this looks like {what}", number)
        elif _REORDERING.search(text):
            yield Risk(
                file.path, "hidden", "characters here change the order of what is shown", number
            )
        else:
            continue
        found += 1
        if found == MOST_PER_FILE:
            yield Risk(file.path, "hidden", "there may be more of this in the file")
            return


def _json(content: bytes) -> object:
    return json.loads(content)


def _toml(content: bytes) -> object:
    return tomllib.loads(content.decode())


# What describes a project and makes nothing run. Whatever else differs is named.
_DESCRIPTION = frozenset(
    _words(
        "name version description keywords author authors contributors maintainers license"
        " homepage repository bugs funding private classifiers urls readme license-files"
    )
)
_MANIFESTS: dict[str, Callable[[bytes], object]] = {
    "package.json": _json,
    "composer.json": _json,
    "pyproject.toml": _toml,
    "cargo.toml": _toml,
}
_TABLES = ("project", "package", "scripts")
"""Parts of a manifest that are looked into, for a reason that says more."""


def _manifest_reason(file: FileChange, rule: Rule, contents: Contents) -> str:
    """The rule's reason, with what changed where that is known; empty if nothing that counts."""
    read = _MANIFESTS.get(_parts(file.path)[-1])
    if read is None or file.path not in contents:
        return rule.reason
    try:
        before, after = (_read(read, content) for content in contents[file.path])
    except (ValueError, RecursionError):
        return f"{rule.reason}; it cannot be read"
    changed = sorted(_differing(before, after))
    return f"{rule.reason}: {', '.join(changed)}" if changed else ""


def _read(read: Callable[[bytes], object], content: bytes | None) -> Mapping[str, object]:
    found = {} if content is None else read(content)
    if not isinstance(found, dict):
        raise ValueError("not a table")
    return found


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[str]:
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old == new or (key in _DESCRIPTION and not isinstance(new, dict)):
            continue
        if key in _TABLES and isinstance(old or {}, dict) and isinstance(new or {}, dict):
            inner = _differing(_table(old), _table(new))
            yield from (f"{key}.{name}" for name in inner)
        else:
            yield key


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
