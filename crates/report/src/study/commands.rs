//! Formats the result of commands as Markdown: a row for each command, a row for each pair, and how they were measured.

use super::markdown::cell;
use std::fmt::Write;
use thalweg_measure::{CommandResult, Estimate, Outcome, StopReason, WALL};

/// Formats the result as Markdown.
pub fn commands(outcome: &Outcome) -> String {
    let mut out = format!("### {}\n\n", outcome.plan);
    out.push_str("| command | median | 95 % interval | rate | CPU | page cache before |\n|---|--:|--:|--:|--:|---|\n");
    for command in &outcome.commands {
        row(&mut out, outcome, command);
    }
    if !outcome.ratios.is_empty() {
        out.push_str("\n| faster by | figure | ratio | 95 % interval | pairs |\n|---|---|--:|--:|--:|\n");
        for r in &outcome.ratios {
            let figure = if r.figure == WALL { "wall time" } else { &r.figure };
            let (pair, ratio) = (format!("{} / {}", cell(&r.of), cell(&r.to)), ratio_cells(&r.ratio));
            let _ = writeln!(out, "| {pair} | {} | {ratio} | {} |", cell(figure), r.pairs.len());
        }
    }
    let repetitions = outcome.commands.first().map_or(0, |c| c.wall_s.values);
    let why = match outcome.stopped {
        StopReason::Enough => "the intervals were narrow enough",
        StopReason::MostRepetitions => "that was the most allowed",
        StopReason::Seconds => "the time allowed was used up",
    };
    let _ = write!(out, "\n{repetitions} interleaved repetitions ({why}); ratios pair by pair. {}.", outcome.machine.sentence());
    if let (Some(before), Some(after)) = (outcome.machine.load, outcome.load_after) {
        let _ = write!(out, " Load before and after: {before:.2}, {after:.2}.");
    }
    out.push('\n');
    out
}

fn row(out: &mut String, outcome: &Outcome, command: &CommandResult) {
    let wall = &command.wall_s;
    let interval = format!("{} – {}", seconds(wall.low), seconds(wall.high));
    let unit = outcome.amount.as_ref().map_or("", |amount| amount.unit.as_str());
    let rate = command
        .rate_per_s
        .map_or_else(|| "—".into(), |r| if unit == "bytes" { rate(r.median) } else { format!("{:.0} {unit}/s", r.median) });
    let cache = command.cache().map_or_else(|| "as it was".into(), ToString::to_string);
    let (name, cpu) = (cell(&command.name), seconds(command.cpu_s));
    let _ = writeln!(out, "| {name} | {} | {interval} | {} | {cpu} | {} |", seconds(wall.median), cell(&rate), cell(&cache));
}
fn ratio_cells(e: &Estimate) -> String {
    format!("{:.3} | {:.3} – {:.3}", e.median, e.low, e.high)
}

/// Formats a time with three digits and a suitable unit.
fn seconds(s: f64) -> String {
    match s {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{} ms", three_figures(s * 1e3)),
        s => format!("{} µs", three_figures(s * 1e6)),
    }
}

fn three_figures(v: f64) -> String {
    let digits = if v >= 100.0 { 0 } else { 1 + usize::from(v < 10.0) };
    format!("{v:.digits$}")
}

/// Formats a byte rate with a suitable binary unit.
fn rate(bytes_per_s: f64) -> String {
    let units = ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"];
    let mut value = bytes_per_s;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_figures(value), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_every_pair_has_a_row_as_wide_as_the_others() {
        let text = r#"{"name": "a | b", "baseline": "true", "repeat": {"least": 2, "most": 2}, "amount": {"count": 1048576, "unit": "bytes"},
            "commands": [{"name": "true", "command": ["true"]}, {"name": "a | b", "command": ["true"]}]}"#;
        let outcome = serde_json::from_str::<thalweg_measure::CommandPlan>(text).unwrap().run(None, &()).unwrap();
        let back: Outcome = serde_json::from_str(&outcome.json()).unwrap();
        assert_eq!((back.commands[0].runs.len(), back.ratios[0].pairs.len()), (2, 2));
        assert!(back.commands[0].runs.iter().all(|run| run.usage.max_rss_bytes > 0));
        let table = commands(&outcome);
        assert!(table.contains("| true / a \\| b | wall time |") && table.contains("iB/s |"), "{table}");
        let columns =
            |part: &str| part.lines().filter(|l| l.starts_with('|')).map(|l| l.replace("\\|", "").matches('|').count()).collect::<Vec<_>>();
        assert!(table.split("\n\n").all(|part| columns(part).windows(2).all(|w| w[0] == w[1])), "{table}");
    }

    #[test]
    fn figures_keep_three_digits_and_their_unit() {
        assert_eq!(seconds(2.05), "2.05 s");
        assert_eq!(seconds(0.0175), "17.5 ms");
        assert_eq!(seconds(0.000_000_5), "0.50 µs");
        assert_eq!(rate(130_944_125.0), "125 MiB/s");
        assert_eq!(rate(3.2 * 1024.0 * 1024.0 * 1024.0), "3.20 GiB/s");
        assert_eq!(rate(12.0), "12.0 B/s");
    }
}
