//! The flags that choose a new file's layout: distribution and parameters, number of datafiles, placement.

use crate::{failure::Failure};
use thalweg_layout::{Kind, ParameterInfo, Spec, kinds};
use thalweg_store::protocol::io::TargetId;
use thalweg_store::protocol::metadata::{LayoutChoice, Placement};
use thalweg_trace::numbers;

/// How the bytes of new files are laid out.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Layout of new files")]
pub(crate) struct LayoutFlags {
    #[arg(long, value_name = "NAME[,PARAMETER=VALUE]...", help = distributions())]
    layout: Option<String>,

    /// Number of datafiles, each on its own target (default: one on every target)
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::parse_count)]
    datafiles: Option<u32>,

    /// Targets of the datafiles: round-robin (from a random one; the default), round-robin:FIRST, targets:0,2,3, or local (those of servers
    /// on this node)
    #[arg(long, value_name = "PLACEMENT")]
    place: Option<Place>,
}

/// What `--help` says of `--layout`: all distributions there are.
fn distributions() -> String {
    let parameter = |known: &ParameterInfo| format!("{}: {}", known.name, known.summary);
    let distribution = |kind: &Kind| match kind.parameters {
        [] => format!("{}: {}", kind.name, kind.summary),
        known => format!("{}: {} ({})", kind.name, kind.summary, known.iter().map(parameter).collect::<Vec<_>>().join(", ")),
    };
    let all: Vec<String> = kinds().iter().map(distribution).collect();
    format!("Distribution and parameters, like simple_stripe,strip_size=1Mi or 'varstrip_dist,strips=0:2K;1:1K'. {}", all.join("; "))
}

/// Which targets datafiles go to, as the flag says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One after the other, from this one or from a random one.
    RoundRobin(Option<u32>),
    /// These, in this order.
    Targets(Vec<u32>),
    /// Those of servers with the writer's node label.
    Local,
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        const EXPECTED: &str = "expected round-robin, round-robin:FIRST, targets:T,T,... or local";
        let number = |t: &str| t.parse::<u32>().map_err(|_| format!("`{t}` is no target number; {EXPECTED}"));
        match text.split_once(':') {
            None if text == "round-robin" => Ok(Place::RoundRobin(None)),
            None if text == "local" => Ok(Place::Local),
            Some(("round-robin", first)) => Ok(Place::RoundRobin(Some(number(first)?))),
            Some(("targets", list)) => Ok(Place::Targets(list.split(',').map(number).collect::<Result<_, _>>()?)),
            _ => Err(EXPECTED.to_owned()),
        }
    }
}

impl LayoutFlags {
    /// The distribution asked for; `None`: the store's default. Sizes with `Ki`, `Mi`, `Gi` become bytes; everything else is
    /// the distribution's own to judge.
    pub(crate) fn spec(&self) -> Result<Option<Spec>, Failure> {
        let Some(text) = &self.layout else { return Ok(None) };
        let mut spec: Spec = text.parse().map_err(|e| Failure::usage(format!("--layout {text}: {e}")))?;
        for (_, value) in &mut spec.parameters {
            if value.ends_with(['i', 'B'])
                && let Ok(bytes) = numbers::parse_size(value)
            {
                *value = bytes.to_string();
            }
        }
        Ok(Some(spec))
    }

    /// Number of datafiles asked for.
    pub(crate) fn datafiles(&self) -> Option<u32> {
        self.datafiles
    }

    /// The choice, as the store takes it.
    pub(crate) fn choice(&self) -> Result<LayoutChoice, Failure> {
        let placement = match &self.place {
            None => None,
            Some(Place::RoundRobin(first)) => Some(Placement::RoundRobin { first: first.map(TargetId) }),
            Some(Place::Targets(targets)) => Some(Placement::Targets(targets.iter().copied().map(TargetId).collect())),
            Some(Place::Local) => Some(Placement::Local),
        };
        Ok(LayoutChoice { spec: self.spec()?, datafiles: self.datafiles, placement })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(layout: &str) -> LayoutFlags {
        LayoutFlags { layout: Some(layout.into()), datafiles: None, place: None }
    }

    #[test]
    fn sizes_with_units_become_bytes_and_the_varstrip_grammar_stays() {
        let spec = flags("simple_stripe,strip_size=64Ki").spec().unwrap().unwrap();
        assert_eq!(spec.get("strip_size"), Some("65536"));
        let spec = flags("varstrip_dist,strips=0:2K;1:1K").spec().unwrap().unwrap();
        assert_eq!(spec.get("strips"), Some("0:2K;1:1K"));
        assert!(flags(",x").spec().is_err());
    }

    #[test]
    fn placements_are_read() {
        assert_eq!("round-robin".parse(), Ok(Place::RoundRobin(None)));
        assert_eq!("round-robin:3".parse(), Ok(Place::RoundRobin(Some(3))));
        assert_eq!("targets:2,0".parse(), Ok(Place::Targets(vec![2, 0])));
        assert_eq!("local".parse(), Ok(Place::Local));
        for bad in ["", "random", "targets:", "targets:a", "round-robin:-1", "local:1"] {
            assert!(bad.parse::<Place>().is_err(), "{bad} was accepted");
        }
    }
}
