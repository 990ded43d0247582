//! Attributes of files and directories as people read them: `-rw-r--r--`, `2026-03-01 12:00`.

use thalweg_store::protocol::metadata::FileKind;

/// Kind and permissions, the way `ls -l` writes them.
pub fn mode_text(kind: FileKind, mode: u32) -> String {
    let kind = match kind {
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::CharacterDevice => 'c',
        FileKind::BlockDevice => 'b',
    };
    let mut text = String::from(kind);
    for (i, letter) in "rwxrwxrwx".chars().enumerate() {
        let set = mode >> (8 - i) & 1 == 1;
        // Set-user, set-group and sticky show in the place of the `x` they go with.
        let special = i % 3 == 2 && mode >> (11 - i / 3) & 1 == 1;
        text.push(match (set, special) {
            (_, true) => {
                let letter = if i == 8 { 't' } else { 's' };
                if set { letter } else { letter.to_ascii_uppercase() }
            }
            (true, false) => letter,
            (false, false) => '-',
        });
    }
    text
}

/// What a kind is called.
pub fn kind_text(kind: FileKind) -> &'static str {
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

/// An instant since the epoch, to the second, in UTC: `2026-03-01T12:00:00Z`.
pub fn time_text(since_epoch_ns: i64) -> String {
    let seconds = since_epoch_ns.div_euclid(1_000_000_000);
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The Gregorian date of a day since 1970-01-01. Years are counted from March, so that the leap day is the last of its year;
/// 400 years have 146,097 days, whatever comes before or after.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day_of_month)
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
    }
}
