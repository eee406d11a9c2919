"""The lld workflow: an issue becomes a reviewed low-level design, saved in the repo."""

from pathlib import Path

from agentos.naming import issue_id
from agentos.workflows.document_workflow import ReviewedWorkflow

WORKFLOW = ReviewedWorkflow(
    name="lld",
    prefix="LLD",
    source_name="issue",
    source_setting="issues_folder",
    id_of=issue_id,
    output=lambda folders, item: Path(folders["lld"]) / f"{item.label}.md",
    remote=True,
)
