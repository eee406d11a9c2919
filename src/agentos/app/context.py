"""What both models would get to know about the repository for one item. No model, no key, no write."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentos.app.dialog import Dialog
from agentos.app.invocation import Invocation
from agentos.app.maps import Maps, open_maps
from agentos.app.named_files import named_context
from agentos.app.project import Project, open_project
from agentos.app.request import find_items
from agentos.errors import UsageError
from agentos.model import Item
from agentos.repo_map.parts import RepositoryMap
from agentos.workflows.registry import SHIPPED, registered, workflow


@dataclass(frozen=True, kw_only=True)
class ItemMap:
    """The map of an item, and what it was made from."""

    item: Item
    found: RepositoryMap
    maps: Maps
    limit: int  # tokens


def map_of_item(
    invocation: Invocation, name: str, dialog: Dialog, *, flags: Mapping[str, Any], tokens: int | None
) -> ItemMap:
    """Find the item in any workflow, and make its map."""
    project = open_project(invocation, flags, warn=dialog.warn)
    settings = project.config.settings
    item = _find(project, name, dialog)
    if item.problem is not None:
        raise UsageError(item.problem)
    named = named_context(project, settings, dialog, committed=item.remote)
    with open_maps(project, settings, named, items=[item], tokens=tokens, save=False) as maps:
        return ItemMap(item=item, found=maps.of(item), maps=maps, limit=maps.tokens)


def _find(project: Project, name: str, dialog: Dialog) -> Item:
    """Ask the workflow whose prefix the name has, or each in turn; designs first."""
    flows = [workflow(one) for one in dict.fromkeys([*reversed(SHIPPED), *registered()])]
    mine = [flow for flow in flows if flow.prefix and name.startswith(f"{flow.prefix}-")]
    problems: list[UsageError] = []
    for flow in mine or flows:
        try:
            (item,) = find_items(project, flow, project.config.settings, (name,), dialog)
        except UsageError as exc:
            problems.append(exc)
        else:
            return item
    raise problems[0]
