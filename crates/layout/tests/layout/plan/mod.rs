//! Plans: the answers shared with the library in `mpi/`, and the properties of every plan.

mod cycles;

use cycles::{Run, View, from_starts, from_views};
use proptest::prelude::*;
use serde_json::Value;
use thalweg_layout::plan::{Options, Part, Plan, Refused, from_parts};
use thalweg_layout::{Layout, Spec};

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn answer(case: &Value) -> Result<Plan, Refused> {
    let targets: Vec<u32> = numbers(&case["targets"]).into_iter().map(|t| t as u32).collect();
    let mut options = Options::default();
    if let Some(text) = case["options"]["text_bytes"].as_u64() {
        options.text_bytes = text as usize;
    }
    let list = |name: &str| case[name].as_array();
    if let Some(starts) = list("starts") {
        let starts: Vec<(u64, u64)> = starts.iter().map(|s| (number(&s[0]), number(&s[1]))).collect();
        from_starts(&starts, &targets, &options)
    } else if let Some(views) = list("views") {
        let run = |r: &Value| Run { offset: number(&r[0]), length: number(&r[1]) };
        let view = |v: &Value| View {
            displacement: number(&v["displacement"]),
            extent: number(&v["extent"]),
            runs: v["runs"].as_array().unwrap().iter().map(run).collect(),
        };
        from_views(&views.iter().map(view).collect::<Vec<_>>(), &targets, &options)
    } else {
        let part = |p: &Value| Part { writer: number(&p[0]) as u32, start: number(&p[1]), end: number(&p[2]) };
        let parts: Vec<Part> = list("parts").unwrap().iter().map(part).collect();
        from_parts(&parts, number(&case["cycle_bytes"]), &targets, &options)
    }
}

#[test]
fn plans_are_the_ones_that_the_mpi_library_makes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../mpi/tests/vectors.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).expect("the vectors are there")).expect("they are JSON");
    assert!(cases.len() >= 17);
    for case in &cases {
        let expected = &case["expect"];
        match answer(case) {
            Err(refused) => assert_eq!(Some(refused.to_string().as_str()), expected["refused"].as_str(), "{}", case["name"]),
            Ok(plan) => {
                let targets: Vec<u64> = plan.targets.iter().map(|&t| t.into()).collect();
                let got = (plan.strips.as_str(), targets, plan.cycle_bytes, plan.claimed_bytes, plan.local_bytes);
                let wanted = (
                    expected["strips"].as_str().unwrap_or("refused"),
                    numbers(&expected["targets"]),
                    number(&expected["cycle_bytes"]),
                    number(&expected["claimed_bytes"]),
                    number(&expected["local_bytes"]),
                );
                assert_eq!(got, wanted, "{}", case["name"]);
            }
        }
    }
}

fn arbitrary_parts() -> impl Strategy<Value = (Vec<Part>, u64, Vec<u32>)> {
    let targets = prop::collection::vec(0_u32..4, 1..6);
    (targets, prop::collection::vec((0_u64..200_000, 1_u64..50_000, 0_usize..6), 1..20)).prop_map(|(targets, ranges)| {
        let part =
            |(start, length, writer): (u64, u64, usize)| Part { start, end: start + length, writer: (writer % targets.len()) as u32 };
        let parts: Vec<Part> = ranges.into_iter().map(part).collect();
        let cycle = parts.iter().map(|part| part.end).max().unwrap();
        (parts, cycle, targets)
    })
}

proptest! {
    /// The bytes reported local are local, counted byte by byte (in steps) with the resulting layout.
    #[test]
    fn a_plan_is_a_layout_that_keeps_what_it_says((parts, cycle, targets) in arbitrary_parts()) {
        let options = Options { smallest_strip_bytes: 1, ..Options::default() };
        let Ok(plan) = from_parts(&parts, cycle, &targets, &options) else { return Ok(()) };
        let spec = Spec { name: "varstrip_dist".into(), parameters: vec![("strips".into(), plan.strips.clone())] };
        let layout = Layout::new(&spec, None, plan.targets.len() as u32).expect("the strips are a layout");
        prop_assert_eq!(layout.num_datafiles() as usize, plan.targets.len());
        let mut edges: Vec<u64> = parts.iter().flat_map(|p| [p.start, p.end]).chain([0, cycle]).collect();
        edges.sort_unstable();
        edges.dedup();
        let (mut local, mut claimed) = (0, 0);
        for pair in edges.windows(2) {
            let mut owners: Vec<u32> =
                parts.iter().filter(|p| p.start <= pair[0] && p.end >= pair[1]).map(|p| targets[p.writer as usize]).collect();
            owners.sort_unstable();
            owners.dedup();
            claimed += if owners.is_empty() { 0 } else { pair[1] - pair[0] };
            let [owner] = owners[..] else { continue };
            let mine = layout.pieces(pair[0], pair[1] - pair[0]).filter(|piece| plan.targets[piece.datafile as usize] == owner);
            local += mine.map(|piece| piece.length).sum::<u64>();
        }
        prop_assert_eq!((plan.local_bytes, plan.claimed_bytes), (local, claimed));
    }
}
