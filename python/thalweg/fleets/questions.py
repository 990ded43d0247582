"""Questions to a fleet's table, as SQL that DuckDB and Spark both run: which cause cost most, where, for whom, since when, and what would help.

The SQL is over a table `fleet` (`table.py` makes it, `rows.py` has its columns). `top`, `trend`, `since`, `compare` and `gains` are such texts;
:meth:`Questions.sql` answers any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..command import ThalwegError
from ..needs import need
from .rows import COLUMNS

# By what may be grouped.
DIMENSIONS = (
    "cause", "host", "user_name", "program", "place", "file_system", "source_file_system", "sink_file_system", "source_path", "sink_path", "day",
    "recorder", "recording", "change",
)  # fmt: skip
# The columns that conditions about recordings may use.
OF_RUNS = (
    "recording", "day", "started", "host", "user_name", "program", "command", "recorder", "source_path", "sink_path", "source_file_system",
    "sink_file_system", "wall_s", "size_bytes", "status", "exit_code", "explained_by",
)  # fmt: skip
BUCKETS = ("day", "week", "month")
# A change that chance would show in so many of all groups together is none; nor is one that a quarter of what was does not make, or that fewer
# recordings than these on either side show.
CHANCE = 0.05
CHANGED_BY = 0.25
RECORDINGS_EACH_SIDE = 5
SHORT = {"user": "user_name"}


def _columns(by: str | Sequence[str]) -> list[str]:
    asked = [by] if isinstance(by, str) else list(by)
    names = [SHORT.get(name, name) for name in asked]
    unknown = [name for name in names if name not in DIMENSIONS]
    if unknown or not names:
        raise ThalwegError(f"nothing goes by `{', '.join(unknown)}`: there are {', '.join(DIMENSIONS)}")
    return names


def _timeless(by: str | Sequence[str]) -> list[str]:
    names = _columns(by)
    if "day" in names:
        raise ThalwegError("`day` is what the answer goes along: group it by something else")
    return names


def _where(where: str | None) -> str:
    """A condition in SQL over the columns, as it is given: who may ask may read the whole table."""
    return f"({where})" if where else "true"


def _runs(where: str | None, dated: bool = False) -> str:
    """The recordings that a condition is about. It sees what is a run's own: one about causes would leave out the runs that have none of them."""
    known = "kind = 'recording' and error is null" + (" and day is not null" if dated else "")
    return f"select * from (select {', '.join(OF_RUNS)} from fleet where {known}) as run where {_where(where)}"


def _charges(runs: str, of: str | None) -> str:
    """The charges of these recordings; `of` may leave some out."""
    return f"select * from fleet where kind = 'charge' and recording in (select recording from {runs}) and {_where(of)}"


def top_sql(by: str | Sequence[str] = "cause", where: str | None = None, limit: int = 20) -> str:
    """Which cost most wall time: seconds, their share of all that is asked about, and how many recordings have some of it."""
    names = ", ".join(_columns(by))
    return f"""\
with asked as (select * from fleet where kind = 'charge' and {_where(where)})
select {names}, sum(seconds) as seconds, sum(seconds) / (select sum(seconds) from asked) as share,
       count(distinct recording) as recordings, max(seconds) as longest_s
from asked group by {names} order by seconds desc, {names} limit {int(limit)}"""


def trend_sql(by: str | Sequence[str] = "cause", bucket: str = "day", where: str | None = None, of: str | None = None) -> str:
    """The same over time: for each day (week, month) how many seconds, and how many for each recording of that time, whether it has some or none."""
    if bucket not in BUCKETS:
        raise ThalwegError(f"no `{bucket}` of time: there are {', '.join(BUCKETS)}")
    columns = _timeless(by)
    names = ", ".join(columns)
    begins = f"cast(date_trunc('{bucket}', day) as date)"
    return f"""\
with runs as ({_runs(where, dated=True)}),
asked as ({_charges("runs", of)}),
all_of as (select {begins} as since, count(*) as recordings from runs group by {begins}),
charged as (select {begins} as since, {names}, sum(seconds) as seconds from asked group by {begins}, {names})
select c.since as {bucket}, {", ".join(f"c.{name}" for name in columns)}, c.seconds, a.recordings, c.seconds / a.recordings as seconds_each
from charged c join all_of a on c.since = a.since order by {bucket}, c.seconds desc, {names}"""


def since_sql(by: str | Sequence[str] = "cause", where: str | None = None, of: str | None = None, limit: int = 20) -> str:
    """Since when: for each group the day that parts its recordings best into a time before and a time after, where there is one.

    Pettitt's test (1979): recordings are ranked by the seconds that they lost, and the day is the one where the ranks before and after differ most, so that a few
    extreme runs move nothing. It is shown where chance has less than 0.05 for all groups together (Bonferroni), and the means differ by a quarter or
    more, with five recordings or more on either side. A recording that has none of a cause lost 0 seconds to it.
    """
    names = _timeless(by)
    listed = ", ".join(names)
    of_group, same = ", ".join(f"g.{name}" for name in names), " and ".join(f"g.{name} is not distinct from s.{name}" for name in names)
    # What does not depend on the charge parts the recordings too: the runs of one host are held against that host's own.
    own = [name for name in names if name not in ("cause", "place", "file_system")]
    alike = " and ".join(["true", *(f"g.{name} is not distinct from r.{name}" for name in own)])
    return f"""\
with runs as ({_runs(where, dated=True)}),
asked as ({_charges("runs", of)}),
each_one as (select recording as run, {listed}, sum(seconds) as seconds from asked group by recording, {listed}),
named as (select distinct {listed} from each_one),
filled as (
  select {of_group}, r.day, coalesce(s.seconds, 0) as seconds
  from named g join runs r on {alike} left join each_one s on s.run = r.recording and {same}),
ranked as (
  select *, rank() over (partition by {listed} order by seconds) + (count(*) over (partition by {listed}, seconds) - 1) / 2.0 as ranking
  from filled),
each_day as (
  select {listed}, day, cast(count(*) as double) as n, sum(seconds) as seconds, sum(ranking) as rankings
  from ranked group by {listed}, day),
sums as (
  select *, sum(n) over earlier as n_before, sum(seconds) over earlier as s_before, sum(rankings) over earlier as r_before,
         sum(n) over whole as n_all, sum(seconds) over whole as s_all
  from each_day
  window earlier as (partition by {listed} order by day rows between unbounded preceding and 1 preceding), whole as (partition by {listed})),
parted as (
  select *, s_before / n_before as before_s, (s_all - s_before) / (n_all - n_before) as after_s,
         power(2 * r_before - n_before * (n_all + 1), 2) as squared
  from sums where n_before >= {RECORDINGS_EACH_SIDE} and n_all - n_before >= {RECORDINGS_EACH_SIDE}),
best as (select *, row_number() over (partition by {listed} order by squared desc, day) as place_of_day from parted)
select {listed}, day as since, before_s, after_s, cast(n_before as bigint) as recordings_before,
       cast(n_all - n_before as bigint) as recordings_after, (after_s - before_s) * (n_all - n_before) as cost_s
from best
where place_of_day = 1 and abs(after_s - before_s) >= {CHANGED_BY} * before_s
  and 2 * exp(-6 * squared / (power(n_all, 3) + power(n_all, 2))) * (select count(*) from named) < {CHANCE}
order by abs((after_s - before_s) * (n_all - n_before)) desc, {listed} limit {int(limit)}"""


def compare_sql(one: str, other: str, by: str | Sequence[str] = "cause", of: str | None = None, limit: int = 20) -> str:
    """Two sets of recordings, each by a condition: what a recording loses to each cause in the one and in the other; largest difference first."""
    if not one or not other:
        raise ThalwegError("two conditions are compared, like \"host = 'a'\" and \"host = 'b'\"")
    names = _columns(by)
    listed = ", ".join(names)
    both = ", ".join(f"coalesce(a.{name}, b.{name}) as {name}" for name in names)
    same = " and ".join(f"a.{name} is not distinct from b.{name}" for name in names)

    def side(name: str) -> str:
        each = f"sum(seconds) / (select count(*) from {name}_runs)"
        return f"select {listed}, {each} as seconds_each from ({_charges(f'{name}_runs', of)}) as charge group by {listed}"

    return f"""\
with one_runs as ({_runs(one)}),
other_runs as ({_runs(other)}),
one as ({side("one")}),
other as ({side("other")}),
paired as (
  select {both}, coalesce(a.seconds_each, 0) as one_s, coalesce(b.seconds_each, 0) as other_s
  from one a full outer join other b on {same})
select {listed}, one_s, other_s, other_s - one_s as difference_s from paired
order by abs(other_s - one_s) desc, {listed} limit {int(limit)}"""


def gains_sql(by: str | Sequence[str] = ("program", "change"), where: str | None = None, limit: int = 20) -> str:
    """What would help: the seconds that each change is predicted to save (bounds promise none), in how many recordings, of how much wall time."""
    names = ", ".join(_columns(by))
    return f"""\
select {names}, sum(saved_s) as saved_s, sum(saved_s) / sum(wall_s) as share, count(distinct recording) as recordings,
       min(how) as how, min(gives_up) as gives_up
from fleet where kind = 'what_if' and basis = 'replayed' and saved_s > 0 and {_where(where)}
group by {names} order by saved_s desc, {names} limit {int(limit)}"""


class Questions:
    """The questions, answered by DuckDB."""

    table: str

    def dataset(self) -> Any:
        """The table."""
        raise NotImplementedError

    def sql(self, query: str) -> pa.Table:
        """The answer to a query over the table `fleet`."""
        need("duckdb", "duckdb")
        import duckdb

        with duckdb.connect() as connection:
            connection.register("fleet", self.dataset())
            try:
                answer: pa.Table = connection.sql(query).to_arrow_table()
            except duckdb.Error as reason:
                columns = f"the columns are {', '.join([*COLUMNS, 'day'])}"
                raise ThalwegError(f"{reason}; {columns}; of trend, since and compare, `of` is about charges and `where` about recordings") from None
        return answer

    def top(self, by: str | Sequence[str] = "cause", where: str | None = None, limit: int = 20) -> pa.Table:
        """Which cause cost most; `by=["cause", "host"]` where, `by="user"` for whom. `where` is a condition in SQL, like `program = 'cp'`."""
        return self.sql(top_sql(by, where, limit))

    def trend(self, by: str | Sequence[str] = "cause", bucket: str = "day", where: str | None = None, of: str | None = None) -> pa.Table:
        """How that went over time, by `day`, `week` or `month`. `where` chooses recordings (by host, program, day, ...), `of` charges (by cause, place, ...)."""
        return self.sql(trend_sql(by, bucket, where, of))

    def since(self, by: str | Sequence[str] = "cause", where: str | None = None, of: str | None = None, limit: int = 20) -> pa.Table:
        """Since when a cause costs more or less than before, and how much that has come to. `where` and `of` as for `trend`."""
        return self.sql(since_sql(by, where, of, limit))

    def compare(self, one: str, other: str, by: str | Sequence[str] = "cause", of: str | None = None, limit: int = 20) -> pa.Table:
        """What differs between two sets of recordings, like `"host = 'a'"` and `"host = 'b'"`, for each recording."""
        return self.sql(compare_sql(one, other, by, of, limit))

    def gains(self, by: str | Sequence[str] = ("program", "change"), where: str | None = None, limit: int = 20) -> pa.Table:
        """Which change would save most."""
        return self.sql(gains_sql(by, where, limit))

    def errors(self) -> pa.Table:
        """The recordings that could not be explained, with why."""
        return self.sql("select recording, error from fleet where error is not null order by recording")

    def page(self) -> str:
        """All answers on one page of HTML that needs nothing else."""
        from .page import page

        return page(self)
