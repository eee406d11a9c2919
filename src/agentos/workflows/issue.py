"""The issue workflow: a brief becomes a reviewed issue, kept as a file and filed on GitHub."""

from pathlib import Path

from agentos.naming import brief_id
from agentos.workflows.document_workflow import ReviewedWorkflow

WORKFLOW = ReviewedWorkflow(
    name="issue",
    prefix="ISSUE",
    source_name="brief",
    source_setting="briefs_folder",
    id_of=brief_id,
    output=lambda folders, item: Path(folders["issues"]) / f"{item.id}.md",
    filed=True,
)
