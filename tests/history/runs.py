"""A history in a folder: land rows, run the pipeline, read the tables as the console does."""

from __future__ import annotations

from typing import Any

from console.history.pipeline.run import Report, Run
from console.history.storage.layout import LAYOUTS
from console.history.storage.tables import Tables
from tests.history.delta import read
from tests.history.rows import Story, land

Row = dict[str, Any]

#: Tables that the pipeline computes from the landing rows.
DERIVED = ("holds", "episodes", "minutes", "hours", "days")


class History:
    def __init__(self, spark: Any, url: str) -> None:
        self.url = url
        self.tables = Tables(spark, url)

    def land(self, *stories: Story) -> None:
        """Publish one file per kind, with the rows of all scenarios."""
        together = Story()
        for story in stories:
            for kind, rows in story.rows.items():
                together.rows[kind].extend(rows)
        land(self.url, together.rows)

    def run(self) -> Report:
        report = Run(self.tables).run()
        while report.more:
            report = Run(self.tables).run()
        return report

    def rows(self, table: str, broker: str = "", /, **equal: Any) -> list[Row]:
        """Return the matching rows sorted by their text, without the partition column."""
        partition = LAYOUTS[table].partition
        found = read(self.url, table).to_pylist()
        wanted = equal | ({"broker": broker} if broker else {})
        rows = [
            {column: value for column, value in row.items() if column != partition}
            for row in found
            if all(row[column] == value for column, value in wanted.items())
        ]
        return sorted(rows, key=repr)

    def one(self, table: str, broker: str = "", /, **equal: Any) -> Row:
        (row,) = self.rows(table, broker, **equal)
        return row

    def all_derived(self, broker: str = "") -> dict[str, list[Row]]:
        """Return the rows of all computed tables; with a broker's name, its rows without the columns that depend on
        it."""
        without = ("broker", "id") if broker else ()
        return {
            name: sorted(
                ({c: v for c, v in row.items() if c not in without} for row in self.rows(name, broker)), key=repr
            )
            for name in DERIVED
        }
