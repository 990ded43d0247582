//! Round trips in plain words: one sentence for the requests, one for each entry's part.

use crate::document::{Part, RoundTrips, Trip};
use crate::limits::assemble as limits;
use thalweg_base::numbers::{self, duration};

/// One or two plain sentences.
pub(super) fn sentence(trips: &RoundTrips) -> String {
    let (one, many, to) = match trips.of {
        Trip::Calls => ("request", "requests", ""),
        Trip::Exchanges => ("message", "messages", " to servers"),
        Trip::Disk => ("request", "requests", " to disks"),
    };
    let questions = count(trips.count, one, many);
    let serial = trips.in_a_row as f64 >= trips.count as f64 * limits::NEARLY_ALL;
    let at_once = trips.at_once.map_or_else(String::new, |n| {
        let most = trips.most_at_once.filter(|&most| most as f64 > n * 1.5).map_or_else(String::new, |most| format!(", at most {most}"));
        format!(" ({n:.1} in flight on average{most})")
    });
    let order = if serial {
        format!("one after the other{at_once}")
    } else {
        format!("{} one after the other{at_once}", count(trips.in_a_row, "round", "rounds"))
    };
    let mut said = format!("{questions}{to}, {order}, {} for each{}.", duration(trips.each_s), made_of(trips));
    if let Some(entry) = &trips.per_entry {
        let asked = if serial || (entry.questions - entry.round_trips).abs() < 0.05 {
            counted(entry.round_trips, "round trip")
        } else {
            format!("{} in {}", counted(entry.questions, one), counted(entry.round_trips, "round trip"))
        };
        said.push_str(&format!(" For each of {}: {asked}, {}.", count(entry.entries, "entry", "entries"), duration(entry.seconds)));
    }
    said
}

/// ` (1.02 ms network.latency, 30 µs server.cpu)`.
fn made_of(trips: &RoundTrips) -> String {
    // Disks have no server.
    let name = |part: &Part| if trips.of == Trip::Disk { part.cause.name().trim_start_matches("client.") } else { part.cause.name() };
    let named = trips.of_each.iter().filter(|part| part.seconds >= trips.each_s * limits::WORTH_NAMING).take(limits::PARTS);
    let named: Vec<String> = named.map(|part| format!("{} {}", duration(part.seconds), name(part))).collect();
    if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) }
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", numbers::count(n), if n == 1 { one } else { many })
}

fn counted(n: f64, what: &str) -> String {
    let number = match n {
        n if n < 0.095 => format!("{n:.3}"),
        n if n < 9.95 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    };
    format!("{} {what}{}", number.trim_end_matches(".0"), if (n - 1.0).abs() < 0.05 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(1_234_567, "entry", "entries"), "1,234,567 entries");
        assert_eq!(count(1, "entry", "entries"), "1 entry");
        assert_eq!(counted(2.02, "round trip"), "2 round trips");
        assert_eq!(counted(1.0, "round trip"), "1 round trip");
        assert_eq!(counted(0.031, "round trip"), "0.031 round trips");
    }
}
