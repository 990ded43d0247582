//! Dates and times for error messages.

/// Formats a time to the minute, rounded up: `2026-11-25 14:20 UTC`.
pub fn utc_minute(at_ns: i64) -> String {
    const MINUTE_NS: i64 = 60_000_000_000;
    let minutes = at_ns.div_euclid(MINUTE_NS) + i64::from(at_ns.rem_euclid(MINUTE_NS) != 0);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    // Days since 0000-03-01, in eras of 400 years; years begin in March (H. Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_named_to_the_minute_and_not_too_early() {
        assert_eq!(utc_minute(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc_minute(-1), "1970-01-01 00:00 UTC");
        assert_eq!(utc_minute(1), "1970-01-01 00:01 UTC");
        assert_eq!(utc_minute(951_782_400_000_000_000), "2000-02-29 00:00 UTC");
        assert_eq!(utc_minute(1_795_616_400_000_000_000), "2026-11-25 14:20 UTC");
    }
}
