//! Exports, read back by third-party readers.

use crate::bounded::Bounded;
use crate::common::{events, everything, meta};
use proptest::strategy::{Strategy, ValueTree};
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_trace::*;

fn source() -> MemorySource {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut all = Vec::new();
    while all.len() < 600 {
        all = events(1_000).new_tree(&mut runner).unwrap().current();
    }
    // Perfetto has no times before 0 or at the end of the axis.
    all.retain(|event| match event {
        Event::Span(span) => span.start.ns() >= 0 && span.end().ns() < 1 << 50,
        Event::Mark(mark) => (0..1 << 50).contains(&mark.at.ns()),
        Event::Counter(counter) => (0..1 << 50).contains(&counter.at.ns()),
        _ => true,
    });
    all.retain(|event| !matches!(event, Event::Clock(_)));
    // Children inside parents, some equally long, and calls that overlap them.
    let span = |n: u64, kind: SpanKind, start: i64, duration_ns: u64, parent: Option<u64>| {
        let none = (None, None, None);
        let ((object, offset_bytes, result), (waker_track, waker_context, runqueue_ns)) = ((None, None, None), none);
        let (span, track, parent) = (SpanId::new(n).unwrap(), TrackId::new(77).unwrap(), parent.and_then(SpanId::new));
        let (start, request) = (Time::from_monotonic_ns(start), RequestId::new(5_555));
        let (count, size_bytes, cpu_ns) = (1, Some(1 << 20), Some(duration_ns / 2));
        Event::Span(Span {
            span,
            track,
            kind,
            start,
            duration_ns,
            count,
            object,
            offset_bytes,
            size_bytes,
            result,
            parent,
            request,
            waker_track,
            waker_context,
            cpu_ns,
            runqueue_ns,
            stack: None,
        })
    };
    all.push(span(2_000_001, SpanKind::AppRequest, 1_000, 1_000, None));
    all.push(span(2_000_002, SpanKind::FileRead, 1_000, 400, Some(2_000_001)));
    all.push(span(2_000_003, SpanKind::NetSend, 1_400, 600, Some(2_000_001)));
    all.push(span(2_000_004, SpanKind::RpcCall, 1_300, 700, None));
    all.push(span(2_000_005, SpanKind::RpcServe, 2_000, 50, None));
    all.push(span(2_000_006, SpanKind::AppOther, 2_000, 0, None));
    let Event::Span(wait) = span(2_000_007, SpanKind::WaitTimer, 3_000, 500, None) else { unreachable!("a span") };
    all.push(Event::Span(Span { cpu_ns: Some(0), stack: Some(1_000), ..wait }));
    let frames = ["clock_nanosleep+0x5 [/lib/libc.so.6]", "[/bin/x 01+0x51]"].map(str::to_owned).to_vec();
    all.push(Event::Stack(Stack { stack: 1_000, frames }));
    MemorySource::from_events(meta(), all)
}

/// Returns a Python with Perfetto's protobuf definition, under the build directory; or why there is none.
pub(crate) fn python() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfetto-venv");
    let python = target.join("bin/python");
    let run = |command: &mut Command| match command.output_in_time() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it failed").to_owned()),
        Err(error) => Err(error.to_string()),
    };
    let import = |python: &Path| run(Command::new(python).args(["-c", "import perfetto.protos.perfetto.trace.perfetto_trace_pb2"]));
    if import(&python).is_err() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&target)).map_err(|e| format!("no virtual environment: {e}"))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "perfetto==0.59.1"];
        run(Command::new(&python).args(pip)).map_err(|e| format!("the package perfetto cannot be installed: {e}"))?;
        import(&python)?;
    }
    Ok(python)
}

#[test]
fn perfetto_reads_every_slice_mark_and_counter() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let directory = tempfile::tempdir().unwrap();
    let (source, out) = (source(), directory.path().join("a.pftrace"));
    let at = Time::from_monotonic_ns;
    let interval = |start, end, cause: &str| export::perfetto::PathInterval {
        start: at(start),
        end: at(end),
        cause: cause.into(),
        place: "here".into(),
        track: TrackId::new(77),
    };
    let intervals = vec![interval(1_000, 1_400, "client.cpu"), interval(1_400, 1_400, "none"), interval(1_400, 2_050, "disk")];
    let path = export::perfetto::CriticalPath { sentence: "The disk.".into(), intervals };
    export::perfetto::export(&source, &path, &out).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perfetto_check.py");
    let output = Command::new(python).arg(script).arg(&out).output_in_time().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();

    let expected = everything(&source).unwrap();
    let mut slices: Vec<_> =
        expected.spans.iter().map(|(start, end, span)| (span.span.number(), span.kind.name(), *start, end - start)).collect();
    slices.sort_unstable();
    assert_eq!(found["slices"], serde_json::json!(slices));
    let instants = found["instants"].as_object().unwrap();
    let marks = instants.iter().filter(|(name, _)| MarkKind::from_name(name).is_some()).map(|(_, n)| n.as_u64().unwrap()).sum::<u64>();
    assert_eq!(marks as usize, expected.marks.len());
    assert_eq!(instants["wakes"], instants["woken"], "one instant for each end of a wake-up");
    assert_eq!(found["path"], serde_json::json!([["client.cpu", 1_000, 400], ["disk", 1_400, 650]]));
    assert!(found["states"].as_u64().unwrap() > 0, "threads have states");
    assert_eq!(found["counters_twice"], serde_json::json!([]));
    let values = found["counters"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>();
    assert_eq!(values as usize, expected.counters.len());
    assert_eq!(found["stacks"], serde_json::json!({ "2000007": "clock_nanosleep < [x+0x51]" }));
    assert!(found["joined"].as_u64().unwrap() >= 1, "no flow joins both ends of a request");
    for object in source.objects() {
        assert!(found["objects"].as_array().unwrap().iter().any(|name| *name == *object.name));
    }
    for track in source.tracks() {
        assert!(found["tracks"].as_array().unwrap().iter().any(|name| *name == *track.name), "{}", track.name);
    }
}

#[test]
fn csv_quotes_what_must_be_quoted_and_leaves_absent_fields_empty() {
    let directory = tempfile::tempdir().unwrap();
    let object = |n: u64, name: &str| {
        let attributes = vec![("to".to_owned(), "b".to_owned())];
        Event::Object(Object { object: ObjectId::new(n).unwrap(), host: HostId(0), kind: ObjectKind::File, name: name.into(), attributes })
    };
    let source = MemorySource::from_events(meta(), [object(1, "plain"), object(2, "with, comma"), object(3, "a \"quote\"\nand a line")]);
    export::csv::export(&source, directory.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
    let expected = "object,host,kind,name,attributes\r\n1,0,file,plain,to=b\r\n2,0,file,\"with, comma\",to=b\r\n3,0,file,\"a \"\"quote\"\"\nand a line\",to=b\r\n";
    assert_eq!(read("objects.csv"), expected);

    let whole = self::source();
    export::csv::export(&whole, directory.path()).unwrap();
    let spans = read("spans.csv");
    let rows = everything(&whole).unwrap().spans;
    assert_eq!(spans.lines().count(), rows.len() + 1);
    let columns = spans.lines().next().unwrap().split(',').count();
    for (line, (start, end, span)) in spans.lines().skip(1).zip(&rows) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), columns);
        assert_eq!(
            fields[..5],
            [&span.span.number().to_string(), &span.track.number().to_string(), span.kind.name(), &start.to_string(), &end.to_string()]
        );
        assert_eq!(fields[6].is_empty(), span.object.is_none());
    }
}
