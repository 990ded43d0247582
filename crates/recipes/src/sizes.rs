//! Numbers in the syntax of programs.

use thalweg_base::numbers;

/// Returns the bytes of a program's unit: `k`, `K`, `M`, `G`, or none.
pub fn unit_bytes(unit: &str) -> f64 {
    match unit {
        "k" | "K" => 1024.0,
        "M" => 1_048_576.0,
        "G" => 1_073_741_824.0,
        _ => 1.0,
    }
}

/// Parses a number: plain, in units of `unit`, or with its own suffix (`64k`, `4M`, `1Mi`).
pub fn number_of(text: &str, unit: f64) -> Option<f64> {
    if let Ok(number) = text.parse::<f64>() {
        return Some(number * unit).filter(|number| number.is_finite());
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let letter = text[digits.len()..].chars().next()?.to_ascii_uppercase().to_string();
    let many = unit_bytes(&letter);
    let own = numbers::parse_size(text).ok().map(|bytes| bytes as f64);
    own.or_else(|| (many > 1.0).then(|| digits.parse::<f64>().ok().map(|number| number * many)).flatten())
}
