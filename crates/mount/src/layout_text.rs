//! A layout as one line of text: `SPEC [datafiles=N] [place=PLACEMENT]`, with the parts as the command's flags take them.

use thalweg_layout::Spec;
use thalweg_store::protocol::metadata::{FileLayout, LayoutChoice, Placement, TargetId};

/// Factors of sizes.
const UNITS: [(&str, u64); 4] = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("Ti", 1 << 40)];

/// The choice that a line describes. Every part may be left out.
///
/// # Errors
/// Says what was expected.
pub fn parse(text: &str) -> Result<LayoutChoice, String> {
    let mut choice = LayoutChoice::default();
    for word in text.split_ascii_whitespace() {
        if let Some(number) = word.strip_prefix("datafiles=") {
            let number: u32 = number.parse().map_err(|_| format!("`{word}`: expected datafiles=N"))?;
            set(&mut choice.datafiles, number, "datafiles")?;
        } else if let Some(place) = word.strip_prefix("place=") {
            set(&mut choice.placement, placement(place)?, "place")?;
        } else {
            let mut spec: Spec = word.parse().map_err(|e| format!("{e}"))?;
            spec.parameters.iter_mut().for_each(|(_, value)| plain_size(value));
            set(&mut choice.spec, spec, "the distribution")?;
        }
    }
    if choice == LayoutChoice::default() {
        return Err("expected NAME[,PARAMETER=VALUE]... [datafiles=N] [place=PLACEMENT]".to_owned());
    }
    Ok(choice)
}

fn set<T>(field: &mut Option<T>, value: T, what: &str) -> Result<(), String> {
    if field.replace(value).is_some() { Err(format!("{what} is given twice")) } else { Ok(()) }
}

/// `64Ki` becomes `65536`; what is no such size stays as it is.
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

fn placement(text: &str) -> Result<Placement, String> {
    const EXPECTED: &str = "expected place=round-robin, round-robin:FIRST, targets:T,T,... or local";
    let target = |t: &str| t.parse::<u32>().map(TargetId).map_err(|_| format!("`{t}` is no target number; {EXPECTED}"));
    match text.split_once(':') {
        None if text == "round-robin" => Ok(Placement::RoundRobin { first: None }),
        None if text == "local" => Ok(Placement::Local),
        Some(("round-robin", first)) => Ok(Placement::RoundRobin { first: Some(target(first)?) }),
        Some(("targets", list)) => Ok(Placement::Targets(list.split(',').map(target).collect::<Result<_, _>>()?)),
        _ => Err(EXPECTED.to_owned()),
    }
}

/// What is in force for a file.
pub fn of_file(layout: &FileLayout) -> String {
    let choice = LayoutChoice {
        spec: Some(layout.spec.clone()),
        datafiles: Some(layout.targets.len() as u32),
        placement: Some(Placement::Targets(layout.targets.clone())),
    };
    of_choice(&choice)
}

/// A choice as [`parse`] reads it.
pub fn of_choice(choice: &LayoutChoice) -> String {
    let placement = choice.placement.as_ref().map(|placement| match placement {
        Placement::RoundRobin { first: None } => "place=round-robin".to_owned(),
        Placement::RoundRobin { first: Some(first) } => format!("place=round-robin:{first}"),
        Placement::Targets(targets) => {
            let list: Vec<String> = targets.iter().map(ToString::to_string).collect();
            format!("place=targets:{}", list.join(","))
        }
        Placement::Local => "place=local".to_owned(),
    });
    let parts = [choice.spec.as_ref().map(ToString::to_string), choice.datafiles.map(|n| format!("datafiles={n}")), placement];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_reads_back_the_same() {
        for text in [
            "simple_stripe,strip_size=65536 datafiles=4 place=targets:2,3,0,1",
            "varstrip_dist,strips=0:2K;1:1K place=local",
            "basic_dist",
            "datafiles=2 place=round-robin",
            "place=round-robin:3",
        ] {
            assert_eq!(of_choice(&parse(text).unwrap()), text);
        }
        assert_eq!(of_choice(&parse("place=local simple_stripe,strip_size=64Ki").unwrap()), "simple_stripe,strip_size=65536 place=local");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("", "expected NAME"),
            ("basic_dist simple_stripe", "given twice"),
            ("basic_dist datafiles=x", "expected datafiles=N"),
            ("basic_dist place=everywhere", "expected place="),
            ("basic_dist place=targets:a", "no target number"),
            (",strip_size=1", "no name"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
