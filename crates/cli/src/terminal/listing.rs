//! Formats attributes of files and directories: `-rw-r--r--`, `2026-03-01T12:00:00Z`.
//!
//! A listing may have 100,000 lines, so fields are appended to one buffer with no allocation per line, and a date is computed once for
//! all times of its day.

use jiff::{Timestamp, tz::Offset};
use thalweg_wire::protocol::metadata::FileKind;

/// Formats kind and permissions like `ls -l`.
pub(crate) fn mode_text(kind: FileKind, mode: u32) -> String {
    String::from_utf8_lossy(&mode_bytes(kind, mode)).into_owned()
}

/// Formats kind and permissions like `ls -l`, as ten bytes.
pub(crate) fn mode_bytes(kind: FileKind, mode: u32) -> [u8; 10] {
    let mut text = *b"?rwxrwxrwx";
    text[0] = match kind {
        FileKind::File => b'-',
        FileKind::Directory => b'd',
        FileKind::Symlink => b'l',
        FileKind::Fifo => b'p',
        FileKind::Socket => b's',
        FileKind::CharacterDevice => b'c',
        FileKind::BlockDevice => b'b',
    };
    for i in 0..9 {
        let set = mode >> (8 - i) & 1 == 1;
        // Set-user, set-group and sticky replace the `x` they go with.
        let special = i % 3 == 2 && mode >> (11 - i / 3) & 1 == 1;
        match (set, special) {
            (_, true) => {
                let letter = if i == 8 { b't' } else { b's' };
                text[1 + i] = if set { letter } else { letter.to_ascii_uppercase() };
            }
            (true, false) => {}
            (false, false) => text[1 + i] = b'-',
        }
    }
    text
}

/// Returns the name of a kind.
pub(crate) fn kind_text(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharacterDevice => "character device",
        FileKind::BlockDevice => "block device",
    }
}

/// Formats an instant since the epoch, to the second, in UTC: `2026-03-01T12:00:00Z`.
pub(crate) fn time_text(since_epoch_ns: i64) -> String {
    let mut out = Vec::new();
    Times::default().push(&mut out, since_epoch_ns);
    String::from_utf8(out).unwrap_or_default()
}

/// Formats times, and caches the last date: neighbours are mostly of the same day.
#[derive(Default)]
pub(crate) struct Times {
    day: Option<i64>,
    date: Vec<u8>,
}

impl Times {
    /// Appends an instant since the epoch, to the second, in UTC.
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, since_epoch_ns: i64) {
        let seconds = since_epoch_ns.div_euclid(1_000_000_000);
        let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        if self.day != Some(day) {
            // 64 bits of nanoseconds are within the supported years.
            let noon = Timestamp::from_second(day * 86_400 + 43_200).unwrap_or_default();
            self.date = format!("{}T", Offset::UTC.to_datetime(noon).date()).into_bytes();
            self.day = Some(day);
        }
        out.extend_from_slice(&self.date);
        let two = |n: i64| [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        let ([h, i], [m, j], [s, k]) = (two(second / 3600), two(second / 60 % 60), two(second % 60));
        out.extend_from_slice(&[h, i, b':', m, j, b':', s, k, b'Z']);
    }
}

/// Appends a number, right-aligned in a column of this width.
pub(crate) fn push_number(out: &mut Vec<u8>, number: u64, width: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    push_right(out, &digits[at..], width);
}

/// Appends text, right-aligned in a column of this width.
pub(crate) fn push_right(out: &mut Vec<u8>, text: &[u8], width: usize) {
    out.resize(out.len() + width.saturating_sub(text.len()), b' ');
    out.extend_from_slice(text);
}

/// Returns the number of decimal digits.
pub(crate) fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Formats a size like `ls -h` and `du -h`: `17`, `1.5K`, `12M`; rounded up.
pub(crate) fn human(bytes: u64) -> Human {
    const UNITS: &[u8; 6] = b"KMGTPE";
    let mut text = Human { text: [0; 8], length: 0 };
    if bytes < 1024 {
        text.push(format_args!("{bytes}"));
        return text;
    }
    let mut unit = (u64::ilog2(bytes) / 10 - 1) as usize;
    loop {
        let scale = 1u64 << (10 * (unit + 1));
        let (tenths, whole) = ((u128::from(bytes) * 10).div_ceil(u128::from(scale)), bytes.div_ceil(scale));
        // Rounding up may carry into the next unit.
        if whole >= 1024 && unit + 1 < UNITS.len() {
            unit += 1;
            continue;
        }
        let unit = char::from(UNITS[unit]);
        match tenths < 100 {
            true => text.push(format_args!("{}.{}{unit}", tenths / 10, tenths % 10)),
            false => text.push(format_args!("{whole}{unit}")),
        }
        return text;
    }
}

/// A short text, on the stack.
pub(crate) struct Human {
    text: [u8; 8],
    length: usize,
}

impl Human {
    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        use std::io::Write;
        let mut rest = &mut self.text[..];
        let _ = rest.write_fmt(arguments);
        self.length = 8 - rest.len();
    }

    /// Returns its bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_read_as_ls_writes_them() {
        assert_eq!(mode_text(FileKind::File, 0o644), "-rw-r--r--");
        assert_eq!(mode_text(FileKind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode_text(FileKind::File, 0o4711), "-rws--x--x");
        assert_eq!(mode_text(FileKind::File, 0o2640), "-rw-r-S---");
    }

    #[test]
    fn times_are_dates() {
        assert_eq!(time_text(0), "1970-01-01T00:00:00Z");
        assert_eq!(time_text(951_782_400_000_000_000), "2000-02-29T00:00:00Z");
        assert_eq!(time_text(1_772_366_399_999_999_999), "2026-03-01T11:59:59Z");
        assert_eq!(time_text(-1), "1969-12-31T23:59:59Z");
        assert_eq!(time_text(i64::MIN), "1677-09-21T00:12:43Z");
        assert_eq!(time_text(i64::MAX), "2262-04-11T23:47:16Z");
        let (mut times, mut out) = (Times::default(), Vec::new());
        for day in [0, 86_400_000_000_000, 0] {
            times.push(&mut out, day);
        }
        assert_eq!(out, b"1970-01-01T00:00:00Z1970-01-02T00:00:00Z1970-01-01T00:00:00Z");
    }

    #[test]
    fn numbers_stand_to_the_right() {
        let shown = |number, width| {
            let mut out = Vec::new();
            push_number(&mut out, number, width);
            assert_eq!(out.len(), width.max(digits(number)));
            String::from_utf8(out).unwrap()
        };
        assert_eq!((shown(0, 3), shown(12_345, 3), shown(7, 1)), ("  0".into(), "12345".into(), "7".into()));
        assert_eq!(shown(u64::MAX, 22), "  18446744073709551615");
    }

    #[test]
    fn human_sizes_are_short_and_rounded_up() {
        for (bytes, shown) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1.0K"),
            (1025, "1.1K"),
            (10_188, "10K"),
            (10_240, "10K"),
            (10_241, "11K"),
            (1_048_575, "1.0M"),
            (5 << 30, "5.0G"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(String::from_utf8_lossy(human(bytes).as_bytes()), shown, "{bytes}");
        }
    }
}
