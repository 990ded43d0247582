//! A tuner's steps are summarised in at most three lines.

use crate::common::Tale;
use thalweg_explain::document::Explanation;
use thalweg_trace::{Event, Mark, MarkKind, ObjectKind, SpanKind, Time};

/// Steps of a tuner: parameter, from, to, before, after, kept.
type Step<'a> = (&'a str, u64, u64, u64, u64, bool);

fn explained(steps: &[Step<'_>]) -> Explanation {
    let mut tale = Tale::new(20_000_000, 1);
    let main = tale.client("main");
    tale.span(main, SpanKind::FileRead, 0, 20_000_000).blocked().end();
    for (number, (parameter, from, to, before, after, kept)) in (1..).zip(steps) {
        let text = |number: &u64| number.to_string();
        let attributes = [
            ("from", text(from)),
            ("to", text(to)),
            ("before_bytes_per_s", text(before)),
            ("after_bytes_per_s", text(after)),
            ("kept", kept.to_string()),
            ("why", "limited by sending: as it came".to_owned()),
        ];
        let attributes: Vec<(&str, &str)> = attributes.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let object = tale.object(ObjectKind::Parameter, parameter, &attributes);
        let at = Time::from_monotonic_ns(number * 2_000_000_000);
        tale.event(Event::Mark(Mark { track: main, kind: MarkKind::TuneStep, at, object: Some(object), value: None }));
    }
    tale.explain()
}

#[test]
fn what_a_tuner_came_to_and_what_it_took_back_last_is_said_in_three_lines() {
    let steps = [
        ("streams", 1, 2, 100_000_000, 200_000_000, true),
        ("streams", 2, 4, 200_000_000, 300_000_000, true),
        ("streams", 4, 8, 300_000_000, 100_000_000, false),
    ];
    let said = explained(&steps).summary.tuning;
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(said[0].starts_with("tuned while it ran: streams 1 > 4: "), "{}", said[0]);
    assert_eq!(said[1], "2 of 3 tries kept; most gained streams 1 > 2 (+100 %)");
    assert_eq!(said[2], "last reverted: streams 4 > 8: limited by sending: as it came");
}

#[test]
fn where_nothing_was_kept_it_stays_as_it_began_and_where_nothing_was_tried_nothing_is_said() {
    let said = explained(&[("depth", 8, 16, 100, 99, false)]).summary.tuning;
    assert_eq!(said[..2], ["tuned while it ran: parameters unchanged".to_owned(), "none of 1 try kept".to_owned()]);
    assert!(explained(&[]).summary.tuning.is_empty());
}
