"""Runs what bin/ags was called as, in an environment that matches the lock files."""

# No pathlib and no other import here: this runs at every start, and they cost more than all of it.
import gc
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
LOCKS = {
    "run": ("requirements.lock",),
    "dev": ("requirements.lock", "requirements-dev.lock"),
}
STAMP = "ags-stamp"
VERBS = {"ags-server": ("server",), "ags-web": ("web",)}
"""Programs that are a verb of ags, for who looks for them by name."""


def stamp(root: str, kind: str) -> bytes:
    """What an environment was made from. It is current as long as this has not changed."""
    parts = [f"{root}\n{sys.implementation.cache_tag}\n".encode(errors="surrogateescape")]
    for name in LOCKS[kind]:
        with open(os.path.join(root, name), "rb") as file:
            parts.append(file.read())
    return b"".join(parts)


def is_current(prefix: str, root: str, kind: str) -> bool:
    try:
        with open(os.path.join(prefix, STAMP), "rb") as file:
            return file.read() == stamp(root, kind)
    except OSError:
        return False


def main() -> int:
    called, *arguments = sys.argv[1:]
    kind = "dev" if called in ("ags-test", "ags-bench") else "run"
    if not is_current(sys.prefix, ROOT, kind):
        sys.path[:0] = [ROOT, os.path.join(ROOT, "src")]
        from bootstrap import environment

        python = os.path.join(environment.set_up(called, kind), "bin", "python")
        os.execv(python, [python, "-I", *sys.argv])
    if not sys.prefix.startswith(ROOT + os.sep):
        # The checkout is not ours to write bytecode into.
        sys.pycache_prefix = os.path.join(sys.prefix, "bytecode")
    sys.argv = [called, *VERBS.get(called, ()), *arguments]
    return run(called)


def run(called: str) -> int:
    if called == "ags-test":
        sys.path.insert(0, ROOT)
        from bootstrap import checks

        return checks.main()
    if called == "ags-bench":
        sys.path.insert(0, ROOT)
        import runpy

        runpy.run_module("bench", run_name="__main__", alter_sys=True)
        return 0
    gc.disable()  # while modules load: what they make stays
    from ags.cli.main import main as ags

    gc.freeze()
    gc.enable()
    return ags()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking the interpreter apart piece by piece would take longer than most verbs.
    os._exit(code)
