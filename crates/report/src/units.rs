//! Numbers as people read them: three figures and a unit. Networks count in bits per second and powers
//! of ten, disks and files in bytes and powers of two.

/// A span of time: `2.05 s`, `17.5 ms`, `240 µs`.
pub fn duration(seconds: f64) -> String {
    match seconds.abs() {
        s if s >= 99.95 => format!("{seconds:.0} s"),
        s if s >= 0.9995 => format!("{} s", three_figures(seconds)),
        s if s >= 0.000_999_5 => format!("{} ms", three_figures(seconds * 1e3)),
        s if s >= 0.000_000_999_5 => format!("{} µs", three_figures(seconds * 1e6)),
        s if s > 0.0 => format!("{:.0} ns", seconds * 1e9),
        _ => "0 s".into(),
    }
}

/// Bytes: `10 MiB`, `1.5 GiB`, `512 B`.
pub fn bytes(count: u64) -> String {
    scaled(count as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// A rate of a disk or a file: `125 MiB/s`.
pub fn byte_rate(bytes_per_s: f64) -> String {
    scaled(bytes_per_s, 1024.0, &["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"])
}

/// A rate of a network, from bytes: `1.05 Gb/s`.
pub fn bit_rate(bytes_per_s: f64) -> String {
    scaled(bytes_per_s * 8.0, 1000.0, &["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"])
}

/// A part of a whole: `21.5 %`.
pub fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

/// A count with its thousands apart: `100,000`.
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

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let number = if value.fract() == 0.0 { format!("{value:.0}") } else { three_figures(value) };
    format!("{number} {}", units[unit])
}

fn three_figures(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Rounds `values` to multiples of `unit` so that their sum is the rounded sum: what a table shows then
/// adds up. The largest remainders are rounded up.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_carry_their_unit_and_three_digits() {
        assert_eq!(duration(2.05), "2.05 s");
        assert_eq!(duration(0.0175), "17.5 ms");
        assert_eq!(duration(0.000_24), "240 µs");
        assert_eq!(duration(0.999_9), "1.00 s");
        assert_eq!(duration(0.0), "0 s");
        assert_eq!(bytes(10 << 20), "10 MiB");
        assert_eq!(bytes(3 << 29), "1.50 GiB");
        assert_eq!(bytes(1000), "0.98 KiB");
        assert_eq!(byte_rate(130_944_125.0), "125 MiB/s");
        assert_eq!(bit_rate(130_944_125.0), "1.05 Gb/s");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(100), "100");
    }

    #[test]
    fn a_rounded_column_adds_up() {
        let thirds = rounded_to_sum(&[1.0 / 3.0; 3], 0.001);
        assert!((thirds.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{thirds:?}");
        assert!(thirds.iter().all(|v| (v - 1.0 / 3.0).abs() < 0.001));
        assert!(rounded_to_sum(&[], 0.1).is_empty());
    }
}
