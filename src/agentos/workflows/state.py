"""What the loop saves between its nodes: plain values only, no secrets. Pure."""

from typing import Any, TypedDict


class LoopState(TypedDict, total=False):
    """An item's state in the loop; a checkpoint holds only this."""

    lineage: str  # the name of the item's lineage folder when done
    trail: int  # numbered lineage files written so far
    drafts: int
    draft: str
    looks: int  # calls in which the drafter was asked what it wants to read
    checks: int  # the same for the reviewer
    read: list[dict[str, Any]]  # what was read: the answers and the parts of each look
    absent: list[str]  # names in the draft that occur nowhere in the repository
    named: list[dict[str, Any]]  # definitions that the draft names
    missing: list[str]  # sections the gate did not find
    wrong_paths: list[str]  # that the draft names and that do not fit the files of the repository
    returns: int  # drafts sent back by the gate in a row
    reviews: int  # that could be read, and answered what was asked
    asks: int  # calls of the reviewer, also looks and replies that did not count
    reply: str
    reviewer: str  # the model that gave the reply
    redo: str  # what was wrong with the last reply; empty: nothing
    incomplete: str  # a readable reply that left something unanswered; counts if the next one is not readable
    reviewed: str  # the draft reviewed last
    verdict: str
    ledger: dict[str, Any]  # findings and questions by number
    findings: list[dict[str, Any]]  # of the last review; in older checkpoints, all that are open
    repeats: int  # reviews in a row after which no finding was resolved
    unreadable: int  # unreadable reviews in a row
    allowance_from: int  # reviews before the current allowance began
    noted: int  # id of the latest note that was taken up
    basis: str  # the document that the first draft revises
    approved: str  # the same document before a person edited it; empty: unknown, or theirs from the start
    edited: bool  # a person wrote the basis or changed it
    old_source: str  # the item's text that the basis was written for, if it was different
    seen: str  # hash of the document on disk when it was last read
    accepted: int  # id of the decision with which a person approved the draft
    held: dict[str, Any]
    output: str
    text_hash: str  # of the approved document
    dropped: list[str]  # lines of a person that the approved document lacks


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
    }
