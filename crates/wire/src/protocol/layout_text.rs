//! Layouts as one line of text: `SPEC [datafiles=N] [place=PLACEMENT]`, with the syntax of the command's flags.

use super::metadata::{FileLayout, LayoutChoice, Placement, TargetId};
use std::fmt;
use std::str::FromStr;
use thalweg_layout::{LayoutError, Spec};

/// Unit suffixes of sizes.
const UNITS: [(&str, u64); 4] = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40)];

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Placement, String> {
        const EXPECTED: &str = "expected round-robin, round-robin:FIRST, targets:T,T,... or local";
        let target = |t: &str| t.parse::<u32>().map(TargetId).map_err(|_| format!("`{t}` is not a target number; {EXPECTED}"));
        match text.split_once(':') {
            None if text == "round-robin" => Ok(Placement::RoundRobin { first: None }),
            None if text == "local" => Ok(Placement::Local),
            Some(("round-robin", first)) => Ok(Placement::RoundRobin { first: Some(target(first)?) }),
            Some(("targets", list)) => Ok(Placement::Targets(list.split(',').map(target).collect::<Result<_, _>>()?)),
            _ => Err(EXPECTED.to_owned()),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::RoundRobin { first: None } => f.write_str("round-robin"),
            Placement::RoundRobin { first: Some(first) } => write!(f, "round-robin:{first}"),
            Placement::Targets(targets) => {
                let list: Vec<String> = targets.iter().map(ToString::to_string).collect();
                write!(f, "targets:{}", list.join(","))
            }
            Placement::Local => f.write_str("local"),
        }
    }
}

impl LayoutChoice {
    /// Parses a distribution and its parameters. Sizes with `Ki`, `Mi`, `Gi` or `Ti` become bytes; the distribution checks the
    /// rest.
    ///
    /// # Errors
    /// The expected syntax.
    pub fn parse_spec(text: &str) -> Result<Spec, LayoutError> {
        let mut spec: Spec = text.parse()?;
        spec.parameters.iter_mut().for_each(|(_, value)| plain_size(value));
        Ok(spec)
    }
}

/// Expands `64Ki` to `65536`; leaves other values alone.
fn plain_size(value: &mut String) {
    let without_b = value.strip_suffix('B').unwrap_or(value);
    for (unit, factor) in UNITS {
        let number = without_b.strip_suffix(unit).and_then(|n| n.parse::<u64>().ok()).and_then(|n| n.checked_mul(factor));
        if let Some(bytes) = number {
            *value = bytes.to_string();
            return;
        }
    }
}

impl FromStr for LayoutChoice {
    type Err = String;

    /// Parses a layout; every part is optional, but at least one is required.
    fn from_str(text: &str) -> Result<LayoutChoice, String> {
        let mut choice = LayoutChoice::default();
        for word in text.split_ascii_whitespace() {
            if let Some(number) = word.strip_prefix("datafiles=") {
                let number: u32 = number.parse().map_err(|_| format!("`{word}`: expected datafiles=N"))?;
                set(&mut choice.datafiles, number, "datafiles")?;
            } else if let Some(placement) = word.strip_prefix("place=") {
                set(&mut choice.placement, placement.parse().map_err(|e| format!("`{word}`: {e}"))?, "place")?;
            } else {
                set(&mut choice.spec, LayoutChoice::parse_spec(word).map_err(|e| e.to_string())?, "the distribution")?;
            }
        }
        if choice == LayoutChoice::default() {
            return Err("expected NAME[,PARAMETER=VALUE]... [datafiles=N] [place=PLACEMENT]".to_owned());
        }
        Ok(choice)
    }
}

fn set<T>(field: &mut Option<T>, value: T, what: &str) -> Result<(), String> {
    if field.replace(value).is_some() { Err(format!("{what} is given twice")) } else { Ok(()) }
}

impl fmt::Display for LayoutChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.spec.as_ref().map(ToString::to_string),
            self.datafiles.map(|n| format!("datafiles={n}")),
            self.placement.as_ref().map(|placement| format!("place={placement}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

impl From<&FileLayout> for LayoutChoice {
    /// Returns the choice that reproduces this layout.
    fn from(layout: &FileLayout) -> LayoutChoice {
        LayoutChoice {
            spec: Some(layout.spec.clone()),
            datafiles: Some(layout.targets.len() as u32),
            placement: Some(Placement::Targets(layout.targets.clone())),
            lot: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_reads_back_the_same() {
        for text in [
            "simple_stripe,strip_size=65536 datafiles=4 place=targets:2,3,0,1",
            "varstrip_dist,strips=0:2K;1:1K place=local",
            "basic_dist",
            "datafiles=2 place=round-robin",
            "place=round-robin:3",
        ] {
            assert_eq!(text.parse::<LayoutChoice>().unwrap().to_string(), text);
        }
        let choice: LayoutChoice = "place=local simple_stripe,strip_size=64Ki".parse().unwrap();
        assert_eq!(choice.to_string(), "simple_stripe,strip_size=65536 place=local");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("", "expected NAME"),
            ("basic_dist simple_stripe", "given twice"),
            ("basic_dist datafiles=x", "expected datafiles=N"),
            ("basic_dist place=everywhere", "expected round-robin"),
            ("basic_dist place=targets:a", "not a target number"),
            (",strip_size=1", "no name"),
        ] {
            let error = text.parse::<LayoutChoice>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn placements_are_read() {
        let targets = |numbers: &[u32]| numbers.iter().copied().map(TargetId).collect();
        assert_eq!("round-robin".parse(), Ok(Placement::RoundRobin { first: None }));
        assert_eq!("round-robin:3".parse(), Ok(Placement::RoundRobin { first: Some(TargetId(3)) }));
        assert_eq!("targets:2,0".parse(), Ok(Placement::Targets(targets(&[2, 0]))));
        assert_eq!("local".parse(), Ok(Placement::Local));
        for bad in ["", "random", "targets:", "targets:a", "round-robin:-1", "local:1"] {
            assert!(bad.parse::<Placement>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn sizes_with_units_become_bytes_and_the_varstrip_grammar_stays() {
        let spec = LayoutChoice::parse_spec("simple_stripe,strip_size=64Ki").unwrap();
        assert_eq!(spec.get("strip_size"), Some("65536"));
        let spec = LayoutChoice::parse_spec("varstrip_dist,strips=0:2K;1:1K").unwrap();
        assert_eq!(spec.get("strips"), Some("0:2K;1:1K"));
        assert!(LayoutChoice::parse_spec(",x").is_err());
    }
}
