"""An issue as GitHub tells it, and what of it is believed."""

import pytest

from agentos.github.issue import read_issue
from agentos.github.repository import Repository


@pytest.mark.parametrize(
    ("api", "page", "taken"),
    [
        ("https://api.github.com", "https://github.com/acme/widgets/issues/7", True),
        ("https://api.github.com", "https://github.com.evil.test/acme/widgets/issues/7", False),
        ("https://api.github.com", "https://github.com@evil.test/acme/widgets/issues/7", False),
        ("https://ghe.corp.test/api/v3", "https://ghe.corp.test/acme/widgets/issues/7", True),
        ("https://ghe.corp.test/api/v3", "https://github.com/acme/widgets/issues/7", False),
        ("https://ghe.corp.test/api/v3", f"https://ghe.corp.test/{'x' * 600}", False),
    ],
)
def test_the_page_of_an_issue_is_on_its_own_server(api: str, page: str, taken: bool) -> None:
    read = read_issue({"number": 7, "html_url": page}, Repository(full_name="acme/widgets", api_url=api))

    assert read is not None
    assert (read.url == page) is taken
    assert read.url.endswith("/acme/widgets/issues/7")
