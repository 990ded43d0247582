//! Sizes as a person writes them: whole bytes, or a whole number with `Ki`, `Mi`, `Gi` or `Ti` (powers of 1024).
//!
//! `10M` and `512KB` are refused rather than guessed: half of the world's programs mean 1000 by them and half 1024.

const UNITS: [(&str, u32); 4] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40)];

/// The largest size anything may have: offsets are 63 bits.
const MOST: u64 = i64::MAX as u64;

/// Parses a size of at least one byte.
pub fn positive(text: &str) -> Result<u64, String> {
    match parse(text)? {
        0 => Err("must be above 0".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Parses a size that may be 0.
pub fn parse(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "expected whole bytes, or a whole number with Ki, Mi, Gi or Ti, like 10Mi";
    if text.starts_with('-') {
        return Err(format!("must not be negative; {EXPECTED}"));
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(EXPECTED.to_owned());
    }
    let shift = match unit.strip_suffix('B').filter(|u| !u.is_empty()).unwrap_or(unit) {
        "" => 0,
        unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, shift)| *shift).ok_or_else(|| EXPECTED.to_owned())?,
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(1 << shift))
        .filter(|bytes| *bytes <= MOST)
        .ok_or_else(|| format!("is above the largest size there can be, {MOST} bytes (2^63 - 1)"))
}

/// Parses a whole number of at least 1.
pub fn count(text: &str) -> Result<u32, String> {
    match text.parse::<i128>() {
        Ok(n) if n < 1 => Err("must be at least 1".to_owned()),
        Ok(n) => u32::try_from(n).map_err(|_| format!("is above {}", u32::MAX)),
        Err(_) => Err("expected a whole number of at least 1".to_owned()),
    }
}

/// Parses a duration in seconds: `30`, `2.5`, `500ms`, `2s`, `1m`.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    const EXPECTED: &str = "expected a time above 0 like 30, 2.5s, 500ms or 2m";
    let (number, scale) = match text {
        t if t.ends_with("ms") => (&t[..t.len() - 2], 0.001),
        t if t.ends_with('s') => (&t[..t.len() - 1], 1.0),
        t if t.ends_with('m') => (&t[..t.len() - 1], 60.0),
        t => (t, 1.0),
    };
    let seconds = number.parse::<f64>().map_err(|_| EXPECTED.to_owned())? * scale;
    if !(seconds > 0.0 && seconds <= 1e7) {
        return Err(EXPECTED.to_owned());
    }
    Ok(std::time::Duration::from_secs_f64(seconds))
}

/// Parses how old something is: `0s`, `90m`, `12h`, `7d`.
pub fn age(text: &str) -> Result<std::time::Duration, String> {
    const EXPECTED: &str = "expected an age like 0s, 90m, 12h or 7d";
    let scale = match text.bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 3600,
        Some(b'd') => 86_400,
        _ => return Err(EXPECTED.to_owned()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| EXPECTED.to_owned())?;
    number.checked_mul(scale).filter(|s| *s <= 1 << 32).map(std::time::Duration::from_secs).ok_or_else(|| EXPECTED.to_owned())
}

/// How old something is, for people: `40s`, `12m`, `5h`, `3d`.
pub fn age_text(age: std::time::Duration) -> String {
    match age.as_secs() {
        s @ 0..120 => format!("{s}s"),
        s @ 120..7200 => format!("{}m", s / 60),
        s @ 7200..172_800 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

/// A size for people: `256 MiB`, `1.5 GiB`, `17 B`.
pub fn text(bytes: u64) -> String {
    let mut scaled = bytes as f64;
    let mut unit = "B";
    for (name, _) in UNITS {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = name;
    }
    match unit {
        "B" => format!("{bytes} B"),
        // Whole numbers without a fraction, others with three significant figures.
        _ if scaled.fract() == 0.0 || scaled >= 100.0 => format!("{scaled:.0} {unit}B"),
        _ if scaled >= 10.0 => format!("{scaled:.1} {unit}B"),
        _ => format!("{scaled:.2} {unit}B"),
    }
}

/// A rate of bytes for people: `1.25 GiB/s`.
pub fn rate_text(bytes: u64, seconds: f64) -> String {
    if seconds <= 0.0 { "- B/s".to_owned() } else { format!("{}/s", text((bytes as f64 / seconds) as u64)) }
}

/// A duration for people: `1.24 s`, `12.4 ms`, `3 min 20 s`.
pub fn seconds_text(seconds: f64) -> String {
    match seconds {
        s if s >= 120.0 => format!("{:.0} min {:.0} s", (s / 60.0).floor(), s % 60.0),
        s if s >= 10.0 => format!("{s:.1} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.001 => format!("{:.3} s", s),
        s => format!("{:.0} us", s * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_powers_of_1024() {
        for (text, bytes) in [("1", 1), ("4096", 4096), ("64Ki", 65536), ("10Mi", 10 << 20), ("2Gi", 2 << 30), ("1TiB", 1 << 40), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse("9223372036854775807"), Ok(u64::MAX >> 1));
    }

    #[test]
    fn what_could_mean_two_things_or_nothing_is_refused() {
        for text in [
            "",
            "Ki",
            "-1",
            "10M",
            "512KB",
            "1.5Gi",
            "64 Ki",
            "64ki",
            "0x10",
            "B",
            "1B2",
            "9223372036854775808",
            "8388608Ti",
            "99999999999999999999",
        ] {
            assert!(parse(text).is_err(), "{text} was accepted");
        }
        assert!(positive("0").is_err() && positive("0Ki").is_err());
        assert!(count("0").is_err() && count("-3").is_err() && count("x").is_err() && count("4294967296").is_err());
        for text in ["0", "-1", "nan", "inf", "s", "1h", "1e300"] {
            assert!(duration(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn sizes_read_well() {
        for (bytes, expected) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.50 KiB"), (256 << 20, "256 MiB"), (10_000_000_000, "9.31 GiB")]
        {
            assert_eq!(text(bytes), expected);
        }
    }
}
