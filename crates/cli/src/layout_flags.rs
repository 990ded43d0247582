//! The flags that choose a new file's layout: distribution and parameters, number of datafiles, placement.

use crate::{failure::Failure, size};
use thalweg_layout::Spec;
use thalweg_store::protocol::metadata::{LayoutChoice, Placement};

/// How the bytes of new files are laid out.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Layout of new files")]
pub struct LayoutFlags {
    /// Distribution and parameters: basic_dist, simple_stripe, varstrip_dist or twod_stripe, like
    /// simple_stripe,strip_size=1Mi or 'varstrip_dist,strips=0:2K;1:1K'
    #[arg(long, value_name = "NAME[,PARAMETER=VALUE]...")]
    layout: Option<String>,

    /// Number of datafiles, each on a target of its own (default: one on every target)
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = size::count)]
    datafiles: Option<u32>,

    /// Where datafiles go: round-robin (from a random target; the default), round-robin:FIRST, targets:0,2,3 or local (to the targets of
    /// servers on this node)
    #[arg(long, value_name = "PLACEMENT")]
    place: Option<Placement>,
}

impl LayoutFlags {
    /// The distribution asked for; `None`: the store's default. Sizes with `Ki`, `Mi`, `Gi` become bytes; everything else is
    /// the distribution's own to judge.
    pub fn spec(&self) -> Result<Option<Spec>, Failure> {
        let Some(text) = &self.layout else { return Ok(None) };
        LayoutChoice::parse_spec(text).map(Some).map_err(|e| Failure::usage(format!("--layout {text}: {e}")))
    }

    /// Number of datafiles asked for.
    pub fn datafiles(&self) -> Option<u32> {
        self.datafiles
    }

    /// The choice, as the store takes it.
    pub fn choice(&self) -> Result<LayoutChoice, Failure> {
        Ok(LayoutChoice { spec: self.spec()?, datafiles: self.datafiles, placement: self.place.clone() })
    }
}
