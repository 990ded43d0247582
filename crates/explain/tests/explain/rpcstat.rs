//! Synthetic RPC recordings with known figures, and their expected analysis.

use thalweg_explain::rpcstat::document::{CloseUpKind, EndedBy, Queue, RpcStat, WaitedFor, Who};
use thalweg_explain::rpcstat::{rpcstat, rpcstat_in_bins};
use thalweg_explain::{Options, explain};
use thalweg_trace::*;

const MS: i64 = 1_000_000;
const CONNECTION: u64 = 10;
const WRITE: u64 = 11;

/// A client on one connection, which makes calls and gets replies on demand.
struct Client {
    events: Vec<Event>,
    next: u64,
    end_ns: i64,
    attributes: Vec<(String, String)>,
}

impl Client {
    fn new() -> Client {
        let host = HostId(0);
        let object = |number, kind, name: &str, attributes: &[(&str, &str)]| {
            let attributes = attributes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            Event::Object(Object { object: ObjectId::new(number).unwrap(), host, kind, name: name.to_owned(), attributes })
        };
        let name = "10.0.0.1:700 > 10.0.0.2:2049";
        let track = Track {
            track: TrackId::new(1).unwrap(),
            host,
            kind: TrackKind::Connection,
            role: Role::Client,
            pid: None,
            tid: None,
            name: name.to_owned(),
        };
        let procedure = [("program", "nfs"), ("version", "3"), ("procedure", "WRITE")];
        let events = vec![
            Event::Track(track),
            object(CONNECTION, ObjectKind::Connection, name, &[("end", "client")]),
            object(WRITE, ObjectKind::Server, "10.0.0.2:2049", &procedure),
        ];
        Client { events, next: 100, end_ns: 0, attributes: Vec::new() }
    }

    fn span(&mut self, kind: SpanKind, from_ns: i64, to_ns: i64, request: u64, bytes: u64, result: Option<i64>) {
        self.next += 1;
        self.end_ns = self.end_ns.max(to_ns);
        let object = if kind == SpanKind::RpcCall { WRITE } else { CONNECTION };
        self.events.push(Event::Span(Span {
            object: ObjectId::new(object),
            size_bytes: Some(bytes),
            result,
            request: RequestId::new(request),
            ..Span::bare(
                SpanId::new(self.next).unwrap(),
                TrackId::new(1).unwrap(),
                kind,
                Time::from_monotonic_ns(from_ns),
                (to_ns - from_ns) as u64,
            )
        }));
    }

    /// A call of 32 KiB whose last byte is sent at `posted_ns`, and whose reply's last byte comes at `replied_ns`.
    fn call(&mut self, posted_ns: i64, replied_ns: i64) -> u64 {
        self.next += 1;
        let request = self.next;
        self.span(SpanKind::NetSend, posted_ns - 20_000, posted_ns, request, 32 << 10, None);
        self.span(SpanKind::RpcCall, posted_ns, replied_ns, request, 33 << 10, Some(0));
        self.span(SpanKind::NetReceive, replied_ns - 5_000, replied_ns, request, 1 << 10, None);
        request
    }

    fn mark(&mut self, kind: MarkKind, at_ns: i64) {
        let (track, at, object) = (TrackId::new(1).unwrap(), Time::from_monotonic_ns(at_ns), ObjectId::new(WRITE));
        self.events.push(Event::Mark(Mark { track, kind, at, object, value: None }));
    }

    /// `count` calls from `at_ns` on, `window` at a time, each answered after `response_ns` and replaced immediately.
    fn steady(&mut self, at_ns: i64, count: i64, window: i64, response_ns: i64) -> i64 {
        let step_ns = response_ns / window;
        for i in 0..count {
            self.call(at_ns + i * step_ns, at_ns + i * step_ns + response_ns);
        }
        at_ns + count * step_ns
    }

    fn source(&self) -> MemorySource {
        let meta = Meta {
            format: FORMAT_VERSION,
            command: Vec::new(),
            recorder: "capture".to_owned(),
            start: Time::from_monotonic_ns(0),
            end: Some(Time::from_monotonic_ns(self.end_ns)),
            exit_code: None,
            dropped_events: 0,
            attributes: self.attributes.clone(),
        };
        MemorySource::from_events(meta, self.events.clone())
    }

    fn stat(&self) -> RpcStat {
        rpcstat(&self.source()).expect("there are RPCs")
    }
}

fn near(value: f64, wanted: f64, within: f64) -> bool {
    (value - wanted).abs() <= within * wanted
}

#[test]
fn an_overloaded_server_shows_timeouts_of_a_second_and_a_half_and_a_collapsed_window() {
    let mut client = Client::new();
    let mut at = MS;
    for _ in 0..4 {
        at = client.steady(at, 2000, 16, 8 * MS);
        // All sixteen that are pending are answered late, after the client has sent them again.
        let until = at + 1500 * MS;
        for i in 0..16 {
            client.call(at + i * 8 * MS / 16, until + (i + 1) * MS);
            client.mark(MarkKind::RpcRetransmit, until);
            client.mark(MarkKind::RpcTimeout, until);
        }
        // Then it limits itself to one or two.
        at = client.steady(until + 40 * MS, 40, 2, 8 * MS) + 20 * MS;
    }
    client.steady(at, 2000, 16, 8 * MS);
    let stat = client.stat();
    assert_eq!((stat.retransmissions, stat.timeouts), (64, 64));
    let long: Vec<_> = stat.stalls.longest.iter().filter(|s| s.length_s > 1.0).collect();
    assert_eq!(long.len(), 4, "{:?}", stat.stalls);
    for stall in &long {
        assert!(near(stall.length_s, 1.49, 0.02), "{stall:?}");
        assert_eq!((stall.who, stall.queue, stall.pending), (Who::Server, Queue::Full, 16), "{stall:?}");
        assert_eq!(stall.retransmissions, 16, "{stall:?}");
    }
    assert!(stat.pending.window_median >= 16 && stat.pending.window_min <= 2, "{:?}", stat.pending);
    assert!(stat.sentence.contains("64 calls timed out"), "{}", stat.sentence);
    assert!(stat.sentence.contains("server stalled 4 times"), "{}", stat.sentence);
}

#[test]
fn drain_cycles_have_their_length_and_their_period() {
    for length_ms in [24, 30] {
        let mut client = Client::new();
        let mut at = MS;
        for _ in 0..30 {
            // 470 calls 0.5 ms apart; then nothing is sent while sixteen are answered, one by one, over the drain's length.
            let end = client.steady(at, 470, 16, 8 * MS);
            for i in 0..16 {
                client.call(end + i * 20_000, end + 8 * MS + (i + 1) * (length_ms - 9) * MS / 16);
            }
            at = end + length_ms * MS;
        }
        let stat = client.stat();
        let drains = stat.drain_cycles.expect("the queue drains");
        assert!((29..=30).contains(&drains.count), "{drains:?}");
        assert!(near(drains.median_s, length_ms as f64 / 1e3, 0.05), "{drains:?}");
        assert!(near(drains.period_s, 0.235 + length_ms as f64 / 1e3, 0.05), "{drains:?}");
        assert!(drains.pending_at_start >= 16 && drains.pending_at_end == 0, "{drains:?}");
        assert!(stat.sentence.contains("drained"), "{}", stat.sentence);
    }
    let mut steady = Client::new();
    steady.steady(MS, 5000, 16, 8 * MS);
    assert_eq!(steady.stat().drain_cycles, None, "a full window is no cycle");
}

#[test]
fn a_stall_goes_on_while_calls_are_only_sent_again() {
    let mut client = Client::new();
    let end = client.steady(MS, 2000, 16, 8 * MS);
    for i in 0..16 {
        let request = client.call(end + i * MS / 2, end + 1500 * MS + i * MS);
        // Each is sent again twice.
        for again in [300 * MS, 900 * MS] {
            let at = end + i * MS / 2 + again;
            client.span(SpanKind::NetSend, at, at + 20_000, request, 32 << 10, None);
            client.mark(MarkKind::RpcRetransmit, at + 20_000);
        }
    }
    client.steady(end + 1520 * MS, 2000, 16, 8 * MS);
    let stat = client.stat();
    let stall = &stat.stalls.longest[0];
    assert!(near(stall.length_s, 1.492, 0.005), "{:?}", stat.stalls);
    assert_eq!((stall.who, stall.queue, stall.retransmissions), (Who::Server, Queue::Full, 32), "{stall:?}");
}

#[test]
fn a_drain_ends_after_the_call_that_is_made_alone() {
    let mut client = Client::new();
    let mut at = MS;
    for _ in 0..20 {
        // A burst of sixteen, repeatedly, each answered within a millisecond: that alone is no drain.
        for burst in 0..20 {
            for i in 0..16 {
                client.call(at + burst * 2 * MS + i * 30_000, at + burst * 2 * MS + MS + i * 30_000);
            }
        }
        // A commit of 20 ms.
        client.call(at + 40 * MS, at + 60 * MS);
        at += 61 * MS;
    }
    let drains = client.stat().drain_cycles.expect("the queue drains for the commit");
    assert_eq!(drains.count, 19, "{drains:?}");
    assert!(near(drains.median_s, 0.0225, 0.05) && near(drains.period_s, 0.061, 0.02), "{drains:?}");
}

#[test]
fn a_stall_is_the_clients_when_nothing_is_pending_and_the_servers_when_all_is() {
    let mut client = Client::new();
    let end = client.steady(MS, 1000, 8, 4 * MS);
    // The client stops for 200 ms with nothing pending.
    let begin = end + 4 * MS + 200 * MS;
    let end = client.steady(begin, 1000, 8, 4 * MS);
    // The server stalls for 300 ms with eight pending.
    for i in 0..8 {
        client.call(end + i * 4 * MS / 8, end + 300 * MS + i * MS);
    }
    client.steady(end + 309 * MS, 1000, 8, 4 * MS);
    let stat = client.stat();
    let found: Vec<_> = stat.stalls.longest.iter().map(|s| (s.who, s.queue, s.ended_by)).collect();
    assert_eq!(
        found,
        [(Who::Client, Queue::Empty, EndedBy::Call), (Who::Server, Queue::Full, EndedBy::Reply)],
        "{:?}",
        stat.stalls.longest
    );
    assert!(near(stat.stalls.longest[0].length_s, 0.2, 0.02) && near(stat.stalls.longest[1].length_s, 0.3, 0.03));
}

#[test]
fn between_full_and_empty_what_comes_next_decides() {
    for (next_is_call, who) in [(false, Who::Server), (true, Who::Client)] {
        let mut client = Client::new();
        let end = client.steady(MS, 1000, 16, 8 * MS);
        // Four of sixteen stay pending while nothing moves for 100 ms.
        for i in 0..4 {
            client.call(end + i * 10_000, end + 160 * MS + i * MS);
        }
        let again = end + if next_is_call { 108 * MS } else { 170 * MS };
        client.steady(again, 1000, 16, 8 * MS);
        let stat = client.stat();
        let stall = stat.stalls.longest.iter().max_by(|a, b| a.length_s.total_cmp(&b.length_s)).expect("a stall");
        assert_eq!((stall.queue, stall.who, stall.pending), (Queue::Between, who, 4), "{stall:?}");
    }
}

#[test]
fn a_message_that_stops_on_its_way_is_charged_to_who_stopped_it() {
    for (mark, who) in [(Some(MarkKind::TcpZeroWindow), Who::Server), (Some(MarkKind::TcpRetransmit), Who::Network), (None, Who::Client)] {
        let mut client = Client::new();
        let end = client.steady(MS, 500, 1, MS);
        let request = 9_999_999;
        client.span(SpanKind::NetSend, end + MS, end + 2 * MS, request, 1000, None);
        client.span(SpanKind::NetSend, end + 202 * MS, end + 203 * MS, request, 1000, None);
        client.span(SpanKind::RpcCall, end + 203 * MS, end + 204 * MS, request, 2100, Some(0));
        if let Some(mark) = mark {
            client.mark(mark, if mark == MarkKind::TcpZeroWindow { end + 2 * MS } else { end + 202 * MS });
        }
        client.steady(end + 205 * MS, 500, 1, MS);
        let stat = client.stat();
        assert_eq!(stat.stalls.longest.len(), 1, "{:?}", stat.stalls);
        let stall = &stat.stalls.longest[0];
        assert_eq!((stall.who, stall.within_message), (who, true), "{stall:?}");
        assert!(near(stall.length_s, 0.2, 0.01), "{stall:?}");
    }
}

#[test]
fn time_in_which_tcp_recovers_is_the_networks() {
    let mut client = Client::new();
    let mut at = client.steady(MS, 500, 1, MS);
    for _ in 0..5 {
        // The call was sent and lost beyond the capture: TCP sends it again after 200 ms, and then the answer comes immediately.
        client.call(at, at + 201 * MS);
        client.mark(MarkKind::TcpRetransmit, at + 200 * MS);
        at = client.steady(at + 202 * MS, 100, 1, MS);
    }
    let stat = client.stat();
    assert!(near(stat.quiet.network_s, 1.005, 0.01), "{:?}", stat.quiet);
    assert!(stat.quiet.full_s < 1.1 && stat.sentence.contains("TCP to send again"), "{} {:?}", stat.sentence, stat.quiet);
    assert!(stat.stalls.longest.iter().all(|s| s.who == Who::Network && s.tcp_retransmissions == 1), "{:?}", stat.stalls);
    let explanation = explain(&client.source(), &Options::default()).unwrap();
    assert_eq!(explanation.verdict.cause.name(), "network.loss", "{}", explanation.verdict.sentence);
}

#[test]
fn slow_first_seconds_are_reported_with_how_full_the_queue_was() {
    let mut client = Client::new();
    let end = client.steady(MS, 400, 16, 80 * MS);
    client.steady(end, 20_000, 16, 8 * MS);
    let stat = client.stat();
    let slow = stat.slow_start.expect("the beginning was slow");
    assert!(near(slow.until_s, 2.0, 0.3), "{slow:?}");
    assert!(slow.later_bytes_per_s > 5.0 * slow.bytes_per_s, "{slow:?}");
    assert!(slow.full_share > 0.8 && slow.empty_share < 0.05, "{slow:?}");
}

#[test]
fn response_times_and_the_series_sum_to_what_there_was() {
    let mut client = Client::new();
    for i in 0..1000 {
        client.call(MS + i * 10 * MS, MS + i * 10 * MS + (i % 100 + 1) * 10_000);
    }
    let stat = client.stat();
    assert_eq!((stat.calls, stat.sent_bytes), (1000, Some(1000 * (32 << 10))));
    let p = &stat.procedures[0];
    assert_eq!((p.name.as_str(), p.program.as_deref(), p.answered), ("WRITE", Some("nfs"), 1000));
    assert_eq!((p.min_s, p.max_s), (Some(1e-5), Some(1e-3)));
    let is_near = |value: Option<f64>, wanted, within| value.is_some_and(|value| near(value, wanted, within));
    assert!(is_near(p.median_s, 0.0005, 0.02) && is_near(p.p99_s, 0.00099, 0.02) && is_near(p.mean_s, 0.000505, 1e-6), "{p:?}");
    let series = &stat.series;
    assert_eq!((series.calls.iter().sum::<u64>(), series.replies.iter().sum::<u64>()), (1000, 1000));
    let sent: f64 = series.sent_bytes_per_s.iter().sum::<f64>() * series.bin_s;
    assert!(near(sent, 1000.0 * f64::from(32 << 10), 1e-6), "{sent}");
    let pending: f64 = series.pending_mean.iter().sum::<f64>() / series.pending_mean.len() as f64;
    assert!(near(pending, p.total_s / stat.wall_s, 0.01), "{pending}");
    assert_eq!(serde_json::from_str::<RpcStat>(&stat.to_json()).unwrap().calls, 1000, "the document reads back");
}

#[test]
fn a_capture_is_explained_and_its_charges_sum_to_the_wall_time() {
    let mut client = Client::new();
    client.steady(MS, 1000, 1, 3 * MS);
    client.call(3500 * MS, 3501 * MS);
    let explanation = explain(&client.source(), &Options::default()).expect("a capture is explained");
    let share: f64 = explanation.critical_path.iter().map(|c| c.share).sum();
    let seconds: f64 = explanation.critical_path.iter().map(|c| c.seconds).sum();
    assert!((share - 1.0).abs() < 1e-3 && (seconds - explanation.wall_s).abs() < 1e-3, "{share} {seconds}");
    assert_eq!(explanation.verdict.cause.name(), "server.unknown");
    assert!(near(explanation.verdict.share, 3.0 / 3.5, 0.05), "{:?}", explanation.verdict);
    let path = &explanation.path;
    assert!(path.windows(2).all(|w| w[0].end_s == w[1].start_s) && path[0].start_s == 0.0, "segments touch");
    assert!((path[path.len() - 1].end_s - explanation.wall_s).abs() < 1e-9, "and cover the wall time");
}

#[test]
fn a_call_without_a_reply_has_no_response_time_and_is_counted() {
    let mut client = Client::new();
    client.span(SpanKind::NetSend, MS, 2 * MS, 1, 1000, None);
    client.span(SpanKind::RpcCall, 2 * MS, 500 * MS, 1, 1000, Some(-110));
    let stat = client.stat();
    assert_eq!((stat.calls, stat.unanswered, stat.procedures[0].unanswered), (1, 1, 1));
    let p = &stat.procedures[0];
    assert_eq!((p.min_s, p.mean_s, p.median_s, p.p99_s, p.max_s), (None, None, None, None, None));
    assert!(!stat.to_json().contains("\"min_s\""), "what is not known is absent");
    let explanation = explain(&client.source(), &Options::default()).expect("explains");
    assert!(explanation.critical_path.iter().all(|c| !c.evidence.contains("median response")), "{:?}", explanation.critical_path);
}

#[test]
fn the_axis_is_that_of_the_rpcs_where_the_capture_says_it() {
    let mut client = Client::new();
    client.steady(400 * MS, 100, 4, 4 * MS);
    let last = client.end_ns - 1;
    client.end_ns += 2_000 * MS;
    let said = |first: i64, last: i64| vec![("rpc.first_ns".to_owned(), first.to_string()), ("rpc.last_ns".to_owned(), last.to_string())];
    client.attributes = said(399 * MS, last);
    let stat = client.stat();
    assert_eq!((stat.start_ns, stat.wall_s), (399 * MS, (last + 1 - 399 * MS) as f64 / 1e9));
    // Its statement is impossible: the whole of it is shown.
    client.attributes = said(9, 7);
    assert_eq!(client.stat().start_ns, 0);
}

#[test]
fn what_waits_in_the_clients_socket_is_said_and_a_window_of_packets_is_at_least_that() {
    let mut client = Client::new();
    for i in 0..100 {
        client.call(MS + i * 5 * MS, 4 * MS + i * 5 * MS);
    }
    let alone = client.stat();
    assert!(alone.pending.sent_only && alone.pending.unsent.is_none() && alone.pending.window_median == 1, "{:?}", alone.pending);
    // Fifteen calls of 33 KiB wait in the socket for the second half of the time.
    let (half, bytes) = (client.end_ns / 2, 15 * (33 << 10));
    let of = CounterOf::Object(ObjectId::new(CONNECTION).unwrap());
    for (at, value) in [(0, 0), (half, bytes)] {
        let at = Time::from_monotonic_ns(at);
        client.events.push(Event::Counter(Counter { of, name: CounterName::TcpUnsentBytes, at, value }));
    }
    let unsent = client.stat().pending.unsent.expect("it was recorded");
    assert_eq!((unsent.max_bytes, unsent.max_calls), (bytes as u64, 15.0));
    assert!(near(unsent.mean_bytes, bytes as f64 / 2.0, 0.001), "{unsent:?}");
}

#[test]
fn a_callback_is_listed_and_not_waited_for_as_the_servers() {
    let mut client = Client::new();
    let callback = [("program", "1073741824"), ("version", "1"), ("procedure", "procedure 1"), ("callback", "true")];
    let attributes = callback.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let object = ObjectId::new(12).unwrap();
    client.events.push(Event::Object(Object {
        object,
        host: HostId(0),
        kind: ObjectKind::Server,
        name: "10.0.0.1:700".into(),
        attributes,
    }));
    client.call(MS, 2 * MS);
    client.span(SpanKind::RpcCall, 10 * MS, 400 * MS, 9, 100, None);
    let Some(Event::Span(span)) = client.events.last_mut() else { unreachable!() };
    span.object = Some(object);
    client.call(500 * MS, 501 * MS);
    let stat = client.stat();
    assert_eq!((stat.calls, stat.pending.max), (3, 1));
    assert!(stat.quiet.empty_s > 0.4, "{:?}", stat.quiet);
    let listed = stat.procedures.iter().find(|p| p.callback).expect("it is listed");
    assert_eq!((listed.server.as_str(), listed.answered), ("10.0.0.1:700", 1));
}

/// A client that keeps a few calls pending, and commits alone, for 20 ms, after every 200.
fn committing(times: i64) -> Client {
    let mut client = Client::new();
    let mut at = MS;
    for _ in 0..times {
        let end = client.steady(at, 200, 4, 800_000);
        client.call(end + MS, end + 21 * MS);
        at = end + 21 * MS + 100_000;
    }
    client.steady(at, 200, 4, 800_000);
    client
}

#[test]
fn a_client_that_commits_now_and_then_drains_its_queue_each_time() {
    let stat = committing(30).stat();
    let drains = stat.drain_cycles.as_ref().expect("the queue drains");
    assert_eq!((drains.count, drains.longest.len()), (30, 30), "{drains:?}");
    assert!(near(drains.median_s, 0.021, 0.05) && near(drains.period_s, 0.0611, 0.02), "{drains:?}");
    assert!(drains.longest.windows(2).all(|w| w[0].start_s + w[0].length_s <= w[1].start_s), "in order of time");
    assert_eq!(drains.lengths.iter().map(|b| b.count).sum::<u64>(), 30);
}

#[test]
fn a_close_up_shows_the_calls_under_way_in_its_window_and_no_others() {
    let stat = committing(30).stat();
    let drain = stat.close_ups.iter().find(|c| c.kind == CloseUpKind::DrainCycle).expect("a drain cycle is shown");
    assert!(drain.start_s <= drain.from_s && drain.from_s < drain.to_s && drain.to_s <= drain.end_s, "{drain:?}");
    assert!(drain.calls.len() <= 60 && drain.calls.len() as u64 + drain.left_out > 60, "{}", drain.left_out);
    for close_up in &stat.close_ups {
        assert!(!close_up.calls.is_empty());
        assert!(close_up.calls.iter().all(|c| c.start_s < close_up.end_s && c.end_s > close_up.start_s), "{close_up:?}");
        assert!(close_up.calls.windows(2).all(|w| w[0].start_s <= w[1].start_s), "{close_up:?}");
    }
    let sentence = &drain.sentence;
    assert!(sentence.contains("a WRITE alone takes 20.0 ms; then the client sends again."), "{sentence}");
}

#[test]
fn a_gap_in_sending_of_two_parts_is_first_the_servers_and_then_the_clients() {
    let mut client = Client::new();
    let end = client.steady(MS, 2000, 8, 4 * MS);
    // Four stay pending and are answered after 200 ms; then nothing is pending for 700 ms.
    for i in 0..4 {
        client.call(end + i * 30_000, end + 200 * MS + i * MS);
    }
    client.steady(end + 904 * MS, 2000, 8, 4 * MS);
    let stat = client.stat();
    let shown = stat.close_ups.iter().find(|c| c.kind == CloseUpKind::Stall).expect("it is shown");
    assert!(near(shown.to_s - shown.from_s, 0.904, 0.01), "{shown:?}");
    assert!(shown.sentence.contains("first the server, then the client"), "{}", shown.sentence);
    let waits: Vec<_> = stat.waits.iter().filter(|w| w.end_s - w.start_s > 0.1).map(|w| w.waited_for).collect();
    assert_eq!(waits, [WaitedFor::ServerQueuePartly, WaitedFor::ClientQueueEmpty], "{:?}", stat.waits);
}

#[test]
fn waits_add_up_to_no_more_than_quiet_time() {
    for stat in [committing(30).stat(), committing(3).stat()] {
        let q = &stat.quiet;
        let quiet_s = q.full_s + q.empty_s + q.between_then_reply_s + q.between_then_call_s + q.within_messages_s + q.network_s;
        let waits_s: f64 = stat.waits.iter().map(|w| w.end_s - w.start_s).sum();
        assert!(waits_s > 0.02 && waits_s <= quiet_s, "{waits_s} of {quiet_s}");
        assert!(stat.waits.windows(2).all(|w| w[0].end_s <= w[1].start_s), "{:?}", stat.waits);
    }
}

#[test]
fn the_document_is_bounded_whatever_the_run() {
    let source = committing(1000).source();
    let stat = rpcstat(&source).expect("there are RPCs");
    assert!(stat.calls > 200_000, "{}", stat.calls);
    assert!(stat.waits.len() <= 400 && stat.close_ups.len() <= 4, "{} {}", stat.waits.len(), stat.close_ups.len());
    let drains = stat.drain_cycles.expect("the queue drains");
    assert_eq!((drains.count, drains.longest.len()), (1000, 400));
    assert!(drains.lengths.len() <= 24, "{}", drains.lengths.len());
    assert_eq!(stat.series.calls.len(), 256);
    for (asked, bins) in [(0, 1), (1000, 512), (1024, 1024), (1 << 20, 1024)] {
        let series = rpcstat_in_bins(&source, |_| asked).expect("there are RPCs").series;
        assert_eq!((series.calls.len(), series.response_median_s.len(), series.window.len()), (bins, bins, bins));
        assert_eq!(series.calls.iter().sum::<u64>(), stat.calls);
    }
}

#[test]
fn the_congestion_window_is_the_clients_and_an_estimated_rpc_window_is_left_out() {
    let mut client = committing(3);
    // A recorder of the client's threads, besides the packets.
    let track = Track {
        track: TrackId::new(2).unwrap(),
        host: HostId(0),
        kind: TrackKind::Thread,
        role: Role::Client,
        pid: None,
        tid: None,
        name: "cp".to_owned(),
    };
    client.events.push(Event::Track(track));
    let of = CounterOf::Object(ObjectId::new(CONNECTION).unwrap());
    for (name, value) in [(CounterName::TcpCwndBytes, 14_480), (CounterName::RpcWindow, 8)] {
        client.events.push(Event::Counter(Counter { of, name, at: Time::from_monotonic_ns(50 * MS), value }));
    }
    let series = client.stat().series;
    assert_eq!(series.cwnd_bytes.iter().flatten().max(), Some(&14_480));
    assert!(series.window.iter().all(Option::is_none), "packets show no window");
    assert!(series.response_median_s.iter().flatten().any(|&s| near(s, 0.0008, 0.06)), "{:?}", series.response_median_s);
}

/// Makes the client's connection one of datagrams.
fn by_datagrams(client: &mut Client) {
    for event in &mut client.events {
        if let Event::Object(object) = event
            && object.kind == ObjectKind::Connection
        {
            object.attributes.push(("protocol".to_owned(), "udp".to_owned()));
        }
    }
}

#[test]
fn one_call_without_an_answer_has_no_rate_and_is_no_ends_time() {
    let mut client = Client::new();
    by_datagrams(&mut client);
    client.span(SpanKind::NetSend, 5 * MS, 5 * MS, 1, 80, None);
    client.span(SpanKind::RpcCall, 5 * MS, 5 * MS, 1, 80, Some(-110));
    client.attributes = vec![("rpc.first_ns".to_owned(), (5 * MS).to_string()), ("rpc.last_ns".to_owned(), (5 * MS).to_string())];
    client.end_ns = 5 * MS + 1;
    let stat = rpcstat(&client.source()).unwrap();
    assert_eq!((stat.has_length(), stat.rate_bytes_per_s()), (false, None));
    assert_eq!(stat.sentence, "1 call (WRITE). No answer was recorded.");
    let error = explain(&client.source(), &Options::default()).expect_err("there is no time to charge").to_string();
    assert!(error.contains("1 call (WRITE)") && error.contains("no time to charge"), "{error}");
}

#[test]
fn time_with_nothing_but_unanswered_datagrams_is_neither_ends() {
    let mut client = Client::new();
    by_datagrams(&mut client);
    client.call(MS, 2 * MS);
    // Sent again after 300 ms, and given up 700 ms later.
    client.span(SpanKind::NetSend, 3 * MS, 3 * MS, 9, 80, None);
    client.span(SpanKind::NetSend, 303 * MS, 303 * MS, 9, 80, None);
    client.span(SpanKind::RpcCall, 3 * MS, 1003 * MS, 9, 160, Some(-110));
    client.call(1005 * MS, 1006 * MS);
    let stat = rpcstat(&client.source()).unwrap();
    let quiet = &stat.quiet;
    assert!((quiet.unanswered_s - 1.0).abs() < 0.001, "{quiet:?}");
    assert!(quiet.full_s + quiet.between_then_reply_s + quiet.empty_s < 0.01, "{quiet:?}");
    assert!(
        stat.sentence.contains("everything waited for an answer that never came") && stat.sentence.contains("1 call was never answered"),
        "{}",
        stat.sentence
    );
    assert_eq!(stat.stalls.count, 0, "{:?}", stat.stalls);
    let explained = explain(&client.source(), &Options { why: true, ..Options::default() }).unwrap();
    let charge = &explained.critical_path[0];
    assert!(charge.cause.name() == "unknown" && charge.share > 0.95 && charge.evidence.contains("never answered"), "{charge:?}");
    assert_eq!(charge.rules[0].rule.name(), "packets.unanswered");
}

#[test]
fn the_procedures_with_most_calls_and_with_most_time_are_said_apart() {
    let mut client = Client::new();
    const GETATTR: u64 = 12;
    let procedure = [("program", "nfs"), ("version", "3"), ("procedure", "GETATTR")].map(|(n, v)| (n.to_owned(), v.to_owned()));
    client.events.push(Event::Object(Object {
        object: ObjectId::new(GETATTR).unwrap(),
        host: HostId(0),
        kind: ObjectKind::Server,
        name: "10.0.0.2:2049".to_owned(),
        attributes: procedure.to_vec(),
    }));
    client.call(MS, 500 * MS);
    for n in 0..3 {
        client.call(600 * MS + n * 10 * MS, 601 * MS + n * 10 * MS);
        let call = client.events.iter_mut().rev().find_map(|e| match e {
            Event::Span(span) if span.kind == SpanKind::RpcCall => Some(span),
            _ => None,
        });
        call.unwrap().object = ObjectId::new(GETATTR);
    }
    let stat = rpcstat(&client.source()).unwrap();
    assert!(stat.sentence.starts_with("4 calls (GETATTR most calls, WRITE most time), "), "{}", stat.sentence);
}
