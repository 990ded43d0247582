//! Promises of the text.

use crate::golden::golden;
use crate::made_up::{Copy, made_up};
use thalweg_explain::Cause;
use thalweg_explain::document::{Basis, Charge, Explanation, Second, Status};
use thalweg_report::{Prediction, TextOptions, predicted_against_achieved, text};

fn at(width: usize) -> TextOptions {
    TextOptions { width, colour: false }
}

/// One of everything: loss, a note, an inconclusive verdict, slack, many small charges, long names.
fn crowded() -> Explanation {
    let (_, mut e) = made_up(Copy::SERIAL);
    e.wall_s = 2.05;
    e.dropped_events = 1_234;
    e.notes = vec!["The servers were not recorded; record them with `thalweg cp --record`.".into()];
    e.verdict.status = Status::Inconclusive;
    e.verdict.second = Some(Second { cause: Cause::ClientRead, place: "/data".into(), share: 0.378 });
    e.model = thalweg_explain::document::Model {
        replayed_wall_s: Some(3.0),
        error: Some(0.46),
        reason: Some("the model misses the observed run by 46 %.".into()),
    };
    e.what_if.clear();
    let total: f64 = e.critical_path.iter().map(|c| c.seconds).sum();
    for charge in &mut e.critical_path {
        charge.share = charge.seconds / total * 0.98;
        charge.seconds = charge.share * e.wall_s;
    }
    e.critical_path[1].slack_s = e.critical_path[1].seconds * 0.4;
    e.critical_path[1].place = "/a/very/long/path/that/no/table/of/eighty/columns/could/ever/hold/whole/big.tar".into();
    for (i, &cause) in [Cause::ClientThink, Cause::NetworkLatency, Cause::ServerRunqueue, Cause::Unknown].iter().enumerate() {
        let share = 0.02 * [0.4, 0.3, 0.2, 0.1][i];
        e.critical_path.push(Charge {
            cause,
            place: "here".into(),
            seconds: share * 2.05,
            share,
            slack_s: 0.0,
            basis: Basis::Recorded,
            inferred_s: 0.0,
            via: None,
            quota: false,
            evidence: "seen".into(),
            hottest: Vec::new(),
            waits: Vec::new(),
            rules: Vec::new(),
        });
    }
    e
}

#[test]
fn a_serial_copy_reads_as_expected_at_80_columns() {
    golden("serial_80.txt", &text(&made_up(Copy::SERIAL).1, &at(80)));
}

#[test]
fn everything_that_can_be_said_reads_as_expected_at_60_columns() {
    golden("crowded_60.txt", &text(&crowded(), &at(60)));
}

#[test]
fn no_line_is_wider_than_the_page_and_the_sentence_comes_first() {
    for explanation in [made_up(Copy::SERIAL).1, crowded()] {
        for columns in 60..130 {
            let page = text(&explanation, &at(columns));
            for line in page.lines() {
                assert!(line.chars().count() <= columns, "{columns} columns: {line:?}");
            }
            let opening: String = page.split_whitespace().take(5).collect::<Vec<_>>().join(" ");
            assert!(explanation.verdict.sentence.starts_with(&opening), "{opening}");
        }
    }
}

#[test]
fn the_table_adds_up_to_the_wall_time_as_it_is_printed() {
    for explanation in [made_up(Copy::SERIAL).1, made_up(Copy::LONG).1, crowded()] {
        let page = text(&explanation, &at(100));
        let table: Vec<&str> = page.lines().skip_while(|l| !l.starts_with("Where the time went")).skip(1).collect();
        let end = table.iter().position(|l| l.starts_with("wall time")).unwrap();
        let figures = |line: &str| -> Option<(f64, f64)> {
            let percent = line.find(" %")?;
            let mut words = line[..percent].split_whitespace().rev();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        };
        let (mut shares, mut times) = (0.0, 0.0);
        for line in table[..end].iter().filter(|l| !l.starts_with(' ')) {
            let (share, time) = figures(line).unwrap_or_else(|| panic!("no figures in {line:?}"));
            shares += share;
            times += time;
        }
        let (share, time) = figures(table[end]).unwrap();
        assert!((shares - share).abs() < 1e-6 && (share - 100.0).abs() < 0.11, "{page}");
        assert!((times - time).abs() < 1e-6, "{page}");
    }
}

#[test]
fn without_colour_there_is_no_escape_code_and_with_it_the_words_are_the_same() {
    let (_, mut explanation) = made_up(Copy::SERIAL);
    explanation.verdict.sentence += " \x1b[31mred\x07";
    explanation.critical_path[0].place = "io0\x1b]0;title\x07".into();
    explanation.command.push("\x1b[2J".into());
    let plain = text(&explanation, &at(80));
    assert!(!plain.contains('\x1b') && !plain.contains('\x07'), "{plain:?}");
    let coloured = text(&explanation, &TextOptions { width: 80, colour: true });
    assert!(coloured.contains("\x1b[32m") && coloured.contains("\x1b[1m"));
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some(begin) = rest.find('\x1b') {
        bare.push_str(&rest[..begin]);
        rest = &rest[begin..];
        rest = &rest[rest.find('m').unwrap() + 1..];
    }
    assert_eq!(bare + rest, plain);
}

#[test]
fn an_empty_explanation_is_still_a_page() {
    let (_, mut e) = made_up(Copy::SERIAL);
    e.critical_path.clear();
    e.channels.clear();
    e.phases.clear();
    e.what_if.clear();
    e.command.clear();
    (e.size_bytes, e.rate_bytes_per_s, e.wall_s) = (None, None, 0.0);
    let page = text(&e, &at(0));
    assert!(page.contains("wall time"), "{page}");
}

#[test]
fn predicted_against_achieved_is_one_line_with_the_error() {
    let one = Prediction {
        before_s: 2.05,
        predicted_s: 1.61,
        bounded: false,
        predicted_interval_s: None,
        achieved_s: 1.66,
        achieved_interval_s: None,
        runs: 1,
    };
    assert_eq!(
        predicted_against_achieved("overlap reading with sending", &one),
        "overlap reading with sending: 2.05 s before, 1.61 s predicted (1.27×), 1.66 s achieved (1.23×): 3.0 % slower than predicted"
    );
    let high = Prediction { before_s: 1.0, predicted_s: 0.9, achieved_s: 0.75, ..one };
    assert!((high.error() - 0.2).abs() < 1e-12);
    assert!(predicted_against_achieved("x", &high).ends_with("20.0 % faster than predicted"));
    assert!(predicted_against_achieved("x", &Prediction { achieved_s: 0.0, ..one }).ends_with("nothing to compare"));
    let several = Prediction { predicted_interval_s: Some((1.55, 1.68)), achieved_interval_s: Some((1.62, 1.72)), runs: 10, ..one };
    assert_eq!(
        predicted_against_achieved("x", &several),
        "x: 2.05 s before, 1.61 s predicted (1.55 to 1.68 s), 1.66 s achieved (1.62 to 1.72 s) in 10 runs: 3.0 % slower than predicted, within the interval"
    );
    let outside = Prediction { achieved_interval_s: Some((1.69, 1.72)), ..several };
    assert!(predicted_against_achieved("x", &outside).ends_with("outside the interval"));
    let bound = Prediction { bounded: true, ..one };
    assert!(predicted_against_achieved("x", &bound).ends_with("3.0 % slower than the bound"));
}
