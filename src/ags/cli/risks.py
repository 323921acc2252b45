"""What deserves a second look before it is applied, grouped for a person to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ags.paint import Paint
from ags.text import one_line
from ags.workspace.risky import Risk, Sort

HEADINGS: dict[Sort, str] = {
    "secret": "This looks like a secret",
    "runs": "Your machine, or a service that acts for you, would run or obey this later",
    "steers": "Agents would take this as instructions",
    "leads-out": "This leads out of the repository",
    "hidden": "This reads otherwise than it works",
    "unseen": "This was not looked through",
}


def rendered(risks: Sequence[Risk], paint: Paint, most: int | None = None) -> Iterator[str]:
    """At most `most` of each sort; the rest is counted."""
    for sort, heading in HEADINGS.items():
        found = [risk for risk in risks if risk.sort == sort]
        if not found:
            continue
        yield paint(f"{heading}:", "yellow", "bold")
        shown = found if most is None or len(found) <= most + 1 else found[:most]
        for risk in shown:
            place = one_line(risk.path) + (f":{risk.line}" if risk.line is not None else "")
            yield f"  {paint(place, 'yellow')}  {one_line(risk.reason)}"
        if len(shown) < len(found):
            yield f"  … {len(found) - len(shown)} more"
