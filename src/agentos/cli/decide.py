"""`agentos decide`: a person's answer to a review that ended in DISCUSS."""

import click

from agentos.cli import completion


@click.command("decide")
@click.argument("item", metavar="ID", shell_complete=completion.waiting)
@click.option("--approve", is_flag=True, help="Approve the draft as it is.")
@click.option("--revise", is_flag=True, help="Send the draft back for revision.")
@click.option("--note", default="", help="Tell the drafter what you decided; alone, it implies --revise.")
def decide(item: str, *, approve: bool, revise: bool, note: str) -> None:
    """Answer the review of item ID that needs a person's decision. The next run resumes from there."""
    from agentos.app.inbox import Answer, answer_discussion  # noqa: PLC0415
    from agentos.cli.invocation import program  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415

    if approve and revise:
        raise UsageError("Choose --approve or --revise, not both.")
    if not (approve or revise or note.strip()):
        raise UsageError('No decision given. Use --approve, --revise or --note "...".')
    project = open_project()
    answer: Answer = "approve" if approve else "revise"
    answered = answer_discussion(
        project.home, item, answer=answer, note=note, program=program(), settings=project.config.settings
    )
    note = f" ({answered.note})" if answered.note else ""
    done = "draft approved" if approve else "sent back for revision"
    click.echo(f"{answered.label}: {done}{note}. To {'finish' if approve else 'resume'} it:")
    click.echo(f"  {answered.command}")
