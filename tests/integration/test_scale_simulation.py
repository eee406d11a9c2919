"""The simulation behind docs/design/scale.md: the same figures for everyone."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_shows_what_the_simulation_prints() -> None:
    spec = spec_from_file_location("scale_simulation", ROOT / "benchmarks" / "scale_simulation.py")
    assert spec is not None
    assert spec.loader is not None
    simulation = module_from_spec(spec)
    sys.modules[spec.name] = simulation
    spec.loader.exec_module(simulation)
    page = (ROOT / "docs" / "design" / "scale.md").read_text()
    for line in islice(simulation.key_pool_at_scale(), 6):  # the others take longer
        assert f"    {line}\n" in page
