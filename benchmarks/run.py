"""`make bench`: measures everything and prints one line per figure, with its requirement."""

import sys

import caching
import context
import goodput
import large_report
import live_page
import machines
import parallel
import postgres
import process_model
import scale_simulation
import shared_keys


def main() -> None:
    wanted = set(sys.argv[1:])
    modules = (
        *(parallel, process_model, goodput, caching, shared_keys, postgres, machines),
        *(context, live_page, large_report, scale_simulation),
    )
    for measure in (measure for module in modules for measure in module.MEASUREMENTS):
        if not wanted or measure.__name__ in wanted:
            for line in measure():
                print(line, flush=True)


if __name__ == "__main__":
    main()
