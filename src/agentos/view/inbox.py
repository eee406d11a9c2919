"""The inbox as the page shows it: each question with its findings, draft and verdict. Server process."""

import contextlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentos.app.inbox import Discussion, asked_by, discussions, next_command
from agentos.report.documents import DocumentText, document_text
from agentos.report.drafts import first_heading
from agentos.report.needs_you import answer_command
from agentos.report.run_again import RunAgain
from agentos.review import read_document
from agentos.settings import Settings
from agentos.store.documents import MAX_DOCUMENT_BYTES
from agentos.store.home import Home
from agentos.store.lineage import Lineage
from agentos.store.run_folder import open_findings, read_lines

_NUMBERED = re.compile(r"\d{3,}-([a-z]+)\.md")
_TITLE_LENGTH = 120
_KEPT_DOCUMENTS = 200  # the page asks again at every change


class Inbox:
    """Reads the discussions of one home."""

    def __init__(
        self,
        *,
        home: Home,
        worktree: Path,
        lineage_folder: str,
        program: str = "agentos",
        settings: Settings | None = None,
    ) -> None:
        self._home = home
        self._program = program
        self._settings = settings
        self._worktree = worktree
        self._lineage_folder = lineage_folder

    def mark(self) -> tuple[Any, ...]:
        """A value that changes when the inbox does; cheap enough to check all the time."""
        return tuple(
            (one.label, one.mock, one.progress.reviews, one.progress.run_id, one.decided)
            for one in self._discussions()
        )

    def entries(self) -> list[dict[str, Any]]:
        asked: dict[tuple[str, str, bool], RunAgain] = {}  # one run may ask many questions
        entries = []
        for one in self._discussions():
            run = (one.progress.run_id, one.progress.workflow, one.mock)
            if run not in asked:
                asked[run] = asked_by(self._home, one, program=self._program, settings=self._settings)
            entries.append(self._entry(one, asked[run]))
        return entries

    def _discussions(self) -> tuple[Discussion, ...]:
        if not self._home.used:
            return ()
        with self._home.open_records(write=False) as records:
            return discussions(records)

    def _entry(self, discussion: Discussion, again: RunAgain) -> dict[str, Any]:
        progress, decided = discussion.progress, discussion.decided
        trail = self._trail(progress.workflow, progress.item)
        verdict = trail.get("verdict")
        findings, questions = self._last_review(discussion, verdict)
        source = next(iter(trail.values()), None)
        return {
            "label": discussion.label,
            "id": progress.item,
            "workflow": progress.workflow,
            "title": "" if source is None else _title(source["text"]),
            "run_id": progress.run_id,
            "reviews": progress.reviews,
            "since": progress.updated_at,
            "question": progress.error or "The reviewer asks a person to decide.",
            "questions": questions,
            "findings": findings,
            "blocking": sum(one.get("tier") == 1 for one in findings),
            "draft": _shown(trail.get("draft")),
            "verdict": _shown(verdict),
            "decided": None
            if decided is None
            else {"answer": decided.answer, "note": decided.text, "by": decided.by, "at": decided.at},
            "decide_command": answer_command(discussion.label, questions, self._program),
            "command": next_command(discussion, again),
            "mock": discussion.mock,
        }

    def _trail(self, workflow: str, item: str) -> dict[str, dict[str, str]]:
        """The first document of the item's lineage and the latest of each kind, by kind."""
        found: dict[str, dict[str, str]] = {}
        lineage = Lineage(worktree=self._worktree, folder=self._lineage_folder, name=f"{item}-{workflow}")
        for name in lineage.tree.names(lineage.active):
            if kind := _NUMBERED.fullmatch(name):
                with contextlib.suppress(OSError):
                    data = lineage.tree.read(lineage.active / name, MAX_DOCUMENT_BYTES)
                    text = data.decode("utf-8", errors="replace")
                    found[kind[1]] = {"path": str(lineage.active / name), "text": text}
        return found

    def _last_review(
        self, discussion: Discussion, verdict: dict[str, str] | None
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Open findings and questions as recorded; if the run was deleted, from the review document."""
        progress = discussion.progress
        audit = self._home.runs / progress.run_id / f"workflow-audit-{progress.item}.jsonl"
        records = [one for one in read_lines(audit) if open_findings(one) is not None]
        if records and records[-1].get("review") == progress.reviews:
            return list(open_findings(records[-1]) or ()), list(records[-1].get("questions", []))
        if verdict is None:
            return [], []
        reading = read_document(verdict["text"])
        return [finding.as_dict() for finding in reading.findings], list(reading.questions)


def _shown(document: dict[str, str] | None) -> dict[str, Any] | None:
    return None if document is None else {"path": document["path"], **_text(document["text"]).as_dict()}


@lru_cache(maxsize=_KEPT_DOCUMENTS)
def _text(text: str) -> DocumentText:
    return document_text(text)


def _title(text: str) -> str:
    line = first_heading(text) or text.strip().partition("\n")[0]
    return "".join(char for char in line if char.isprintable())[:_TITLE_LENGTH]
