//! Exports one CSV file per table, per RFC 4180: a header line, CRLF, quotes where needed. Times are on the reference
//! axis; spans are in order of descending end, as [`Source`] yields them. Absent values are empty fields.

use crate::{ABSENT, ABSENT_RESULT, CounterName, CounterOf, Source, SpanBatch, TraceError, WakerContext};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes `hosts.csv`, `clocks.csv`, ... into the directory `out`, creating it if needed.
pub fn export(source: &dyn Source, out: &Path) -> Result<(), TraceError> {
    std::fs::create_dir_all(out).map_err(|e| TraceError::new(out, format!("cannot be created: {e}")))?;
    small_tables(source, out)?;
    let columns = "span,track,kind,start_ns,end_ns,count,object,offset_bytes,size_bytes,result,parent,request,waker_track,waker_context,cpu_ns,runqueue_ns,stack";
    let mut table = Table::create(out, "spans", columns)?;
    for batch in source.spans_backward() {
        let batch = batch?;
        for row in 0..batch.len() {
            span(&mut table, &batch, row)?;
        }
    }
    table.finish()
}

fn span(table: &mut Table, batch: &SpanBatch, row: usize) -> Result<(), TraceError> {
    let id = |number: u64| (number != 0).then_some(number);
    let count = |number: u64| (number != ABSENT).then_some(number);
    table.field(batch.span[row]).field(batch.track[row]).text(batch.kind[row].name());
    table.field(batch.start_ns[row]).field(batch.end_ns[row]).field(batch.count[row]);
    table.optional(id(batch.object[row])).optional(count(batch.offset_bytes[row])).optional(count(batch.size_bytes[row]));
    table.optional((batch.result[row] != ABSENT_RESULT).then_some(batch.result[row]));
    table.optional(id(batch.parent[row])).optional(id(batch.request[row])).optional(id(batch.waker_track[row]));
    table.text(WakerContext::ALL.get(usize::from(batch.waker_context[row])).map_or("", |context| context.name()));
    table.optional(count(batch.cpu_ns[row])).optional(count(batch.runqueue_ns[row]));
    table.optional(Some(batch.stack[row]).filter(|stack| *stack != 0));
    table.end()
}

fn small_tables(source: &dyn Source, out: &Path) -> Result<(), TraceError> {
    let mut table = Table::create(out, "hosts", "host,name,node,clock,kernel,cpus")?;
    for row in source.hosts() {
        table.field(row.host.0).text(&row.name).text(&row.node).text(&row.clock).text(&row.kernel).field(row.cpus).end()?;
    }
    table.finish()?;
    let mut table = Table::create(out, "clocks", "host,from_ns,offset_ns,drift_ppb,error_ns")?;
    for row in source.clocks() {
        table.field(row.host.0).field(row.from_ns).field(row.offset_ns).field(row.drift_ppb).field(row.error_ns).end()?;
    }
    table.finish()?;
    let mut table = Table::create(out, "tracks", "track,host,kind,role,pid,tid,name")?;
    for row in source.tracks() {
        table.field(row.track.number()).field(row.host.0).text(row.kind.name()).text(row.role.name());
        table.optional(row.pid).optional(row.tid).text(&row.name).end()?;
    }
    table.finish()?;
    let mut table = Table::create(out, "objects", "object,host,kind,name,attributes")?;
    for row in source.objects() {
        let attributes = row.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(";");
        table.field(row.object.number()).field(row.host.0).text(row.kind.name()).text(&row.name).text(&attributes).end()?;
    }
    table.finish()?;
    let mut table = Table::create(out, "marks", "track,kind,at_ns,object,value")?;
    for row in source.marks()? {
        table.field(row.track.number()).text(row.kind.name()).field(row.at.ns());
        table.optional(row.object.map(|object| object.number())).optional(row.value).end()?;
    }
    table.finish()?;
    let mut table = Table::create(out, "counters", "track,object,name,at_ns,value")?;
    for &name in CounterName::ALL {
        for row in source.counters(name)? {
            let (track, object) = match row.of {
                CounterOf::Track(track) => (Some(track.number()), None),
                CounterOf::Object(object) => (None, Some(object.number())),
            };
            table.optional(track).optional(object).text(name.name()).field(row.at.ns()).field(row.value).end()?;
        }
    }
    table.finish()?;
    let mut table = Table::create(out, "samples", "at_ns,host,cpu,track,class,stack,weight_ns")?;
    for row in source.samples()? {
        table.field(row.at.ns()).field(row.host.0).field(row.cpu).optional(row.track.map(|track| track.number()));
        table.field(row.class).optional(row.stack).field(row.weight_ns).end()?;
    }
    table.finish()?;
    let mut table = Table::create(out, "stacks", "stack,frames")?;
    for row in source.stacks()? {
        table.field(row.stack).text(&row.frames.join(";")).end()?;
    }
    table.finish()
}

/// A CSV file being written line by line.
struct Table {
    path: std::path::PathBuf,
    out: BufWriter<File>,
    line: String,
}

impl Table {
    fn create(directory: &Path, name: &str, header: &str) -> Result<Table, TraceError> {
        let path = directory.join(format!("{name}.csv"));
        let file = File::create(&path).map_err(|e| TraceError::new(&path, format!("cannot be created: {e}")))?;
        let mut table = Table { path, out: BufWriter::with_capacity(1 << 18, file), line: format!("{header},") };
        table.end()?;
        Ok(table)
    }

    fn field(&mut self, value: impl std::fmt::Display) -> &mut Table {
        use std::fmt::Write;
        let _ = write!(self.line, "{value},");
        self
    }

    fn optional(&mut self, value: Option<impl std::fmt::Display>) -> &mut Table {
        match value {
            Some(value) => self.field(value),
            None => self.field(""),
        }
    }

    fn text(&mut self, text: &str) -> &mut Table {
        if text.contains(['"', ',', '\r', '\n']) { self.field(format_args!("\"{}\"", text.replace('"', "\"\""))) } else { self.field(text) }
    }

    fn end(&mut self) -> Result<(), TraceError> {
        self.line.pop();
        self.line.push_str("\r\n");
        let written = self.out.write_all(self.line.as_bytes());
        self.line.clear();
        written.map_err(|e| TraceError::new(&self.path, format!("cannot be written: {e}")))
    }

    fn finish(mut self) -> Result<(), TraceError> {
        self.out.flush().map_err(|e| TraceError::new(&self.path, format!("cannot be written: {e}")))
    }
}
