"""`agentos report A B`: what changed from one run to the next."""

from harness.project import Project


def test_two_runs_are_compared(project: Project) -> None:
    project.issue(1)
    project.issue(2, mock="verdicts=DISCUSS")
    assert project.lld("--all").code == 3
    assert project.run("decide", "2", "--approve").code == 0
    assert project.lld("--all").code == 0
    first, second = (run.name for run in project.runs())
    files = project.files()
    found = project.run("report", first, second, "--json").json
    assert (found["before"]["run_id"], found["after"]["run_id"]) == (first, second)
    assert [(one["label"], one["change"]) for one in found["items"]] == [
        ("LLD-2", "changed"),
        ("LLD-1", "settled"),
    ]
    assert found["difference"]["totals"]["discuss"] == -1
    assert (found["before"]["reviews"], found["after"]["reviews"]) == (2, 0)  # the answer approves it
    shown = project.run("report", first, second)
    assert shown.code == 0
    assert "LLD-2" in shown.text
    assert "discuss, 1 review" in shown.text
    assert "1 item approved before and skipped after" in shown.text
    assert project.files() == files  # nothing is written


def test_bad_ids_are_named(project: Project) -> None:
    project.issue(1)
    project.lld("--all")
    project.issue(2)
    project.lld("--all")
    first, second = (run.name for run in project.runs())
    for runs, said in (
        ((first, "nothing"), "No run 'nothing' here. The latest runs:"),
        (("nothing", first), "No run 'nothing' here."),
        ((first, first), "two different runs"),
        ((first, second, first), "two different runs"),
    ):
        result = project.run("report", *runs)
        assert (result.code, result.out) == (2, "")
        assert said in result.said
    opened = project.run("report", first, second, "--open")
    assert (opened.code, "--open shows the page of one run" in opened.said) == (2, True)
