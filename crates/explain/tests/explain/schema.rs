//! The document and its schema agree.

use crate::common::*;
use thalweg_explain::rule::RuleId;
use thalweg_explain::{Cause, Options, explain};
use thalweg_trace::{ObjectKind, SpanKind as K};

fn schema() -> serde_json::Value {
    serde_json::from_str(include_str!("../../explain.schema.json")).expect("the schema is JSON")
}

/// A document with every field present.
fn full() -> Tale {
    let mut tale = Tale::new(100_000, 2);
    tale.meta.attributes = vec![("from".into(), "/data/big".into()), ("requests".into(), "1".into())];
    let main = tale.client("main");
    let server = tale.server("io0 connection 127.0.0.1:5");
    let (near, far) = tale.connection("127.0.0.1:5 > 127.0.0.1:6");
    let source = tale.object(ObjectKind::File, "/data/big", &[("to", "thal:/big")]);
    for n in 0..9 {
        let t = 1_000 + n * 10_000;
        tale.span(main, K::AppRequest, t, t + 9_000).on(source).bytes(1 << 20).end();
        tale.span(main, K::FileRead, t, t + 5_000).ran(1_000).on(source).bytes(1 << 20).end();
        tale.span(main, K::NetSend, t + 5_000, t + 6_000).on(near).request(n + 1).bytes(1 << 20).end();
        tale.span(main, K::NetReceive, t + 6_000, t + 9_000).ran(10).on(near).request(n + 1).bytes(64).end();
        tale.span(server, K::NetReceive, t + 5_500, t + 6_100).ran(500).on(far).request(n + 1).bytes(1 << 20).end();
        tale.span(server, K::FileWrite, t + 6_100, t + 8_800).ran(700).request(n + 1).bytes(1 << 20).end();
        tale.span(server, K::NetSend, t + 8_800, t + 8_900).on(far).request(n + 1).bytes(64).end();
    }
    tale
}

/// This many files are copied, one after the other; the last are the smallest.
fn many_files(count: u64) -> Tale {
    let mut tale = Tale::new(count * 20, 2);
    let main = tale.client("cp");
    for n in 0..count {
        let (from, to) = (tale.file(&format!("/from/{n}")), tale.file(&format!("/to/{n}")));
        let bytes = (1 << 20) - n;
        tale.span(main, K::FileRead, n * 20, n * 20 + 10).on(from).bytes(bytes).end();
        tale.span(main, K::FileWrite, n * 20 + 10, n * 20 + 20).on(to).bytes(bytes).end();
    }
    tale
}

#[test]
fn what_is_not_listed_is_counted() {
    let e = many_files(1_000).explain();
    assert_eq!((e.transfers.len(), e.unlisted_transfers), (1_000, None));
    let e = many_files(1_200).explain();
    let rest = e.unlisted_transfers.expect("more than are listed");
    assert_eq!((e.transfers.len(), rest.count), (1_000, 200));
    let listed: u64 = e.transfers.iter().map(|t| t.size_bytes).sum();
    let all: u64 = (0..1_200).map(|n| (1 << 20) - n).sum();
    assert_eq!((e.size_bytes, listed + rest.size_bytes), (Some(all), all));
    assert!(e.rate_bytes_per_s.is_some_and(|rate| (rate - all as f64 / e.wall_s).abs() < 1.0));
}

#[test]
fn documents_hold_against_the_schema() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let mut unknown = Tale::new(10, 1);
    let lone = unknown.client("main");
    unknown.span(lone, K::WaitOther, 0, 10).blocked().end();
    let many = many_files(1_001).explain();
    assert!(many.unlisted_transfers.is_some());
    for explanation in [full().explain(), unknown.explain(), many, {
        let mut empty = Tale::new(10, 1);
        empty.client("main");
        empty.explain()
    }] {
        let document = serde_json::to_value(&explanation).unwrap();
        let errors: Vec<String> = validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{document:#}");
        let back: thalweg_explain::Explanation = serde_json::from_value(document).unwrap();
        assert_eq!(back, explanation);
    }
}

#[test]
fn the_schema_refuses_what_is_not_in_it() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let mut document = serde_json::to_value(full().explain()).unwrap();
    document["verdict"]["mood"] = "good".into();
    assert!(!validator.is_valid(&document));
    let mut document = serde_json::to_value(full().explain()).unwrap();
    document["critical_path"][0]["cause"] = "client.mood".into();
    assert!(!validator.is_valid(&document));
    let mut document = serde_json::to_value(full().explain()).unwrap();
    document.as_object_mut().unwrap().remove("wall_s");
    assert!(!validator.is_valid(&document));
}

#[test]
fn every_field_of_the_schema_is_described() {
    fn walk(value: &serde_json::Value, path: &str, bare: &mut Vec<String>) {
        if let Some(properties) = value.get("properties").and_then(|p| p.as_object()) {
            for (name, property) in properties {
                let described = property.get("description").and_then(|d| d.as_str()).is_some_and(|d| d.len() > 5);
                if !described {
                    bare.push(format!("{path}.{name}"));
                }
            }
        }
        for (name, definition) in value.get("$defs").and_then(|d| d.as_object()).into_iter().flatten() {
            walk(definition, name, bare);
        }
    }
    let mut bare = Vec::new();
    walk(&schema(), "", &mut bare);
    assert!(bare.is_empty(), "{bare:?}");
}

#[test]
fn the_schema_lists_every_cause() {
    let listed: Vec<String> = serde_json::from_value(schema()["$defs"]["Cause"]["enum"].clone()).unwrap();
    let all: Vec<&str> = Cause::ALL.iter().map(|c| c.name()).collect();
    assert_eq!(listed, all);
}

#[test]
fn the_schema_lists_every_rule_and_holds_for_what_charges_rest_on() {
    let listed: Vec<String> = serde_json::from_value(schema()["$defs"]["RuleId"]["enum"].clone()).unwrap();
    let all: Vec<&str> = RuleId::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(listed, all);
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let asked = explain(&full().source(), &Options { why: true, ..Options::default() }).expect("explains");
    let document = serde_json::to_value(&asked).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let back: thalweg_explain::Explanation = serde_json::from_value(document).unwrap();
    assert_eq!(back, asked);
}

#[test]
fn the_gaps_of_a_serial_copy_are_found_with_their_cause_and_period() {
    let e = full().explain();
    let all = e.channels.iter().find(|c| c.aggregate).unwrap();
    assert_eq!((all.gaps.count, all.bursts, all.size_bytes), (8, 9, 9 << 20));
    assert_eq!(all.gaps.period_bytes, Some(1 << 20));
    assert_eq!(all.gaps.groups[0].cause, Cause::ClientRead);
    assert!(all.gaps.longest.windows(2).all(|w| w[0].end_s <= w[1].start_s));
    assert_eq!(e.channels.iter().filter(|c| !c.aggregate).count(), 1);
}
