//! The verdict: which cause limits, and how certain that is. Its sentence is the summary's, and what would settle it is `settle.rs`'s.

use crate::cause::Cause;
use crate::document::{Charge, Second, Status, Verdict};
use crate::facts::ceiling::Reached;
use crate::limits::assemble as limits;
use thalweg_base::numbers::whole_percent;

/// A cause, summed over places.
struct Sum<'a> {
    cause: Cause,
    share: f64,
    /// Its inferred part.
    inferred: f64,
    largest: &'a Charge,
}

/// Judges these charges. `reached` is the part of its ceiling that the largest cause's device, path or processors reached.
pub(crate) fn verdict(charges: &[Charge], reached: impl FnOnce(Cause) -> Option<Reached>) -> Verdict {
    let sums = sums(charges);
    let Some(first) = sums.first() else {
        return Verdict {
            status: Status::Inconclusive,
            cause: Cause::Unknown,
            place: "nowhere".to_owned(),
            share: 0.0,
            second: None,
            of_ceiling: None,
            sentence: String::new(),
            settle: Vec::new(),
        };
    };
    let quota = quota_of(charges, &sums);
    let first = quota.unwrap_or(first);
    let second = sums.iter().find(|s| s.cause != first.cause).filter(|s| quota.is_none() && first.share - s.share < limits::LEAD);
    let reached = reached(first.cause);
    let unsure = unsure(&sums);
    let status = match second {
        _ if unsure => Status::Unsure,
        _ if reached.is_some() => Status::Healthy,
        Some(_) => Status::Inconclusive,
        None => Status::Limited,
    };
    let of_ceiling = reached.as_ref().filter(|reached| reached.is_rate).map(|reached| reached.part);
    Verdict {
        status,
        cause: first.cause,
        place: first.largest.place.clone(),
        share: first.share,
        second: second.map(|s| Second { cause: s.cause, place: s.largest.place.clone(), share: s.share }),
        of_ceiling,
        sentence: String::new(),
        settle: Vec::new(),
    }
}

/// Queueing behind a processor quota, if it is one of the two largest causes and the other is the work that it limits: together they are
/// one answer, and the quota is what can be changed.
fn quota_of<'a>(charges: &[Charge], sums: &'a [Sum<'a>]) -> Option<&'a Sum<'a>> {
    let two = sums.get(..2)?;
    let (cpu, queue) = match (two[0].cause, two[1].cause) {
        (Cause::ClientCpu, Cause::ClientRunqueue) | (Cause::ServerCpu, Cause::ServerRunqueue) => (&two[0], &two[1]),
        (Cause::ClientRunqueue, Cause::ClientCpu) | (Cause::ServerRunqueue, Cause::ServerCpu) => (&two[1], &two[0]),
        _ => return None,
    };
    let by_quota: f64 = charges.iter().filter(|c| c.cause == queue.cause && c.quota).map(|c| c.share).sum();
    (by_quota * 2.0 > queue.share && cpu.share - queue.share < limits::LEAD).then_some(queue)
}

/// The inferred part of a charge, as a share of the wall time.
fn inferred(charge: &Charge) -> f64 {
    if charge.seconds > 0.0 { charge.share * (charge.inferred_s / charge.seconds).min(1.0) } else { 0.0 }
}

/// Whether another cause would be the largest if everything inferred or unknown were its own.
fn unsure(sums: &[Sum<'_>]) -> bool {
    let Some(first) = sums.first() else { return false };
    if first.cause == Cause::Unknown {
        return true;
    }
    let open: f64 = sums.iter().map(|s| if s.cause == Cause::Unknown { s.share } else { s.inferred }).sum();
    let other = sums.iter().skip(1).filter(|s| s.cause != Cause::Unknown).map(|s| s.share - s.inferred).fold(0.0, f64::max);
    first.share - first.inferred < other + open && open >= limits::LEAD
}

fn sums(charges: &[Charge]) -> Vec<Sum<'_>> {
    let mut sums: Vec<Sum<'_>> = Vec::new();
    for charge in charges {
        match sums.iter_mut().find(|s| s.cause == charge.cause) {
            Some(sum) => (sum.share, sum.inferred) = (sum.share + charge.share, sum.inferred + inferred(charge)),
            None => sums.push(Sum { cause: charge.cause, share: charge.share, inferred: inferred(charge), largest: charge }),
        }
    }
    sums.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.cause.cmp(&b.cause)));
    sums
}

/// The largest causes of a recording of packets, which names no programs: enough to account for four fifths, at most three.
pub(crate) fn of_places(charges: &[Charge]) -> String {
    let sums = sums(charges);
    let mut parts = Vec::new();
    let mut named = 0.0;
    for sum in sums.iter().take(3) {
        if named >= limits::NAMED_ENOUGH || sum.share < limits::NAMED_LEAST {
            break;
        }
        named += sum.share;
        let head = if parts.is_empty() { "of the time it was" } else { "" };
        let words = format!("for {} {head} {} ({})", whole_percent(sum.share), sum.cause.phrase(), of_which(sum));
        parts.push(words.replace("  ", " "));
    }
    match parts.len() {
        0 => "No cause stands out.".to_owned(),
        1 => format!("F{}.", &parts[0][1..]),
        n => format!("F{} and {}.", &parts[..n - 1].join(", ")[1..], parts[n - 1]),
    }
}

/// The place of the largest part, and its size unless it is nearly all.
fn of_which(sum: &Sum<'_>) -> String {
    let largest = sum.largest.share / sum.share.max(f64::MIN_POSITIVE);
    if largest >= limits::ONE_PLACE { sum.largest.place.clone() } else { format!("most in {}", sum.largest.place) }
}
