"""What the loop saves between its nodes: plain values only, no secrets. Pure."""

from typing import Any, TypedDict


class LoopState(TypedDict, total=False):
    """An item's state in the loop; a checkpoint holds only this."""

    lineage: str  # the name of the item's lineage folder when done
    trail: int  # numbered lineage files written so far
    drafts: int
    draft: str
    missing: list[str]  # sections the gate did not find
    wrong_paths: list[str]  # that the draft names and that do not fit the files of the repository
    paths_returned: bool  # a draft was sent back for its paths; that happens once per item
    returns: int  # drafts sent back by the gate in a row
    reviews: int
    reply: str
    reviewer: str  # the model that gave the reply
    verdict: str
    findings: list[dict[str, Any]]  # still open
    repeats: int  # times in a row the same findings came back
    unreadable: int  # unreadable reviews in a row
    allowance_from: int  # reviews before the current allowance began
    note: str  # from a person, for both models
    noted: int  # id of the latest note that was taken up
    basis: str  # the document that the first draft revises
    old_source: str  # the item's text that the basis was written for, if it was different
    seen: str  # hash of the document on disk when it was last read
    log: list[dict[str, Any]]  # one entry per review, for the document's review log
    held: dict[str, Any]
    output: str
    text_hash: str  # of the approved document


def start_state() -> LoopState:
    """Return the state that a new item begins with."""
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
