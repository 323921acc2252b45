"""A long diff in the page: how soon it is there, and whether it stalls while it is scrolled."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ags import runs
from ags.errors import AgsError
from ags.runs import Result, Run, State
from bench.measure import Mark, Missing, Row, Series, at_most, finish
from bench.workshop import AGS, Workshop, make_repository, without_settings, workshop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FILES, QUICK_FILES = 260, 20
LINES = 154
"""Of each file; every second one is changed, so that as many lines are added and removed."""
ROUNDS, QUICK_ROUNDS = 3, 1
FRAMES = 300
NAME = "long-diff"
SOON, STALLED = 1000, 100
PATIENCE = 60_000
"""Milliseconds for a page to show something at all."""
ENDING = 10.0
"""Seconds for the server, when it was told to end."""
STEPS: tuple[State, ...] = ("preparing", "running", "collecting", "done")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# No errand of the browser's own, which would be measured as well.
OPTIONS = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
NONE = Mark("none", lambda count: count == 0)

# As bin/ags starts it, but in the environment that this runs in.
SERVER = """
import sys
root = sys.argv.pop(1)
sys.path[:0] = [root, root + "/src"]
from bootstrap import start
sys.argv[0] = "ags"
sys.exit(start.run("ags"))
"""
# A frame later than the first row, so that it has been painted.
SHOWN = """() => new Promise((done) => {
  const isAnswer = ({ name }) => /\\/api\\/.*\\/diff\\?/.test(name);
  const painted = () => {
    const answer = performance.getEntriesByType("resource").find(isAnswer);
    done({ shown: performance.now(), answer: answer.duration });
  };
  const isThere = () => document.querySelector(".diff .as-line") !== null;
  const look = () => requestAnimationFrame(isThere() ? painted : look);
  look();
})"""
# What comes after the first rows must not stall either.
ALL = """async (lines) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const count = () => Number(document.querySelector(".diff").dataset.rows);
  const gaps = [];
  let [last, before] = [await frame(), 0];
  while (before <= lines) {
    before = count();
    const now = await frame();
    gaps.push(now - last);
    last = now;
  }
  return { all: performance.now(), gaps };
}"""
# From top to end in so many frames: with a long diff every row is another one with each of them.
SCROLLED = """async (frames) => {
  const pane = document.querySelector(".diff");
  const { left, top, width, height } = pane.getBoundingClientRect();
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const gaps = [];
  let [empty, last] = [0, await frame()];
  for (let at = 1; at <= frames; at++) {
    pane.scrollTop = (at / frames) * (pane.scrollHeight - height);
    const now = await frame();
    gaps.push(now - last);
    last = now;
    const seen = document.elementFromPoint(left + width / 2, top + height / 2);
    empty += seen?.closest(".diff-row") ? 0 : 1;
  }
  return { gaps, empty };
}"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a browser saw of it once."""

    shown: float
    """Milliseconds from the navigation to the first rows."""
    answer: float
    """Of which it waited for the server to tell the diff, or its beginning."""
    all: float
    """Milliseconds from the navigation to all rows."""
    gaps: tuple[float, ...]
    """Milliseconds between one frame and the next."""
    empty: int
    """Frames that had no row where one should be."""


def rows(*, quick: bool) -> Iterator[Row]:
    """With the browser that the machine has; each time it begins with nothing remembered."""
    files = QUICK_FILES if quick else FILES
    found = seen(files, QUICK_ROUNDS if quick else ROUNDS)
    yield from told(found, f"{files} files, {files * LINES:,} changed lines")


def told(found: list[Seen] | Missing, what: str) -> Iterator[Row]:
    soon, smooth = at_most(SOON, f"≤ {SOON} ms"), at_most(STALLED, f"≤ {STALLED} ms")
    if isinstance(found, Missing):
        for case, mark in (("first rows", soon), ("longest frame while scrolling", smooth)):
            yield Row("diff", case, found, mark=mark)
        return
    yield Row("diff", "first rows", _series(each.shown for each in found), mark=soon, note=what)
    yield Row("diff", "of which the server's answer", _series(each.answer for each in found))
    yield Row("diff", "all rows", _series(each.all for each in found))
    worst = _series(max(each.gaps) for each in found)
    load = f"load of the machine {os.getloadavg()[0]:.1f}, of {os.cpu_count()} cores"
    yield Row("diff", "longest frame while scrolling", worst, mark=smooth, note=load)
    yield Row(
        "diff", "a frame while scrolling", _series(gap for each in found for gap in each.gaps)
    )
    empty = Series((max(each.empty for each in found),))
    yield Row("diff", "frames without rows", empty, "frames", mark=NONE)


def _series(values: Iterator[float]) -> Series:
    return Series(tuple(round(value, 1) for value in values))


def seen(files: int, rounds: int) -> list[Seen] | Missing:
    if isinstance(chromium := browser_program(), Missing):
        return chromium
    with workshop() as shop, served(shop) as address:
        make_run(shop, files)
        token = (Path(shop.environ["AGS_HOME"]) / "server" / "token").read_text().strip()
        with browsing(chromium) as browser:
            # The first does not count: the server reads what it needs.
            found = [look_at(browser, address, token, files) for _ in range(rounds + 1)]
            return found[1:]


def browser_program() -> str | Missing:
    if importlib.util.find_spec("playwright") is None:
        return Missing("playwright is not installed")
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    return found or Missing("no Chromium is installed")


@contextlib.contextmanager
def browsing(program: str) -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    # Chromium's own sandbox refuses to be started by root; what it shows here is ours.
    options = [*OPTIONS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        try:
            yield browser
        finally:
            browser.close()


def look_at(browser: Browser, address: str, token: str, files: int) -> Seen:
    """Log in, open the review, and scroll through all of it."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.add_init_script(f"localStorage.setItem('ags.token', '{token}')")
        page.goto(f"{address}/run/{NAME}/review", wait_until="commit")
        shown: dict[str, float] = page.evaluate(SHOWN)
        came: dict[str, Any] = page.evaluate(ALL, files * LINES)
        scrolled: dict[str, Any] = _scrolled(page)
        gaps = (*came["gaps"], *scrolled["gaps"])
        return Seen(shown["shown"], shown["answer"], came["all"], gaps, scrolled["empty"])
    finally:
        context.close()


def _scrolled(page: Page) -> dict[str, Any]:
    page.wait_for_load_state()
    found: dict[str, Any] = page.evaluate(SCROLLED, FRAMES)
    return found


# What there is to see


def line(file: int, number: int, *, changed: bool) -> str:
    words = f"    total_{number} = measured(value, {file}) + {number}  # as the others do"
    return words.replace("measured(value", "weighed(value, other") if changed else words


def content(file: int, *, changed: bool) -> str:
    lines = (line(file, number, changed=changed and number % 2 == 0) for number in range(LINES))
    return "\n".join(lines) + "\n"


def make_run(shop: Workshop, files: int) -> Run:
    """One that has ended, with its work on a branch: no agent is needed for that."""
    folder, branch = shop.workspace, f"agent--{NAME}"
    paths = {number: f"part_{number % 13:02}/module_{number:03}.py" for number in range(files)}
    make_repository(folder, {path: content(n, changed=False) for n, path in paths.items()})
    base = _git(shop, "rev-parse", "HEAD")
    _git(shop, "checkout", "--quiet", "-b", branch)
    for number, path in paths.items():
        (folder / path).write_text(content(number, changed=True))
    _git(shop, "commit", "--quiet", "--all", "-m", "all of it")
    commit = _git(shop, "rev-parse", "HEAD")
    _git(shop, "checkout", "--quiet", "-")
    half = files * LINES // 2
    return _record(shop, branch, base, Result(commit, files, half, half))


def _record(shop: Workshop, branch: str, base: str, result: Result) -> Run:
    at = runs.now()
    made = Run(
        id=runs.new_id(at),
        name=NAME,
        agent="shell",
        goal="change much",
        mode="separate",
        project=shop.workspace,
        created=at,
    )
    with runs.create(Path(shop.environ["AGS_HOME"]), made) as held:
        for step in STEPS:
            held.save(runs.moved(held.run, step, runs.now()))
        return held.save(
            replace(held.run, base=base, branch=branch, left_at=result.commit, result=result)
        )


def _git(shop: Workshop, *words: str) -> str:
    person = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    made = finish(("git", *person, *words), cwd=shop.workspace, env=without_settings(os.environ))
    return made.decode().strip()


@contextlib.contextmanager
def served(shop: Workshop) -> Iterator[str]:
    """The address of the page, by a server that is gone at the end."""
    words = (sys.executable, "-I", "-c", SERVER, str(AGS.parent.parent), "web", "--port", "0")
    environ = {name: text for name, text in shop.environ.items() if name != "AGS_SERVER"}
    log = shop.workspace.parent / "server.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            words,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            said = process.stdout.readline().strip()
            if not said.startswith("page: "):
                raise AgsError("start the server", cause=said or log.read_text()[-500:])
            yield said.removeprefix("page: ")
        finally:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
