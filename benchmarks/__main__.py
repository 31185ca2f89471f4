"""``python -m benchmarks [PART…]``: measure the parts named, or all, and write their sections of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import (
    bodies,
    bulk,
    commits,
    durability,
    flight,
    idle_maintenance,
    jobs,
    kafka,
    light,
    maintenance,
    pages,
    peers,
    planning,
    statements,
    streams,
)
from benchmarks.harness import servers
from benchmarks.harness.page import PAGE, Table, put, section
from benchmarks.harness.run import Run, running


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section of the page and what measures it."""

    name: str
    title: str
    measure: Callable[[Run], Sequence[Table]]


PARTS = (
    Part(name="statements", title="Short statements", measure=statements.measure),
    Part(name="bulk", title="Bulk inserts and scans", measure=bulk.measure),
    Part(name="bodies", title="Bodies of rows, two at once", measure=bodies.measure),
    Part(name="flight", title="Results into pandas, and short statements, by every protocol", measure=flight.measure),
    Part(name="commits", title="Commits of REST clients", measure=commits.measure),
    Part(name="durability", title="What durability costs", measure=durability.measure),
    Part(name="servers", title="Two servers on one table", measure=servers.measure),
    Part(name="peers", title="pypaimon on this catalog and on files", measure=peers.measure),
    Part(name="maintenance", title="Maintenance", measure=maintenance.measure),
    Part(name="check", title="A look at every file", measure=maintenance.check),
    Part(name="planning", title="Planning a scan of a million files", measure=planning.measure),
    Part(name="maintenance", title="What automatic compaction costs writers", measure=idle_maintenance.measure),
    Part(name="streams", title="From a commit to a stream's reader", measure=streams.measure),
    Part(name="jobs", title="From a table to a table", measure=jobs.measure),
    Part(name="kafka", title="From a topic to a table", measure=kafka.measure),
    Part(name="light", title="A light user beside a heavy one", measure=light.measure),
    Part(name="pages", title="Pages", measure=pages.measure),
)


def main() -> None:
    """Measure, print, write."""
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(names)}; all where none is named")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each loop goes on")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work or less, and the page stays as it is")
    parser.add_argument("--no-page", action="store_true", help="print only")
    options = parser.parse_args()
    if strange := set(options.parts) - set(names):
        parser.error(f"there is no part {', '.join(sorted(strange))}; there are {', '.join(names)}")
    with running(seconds=options.seconds, quick=options.quick) as run:
        for part in PARTS:
            if options.parts and part.name not in options.parts:
                continue
            begin = time.monotonic()
            text = section(part.title, part.measure(run))
            print(f"{text}\n({part.name}: {time.monotonic() - begin:.0f} s)\n", flush=True)
            if not (options.quick or options.no_page):  # at once: a later part may fail
                PAGE.write_text(put(PAGE.read_text(), {part.title: text}, [entry.title for entry in PARTS]))


if __name__ == "__main__":
    main()
