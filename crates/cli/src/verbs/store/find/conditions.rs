//! The conditions of `find`, without I/O.

use crate::names;
use std::str::FromStr;
use thalweg_base::glob::{self, Reading};
use thalweg_client::walk::WalkEntry;
use thalweg_wire::Error;
use thalweg_wire::protocol::metadata::FileKind;

/// Conditions that must all hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// Patterns for the last name.
    pub names: Vec<Vec<u8>>,
    /// Patterns for the last name, ignoring case.
    pub names_any_case: Vec<Vec<u8>>,
    /// Patterns for the path.
    pub paths: Vec<Vec<u8>>,
    /// Permitted kinds; empty: any.
    pub kinds: Vec<FileKind>,
    /// Sizes of files.
    pub sizes: Vec<SizeIs>,
    /// Ages since the last modification.
    pub ages: Vec<Age>,
    /// Instants after which it was modified.
    pub newer_ns: Vec<i64>,
    /// Whether it must be empty: no bytes or no entries.
    pub empty: bool,
    /// The current time, in ns since 1970.
    pub now_ns: i64,
}

/// An entry to check.
pub(super) struct Candidate<'a> {
    /// The entry, with the attributes that the conditions need.
    pub entry: &'a WalkEntry,
    /// The path as it is printed.
    pub path: &'a [u8],
    /// Number of a directory's entries.
    pub names: u64,
}

/// The result of the conditions.
#[derive(Debug)]
pub(super) enum Answer<'a> {
    /// All hold.
    Yes,
    /// Some do not hold.
    No,
    /// Depends on a size that is not known.
    Unknown(&'a Error),
}

impl Conditions {
    /// Checks all conditions.
    pub(super) fn hold<'a>(&self, candidate: &Candidate<'a>) -> Answer<'a> {
        let entry = candidate.entry;
        let modified_ns = entry.attributes.as_ref().map_or(0, |a| a.modified_ns);
        let any_case = Reading { ignore_case: true, ..Reading::default() };
        let holds = self.names.iter().all(|pattern| glob::matches(pattern, &entry.name, Reading::default()))
            && self.names_any_case.iter().all(|pattern| glob::matches(pattern, &entry.name, any_case))
            && self.paths.iter().all(|pattern| glob::matches(pattern, candidate.path, Reading::default()))
            && (self.kinds.is_empty() || self.kinds.contains(&entry.kind))
            && self.ages.iter().all(|age| age.is(self.now_ns, modified_ns))
            && self.newer_ns.iter().all(|than_ns| modified_ns > *than_ns);
        if !holds {
            return Answer::No;
        }
        let by_size = match entry.kind {
            FileKind::File => !self.sizes.is_empty() || self.empty,
            FileKind::Directory if self.empty && candidate.names > 0 => return Answer::No,
            FileKind::Directory => false,
            _ if self.empty => return Answer::No,
            _ => false,
        };
        match &entry.size {
            // Only files have a size.
            _ if !by_size => {
                if self.sizes.is_empty() {
                    Answer::Yes
                } else {
                    Answer::No
                }
            }
            Some(Ok(size)) if self.sizes.iter().all(|is| is.is(size.size_bytes)) && !(self.empty && size.size_bytes > 0) => Answer::Yes,
            Some(Err(error)) => Answer::Unknown(error),
            _ => Answer::No,
        }
    }
}

/// A comparison with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Exactly(u64),
    More(u64),
    Less(u64),
}

impl Compared {
    /// Parses `N`, `+N` or `-N`; returns the rest of the text too.
    fn read(text: &str) -> Option<(Compared, &str)> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let number = digits[..end].parse().ok()?;
        let compared = match text.as_bytes()[0] {
            b'+' => Compared::More(number),
            b'-' => Compared::Less(number),
            _ => Compared::Exactly(number),
        };
        Some((compared, &digits[end..]))
    }

    fn is(self, number: i128) -> bool {
        match self {
            Compared::Exactly(n) => number == i128::from(n),
            Compared::More(n) => number > i128::from(n),
            Compared::Less(n) => number < i128::from(n),
        }
    }
}

/// A condition on a file's size in units, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeIs {
    compared: Compared,
    unit_bytes: u64,
}

impl SizeIs {
    fn is(self, bytes: u64) -> bool {
        self.compared.is(bytes.div_ceil(self.unit_bytes).into())
    }
}

impl FromStr for SizeIs {
    type Err = String;

    fn from_str(text: &str) -> Result<SizeIs, String> {
        const EXPECTED: &str =
            "expected a number like 0, +10M or -512c: c for bytes, k M G T for powers of 1024, no suffix for 512-byte blocks";
        let (compared, unit) = Compared::read(text).ok_or(EXPECTED)?;
        let unit_bytes = match unit.strip_suffix('i').filter(|unit| !matches!(*unit, "" | "c" | "b" | "w" | "k")).unwrap_or(unit) {
            "" | "b" => 512,
            "c" => 1,
            "w" => 2,
            "k" | "K" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            "T" => 1 << 40,
            _ => return Err(EXPECTED.to_owned()),
        };
        Ok(SizeIs { compared, unit_bytes })
    }
}

/// A condition on the time since the last modification, in whole units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Age {
    compared: Compared,
    unit_ns: i64,
}

impl Age {
    /// Parses an age in days.
    pub(super) fn days(text: &str) -> Result<Age, String> {
        Age::read(text, 86_400_000_000_000)
    }

    /// Parses an age in minutes.
    pub(super) fn minutes(text: &str) -> Result<Age, String> {
        Age::read(text, 60_000_000_000)
    }

    fn read(text: &str, unit_ns: i64) -> Result<Age, String> {
        match Compared::read(text) {
            Some((compared, "")) => Ok(Age { compared, unit_ns }),
            _ => Err("expected a whole number, optionally with + or -: 7, +30, -1".to_owned()),
        }
    }

    fn is(self, now_ns: i64, modified_ns: i64) -> bool {
        let age_ns = i128::from(now_ns) - i128::from(modified_ns);
        self.compared.is(age_ns.div_euclid(self.unit_ns.into()))
    }
}

/// A kind of file, parsed from its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub FileKind);

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Kind, String> {
        Ok(Kind(match text {
            "f" => FileKind::File,
            "d" => FileKind::Directory,
            "l" => FileKind::Symlink,
            "p" => FileKind::Fifo,
            "s" => FileKind::Socket,
            "b" => FileKind::BlockDevice,
            "c" => FileKind::CharacterDevice,
            other => return Err(format!("unknown kind `{}`: expected f, d, l, p, s, b or c", names::text(other.as_bytes()))),
        }))
    }
}

/// Returns the time on this machine's clock, in ns since 1970.
pub(super) fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_client::walk::{Size, SizeFrom};
    use thalweg_wire::ErrorKind;
    use thalweg_wire::protocol::metadata::FileId;

    fn entry(name: &str, kind: FileKind, size: Option<Result<u64, Error>>) -> WalkEntry {
        let size = size.map(|size| size.map(|size_bytes| Size { size_bytes, allocated_bytes: None, from: SizeFrom::Glimpse }));
        WalkEntry { name: name.into(), id: FileId(7), kind, attributes: None, size, asked: std::time::Instant::now() }
    }

    fn found(conditions: &Conditions, entry: &WalkEntry, names: u64) -> Option<bool> {
        match conditions.hold(&Candidate { entry, path: b"/d/x", names }) {
            Answer::Yes => Some(true),
            Answer::No => Some(false),
            Answer::Unknown(_) => None,
        }
    }

    #[test]
    fn sizes_are_compared_in_units_rounded_up_as_find_does() {
        for (text, bytes, expected) in [
            ("0", 0, true),
            ("1", 1, true),
            ("1", 512, true),
            ("1", 513, false),
            ("+1k", 1024, false),
            ("+1k", 1025, true),
            ("-1M", 1, false),
            ("-1M", 0, true),
            ("-2M", 1 << 20, true),
            ("100c", 100, true),
            ("+1Gi", (1 << 30) + 1, true),
            ("+0", 1, true),
        ] {
            assert_eq!(text.parse::<SizeIs>().unwrap().is(bytes), expected, "{text} of {bytes}");
        }
        for bad in ["", "+", "x", "1x", "1 k", "--1", "1ci", "1.5M", "99999999999999999999"] {
            assert!(bad.parse::<SizeIs>().is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn ages_are_whole_units() {
        let day = 86_400_000_000_000;
        let is = |text: &str, age_ns: i64| Age::days(text).unwrap().is(100 * day, 100 * day - age_ns);
        assert!(is("0", day - 1) && !is("0", day) && is("1", day) && is("+1", 2 * day) && !is("+1", 2 * day - 1) && is("-1", 0));
        assert!(is("-1", -day), "a time to come is less than any age");
        assert!(Age::days("1d").is_err() && Age::minutes("").is_err());
    }

    #[test]
    fn all_conditions_must_hold_and_what_is_not_known_is_not_found() {
        let size = |text: &str| Conditions { sizes: vec![text.parse().unwrap()], ..Conditions::default() };
        let file = |bytes| entry("x", FileKind::File, Some(Ok(bytes)));
        assert_eq!(found(&size("+1k"), &file(5000), 0), Some(true));
        assert_eq!(found(&size("+1k"), &file(5), 0), Some(false));
        assert_eq!(found(&size("+1k"), &entry("x", FileKind::Directory, None), 0), Some(false));
        let unknown = entry("x", FileKind::File, Some(Err(Error::new(ErrorKind::TimedOut, "silent"))));
        assert_eq!(found(&size("+1k"), &unknown, 0), None);
        assert_eq!(found(&Conditions::default(), &unknown, 0), Some(true));
        let named = Conditions { names: vec![b"y*".to_vec()], ..size("+1k") };
        assert_eq!(found(&named, &unknown, 0), Some(false), "a name decides before a size is needed");
        let empty = Conditions { empty: true, ..Conditions::default() };
        assert_eq!(found(&empty, &file(0), 0), Some(true));
        assert_eq!(found(&empty, &file(1), 0), Some(false));
        assert_eq!(found(&empty, &entry("x", FileKind::Directory, None), 0), Some(true));
        assert_eq!(found(&empty, &entry("x", FileKind::Directory, None), 2), Some(false));
        assert_eq!(found(&empty, &entry("x", FileKind::Symlink, None), 0), Some(false));
    }
}
