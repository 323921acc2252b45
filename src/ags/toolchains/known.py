"""The table of toolchains, and the names that tell a credential file."""

from __future__ import annotations

from ags.frozen import frozen

# Compared in lower case, and without patterns: compiling those would be half the time we take.
CREDENTIAL_NAMES = frozenset((
    ".netrc", "_netrc", ".npmrc", "npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", "pip.conf",
    ".condarc", "condarc", "nuget.config", ".git-credentials", ".gem", ".docker", ".aws", ".azure",
    ".kube", ".ssh", ".gnupg", ".pgpass", ".my.cnf", ".vault-token", ".env", ".envrc",
    "credentials", ".credentials", "auth.json", "auth.toml", "token", "tokens", ".token",
    "token.json", "tokens.json", "pub-tokens.json", "secrets", ".secrets", "id_dsa",
))  # fmt: skip
_STARTS = (".env.", "credentials.", ".credentials.", "secrets.", "id_rsa", "id_ecdsa", "id_ed25519")
_ENDS = (".pem", ".key", ".p12", ".pfx", ".jks", ".kdbx")


@frozen
class Known:
    """A toolchain. Lists are words with blanks between, so that most fit on a line."""

    name: str
    folders: str = ""
    """Below the home unless absolute; `*` stands for any name."""
    variable: str = ""
    """What moves it elsewhere; passed inside when believed."""
    marks: str = ""
    """A folder named by the variable, or found through PATH, must hold one of these."""
    parts: str = ""
    """What is shown of it, if not all. A credential file made later stays outside the parts."""
    credentials: str = ""
    """What is hidden in it, besides CREDENTIAL_NAMES at the top of a toolchain shown as a whole."""
    on_path: bool = False
    """Recognised by its marks beside a `bin` on PATH."""


_CONDA = ".condarc condarc condarc.d pkgs/cache pkgs/urls pkgs/urls.txt"
_CONDA_ROOTS = "miniconda miniconda3 anaconda3 miniforge3 mambaforge micromamba .conda/envs"
_GOROOT = "bin pkg src lib misc api VERSION go.env"
_JDK = "bin lib jre conf include jmods legal release"
_DOTNET = "dotnet host sdk sdk-manifests shared packs templates tools"
_BREW = "bin sbin lib libexec opt Cellar include share Homebrew etc/ca-certificates etc/openssl@3"

KNOWN = (
    Known("pyenv", ".pyenv", "PYENV_ROOT", "versions shims bin/pyenv"),
    Known("venv", "", "VIRTUAL_ENV", "pyvenv.cfg", "bin lib lib64 pyvenv.cfg", on_path=True),
    Known("uv pythons", ".local/share/uv/python", "UV_PYTHON_INSTALL_DIR", ".lock cpython-*"),
    Known("uv tools", ".local/share/uv/tools", "UV_TOOL_DIR", ".lock */pyvenv.cfg"),
    Known("pipx", ".local/share/pipx .local/pipx", "PIPX_HOME", "venvs", "venvs shared py"),
    Known("packages", ".local/lib/python* .local/lib/node_modules"),
    Known("conda", _CONDA_ROOTS, "MAMBA_ROOT_PREFIX", "conda-meta envs", "", _CONDA),
    Known("conda environment", "", "CONDA_PREFIX", "conda-meta", "", _CONDA, on_path=True),
    Known("nvm", ".nvm", "NVM_DIR", "nvm.sh versions", "", "versions/node/*/etc/npmrc"),
    Known("fnm", ".local/share/fnm .fnm", "FNM_DIR", "node-versions", "", "*/*/*/etc/npmrc"),
    Known("volta", ".volta", "VOLTA_HOME", "tools", "bin tools", "tools/image/node/*/etc/npmrc"),
    Known("npm", ".npm-global", "NPM_CONFIG_PREFIX", "lib/node_modules", "lib/node_modules"),
    Known("pnpm", ".local/share/pnpm", "PNPM_HOME", "pnpm global", "global nodejs"),
    Known("bun", ".bun", "BUN_INSTALL", "bin/bun", "bin install/global"),
    Known("deno", ".deno", "DENO_INSTALL", "bin/deno", "bin"),
    Known("cargo", ".cargo", "CARGO_HOME", "bin registry", "bin env registry git"),
    Known("rustup", ".rustup", "RUSTUP_HOME", "toolchains settings.toml"),
    Known("go", "sdk/go*", "GOROOT", "pkg/tool src/runtime", _GOROOT, on_path=True),
    Known("go packages", "go", "GOPATH", "bin pkg/mod", "bin pkg/mod"),
    Known("java", "", "JAVA_HOME", "lib/jrt-fs.jar lib/tools.jar lib/rt.jar", _JDK, on_path=True),
    Known("sdkman", ".sdkman", "SDKMAN_DIR", "candidates", "", "candidates/*/*/conf/settings.xml"),
    Known("asdf", ".asdf", "ASDF_DIR", "asdf.sh bin/asdf", "", "installs/nodejs/*/etc/npmrc"),
    Known("asdf", ".asdf", "ASDF_DATA_DIR", "installs shims", "", "installs/nodejs/*/etc/npmrc"),
    Known("mise", ".local/share/mise", "MISE_DATA_DIR", "installs shims",
          "installs shims plugins", "installs/node/*/etc/npmrc"),
    Known("rbenv", ".rbenv", "RBENV_ROOT", "versions shims"),
    Known("rvm", ".rvm", "rvm_path", "rubies scripts"),
    Known("ruby gems", ".gem .local/share/gem", parts="ruby"),
    Known("ruby gems", "", "GEM_HOME", "specifications", "bin gems specifications extensions"),
    Known("ghcup", ".ghcup", parts="bin ghc cabal hls"),
    Known("opam", ".opam", "OPAMROOT", "opam-init config", "", "repo/repos-config"),
    Known("elan", ".elan", "ELAN_HOME", "toolchains", "bin toolchains settings.toml"),
    Known("juliaup", ".juliaup .julia", parts="bin juliaup"),
    Known("dotnet", ".dotnet", "DOTNET_ROOT", "dotnet sdk shared", _DOTNET),
    Known("dart packages", ".pub-cache", "PUB_CACHE", "hosted", "bin global_packages hosted"),
    Known("homebrew", "/home/linuxbrew/.linuxbrew .linuxbrew", "HOMEBREW_PREFIX", "Cellar", _BREW),
    Known("nix", "/nix", parts="store"),
)  # fmt: skip
IN_OPT = Known("programs in /opt")


def is_credential(name: str) -> bool:
    low = name.lower()
    return low in CREDENTIAL_NAMES or low.startswith(_STARTS) or low.endswith(_ENDS)
