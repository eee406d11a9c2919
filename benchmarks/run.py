"""`make bench`: measures everything and prints one line per figure, with its requirement."""

import sys

import context
import goodput
import parallel
import process_model


def main() -> None:
    wanted = set(sys.argv[1:])
    measurements = (
        *parallel.MEASUREMENTS,
        *process_model.MEASUREMENTS,
        *goodput.MEASUREMENTS,
        *context.MEASUREMENTS,
    )
    for measure in measurements:
        if not wanted or measure.__name__ in wanted:
            for line in measure():
                print(line, flush=True)


if __name__ == "__main__":
    main()
