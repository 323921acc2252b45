"""The one error a person ever sees: what failed, why, and what to do about it."""

from __future__ import annotations


class AgsError(Exception):
    """Raised anywhere, shown only by the CLI's main or the server's handler."""

    def __init__(
        self,
        what: str,
        *,
        subject: object = None,
        cause: str = "",
        hint: str = "",
        exit_code: int = 1,
    ) -> None:
        self.what = what
        self.subject = None if subject is None else str(subject)
        self.cause = cause
        self.hint = hint
        self.exit_code = exit_code
        super().__init__(str(self))

    def __str__(self) -> str:
        """`cannot start the sandbox (my-run): the kernel refuses user namespaces`."""
        subject = f" ({self.subject})" if self.subject else ""
        cause = f": {self.cause}" if self.cause else ""
        return f"cannot {self.what}{subject}{cause}"


class Missing(AgsError):
    """What is meant is not there."""


class Unfit(AgsError):
    """A value that cannot be meant, whatever the state of things."""


class ConfigError(AgsError):
    """A setting that cannot be meant: names the file, the line and the key."""

    def __init__(
        self, file: object, line: int | None, key: str, cause: str, hint: str = ""
    ) -> None:
        self.file = str(file)
        self.line = line
        self.key = key
        place = f"{file}:{line}" if line else str(file)
        super().__init__(
            "read the settings", subject=place, cause=f"{key}: {cause}" if key else cause, hint=hint
        )
