"""What one INSERT of a job reads, also by its views: whether that ends by itself, what is held back, and who waits for whom."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from sqlglot import exp

from model.errors import InvalidOption
from sql.analysis.references import TableReference, table_references
from sql.analysis.views import expand_views
from sql.connectors.stored import find_connector
from sql.local import all_end_now, ends_now, holds_back
from sql.spark.streaming.alignment import AlignmentRule, rule_of
from sql.statements.base import ExecutionContext
from sql.statements.insert import source_of


class JobSources:
    """The tables of an INSERT's query, which are asked for with its views expanded: the text alone hides what a view reads."""

    def __init__(self, context: ExecutionContext, insert: exp.Insert) -> None:
        self._context = context
        self.query = expand_views(context, source_of(insert).copy())
        """What gives the rows, without views."""
        self._references = table_references(self.query)

    @cached_property
    def end_now(self) -> bool:
        """Whether all of them end with what is there when they are first read."""
        return all_end_now(self._context, self._references)

    @cached_property
    def are_held_back(self) -> bool:
        """Whether rows are kept until a watermark has passed them."""
        return holds_back(self.query)

    @cached_property
    def are_one_batch(self) -> bool:
        """Whether they are read at once, as in batch mode: none goes on, and what is held back comes out at their end.

        Topics and files of which nothing is held back come in micro-batches.
        """
        return self.end_now and (self.are_held_back or not self.are_streamed)

    @cached_property
    def are_streamed(self) -> bool:
        """Whether one of them at least is read as a stream, whether it ends or not: a table with `scan.bounded` is not."""
        return not self.end_now or any(
            find_connector(self._context.lake, self._context.session, reference.parts) is not None for reference in self._references
        )

    def alignment(self) -> AlignmentRule | None:
        """The rule of the group that the INSERT is a member of.

        Raises `InvalidOption` where several of the sources it follows have one: each micro-batch reads all of them, so that a query here
        can let none wait for another, as Flink's readers do. Mentions of one source with one hint are one, as Flink reads it once.
        """
        rules: dict[object, tuple[str, AlignmentRule]] = {}
        for reference in self._references:
            rule = rule_of(self._options(reference))
            if rule is not None and not ends_now(self._context, reference):
                source = self._context.session.meant(reference.parts), frozenset(reference.options.items())
                rules.setdefault(source, (reference.name, rule))
        if len(rules) > 1:
            names = [name for name, _ in rules.values()]
            raise InvalidOption(
                f"{', '.join(names[:-1])} and {names[-1]} have 'scan.watermark.alignment.group': the sources of one INSERT do not wait for "
                "each other, one of them at most may have a group. INSERTs of their own do: let each write one source into a table without "
                "a group, which the query then reads, or leave the option out."
            )
        return next((rule for _, rule in rules.values()), None)

    def _options(self, reference: TableReference) -> Mapping[str, str]:
        source = find_connector(self._context.lake, self._context.session, reference.parts)
        if source is not None:
            return {**source.options, **reference.options}
        table = self._context.lake.open(self._context.session.identifier(reference.parts))
        return {**table.schema.options, **reference.options}
