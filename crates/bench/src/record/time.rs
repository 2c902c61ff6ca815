//! Calendar texts of a Unix time. Pure: the caller reads the clock.

/// `2026-11-21T03:15:00Z`.
pub(crate) fn rfc3339_utc(unix_s: i64) -> String {
    let (year, month, day, [hour, minute, second]) = civil(unix_s);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `20261121_031500`: the name of a run's directory.
pub(crate) fn directory_stamp(unix_s: i64) -> String {
    let (year, month, day, [hour, minute, second]) = civil(unix_s);
    format!("{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}")
}

/// Year, month, day and time of day of the proleptic Gregorian calendar in UTC.
/// The date part is Howard Hinnant's `civil_from_days`.
fn civil(unix_s: i64) -> (i64, i64, i64, [i64; 3]) {
    let days = unix_s.div_euclid(86_400);
    let in_day = unix_s.rem_euclid(86_400);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (
        year,
        month,
        day,
        [in_day / 3_600, in_day / 60 % 60, in_day % 60],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_known_moments() {
        assert_eq!(rfc3339_utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339_utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339_utc(-1), "1969-12-31T23:59:59Z");
        assert_eq!(directory_stamp(1_795_230_900), "20261121_031500");
    }
}
