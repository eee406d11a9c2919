"""The first events of a run: which commit it started from, and what is in its queue."""

from harness.git_project import GitProject
from harness.project import Project


def test_the_commit_and_the_queue_are_in_the_record(project: Project) -> None:
    repository = GitProject(project.root)
    project.issue(1)
    project.issue(2)
    repository.put("src/service.py", "def serve() -> None: ...\n")
    repository.commit()
    assert project.lld("--all").code == 0
    begun, *queued = project.events()[:3]
    assert (begun["event"], begun["commit"]) == ("run_started", repository.git("rev-parse", "HEAD")[:12])
    assert [(one["event"], one["label"]) for one in queued] == [("queued", "LLD-1"), ("queued", "LLD-2")]
    # Without a map, git is not asked.
    project.issue(3)
    assert project.lld("3", env={"AGENTOS_CONTEXT_TOKENS": "0"}).code == 0
    assert project.events("run_started", run=-1)[0]["commit"] is None
    # What is skipped was never in the queue.
    project.lld("1")
    assert project.events("queued", run=-1) == []
