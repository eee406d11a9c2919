"""The bodies of the page's requests: JSON of a limited size, checked field by field. Server process."""

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from agentos.app.inbox import ShownDiscussion
from agentos.decisions import Answer

MAX_BODY = 100_000
MAX_NOTE = 20_000


async def read_json(request: Request) -> Any:
    data = b""
    try:
        async for block in request.stream():
            data += block
            if len(data) > MAX_BODY:
                raise HTTPException(413, f"The request is larger than {MAX_BODY:,} bytes.")
    except ClientDisconnect as exc:
        raise HTTPException(400, "The request is incomplete.") from exc
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise HTTPException(400, "The request is not valid JSON.") from exc


def decision_in(body: Any) -> tuple[Answer, str, ShownDiscussion]:
    if not isinstance(body, dict) or not body.keys() <= {"answer", "note", "reviews", "decided_at"}:
        raise HTTPException(400, "Send an object with answer, note, reviews and decided_at.")
    answer, note, reviews = body.get("answer"), body.get("note", ""), body.get("reviews")
    decided_at = body.get("decided_at")
    if not isinstance(answer, str) or answer not in {"approve", "revise"}:
        raise HTTPException(400, "answer must be approve or revise.")
    if not isinstance(note, str) or len(note) > MAX_NOTE:
        raise HTTPException(400, f"note must be text of at most {MAX_NOTE:,} characters.")
    if reviews is not None and (not isinstance(reviews, int) or isinstance(reviews, bool)):
        raise HTTPException(400, "reviews must be a number.")
    if decided_at is not None and not isinstance(decided_at, str):
        raise HTTPException(400, "decided_at must be the time of the answer to change.")
    chosen: Answer = "approve" if answer == "approve" else "revise"
    seen = ShownDiscussion(reviews=reviews, decided_at=decided_at)
    return chosen, note.encode("utf-8", errors="replace").decode(), seen


def texts_in(body: Any, names: set[str]) -> dict[str, str]:
    if (
        not isinstance(body, dict)
        or not body.keys() <= names
        or not all(isinstance(one, str) for one in body.values())
    ):
        raise HTTPException(400, f"Send an object with texts only: {', '.join(sorted(names))}.")
    return body


def note_in(body: Any) -> str:
    note = body.get("note", "") if isinstance(body, dict) and body.keys() <= {"note"} else None
    if not isinstance(note, str) or len(note) > MAX_NOTE:
        raise HTTPException(400, f"Send an object with a note of at most {MAX_NOTE:,} characters.")
    return note.encode("utf-8", errors="replace").decode()
