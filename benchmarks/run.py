"""`make bench`: measures everything and prints one line per figure, with its requirement."""

import sys

import caching
import context
import goodput
import parallel
import process_model
import shared_keys


def main() -> None:
    wanted = set(sys.argv[1:])
    modules = (parallel, process_model, goodput, caching, shared_keys, context)
    for measure in (measure for module in modules for measure in module.MEASUREMENTS):
        if not wanted or measure.__name__ in wanted:
            for line in measure():
                print(line, flush=True)


if __name__ == "__main__":
    main()
