"""`agentos decide`: a person's answer to a review that ended in DISCUSS, or to an open question."""

from typing import TYPE_CHECKING

import click

from agentos.cli import completion

if TYPE_CHECKING:
    from agentos.app.project import Project
    from agentos.errors import UsageError


@click.command("decide")
@click.argument("item", metavar="ID", shell_complete=completion.waiting)
@click.option("--approve", is_flag=True, help="Approve the draft as it is.")
@click.option("--revise", is_flag=True, help="Send the draft back for revision.")
@click.option(
    "--note",
    "notes",
    multiple=True,
    help='Tell both models what you decided; alone, it implies --revise. "Q2: no" answers question 2.',
)
def decide(item: str, *, approve: bool, revise: bool, notes: tuple[str, ...]) -> None:
    """Answer the review of item ID that needs a person's decision, or an open question of its document.

    The next run resumes from there.
    """
    from agentos.app.inbox import NotWaitingError, answer_discussion  # noqa: PLC0415
    from agentos.app.notes import check_note  # noqa: PLC0415
    from agentos.cli.invocation import program  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415

    note = "\n".join(notes)
    if approve and revise:
        raise UsageError("Choose --approve or --revise, not both.")
    if not (approve or revise or note.strip()):
        raise UsageError('No decision given. Use --approve, --revise or --note "...".')
    for one in notes:
        check_note(one)
    project = open_project()
    try:
        answered = answer_discussion(
            project.home,
            item,
            answer="approve" if approve else "revise",
            note=note,
            program=program(),
            settings=project.config.settings,
        )
    except NotWaitingError as exc:
        _answer_question(project, item, "" if approve else note, exc)
        return
    said = f" ({' / '.join(answered.note.splitlines())})" if answered.note else ""
    done = "draft approved" if approve else "sent back for revision"
    left = f" Not answered: {', '.join(answered.unanswered)}." if answered.unanswered else ""
    click.echo(f"{answered.label}: {done}{said}.{left} To {'finish' if approve else 'resume'} it:")
    click.echo(f"  {answered.command}")


def _answer_question(project: "Project", item: str, note: str, not_waiting: "UsageError") -> None:
    """Record a note as the answer to an open question of an item that does not wait for a decision."""
    from agentos.app.notes import answer_question, find_subject, open_questions  # noqa: PLC0415
    from agentos.cli.invocation import program  # noqa: PLC0415
    from agentos.decisions import in_one_line  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415

    try:
        subject = find_subject(project.home, project.worktree, project.config.settings.folders, item)
    except UsageError:
        raise not_waiting from None
    asked = open_questions(project.home, subject)
    if not asked:
        raise not_waiting
    if not note.strip():
        raise UsageError(
            f"{subject.label} is not waiting for a decision, so there is nothing to approve or to send back."
            f' Answer what is open with --note "Q{asked[0].number}: ...": {in_one_line(asked)}'
        )
    answer_question(project.home, subject, note)
    click.echo(f"{subject.label}: answer saved; both models get it in the next run. To revise it now:")
    click.echo(f"  {project.start(program())} {subject.command}")
