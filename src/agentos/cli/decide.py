"""`agentos decide`: a person's answer to a review that ends in DISCUSS."""

import click

from agentos.cli import completion


@click.command("decide")
@click.argument("item", metavar="ID", shell_complete=completion.waiting)
@click.option("--approve", is_flag=True, help="Take the draft as it is.")
@click.option("--revise", is_flag=True, help="Have it revised.")
@click.option("--note", default="", help="Tell the drafter what was decided; by itself it means --revise.")
def decide(item: str, *, approve: bool, revise: bool, note: str) -> None:
    """Answer the review of item ID, which asks for a person's decision; the next run goes on from there."""
    from agentos.app.inbox import Answer, answer_discussion  # noqa: PLC0415
    from agentos.cli.invocation import program  # noqa: PLC0415
    from agentos.cli.project import open_project  # noqa: PLC0415
    from agentos.errors import UsageError  # noqa: PLC0415

    if approve and revise:
        raise UsageError("Choose --approve or --revise, not both.")
    if not (approve or revise or note.strip()):
        raise UsageError('Say what is decided: --approve, --revise or --note "...".')
    home = open_project().home
    answer: Answer = "approve" if approve else "revise"
    answered = answer_discussion(home, item, answer=answer, note=note, program=program())
    told = f" ({answered.note})" if answered.note else ""
    click.echo(f"{answered.label}: {answered.answer}{told}. The next run goes on from there:")
    click.echo(f"  {answered.command}")
