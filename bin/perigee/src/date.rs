// SPDX-License-Identifier: MIT
//! Dates, for records of what was measured.

/// A date and time as RFC 3339 writes it, in UTC, to the second.
pub fn date(time: std::time::SystemTime) -> String {
    let seconds = time.duration_since(std::time::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (days, second) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Howard Hinnant's civil_from_days: the era of 400 years, and the day in it, counted from March.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The day alone, in UTC: `2025-11-23`.
#[cfg(feature = "predict")]
pub fn day(time: std::time::SystemTime) -> String {
    date(time).chars().take_while(|c| *c != 'T').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_763_856_059), "2025-11-23T00:00:59Z");
        assert_eq!(at(4_107_542_399), "2100-02-28T23:59:59Z");
    }

    #[cfg(feature = "predict")]
    #[test]
    fn a_day_is_a_date_without_its_time() {
        assert_eq!(day(std::time::UNIX_EPOCH + std::time::Duration::from_secs(951_868_799)), "2000-02-29");
    }
}
