"""The request for a handover: six fields that the next session needs, in the model's own words. Pure."""

from __future__ import annotations

from stator.model.extraction.handovers import HEADINGS

IN_SUMMARY = (
    "End the summary with these six headings, in this order, each on a line of its own, and at most five short lines "
    "under each; write «none» where there is nothing:\n"
    + "\n".join(f"## {heading}" for heading in HEADINGS)
)
"""The request to a model that is about to summarise its conversation."""
REQUEST = (
    "Before you stop, write a handover for the session that continues this work. Answer with these six headings, in "
    "this order, each on a line of its own, and at most five short lines under each; write «none» where there is "
    "nothing. Say what holds now, not what happened. Use no tools, and write nothing else.\n"
    + "\n".join(f"## {heading}" for heading in HEADINGS)
)
