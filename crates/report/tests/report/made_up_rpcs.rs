//! Made-up documents of what RPCs say.

use thalweg_explain::rpcstat::document::*;

/// Numbers that look random and are always the same.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// From 0 to below 1.
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn procedure(name: &str, answered: u64, median_s: f64) -> Procedure {
    Procedure {
        server: "192.0.2.7:2049".into(),
        program: Some("nfs".into()),
        version: Some("3".into()),
        name: name.into(),
        answered,
        unanswered: 0,
        errors: 0,
        retransmissions: 0,
        not_captured: 0,
        callback: false,
        min_s: Some(median_s / 3.0),
        mean_s: Some(median_s * 1.2),
        median_s: Some(median_s),
        p99_s: Some(median_s * 20.0),
        max_s: Some(median_s * 80.0),
        total_s: median_s * 1.2 * answered as f64,
        bytes: answered * 32_900,
    }
}

/// As a document was before it said when everything waited: no lists of waits, drains or close-ups, no window, no medians.
pub fn plain() -> RpcStat {
    let bins = 200;
    let each = |f: &dyn Fn(usize) -> f64| (0..bins).map(f).collect::<Vec<f64>>();
    let wave = |i: usize| 0.5 + 0.5 * (i as f64 / 9.0).sin();
    let series = Series {
        bin_s: 0.1,
        sent_bytes_per_s: each(&|i| 100e6 * wave(i)),
        received_bytes_per_s: each(&|i| 0.4e6 * wave(i)),
        calls: (0..bins).map(|i| (300.0 * wave(i)) as u64).collect(),
        replies: (0..bins).map(|i| (300.0 * wave(i + 2)) as u64).collect(),
        pending_mean: each(&|i| 12.0 * wave(i)),
        pending_max: vec![16; bins],
        response_mean_s: (0..bins).map(|i| (wave(i) > 0.1).then(|| 2e-3 / (0.05 + wave(i)))).collect(),
        response_max_s: (0..bins).map(|i| (wave(i) > 0.1).then(|| 40e-3 / (0.05 + wave(i)))).collect(),
        retransmissions: vec![0; bins],
        timeouts: vec![0; bins],
        tcp_retransmissions: vec![0; bins],
        in_flight_bytes: vec![None; bins],
        receive_window_bytes: vec![None; bins],
        unsent_bytes: vec![None; bins],
        ..Series::default()
    };
    RpcStat {
        schema: "thalweg.rpcstat/1".into(),
        recorder: "capture".into(),
        start_ns: 0,
        wall_s: 20.0,
        sentence:
            "64,016 calls (WRITE most calls and most time), 820 Mb/s to the server. For 56 % of the time nothing moved and everything waited for the server."
                .into(),
        calls: 64_016,
        unanswered: 0,
        not_captured: 0,
        errors: 0,
        retransmissions: 0,
        timeouts: 0,
        tcp_retransmissions: 0,
        tcp_timeouts: 0,
        sent_bytes: Some(2_050_000_000),
        received_bytes: Some(8_000_000),
        pending: Pending { mean: 9.6, max: 16, empty_share: 0.1, window_median: 16, window_min: 4, sent_only: true, unsent: None },
        procedures: vec![procedure("WRITE", 64_000, 3e-3), procedure("COMMIT", 16, 0.1)],
        bursts: Bursts { direction: "sent".into(), bursts: 900, burst_bytes_per_s: Some(120e6), ..Bursts::default() },
        quiet: Quiet {
            full_s: 8.0,
            empty_s: 1.4,
            between_then_reply_s: 3.2,
            between_then_call_s: 0.9,
            within_messages_s: 0.1,
            network_s: 0.3,
            unanswered_s: 0.0,
        },
        stalls: Stalls {
            least_s: 0.01,
            count: 8,
            total_s: 2.7,
            by: vec![StallsBy { who: Who::Server, count: 8, total_s: 2.7, median_s: 0.33 }],
            longest: Vec::new(),
        },
        drain_cycles: None,
        slow_start: None,
        waits: Vec::new(),
        close_ups: Vec::new(),
        series,
        round_trips: None,
        connections: Vec::new(),
        recorded: Vec::new(),
        notes: Vec::new(),
    }
}

/// A call of each outcome now and then, `under_way` at a time.
fn calls(numbers: &mut Numbers, n: usize, start_s: f64, end_s: f64) -> Vec<CallBar> {
    let outcome = |i: usize| match i % 29 {
        7 => Outcome::Error,
        13 => Outcome::Unanswered,
        19 => Outcome::NotCaptured,
        _ => Outcome::Answered,
    };
    let span = end_s - start_s;
    let mut calls: Vec<CallBar> = (0..n)
        .map(|i| {
            let start_s = start_s - 0.1 * span + span * 1.05 * numbers.next();
            CallBar {
                procedure: if i % 17 == 5 { "COMMIT" } else { "WRITE" }.into(),
                bytes: if i % 17 == 5 { 300 } else { 32_900 },
                start_s,
                end_s: start_s + span * (0.02 + 0.25 * numbers.next()),
                outcome: outcome(i),
            }
        })
        .collect();
    calls.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    calls
}

/// Everything over time, none of it alike.
fn series(numbers: &mut Numbers, bins: usize, wall_s: f64) -> Series {
    let noise = |numbers: &mut Numbers, scale: f64| (0..bins).map(|_| scale * numbers.next()).collect::<Vec<f64>>();
    let whole = |numbers: &mut Numbers, scale: f64| noise(numbers, scale).into_iter().map(|v| v as u64).collect::<Vec<u64>>();
    let some = |numbers: &mut Numbers, scale: f64| whole(numbers, scale).into_iter().map(Some).collect::<Vec<Option<u64>>>();
    Series {
        bin_s: wall_s / bins as f64,
        sent_bytes_per_s: noise(numbers, 110e6),
        received_bytes_per_s: noise(numbers, 0.5e6),
        calls: whole(numbers, 200.0),
        replies: whole(numbers, 200.0),
        pending_mean: noise(numbers, 12.0),
        pending_max: whole(numbers, 17.0),
        response_mean_s: noise(numbers, 5e-3).into_iter().map(Some).collect(),
        response_max_s: noise(numbers, 0.4).into_iter().map(|v| Some(v + 5e-3)).collect(),
        response_median_s: noise(numbers, 4e-3).into_iter().map(Some).collect(),
        window: vec![None; bins],
        cwnd_bytes: some(numbers, 900e3),
        retransmissions: (0..bins).map(|i| u64::from(i % 3 == 0)).collect(),
        timeouts: (0..bins).map(|i| u64::from(i % 9 == 0)).collect(),
        tcp_retransmissions: (0..bins).map(|i| u64::from(i % 2 == 0)).collect(),
        in_flight_bytes: some(numbers, 300e3),
        receive_window_bytes: some(numbers, 3e6),
        unsent_bytes: some(numbers, 40e3),
    }
}

/// With everything a document can have, as much of it as it may: `bins` bins, 4,000 waits, 400 drain cycles, close-ups of 60 calls.
pub fn full(bins: usize) -> RpcStat {
    let mut numbers = Numbers::new(7);
    let wall_s = 20.0;
    let mut d = plain();
    d.series = series(&mut numbers, bins, wall_s);
    (d.retransmissions, d.timeouts, d.tcp_retransmissions, d.tcp_timeouts) = (60, 20, 120, 8);
    let kinds = [
        WaitedFor::ServerQueueFull,
        WaitedFor::ServerQueuePartly,
        WaitedFor::ClientQueuePartly,
        WaitedFor::ClientQueueEmpty,
        WaitedFor::Network,
    ];
    d.waits = (0..4_000)
        .map(|i| {
            let start_s = wall_s * f64::from(i) / 4_000.0;
            let length_s = if i % 200 == 3 { 0.2 } else { 0.004 * numbers.next() };
            let waited_for = kinds[(numbers.next() * 4.2) as usize];
            WaitInterval { start_s, end_s: (start_s + length_s).min(wall_s), waited_for }
        })
        .collect();
    d.slow_start = Some(SlowStart { until_s: 3.1, bytes_per_s: 22e6, later_bytes_per_s: 105e6, full_share: 0.6, empty_share: 0.1 });
    let drain =
        |i: u32| Drain { start_s: 0.05 * f64::from(i), length_s: 0.004 + 0.01 * f64::from(i % 5), pending_at_start: 16, pending_at_end: 2 };
    let length = |i: u32| LengthBin { from_s: 0.002 * f64::from(i), to_s: 0.002 * f64::from(i + 1), count: u64::from(200 / (i + 1)) };
    d.drain_cycles = Some(DrainCycles {
        count: 1_234,
        median_s: 0.0132,
        period_s: 0.05,
        total_s: 6.1,
        pending_at_start: 16,
        pending_at_end: 2,
        longest: (0..400).map(drain).collect(),
        lengths: (0..24).map(length).collect(),
    });
    let close_up = |numbers: &mut Numbers, kind, start_s: f64| CloseUp {
        kind,
        start_s,
        end_s: start_s + 0.1,
        from_s: start_s + 0.02,
        to_s: start_s + 0.08,
        sentence: "From 12.34 s on nothing is sent for 60.0 ms while pending calls fall from 16 to 2 & <more>.".into(),
        calls: calls(numbers, 60, start_s, start_s + 0.1),
        left_out: 12,
    };
    d.close_ups = vec![
        close_up(&mut numbers, CloseUpKind::DrainCycle, 12.32),
        close_up(&mut numbers, CloseUpKind::Stall, 7.0),
        close_up(&mut numbers, CloseUpKind::Beginning, 0.0),
    ];
    d.notes = vec!["Packets were cut: <heads> & bytes.".into(), "Another note.".into(), "A third.".into()];
    d
}
