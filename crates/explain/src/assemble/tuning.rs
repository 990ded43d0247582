//! A tuner's steps during the run, in at most three lines: the result, the number of tries, and the last that was reverted.

use crate::limits::assemble as limits;
use std::collections::BTreeMap;
use thalweg_base::numbers;
use thalweg_trace::{MarkKind, Object, ObjectId, Source, SourceError};

/// One try, from its mark and object.
struct Step<'a> {
    parameter: &'a str,
    from: u64,
    to: u64,
    before: Option<f64>,
    after: Option<f64>,
    kept: bool,
    why: &'a str,
}

/// The lines; empty if nothing was tuned. Incomplete steps are left out.
pub(crate) fn story(source: &dyn Source) -> Result<Vec<String>, SourceError> {
    let mut marks: Vec<_> = source.marks()?.into_iter().filter(|mark| mark.kind == MarkKind::TuneStep).collect();
    if marks.is_empty() {
        return Ok(Vec::new());
    }
    marks.sort_by_key(|mark| mark.at);
    let objects: BTreeMap<ObjectId, &Object> = source.objects().iter().map(|object| (object.object, object)).collect();
    let steps: Vec<Step<'_>> = marks.iter().filter_map(|mark| step(objects.get(&mark.object?)?)).collect();
    let mut lines = vec![result(&steps)];
    let kept = steps.iter().filter(|step| step.kept).count();
    let tries = if steps.len() == 1 { "1 try".to_owned() } else { format!("{} tries", steps.len()) };
    lines.push(match steps.iter().filter(|step| step.kept).max_by(|a, b| a.gain().total_cmp(&b.gain())) {
        Some(best) => format!("{kept} of {tries} kept; most gained {} (+{})", best.change(), numbers::whole_percent(best.gain())),
        None => format!("none of {tries} kept"),
    });
    lines.extend(steps.iter().rev().find(|step| !step.kept).map(|step| format!("last reverted: {}: {}", step.change(), step.why)));
    lines.truncate(limits::TUNING_LINES);
    Ok(lines)
}

fn step<'a>(object: &'a Object) -> Option<Step<'a>> {
    let text = |name: &str| object.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let rate = |name: &str| text(name)?.parse::<f64>().ok().filter(|rate| rate.is_finite());
    Some(Step {
        parameter: &object.name,
        from: text("from")?.parse().ok()?,
        to: text("to")?.parse().ok()?,
        before: rate("before_bytes_per_s"),
        after: rate("after_bytes_per_s"),
        kept: text("kept")? == "true",
        why: text("why").unwrap_or_default(),
    })
}

impl Step<'_> {
    fn change(&self) -> String {
        format!("{} {} > {}", self.parameter, self.from, self.to)
    }

    fn gain(&self) -> f64 {
        match (self.before, self.after) {
            (Some(before), Some(after)) if before > 0.0 => after / before - 1.0,
            _ => 0.0,
        }
    }
}

/// The change from start to end.
fn result(steps: &[Step<'_>]) -> String {
    let mut ends: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for step in steps {
        let (_, to) = ends.entry(step.parameter).or_insert((step.from, step.from));
        if step.kept {
            *to = step.to;
        }
    }
    let changed: Vec<String> =
        ends.iter().filter(|(_, (from, to))| from != to).map(|(name, (from, to))| format!("{name} {from} > {to}")).collect();
    let first = steps.iter().find_map(|step| step.before);
    let last = steps.iter().rev().find_map(|step| if step.kept { step.after } else { step.before });
    match (changed.is_empty(), first, last) {
        (true, ..) => "tuned while it ran: parameters unchanged".to_owned(),
        (false, Some(first), Some(last)) => {
            format!("tuned while it ran: {}: {} > {}", changed.join(", "), numbers::byte_rate(first), numbers::byte_rate(last))
        }
        (false, ..) => format!("tuned while it ran: {}", changed.join(", ")),
    }
}
