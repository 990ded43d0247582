//! Numbers formatted for people and parsed: three significant digits and a unit.
//!
//! Sizes and the rates of disks, files and copies are binary (KiB, MiB/s). Only network rates are in bits and powers of ten (Gb/s), as
//! networks are sold and configured. Every formatted number can be parsed back, to within its rounding, so that a figure from a report can
//! be given as a flag.

use std::time::Duration;

/// A unit: its name, and its size in base units (bytes, bytes per second, seconds).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Its name, as written after a number.
    pub name: &'static str,
    /// Its size in base units.
    pub size: f64,
}

const fn unit(name: &'static str, size: f64) -> Unit {
    Unit { name, size }
}

/// The units of one quantity, in increasing order.
#[derive(Clone, Copy, Debug)]
pub struct Units(&'static [Unit]);

const KI: f64 = 1024.0;

/// Sizes.
const SIZES: Units = Units(&[
    unit("B", 1.0),
    unit("KiB", KI),
    unit("MiB", KI * KI),
    unit("GiB", KI * KI * KI),
    unit("TiB", KI * KI * KI * KI),
    unit("PiB", KI * KI * KI * KI * KI),
    unit("EiB", KI * KI * KI * KI * KI * KI),
]);

/// Rates of disks, files and copies, in bytes per second.
const BYTE_RATES: Units =
    Units(&[unit("B/s", 1.0), unit("KiB/s", KI), unit("MiB/s", KI * KI), unit("GiB/s", KI * KI * KI), unit("TiB/s", KI * KI * KI * KI)]);

/// Rates of networks, in bytes per second.
pub const BIT_RATES: Units =
    Units(&[unit("b/s", 0.125), unit("kb/s", 125.0), unit("Mb/s", 125e3), unit("Gb/s", 125e6), unit("Tb/s", 125e9)]);

/// Times, in seconds.
pub const TIMES: Units = Units(&[unit("ns", 1e-9), unit("µs", 1e-6), unit("ms", 1e-3), unit("s", 1.0)]);

impl Units {
    /// Returns the largest unit in which the rounded value is at least 1.
    pub fn suiting(self, value: f64) -> Unit {
        let fits = |unit: &&Unit| value.abs() >= unit.size * 0.9995;
        *self.0.iter().rev().find(fits).unwrap_or(&self.0[0])
    }

    /// Formats three significant digits and the unit; the smallest unit is written in whole numbers.
    fn write(self, value: f64) -> String {
        if !value.is_finite() {
            return "?".to_owned();
        }
        let unit = self.suiting(value);
        let number = value / unit.size;
        let digits = match number.abs() {
            _ if unit == self.0[0] => 0,
            n if n >= 99.95 => 0,
            n if n >= 9.995 => 1,
            _ => 2,
        };
        format!("{number:.digits$} {}", unit.name)
    }

    /// Formats without a fraction if the number is whole: for chosen rather than measured values.
    fn write_short(self, value: f64) -> String {
        let unit = self.suiting(value);
        let number = value / unit.size;
        if number.fract() == 0.0 { format!("{number} {}", unit.name) } else { self.write(value) }
    }

    fn named(self, name: &str) -> Option<Unit> {
        self.0.iter().find(|unit| unit.name == name).copied()
    }
}

/// Formats a size: `10 MiB`, `1.50 GiB`, `512 B`.
pub fn size(bytes: u64) -> String {
    SIZES.write_short(bytes as f64)
}

/// Formats a size exactly, as flags take it: `64Ki`, `10Mi`, `1000`.
pub fn exact_size(bytes: u64) -> String {
    let shift = (bytes.max(1).trailing_zeros() / 10 * 10).min(60);
    format!("{}{}", bytes >> shift, SIZES.0[shift as usize / 10].name.trim_end_matches('B'))
}

/// Formats the rate of a disk, file or copy: `125 MiB/s`.
pub fn byte_rate(bytes_per_s: f64) -> String {
    BYTE_RATES.write_short(bytes_per_s)
}

/// Formats the rate of a network, given in bytes per second: `1.05 Gb/s`.
pub fn bit_rate(bytes_per_s: f64) -> String {
    BIT_RATES.write_short(bytes_per_s)
}

/// Formats a duration: `17.5 ms`, `2.05 s`, `3 min 20 s`, `5 h 10 min`, `7 d 2 h`.
pub fn duration(seconds: f64) -> String {
    let whole = |unit_s: f64| (seconds / unit_s).round() as u64;
    match seconds {
        0.0 => "0 s".to_owned(),
        s if s >= 432_000.0 && s.is_finite() => format!("{} d {} h", whole(3600.0) / 24, whole(3600.0) % 24),
        s if s >= 7200.0 && s.is_finite() => format!("{} h {} min", whole(60.0) / 60, whole(60.0) % 60),
        s if s >= 120.0 && s.is_finite() => format!("{} min {} s", whole(1.0) / 60, whole(1.0) % 60),
        s => TIMES.write(s),
    }
}

/// Formats an age in whole units: `40s`, `12m`, `5h`, `3d`.
pub fn age(age: Duration) -> String {
    match age.as_secs() {
        s @ 0..120 => format!("{s}s"),
        s @ 120..7200 => format!("{}m", s / 60),
        s @ 7200..172_800 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86_400),
    }
}

/// Formats a fraction as a percentage for a table: `21.5 %`.
pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// Formats a fraction as a percentage for a sentence: `22 %`.
pub fn whole_percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// Formats a count with thousands separators: `100,000`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Rounds `values` to multiples of `unit` so that their sum is the rounded sum, for tables that must add up. The values with the largest
/// remainders are rounded up.
pub fn rounded_to_sum(values: &[f64], unit: f64) -> Vec<f64> {
    let scaled: Vec<f64> = values.iter().map(|v| v / unit).collect();
    let wanted = scaled.iter().sum::<f64>().round();
    let mut whole: Vec<f64> = scaled.iter().map(|v| v.floor()).collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| (scaled[b] - whole[b]).total_cmp(&(scaled[a] - whole[a])));
    let missing = (wanted - whole.iter().sum::<f64>()).max(0.0) as usize;
    for &i in order.iter().take(missing) {
        whole[i] += 1.0;
    }
    whole.iter().map(|v| v * unit).collect()
}

/// The largest size: offsets have 63 bits.
const MOST_BYTES: u64 = i64::MAX as u64;

/// Parses a size: bytes, or a number with `Ki`, `Mi`, `Gi`, `Ti`, `Pi` or `Ei` (powers of 1024) and an optional `B`.
///
/// Rejects `10M` and `512KB`, which mean powers of 1000 to half of the world's programs and powers of 1024 to the other half.
///
/// # Errors
/// Names the expected format.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "expected whole bytes, or a number with Ki, Mi, Gi or Ti, like 10Mi";
    if text.starts_with('-') {
        return Err(format!("must not be negative; {EXPECTED}"));
    }
    let (number, name) = number_and_unit(text);
    let unit = match name {
        "" => SIZES.named("B"),
        _ => SIZES.0.iter().find(|unit| unit.name == name || unit.name.strip_suffix('B') == Some(name)).copied(),
    };
    let unit = unit.filter(|unit| !number.is_empty() && (unit.size > 1.0 || !number.contains('.'))).ok_or(EXPECTED)?;
    let bytes = match number.contains('.') {
        true => {
            let bytes = (number.parse::<f64>().map_err(|_| EXPECTED)? * unit.size).round();
            (bytes < MOST_BYTES as f64).then_some(bytes as u64)
        }
        false => number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit.size as u64)),
    };
    let too_large = || format!("is above the largest size there can be, {MOST_BYTES} bytes (2^63 - 1)");
    bytes.filter(|bytes| *bytes <= MOST_BYTES).ok_or_else(too_large)
}

/// Parses a size of at least one byte.
///
/// # Errors
/// Names the expected format.
pub fn parse_positive_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("must be above 0".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Parses a rate into bytes per second: a size with an optional `/s`, or a network rate like `10Gb/s`.
///
/// # Errors
/// Names the expected format.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    const EXPECTED: &str = "expected a rate above 0 like 100Mi, 100MiB/s or 10Gb/s";
    let (number, name) = number_and_unit(text);
    let rate = match BIT_RATES.named(name) {
        Some(unit) => number.parse::<f64>().map_err(|_| EXPECTED)? * unit.size,
        None => parse_size(text.strip_suffix("/s").unwrap_or(text)).map_err(|_| EXPECTED)? as f64,
    };
    if rate > 0.0 { Ok(rate) } else { Err(EXPECTED.to_owned()) }
}

/// Parses a whole number of at least 1.
///
/// # Errors
/// Names the expected format.
pub fn parse_count(text: &str) -> Result<u32, String> {
    match text.parse::<i128>() {
        Ok(n) if n < 1 => Err("must be at least 1".to_owned()),
        Ok(n) => u32::try_from(n).map_err(|_| format!("is above {}", u32::MAX)),
        Err(_) => Err("expected a whole number of at least 1".to_owned()),
    }
}

/// Parses a duration above 0: `30` (seconds), `2.5s`, `500ms`, `2m`, `3 min 20 s`.
///
/// # Errors
/// Names the expected format.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const MOST_S: f64 = 1e7;
    let seconds = text.parse().ok().or_else(|| seconds(text)).filter(|s| *s > 0.0 && *s <= MOST_S);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected a time above 0 like 30, 2.5s, 500ms or 2m".to_owned())
}

/// Parses an age, which may be 0: `0s`, `90m`, `12h`, `7d`. A unit is required: a bare number could mean days or seconds.
///
/// # Errors
/// Names the expected format.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    const MOST_S: f64 = 4_294_967_296.0;
    let seconds = seconds(text).filter(|s| *s <= MOST_S);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected an age like 0s, 90m, 12h or 7d".to_owned())
}

/// Parses a term, which may be 0: `90min`, `12h`, `7d`, `0`. A unit is required: a bare number could mean days or seconds.
///
/// # Errors
/// Names the expected format.
pub fn parse_term(text: &str) -> Result<Duration, String> {
    const MOST_S: f64 = 1e10;
    let seconds = if text == "0" { Some(0.0) } else { seconds(text) };
    let seconds = seconds.filter(|s| *s <= MOST_S).ok_or_else(|| "expected for how long, with the unit: 90min, 12h or 7d".to_owned())?;
    Ok(Duration::from_secs_f64(seconds))
}

/// Parses and adds one or several numbers with units of time.
fn seconds(text: &str) -> Option<f64> {
    let (mut sum, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let (number, after) = number_and_unit(rest);
        let (name, after) = after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
        let unit_s = match name {
            "us" => 1e-6,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            name => TIMES.named(name)?.size,
        };
        sum += number.parse::<f64>().ok()? * unit_s;
        rest = after.trim_start_matches(' ');
    }
    (!text.is_empty()).then_some(sum)
}

/// Splits leading digits from the unit after them, dropping a space between.
fn number_and_unit(text: &str) -> (&str, &str) {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    (number, unit.strip_prefix(' ').unwrap_or(unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_carry_their_unit_and_three_digits() {
        assert_eq!(duration(2.05), "2.05 s");
        assert_eq!(duration(0.0175), "17.5 ms");
        assert_eq!(duration(0.000_24), "240 µs");
        assert_eq!(duration(950e-9), "950 ns");
        assert_eq!(duration(0.999_9), "1.00 s");
        assert_eq!(duration(0.0), "0 s");
        assert_eq!((duration(119.0), duration(200.4), duration(18_600.0)), ("119 s".into(), "3 min 20 s".into(), "5 h 10 min".into()));
        assert_eq!((duration(431_999.0), duration(612_000.0)), ("120 h 0 min".into(), "7 d 2 h".into()));
        assert_eq!(byte_rate(130_944_125.0), "125 MiB/s");
        assert_eq!(byte_rate(64.0 * KI * KI), "64 MiB/s");
        assert_eq!(bit_rate(130_944_125.0), "1.05 Gb/s");
        assert_eq!((byte_rate(f64::INFINITY), byte_rate(f64::NAN)), ("?".into(), "?".into()));
        assert_eq!((count(1_234_567), count(100)), ("1,234,567".into(), "100".into()));
        assert_eq!((percent(0.215), whole_percent(0.215)), ("21.5 %".into(), "22 %".into()));
    }

    #[test]
    fn sizes_read_well() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1000, "1000 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.50 KiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (10 << 20, "10 MiB"),
            (256 << 20, "256 MiB"),
            (3 << 29, "1.50 GiB"),
            (10_000_000_000, "9.31 GiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn sizes_are_bytes_or_powers_of_1024() {
        for (text, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("17 B", 17),
            ("64Ki", 65536),
            ("64 KiB", 65536),
            ("10Mi", 10 << 20),
            ("1.5Gi", 3 << 29),
            ("2Gi", 2 << 30),
            ("1TiB", 1 << 40),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_size("9223372036854775807"), Ok(u64::MAX >> 1));
    }

    #[test]
    fn rates_are_bytes_or_a_networks_bits() {
        for (text, bytes_per_s) in [("100Mi", 104_857_600.0), ("100 MiB/s", 104_857_600.0), ("10Gb/s", 1.25e9), ("1000", 1000.0)] {
            assert_eq!(parse_rate(text), Ok(bytes_per_s), "{text}");
        }
        for text in ["0", "0 b/s", "10G", "10Gb", "10GB/s", "10 Gbit/s", "-1Mi", "/s", "1e9"] {
            assert!(parse_rate(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn what_could_mean_two_things_or_nothing_is_refused() {
        for text in [
            "",
            "Ki",
            "-1",
            "10M",
            "512KB",
            "1.5",
            "1.5B",
            "1.5.5Gi",
            "64  Ki",
            "64ki",
            "0x10",
            "B",
            "1B2",
            "9223372036854775808",
            "8388608Ti",
            "8388608.5Ti",
            "99999999999999999999",
        ] {
            assert!(parse_size(text).is_err(), "{text} was accepted");
        }
        assert!(parse_positive_size("0").is_err() && parse_positive_size("0Ki").is_err());
        assert!(["0", "-3", "x", "4294967296"].iter().all(|text| parse_count(text).is_err()));
        for text in ["", "0", "-1", "nan", "inf", "s", "1 y", "1e300", "3 min 20", "2m x"] {
            assert!(parse_duration(text).is_err(), "{text} was accepted");
        }
        assert!(["", "7", "s", "-1s", "7w", "49711d"].iter().all(|text| parse_age(text).is_err()));
        assert!(["", "7", "s", "-1s", "7w", "999999d"].iter().all(|text| parse_term(text).is_err()));
    }

    #[test]
    fn times_have_the_units_of_clocks() {
        for (text, milliseconds) in [("30", 30_000), ("2.5s", 2500), ("500ms", 500), ("2m", 120_000), ("3 min 20 s", 200_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!((parse_age("0s"), parse_age("7d")), (Ok(Duration::ZERO), Ok(Duration::from_secs(604_800))));
        assert_eq!(
            (parse_term("0"), parse_term("90min"), parse_term("36500d")),
            (Ok(Duration::ZERO), Ok(Duration::from_secs(5400)), Ok(Duration::from_secs(3_153_600_000)),)
        );
    }

    #[test]
    fn a_rounded_column_adds_up() {
        let thirds = rounded_to_sum(&[1.0 / 3.0; 3], 0.001);
        assert!((thirds.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{thirds:?}");
        assert!(thirds.iter().all(|v| (v - 1.0 / 3.0).abs() < 0.001));
        assert!(rounded_to_sum(&[], 0.1).is_empty());
    }

    /// Returns whether two figures differ by at most the rounding of the third digit, or half of the smallest unit.
    fn near(read: f64, written: f64, smallest: f64) -> bool {
        (read - written).abs() <= (written * 0.005).max(smallest / 2.0) * 1.001
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_within_the_rounding(bits in 0..63_u32, fraction in 0.5..1.0_f64) {
            let bytes = ((1_u64 << bits) as f64 * fraction) as u64;
            prop_assert!(near(parse_size(&size(bytes)).unwrap() as f64, bytes as f64, 1.0), "{bytes}");
            prop_assert_eq!(parse_size(&exact_size(bytes)), Ok(bytes));
            let rate = 1.0 + bytes as f64 / 8.0;
            prop_assert!(near(parse_rate(&byte_rate(rate)).unwrap(), rate, 1.0), "{rate}");
            prop_assert!(near(parse_rate(&bit_rate(rate)).unwrap(), rate, 0.125), "{rate}");
            let time_s = (1e-9 + bytes as f64 * 1e-12).min(9e6);
            prop_assert!(near(parse_duration(&duration(time_s)).unwrap().as_secs_f64(), time_s, 1e-9), "{time_s}");
            let old = Duration::from_secs(bytes >> 31);
            let read = parse_age(&age(old)).unwrap();
            prop_assert!(read <= old && old.as_secs_f64() < read.as_secs_f64() * 1.5 + 1.0, "{old:?}");
        }
    }
}
