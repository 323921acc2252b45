"""Any run there could be. Apart, since a process that only needs an example would load it all."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import get_args

from hypothesis import strategies as st

from ags.config.schema import MountConfig
from ags.model import Limits, Weakening
from ags.runs import Applied, Mode, Moment, Mount, Order, Result, Run, State, Supervisor

texts = st.text(max_size=20) | st.binary(max_size=8).map(os.fsdecode)
commits = st.text("0123456789abcdef", min_size=40, max_size=40)
numbers = st.integers(0, 2**62)
amounts = st.none() | numbers
seconds = st.floats(allow_nan=False, allow_infinity=False)
moments = st.builds(Moment, seconds, seconds, st.uuids().map(str))
paths = texts.map(lambda text: Path("/" + text.replace("\0", "")))
limits = st.builds(Limits, amounts, st.none() | seconds, amounts, st.none() | seconds, amounts)

optional_commits = st.none() | commits
ways = st.sampled_from(["merge", "squash", "patch", "fast-forward"])
applied = st.builds(
    Applied,
    ways,
    texts,
    optional_commits,
    optional_commits,
    moments,
    optional_commits,
    st.none() | moments,
)
mounts = st.builds(
    Mount, texts, st.builds(MountConfig, host=paths, mode=st.sampled_from(["ro", "rw"]))
)
orders = st.builds(
    Order,
    arguments=st.lists(texts, max_size=2).map(tuple),
    terminal=st.booleans(),
    folder=st.sampled_from([PurePosixPath("."), PurePosixPath("a/b")]),
    mounts=st.lists(mounts, max_size=2).map(tuple),
    environment=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    backend=st.none() | texts,
    config=st.none() | paths,
)

any_run = st.builds(
    Run,
    id=st.text("0123456789abcdef", min_size=20, max_size=20),
    name=st.from_regex(r"[a-z0-9][a-z0-9-]{0,40}[a-z0-9]", fullmatch=True),
    agent=texts,
    goal=texts,
    mode=st.sampled_from(get_args(Mode)),
    project=paths,
    workspace=st.none() | paths,
    base=optional_commits,
    branch=st.none() | texts,
    left_at=optional_commits,
    order=orders,
    state=st.sampled_from(get_args(State)),
    asking=st.booleans(),
    stopped_by=st.none() | texts,
    created=moments,
    started=st.none() | moments,
    ended=st.none() | moments,
    exit_code=st.none() | st.integers(-64, 255),
    limits=limits,
    limited_by=st.none() | texts,
    weakenings=st.lists(st.builds(Weakening, texts, texts), max_size=2).map(tuple),
    notes=st.lists(texts, max_size=2).map(tuple),
    result=st.none() | st.builds(Result, commits, numbers, numbers, numbers),
    applied=st.lists(applied, max_size=2).map(tuple),
    supervisor=st.none() | st.builds(Supervisor, numbers, numbers),
    format=st.just(1),
)
