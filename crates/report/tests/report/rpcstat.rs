//! Promises of what RPCs say, drawn and in a few lines: well-formed, bounded, with text for who cannot see it, and comparable.

use crate::interactive::{static_part, well_formed_static_part};
use crate::made_up_rpcs::{full, plain};
use crate::picture::{well_formed, words};
use thalweg_explain::rpcstat::RpcStat;
use thalweg_explain::rpcstat::document::{Series, WaitedFor};
use thalweg_report::{
    MAX_LINES, TextOptions, rpcstat_page, rpcstat_pair, rpcstat_pair_page, rpcstat_pair_picture, rpcstat_picture, rpcstat_short,
};

/// More than this no picture takes.
const MAX_BYTES: usize = 500_000;

/// Texts of the axes' ticks at the left side, from above.
fn ticks(svg: &str) -> Vec<&str> {
    let labels = svg.lines().filter(|line| line.contains(r#"<text x="104""#) && line.contains(r#"text-anchor="end""#));
    labels.filter_map(|line| line.split('>').nth(1)?.split('<').next()).collect()
}

#[test]
fn a_picture_is_well_formed_and_its_size_is_bounded_whatever_was_recorded() {
    for bins in [1, 256, 1_000, 100_000] {
        let picture = rpcstat_picture(&full(bins));
        well_formed(&picture);
        assert!(picture.len() < MAX_BYTES, "{bins} bins: {} bytes", picture.len());
    }
    let typical = rpcstat_picture(&plain());
    assert!(typical.len() < 100_000, "{}", typical.len());
    let pair = rpcstat_pair_picture([("a", &full(1_000)), ("b", &full(1_000))]);
    well_formed(&pair);
    assert!(pair.len() < 2 * MAX_BYTES, "{}", pair.len());
}

#[test]
fn a_picture_says_in_words_what_it_shows() {
    let document = full(400);
    let picture = rpcstat_picture(&document);
    assert!(picture.contains("role=\"img\"") && picture.contains(&format!("<title>{}</title>", document.sentence)));
    let words = words(&picture);
    for expected in [
        "Throughput over time",
        "Calls sent and completed in each",
        "RPC window: at least 16",
        "TCP: congestion window",
        "Response time over time",
        "Slow beginning: 176 Mb/s until 3.10 s, then 840 Mb/s",
        "1,234 drain cycles, 13.2 ms at the median",
        "Drain cycle from",
        "Calls sent again: 60, 20 after a timeout",
        "TCP segments sent again: 120, 8 after a timeout",
        "Waiting for the server, queue full",
        "median 13.2 ms",
        "WRITE 32.1 KiB, not answered",
        "WRITE 32.1 KiB, error",
        "12 further, shorter calls are not drawn",
    ] {
        assert!(words.contains(expected), "expected `{expected}` in: {words}");
    }
    for letter in ["S", "s", "c", "C", "N"] {
        assert!(picture.contains(&format!(">{letter}</text>")), "{letter} is in the legend");
    }
}

#[test]
fn what_was_not_recorded_is_said_and_the_rest_is_drawn() {
    let picture = rpcstat_picture(&plain());
    well_formed(&picture);
    let words = words(&picture);
    for expected in ["receive window were not recorded", "mean in each interval", "times not known", "nothing was sent again"] {
        assert!(words.contains(expected), "expected `{expected}` in: {words}");
    }
    assert!(!words.contains("drain cycles") && !words.contains("Close-up"));
    // A document that says hardly anything.
    let empty =
        RpcStat { series: Series::default(), procedures: Vec::new(), wall_s: 0.0, sent_bytes: None, received_bytes: None, ..plain() };
    well_formed(&rpcstat_picture(&empty));
    well_formed(&rpcstat_pair_picture([("a", &empty), ("b", &full(10))]));
}

#[test]
fn values_that_are_no_numbers_are_not_drawn() {
    let mut document = full(50);
    document.series.sent_bytes_per_s[3] = f64::NAN;
    document.series.pending_mean[4] = f64::INFINITY;
    document.series.response_max_s[5] = Some(f64::NAN);
    document.waits[0].end_s = f64::NAN;
    document.close_ups[0].calls[0].end_s = f64::INFINITY;
    document.close_ups[1].to_s = f64::NAN;
    well_formed(&rpcstat_picture(&document));
}

#[test]
fn a_pair_has_equal_axes() {
    let mut slow = plain();
    slow.wall_s = 10.0;
    slow.series.sent_bytes_per_s.iter_mut().for_each(|rate| *rate /= 7.0);
    slow.series.pending_max.iter_mut().for_each(|n| *n /= 4);
    let pair = rpcstat_pair_picture([("fast.thw", &plain()), ("slow.thw", &slow)]);
    let said = ticks(&pair);
    assert_eq!(said.len() % 2, 0, "{said:?}");
    let (first, second) = said.split_at(said.len() / 2);
    assert_eq!(first, second);
    assert_ne!(ticks(&rpcstat_picture(&slow)), first, "alone, its axes are its own");
    // Seconds per pixel: the same label of the axis of time at the same place in both.
    let last = pair.lines().filter(|line| line.ends_with(">18</text>") && line.contains("middle"));
    let places: Vec<&str> = last.filter_map(|line| line.split('"').nth(1)).collect();
    assert!(places.len() == 2 && places[0] == places[1], "{places:?}");
    let words = words(&pair);
    assert!(words.contains("A, fast.thw:") && words.contains("B, slow.thw:") && words.contains("ends after 10.0 s"), "{words}");
}

#[test]
fn pages_hold_picture_tables_and_text_and_ask_for_nothing_else() {
    let (a, b) = (full(300), plain());
    for page in [rpcstat_page(&a), rpcstat_page(&b), rpcstat_pair_page([("a<b>.thw", &a), ("b.thw", &b)])] {
        well_formed_static_part(&page);
        let fixed = static_part(&page);
        for refused in ["<script", "src=", "href", "@import", " style="] {
            assert!(!fixed.contains(refused), "{refused}");
        }
        for said in ["<svg", "Stalls of", "Procedures", "Drain cycles", "As text"] {
            assert!(fixed.contains(said), "{said}");
        }
    }
}

#[test]
fn the_short_text_is_at_most_15_lines_of_80_columns() {
    let mut long = full(100);
    long.sentence = long.sentence.repeat(6);
    for document in [full(100), plain(), long] {
        let text = rpcstat_short(&document, &TextOptions { width: 120, colour: false }, "rpcstat -v FILE");
        assert!(text.lines().count() <= MAX_LINES, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().last().is_some_and(|line| line.contains("more: rpcstat -v FILE")), "{text}");
        for expected in ["64,016 calls in 20.0 s", "56 %  waiting for the server", "8 stalls, 2.70 s together", "bytes move"] {
            assert!(text.contains(expected), "expected `{expected}` in: {text}");
        }
    }
}

#[test]
fn a_pair_in_words_has_both_in_each_line() {
    let text = rpcstat_pair([("a.thw", &full(100)), ("b.thw", &plain())], &TextOptions::default());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
    assert!(line("drain cycles").contains("1,234 (median 13.2 ms)") && line("drain cycles").ends_with("none"));
    assert!(line("total time").matches("20.0 s").count() == 2);
    assert!(line("stalls of the server").contains("8, 2.70 s together"));
}

#[test]
fn narrow_waits_keep_their_part_of_the_time() {
    // Of each 5 ms 2 ms are the client's: about that part of the row is in its colour.
    let mut document = full(100);
    for (i, wait) in document.waits.iter_mut().enumerate() {
        let start_s = 0.005 * i as f64;
        (wait.start_s, wait.end_s, wait.waited_for) = (start_s, start_s + 0.002, WaitedFor::ClientQueueEmpty);
    }
    let picture = rpcstat_picture(&document);
    let path = picture.lines().find(|line| line.contains("#0072B2") && line.contains("<path")).expect("a path in the client's colour");
    let path = path.split_once(" d=").expect("its data").1;
    let widths = path.split('h').skip(1).step_by(2).filter_map(|piece| piece.split('v').next()?.parse::<f64>().ok());
    let part = widths.sum::<f64>() / 1024.0;
    assert!((part - 0.4).abs() < 0.08, "{part}");
}
