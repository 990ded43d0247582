//! The tuner's promises, one test each.

use crate::path::{Client, Limit, run};
use thalweg_tune::online::{Options, Step};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;
/// Bytes per second of a capped connection.
const EACH: f64 = 100e6;

fn tuned(seed: u64) -> Client {
    Client::tuned(Options { seed, ..Options::default() })
}

fn streams(client: &Client) -> f64 {
    client.value("streams") as f64
}

/// Returns the bytes per second between two times.
fn rate(moved: &[f64], from_s: f64, to_s: f64) -> f64 {
    let at = |s: f64| moved[((s * 10.0) as usize).clamp(1, moved.len()) - 1];
    (at(to_s) - at(from_s)) / (to_s - from_s)
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// A path on which each connection has its own rate.
fn per_connection(each: f64, most: f64) -> impl Fn(f64, &[Client]) -> Vec<(f64, Limit)> {
    move |_, clients| clients.iter().map(|client| ((each * streams(client)).min(most), Limit::Sending)).collect()
}

/// A server that gives a tenth of the rate to a client with more than this many connections.
fn throttled(each: f64, above: impl Fn(f64) -> f64) -> impl Fn(f64, &[Client]) -> Vec<(f64, Limit)> {
    move |now_s, clients| {
        let each = |client: &Client| each * streams(client) * if streams(client) > above(now_s) { 0.1 } else { 1.0 };
        clients.iter().map(|client| (each(client), Limit::Sending)).collect()
    }
}

#[test]
fn where_each_connection_is_capped_the_gain_is_found() {
    for noise in [0.02, 0.15] {
        for seed in SEEDS {
            let mut clients = [tuned(seed)];
            let moved = run(&mut clients, 60.0, noise, seed, &per_connection(EACH, 12.0 * EACH));
            let reached = rate(&moved[0], 30.0, 60.0) / (12.0 * EACH);
            assert!(
                reached > 0.85,
                "seed {seed}, noise {noise}: {reached:.2} of what there is: {:#?}",
                clients[0].tuner.as_ref().unwrap().steps()
            );
        }
    }
}

#[test]
fn a_server_that_throttles_above_some_connections_gets_half_the_rate_back_within_five_seconds() {
    for seed in SEEDS {
        let mut clients = [tuned(seed)];
        let moved = run(&mut clients, 90.0, 0.03, seed, &throttled(EACH, |now_s| if now_s < 40.0 { 16.0 } else { 4.0 }));
        // From any time at which it was throttled, five seconds later half of the rate of four connections is reached again.
        let before = rate(&moved[0], 35.0, 40.0);
        assert!(before > 8.0 * EACH * 0.8, "seed {seed}: {before}");
        let after = rate(&moved[0], 45.0, 50.0) / (4.0 * EACH);
        assert!(after >= 0.5, "seed {seed}: {after:.2} {:#?}", clients[0].tuner.as_ref().unwrap().steps());
        let long = rate(&moved[0], 50.0, 90.0) / (4.0 * EACH);
        assert!(long >= 0.9, "seed {seed}: {long:.2}");
    }
}

#[test]
fn a_path_whose_rate_is_capped_costs_at_most_two_percent_against_one_stream() {
    for noise in [0.01, 0.1] {
        let ratios = SEEDS.map(|seed| {
            let path = |_: f64, clients: &[Client]| vec![(EACH, Limit::Sending); clients.len()];
            let mut clients = [tuned(seed), Client::plain()];
            let moved = run(&mut clients, 60.0, noise, seed, &path);
            moved[0].last().unwrap() / moved[1].last().unwrap()
        });
        let worst = ratios.fold(f64::MAX, f64::min);
        assert!(worst >= 0.98, "noise {noise}: {worst:.3}");
    }
}

#[test]
fn where_nothing_is_to_be_gained_looking_for_it_costs_at_most_two_percent() {
    // Each further connection and flow buffer makes it slightly slower.
    let path = |_: f64, clients: &[Client]| {
        let worse = |client: &Client| 0.93_f64.powf(streams(client).log2()) * 0.98_f64.powf((client.value("depth") as f64 / 8.0).log2());
        clients.iter().map(|client| (10.0 * EACH * worse(client), Limit::Answers)).collect::<Vec<_>>()
    };
    for noise in [0.01, 0.05] {
        for seed in SEEDS {
            let mut clients = [tuned(seed)];
            let moved = run(&mut clients, 60.0, noise, seed, &path);
            let mut plain = [Client::plain()];
            let untuned = run(&mut plain, 60.0, noise, seed, &path);
            let ratio = moved[0].last().unwrap() / untuned[0].last().unwrap();
            assert!(ratio >= 0.98, "seed {seed}, noise {noise}: {ratio:.3} {:#?}", clients[0].tuner.as_ref().unwrap().steps());
        }
    }
}

#[test]
fn two_tuners_on_one_link_share_it() {
    let path = |now_s: f64, clients: &[Client]| {
        let begun = |client: &Client| streams(client) * f64::from(u8::from(client.rate > 0.0 || now_s > 10.0));
        let all: f64 = clients.iter().map(begun).sum::<f64>().max(1.0);
        clients.iter().map(|client| (10.0 * EACH * streams(client) / all.max(streams(client)), Limit::Sending)).collect::<Vec<_>>()
    };
    let (mut all, mut worst) = (Vec::new(), (1.0, String::new()));
    for seed in SEEDS {
        let mut clients = [tuned(seed), tuned(seed + 100).beginning_at(10.0)];
        let moved = run(&mut clients, 100.0, 0.03, seed, &path);
        let (one, other) = (rate(&moved[0], 10.0, 100.0), rate(&moved[1], 10.0, 100.0));
        let jain = (one + other).powi(2) / (2.0 * (one * one + other * other));
        if jain < worst.0 {
            let steps = clients.each_ref().map(|client| client.tuner.as_ref().unwrap().steps());
            let brief = |steps: &[Step]| {
                steps.iter().map(|s| format!("{:.0}s {} {}>{} {}\n", s.at_s, s.parameter, s.from, s.to, s.why)).collect::<String>()
            };
            worst = (jain, format!("{}--\n{}", brief(steps[0]), brief(steps[1])));
        }
        all.push(jain);
    }
    assert!(all.iter().all(|jain| *jain >= 0.95), "{all:.3?}\n{}", worst.1);
}

#[test]
fn an_optimum_that_moves_half_way_is_found_again_within_thirty_seconds() {
    for (before, after) in [(12.0, 3.0), (3.0, 12.0)] {
        let reached = SEEDS.map(|seed| {
            // The path's total stays; the share of each connection changes.
            let path = move |now_s: f64, clients: &[Client]| {
                let best = if now_s < 60.0 { before } else { after };
                let each = |client: &Client| {
                    let many = streams(client);
                    // Below the optimum each connection has its share; above it they obstruct each other.
                    if many <= best { 12.0 * EACH * many / best } else { 12.0 * EACH * (best / many).powf(0.7) }
                };
                clients.iter().map(|client| (each(client), Limit::Sending)).collect::<Vec<_>>()
            };
            let mut clients = [tuned(seed)];
            let moved = run(&mut clients, 120.0, 0.03, seed, &path);
            rate(&moved[0], 90.0, 120.0) / (12.0 * EACH)
        });
        let all: Vec<f64> = reached.collect();
        let worst = all.iter().copied().fold(f64::MAX, f64::min);
        // One connection would reach a third or a twelfth; steps of half lie within a quarter of the best.
        assert!(worst >= 0.75, "{before} to {after}: worst {worst:.2}, median {:.2} of {all:.2?}", median(all.clone()));
    }
}

#[test]
fn connections_that_are_refused_are_not_asked_for_again_for_a_minute() {
    for seed in SEEDS {
        let mut clients = [tuned(seed).refused_above(3)];
        run(&mut clients, 50.0, 0.03, seed, &per_connection(EACH, 12.0 * EACH));
        let steps = clients[0].tuner.as_ref().unwrap().steps();
        let refused: Vec<&Step> = steps.iter().filter(|step| step.why.contains("refused")).collect();
        assert!(refused.len() == 1 && !refused[0].kept, "seed {seed}: {steps:#?}");
        let later = steps.iter().filter(|step| step.at_s > refused[0].at_s && step.parameter == "streams");
        assert_eq!(later.count(), 0, "seed {seed}: {steps:#?}");
        assert!(clients[0].value("streams") <= 3);
    }
}

#[test]
fn windows_without_a_byte_are_not_compared() {
    // A server that stalls for twenty seconds, whatever is being tried then.
    for seed in SEEDS {
        let path = |now_s: f64, clients: &[Client]| {
            let stands = (7.0..27.0).contains(&now_s);
            clients.iter().map(|client| (if stands { 0.0 } else { EACH * streams(client).min(8.0) }, Limit::Sending)).collect::<Vec<_>>()
        };
        let mut clients = [tuned(seed)];
        let moved = run(&mut clients, 70.0, 0.03, seed, &path);
        let steps = clients[0].tuner.as_ref().unwrap().steps();
        let within = steps.iter().filter(|step| (10.0..27.0).contains(&step.at_s));
        assert!(within.clone().all(|step| !step.kept), "seed {seed}: {steps:#?}");
        let reached = rate(&moved[0], 50.0, 70.0) / (8.0 * EACH);
        assert!(reached > 0.8, "seed {seed}: {reached:.2} {steps:#?}");
    }
}
