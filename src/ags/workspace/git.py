"""The only place that calls git. What an agent could have touched never configures it."""

from __future__ import annotations

from pathlib import Path

from ags import proc


async def identity(home: Path) -> dict[str, str]:
    """`user.name` and `user.email` as the person's own global settings have them."""
    if (git := proc.find("git")) is None:
        return {}
    environment = proc.MINIMAL_ENVIRONMENT | {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    found = await proc.run(
        (git, "config", "--global", "--null", "--get-regexp", r"^user\.(name|email)$"),
        env=environment,
        cwd="/",
        check=False,
    )
    return dict(entry.split("\n", 1) for entry in found.text.split("\0") if "\n" in entry)


def config_text(settings: dict[str, str]) -> str:
    """As a git configuration file, with every value quoted."""
    lines = []
    for key, value in settings.items():
        section, name = key.split(".", 1)
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'[{section}]\n\t{name} = "{quoted}"\n')
    return "".join(lines)
