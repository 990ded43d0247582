//! One phase of a transfer alone.

use crate::common::Tale;
use thalweg_explain::document::PhaseName;
use thalweg_explain::{Options, explain};
use thalweg_trace::{Role, SpanKind};

/// Half a second of computing before the first byte, then a second of writing.
#[test]
fn a_phase_alone_is_charged_with_what_lies_within_it() {
    let mut tale = Tale::new(1_500_000, 2);
    let copy = tale.thread(Role::Client, "copy", 100, 100);
    let (from, to) = (tale.file("/data/a"), tale.file("/data/b"));
    tale.span(copy, SpanKind::CpuRun, 0, 500_000).ran(500_000).end();
    for n in 0..100_u64 {
        let at = 500_000 + n * 10_000;
        tale.span(copy, SpanKind::FileRead, at, at + 1_000).ran(1_000).on(from).bytes(1 << 20).end();
        tale.wait(copy, SpanKind::FileWrite, at + 1_000, at + 10_000).on(to).bytes(1 << 20).end();
    }
    let of = |phase: Option<PhaseName>| explain(&tale.source(), &Options { phase, ..Options::default() });
    let set_up = of(Some(PhaseName::SetUp)).expect("explains");
    assert!((set_up.wall_s - 0.5).abs() < 0.02, "{}", set_up.wall_s);
    assert_eq!(set_up.verdict.cause.name(), "client.cpu");
    assert!(set_up.summary.about.starts_with("set-up, ") && set_up.summary.about.ends_with(" of 1.50 s"), "{}", set_up.summary.about);
    assert!(set_up.what_if.is_empty() && set_up.summary.numbers.is_empty());
    let steady = of(Some(PhaseName::Steady)).expect("explains");
    assert_eq!(steady.verdict.cause.name(), "client.write");
    for e in [&set_up, &steady] {
        let (seconds, shares): (f64, f64) = e.critical_path.iter().fold((0.0, 0.0), |(s, p), c| (s + c.seconds, p + c.share));
        assert!((seconds - e.wall_s).abs() < 1e-6 && (shares - 1.0).abs() < 1e-3, "{seconds} of {}: {shares}", e.wall_s);
        let (first, last) = (e.path.first().expect("a path"), e.path.last().expect("a path"));
        assert!(first.start_s.abs() < 1e-6 && (last.end_s - e.wall_s).abs() < 1e-6, "{first:?} {last:?}");
    }
    let mut still = Tale::new(100_000, 2);
    let sleep = still.thread(Role::Client, "sleep", 100, 100);
    still.wait(sleep, SpanKind::WaitTimer, 0, 100_000).by_timer().end();
    let none = explain(&still.source(), &Options { phase: Some(PhaseName::Drain), ..Options::default() }).unwrap_err().to_string();
    assert!(none.contains("no phase drain") && none.contains("moved nothing"), "{none}");
}
