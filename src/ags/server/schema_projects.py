"""What requests and answers about projects hold besides what `schema` has."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, Field

from ags.errors import Unfit


def _filled(url: str) -> str:
    if not url.strip():
        hint = "such as https://HOST/PATH, git@HOST:PATH or /FOLDER"
        raise Unfit("add the project", cause="there is no address", hint=hint)
    return url


Url: TypeAlias = Annotated[str, AfterValidator(_filled), Field(json_schema_extra={"minLength": 1})]


class Apart(BaseModel):
    """Branches that the last pull left as they were, though the remote's are others."""

    diverged: list[str]
    """They have commits of their own."""
    gone: list[str]
    """The remote has them no more."""
    more: int
    """So many are not named here."""
