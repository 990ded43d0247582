//! `--tune`: runs a tuner beside a copy or a mount, remembers settings by endpoint, and prints a table of steps.
//!
//! It is a hint: no error of the tuner fails a copy or a mount.

use crate::output;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_base::numbers;
use thalweg_client::Controller;
use thalweg_client::DataClient;
use thalweg_tune::online::{self, Options, Outcome, Step, Tuning};
use thalweg_tune::{History, Setting};

/// A running tuner, and the history it stores its result in.
pub(crate) struct Tuned {
    tuning: Tuning,
    history: Option<History>,
    endpoint: String,
}

/// The result, for `--json`.
#[derive(Serialize)]
pub(crate) struct Report {
    /// The steps tried, in order.
    pub steps: Vec<Step>,
    /// Final values of the tunable parameters.
    pub values: std::collections::BTreeMap<&'static str, u64>,
}

/// Starts a tuner. `fixed`: parameters given as flags. `way`: into the store, out of it, or a mount; their best settings differ.
pub(crate) fn begin(controller: Arc<dyn Controller>, fixed: BTreeSet<String>, data: &DataClient, way: &str) -> Tuned {
    let endpoint = endpoint(data, way);
    let history = History::of_user();
    let known = history.as_ref().map(|history| history.of(&endpoint)).unwrap_or(Ok(Setting::new())).unwrap_or_else(|note| {
        output::note(&format!("thalweg --tune: {note}"));
        Setting::new()
    });
    let known = known.into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = u64::from(std::process::id()) << 32 | u64::from(since.subsec_nanos());
    let options = Options { fixed, history: known, seed, ..Options::default() };
    Tuned { tuning: online::start(controller, options), history, endpoint }
}

/// Returns the history key: store, direction and distance, since the best settings depend on all three.
fn endpoint(data: &DataClient, way: &str) -> String {
    let near = data.map().servers.iter().all(|server| server.address.starts_with("127."));
    format!("{:016x} {way} {}", data.map().store, if near { "near" } else { "far" })
}

impl Tuned {
    /// Stops the tuner and stores its result in the history.
    pub(crate) fn end(self) -> Report {
        let Outcome { steps, values, found } = self.tuning.end();
        let found = found.map(|found| found.into_iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect::<Setting>());
        if let (Some(history), Some(found)) = (&self.history, &found)
            && let Err(note) = history.remember(&self.endpoint, found)
        {
            output::note(&format!("thalweg --tune: {note}"));
        }
        Report { steps, values }
    }
}

impl Report {
    /// Formats a line for each step, and the final values.
    pub(crate) fn text(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|(name, value)| format!("{name} {}", shown(name, *value))).collect();
        let values = values.join(", ");
        if self.steps.is_empty() {
            let values = if values.is_empty() { "the transfer ended too soon".to_owned() } else { values };
            return format!("tuned: nothing was tried; {values}");
        }
        let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), numbers::byte_rate);
        let row = |step: &Step| {
            vec![
                step.parameter.to_owned(),
                format!("{:.1} s", step.at_s),
                format!("{} > {}", shown(step.parameter, step.from), shown(step.parameter, step.to)),
                rate(step.before_bytes_per_s),
                rate(step.after_bytes_per_s),
                if step.kept { "kept" } else { "taken back" }.to_owned(),
                step.why.clone(),
            ]
        };
        let rows: Vec<Vec<String>> = self.steps.iter().map(row).collect();
        let heads = ["tuned", "at", "from > to", "before", "after", "", "why"];
        format!("{}at the end: {values}", output::table(&heads, &rows))
    }
}

fn shown(parameter: &str, value: u64) -> String {
    if parameter == "buffer" { numbers::size(value) } else { value.to_string() }
}
