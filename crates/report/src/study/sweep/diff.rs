//! Comparison of two sweeps, for a terminal.

use super::text::table;
use thalweg_measure::Estimate;
use thalweg_study::sweep::{Diff, PointDiff};

/// Formats the comparison for a terminal.
pub fn diff(diff: &Diff) -> String {
    let heads = [diff.parameters.join(" "), "speedup".into(), "95 % interval".into(), String::new()];
    let rows: Vec<Vec<String>> = diff.points.iter().map(row).collect();
    let is = |holds: &dyn Fn(&Estimate) -> bool| diff.points.iter().filter_map(|p| p.ratio.as_ref()).filter(|r| holds(r)).count();
    let (faster, slower, equal) = (is(&|r| r.low > 1.0), is(&|r| r.high < 1.0), is(&|r| r.covers(1.0)));
    let mut text = format!(
        "Of {} points in both, the second is faster at {faster}, slower at {slower}, and not distinguishable at {equal}.",
        diff.points.len()
    );
    if diff.only_one > 0 {
        text += &format!(" {} points are in only one of them.", diff.only_one);
    }
    text += "\nThe two were not run interleaved: changes of the machine in between affect every ratio.\n\n";
    text + &table(&heads, &rows).join("\n") + "\n"
}

fn row(point: &PointDiff) -> Vec<String> {
    let (a, b) = point.states;
    let causes = match &point.causes {
        (Some(before), Some(after)) if before != after => format!("{before} -> {after}"),
        _ => String::new(),
    };
    match &point.ratio {
        Some(r) => {
            let verdict = if r.low > 1.0 {
                "faster"
            } else if r.high < 1.0 {
                "slower"
            } else {
                "not distinguishable"
            };
            let words = [verdict, &causes].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
            vec![point.values.join(" "), format!("{:.3}", r.median), format!("{:.3} to {:.3}", r.low, r.high), words]
        }
        None => vec![point.values.join(" "), String::new(), String::new(), format!("{} -> {}", a.name(), b.name())],
    }
}
