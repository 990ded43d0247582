//! The flags that choose a new file's layout: distribution and parameters, number of datafiles, placement.

use crate::failure::Failure;
use thalweg_base::numbers;
use thalweg_layout::{Kind, ParameterInfo, Spec, kinds};
use thalweg_wire::protocol::metadata::{LayoutChoice, Placement};

/// Flags for the layout of new files.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Layout of new files")]
pub(crate) struct LayoutFlags {
    #[arg(long, value_name = "NAME[,PARAMETER=VALUE]...", help = distributions())]
    layout: Option<String>,

    /// Number of datafiles, each on a target of its own (default: one on every target)
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::parse_count)]
    datafiles: Option<u32>,

    /// Targets of the datafiles: round-robin (from a random target; the default), round-robin:FIRST, targets:0,2,3, or local (targets
    /// of servers on this node)
    #[arg(long, value_name = "PLACEMENT")]
    place: Option<Placement>,
}

/// Returns the help of `--layout`, with all distributions.
fn distributions() -> String {
    let parameter = |known: &ParameterInfo| format!("{}: {}", known.name, known.summary);
    let distribution = |kind: &Kind| match kind.parameters {
        [] => format!("{}: {}", kind.name, kind.summary),
        known => format!("{}: {} ({})", kind.name, kind.summary, known.iter().map(parameter).collect::<Vec<_>>().join(", ")),
    };
    let all: Vec<String> = kinds().iter().map(distribution).collect();
    format!("Distribution and parameters, like simple_stripe,strip_size=1Mi or 'varstrip_dist,strips=0:2K;1:1K'. {}", all.join("; "))
}

impl LayoutFlags {
    /// Returns the distribution asked for; `None` for the store's default. Converts sizes with `Ki`, `Mi`, `Gi` to bytes; the
    /// distribution validates the rest.
    pub(crate) fn spec(&self) -> Result<Option<Spec>, Failure> {
        let Some(text) = &self.layout else { return Ok(None) };
        LayoutChoice::parse_spec(text).map(Some).map_err(|e| Failure::usage(format!("--layout {text}: {e}")))
    }

    /// Returns the number of datafiles asked for.
    pub(crate) fn datafiles(&self) -> Option<u32> {
        self.datafiles
    }

    /// Converts the flags to the store's request.
    pub(crate) fn choice(&self) -> Result<LayoutChoice, Failure> {
        Ok(LayoutChoice { spec: self.spec()?, datafiles: self.datafiles, placement: self.place.clone(), lot: None })
    }
}
