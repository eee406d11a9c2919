"""Labels: all wanted must be there, and one that nobody has is an error with the nearest that exist."""

import pytest

from agentos.discovery.labels import check_labels, with_labels
from agentos.errors import UsageError
from agentos.model import Item


def item(number: int, *labels: str) -> Item:
    return Item(
        workflow="lld", id=f"{number}", label=f"LLD-{number}", title="T", text="x", source="s", labels=labels
    )


ITEMS = (item(1, "Design", "small"), item(2, "design"), item(3))


@pytest.mark.parametrize(("wanted", "found"), [((), "123"), (("design",), "12"), (("DESIGN", "small"), "1")])
def test_every_label_must_be_there(wanted: tuple[str, ...], found: str) -> None:
    assert "".join(one.id for one in with_labels(ITEMS, wanted, place="x", what="issue")) == found


def test_labels_that_exist_but_not_together_give_an_empty_list() -> None:
    items = (item(1, "a"), item(2, "b"))
    assert with_labels(items, ("a", "b"), place="x", what="issue") == ()


def test_a_label_that_nobody_has_is_refused_with_the_nearest() -> None:
    known = ["Design", "documentation", "bug", "small"]
    with pytest.raises(
        UsageError, match=r"^acme/x does not have the label 'desgin'\. Available: Design, .*\.$"
    ):
        check_labels(["bug", "desgin"], known, where="acme/x does not have", none="")
    with pytest.raises(UsageError, match=r"Available: 0, 1, 2, 3, 4, \.\.\.$"):
        check_labels(["zzzz"], [str(n) for n in range(9)], where="It has not", none="")
    with pytest.raises(UsageError, match=r"^No issue in x has a label\.$"):
        with_labels([item(1)], ["x"], place="x", what="issue")
