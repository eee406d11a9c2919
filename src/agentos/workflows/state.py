"""What the loop saves between its nodes: plain values only, no secret. Pure."""

from typing import Any, TypedDict


class LoopState(TypedDict, total=False):
    """An item's state in the loop; a checkpoint holds just this."""

    lineage: str  # the trail's name when done
    trail: int  # numbered files written so far
    drafts: int
    draft: str
    missing: list[str]  # sections the gate did not find
    returns: int  # drafts sent back by the gate in a row
    reviews: int
    reply: str
    reviewer: str  # the model that gave the reply
    verdict: str
    findings: list[dict[str, Any]]  # still open
    repeats: int  # times in a row the same findings came back
    unreadable: int  # unreadable reviews in a row
    allowance_from: int  # reviews before the present allowance began
    note: str  # a person's word to both models
    noted: int  # the latest of a person's notes that was taken up
    basis: str  # the document that the first draft revises
    old_source: str  # the item's text that the basis was written for, if it was another
    seen: str  # hash of the document in its place when it was last looked at
    log: list[dict[str, Any]]  # a line a review, for the document's review log
    held: dict[str, Any]
    output: str


def start_state() -> LoopState:
    """What a new item begins with."""
    return {
        "drafts": 0,
        "draft": "",
        "missing": [],
        "returns": 0,
        "reviews": 0,
        "findings": [],
        "repeats": 0,
        "unreadable": 0,
        "allowance_from": 0,
        "note": "",
        "log": [],
    }
