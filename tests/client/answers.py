"""Answers as the API gives them."""

from __future__ import annotations

from typing import Any

SUMMARY: dict[str, Any] = {
    "id": "0" * 20,
    "name": "fix-login",
    "agent": "shell",
    "goal": "make the log-in work",
    "mode": "separate",
    "client": "",
    "group": "",
    "project": "/srv/shop",
    "project_id": None,
    "branch": "agent--fix-login",
    "state": "done",
    "asking": False,
    "created": 1000.0,
    "started": 1001.5,
    "ended": 1010.0,
    "exit_code": 0,
    "stopped_by": None,
}
ROW: dict[str, Any] = {
    **SUMMARY,
    "weakenings": [],
    "files": 1,
    "insertions": 2,
    "deletions": 3,
    "applied": False,
}
RUN: dict[str, Any] = {
    **SUMMARY,
    "model": "",
    "base": "a" * 40,
    "workspace": "/srv/ags/worktrees/fix-login",
    "said": None,
    "turn": 0,
    "answer": "",
    "session": "",
    "limits": {"memory": 1 << 30, "cpus": None, "pids": 4096, "timeout": None},
    "limited_by": "cgroup v2",
    "weakenings": [{"name": "ptrace", "text": "processes inside may debug one another"}],
    "notes": [],
    "result": {"commit": "b" * 40, "files": 1, "insertions": 2, "deletions": 3},
    "applied": [],
    "pushed": [],
    "attempts": [],
    "terminal": False,
    "network": True,
    "allow": [],
    "ask": None,
    "publish": [],
    "left": ["apply", "remove"],
}
DIFF: dict[str, Any] = {
    "run": "fix-login",
    "old": "a" * 40,
    "new": "b" * 40,
    "files": [
        {
            "path": "a.txt",
            "path_base64": None,
            "old_path": None,
            "old_path_base64": None,
            "kind": "modified",
            "old_mode": "100644",
            "new_mode": "100644",
            "old_id": "c" * 40,
            "new_id": "d" * 40,
            "old_size": 6,
            "new_size": 12,
            "binary": False,
            "additions": 1,
            "deletions": 0,
            "left_out": "",
            "hunks": [
                {
                    "old_start": 1,
                    "old_lines": 1,
                    "new_start": 1,
                    "new_lines": 2,
                    "heading": "",
                    "lines": [
                        {"kind": "context", "text": "hello", "no_newline": False},
                        {"kind": "added", "text": "world", "no_newline": False},
                    ],
                }
            ],
        }
    ],
    "stat": {
        "files": 1,
        "additions": 1,
        "deletions": 0,
        "binaries": 0,
        "left_out": 0,
        "kinds": {"modified": 1},
    },
    "risks": [{"path": "a.txt", "line": None, "sort": "runs", "reason": "because"}],
}
DONE = {
    "outcome": "merge",
    "target": "refs/heads/main",
    "before": "a" * 40,
    "after": "b" * 40,
    "source": "c" * 40,
}
PROJECT = {
    "id": "project-" + "0" * 20,
    "name": "shop",
    "url": "https://git.example.org/shop.git",
    "client": "",
    "state": "ready",
    "progress": None,
    "stage": "",
    "error": "",
    "head": "main",
    "added": 1000.0,
    "runs": 0,
}
BRANCH = {"name": "main", "commit": "a" * 40, "title": "first", "when": 1000.0, "run": None}
ASK = {
    "id": "kfw1",
    "run": "fix-login",
    "scheme": "tls",
    "host": "api.example.org",
    "port": 443,
    "waited": 2.0,
    "left": 60.0,
}
PORT = {"port": 5173, "host_port": 5173, "url": "http://127.0.0.1:5173"}
HEALTH = {"status": "ok", "version": "0.1", "problems": [], "runs": {"done": 1}}


def listed(*items: object) -> dict[str, object]:
    return {"items": list(items), "total": len(items)}
