//! Lines that dnsperf logs beside its statistics.

use std::time::{SystemTime, UNIX_EPOCH};

use kqps_kernel::clock::{LocalTime, local_time};

/// Where warnings and errors go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    /// Standard output instead of standard error.
    pub(super) to_stdout: bool,
}

impl Log {
    pub(super) fn warning(self, text: &str) {
        self.line("Warning", text);
    }

    pub(super) fn error(self, text: &str) {
        self.line("Error", text);
    }

    fn line(self, kind: &str, text: &str) {
        if self.to_stdout {
            println!("{kind}: {text}");
        } else {
            eprintln!("{kind}: {text}");
        }
    }
}

/// The present moment, seconds since 1970.
pub(super) fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as f64 / 1e6
}

/// The present moment as ctime(3) writes it.
pub(super) fn started_at() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    local_time(now.as_secs()).map_or_else(String::new, |local| by_ctime(&local))
}

/// The present minute, for names of files: `20261129-1403`.
pub(super) fn stamp() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    local_time(now.as_secs()).map_or_else(
        || now.as_secs().to_string(),
        |LocalTime { year, month, day, hour, minute, .. }| {
            format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}")
        },
    )
}

fn by_ctime(local: &LocalTime) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let &LocalTime { year, month, day, weekday, hour, minute, second } = local;
    let of = |names: &[&'static str], index: u8| names.get(usize::from(index)).copied().unwrap_or("???");
    format!(
        "{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}",
        of(&DAYS, weekday),
        of(&MONTHS, month.wrapping_sub(1))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_by_ctime() {
        let local = LocalTime { year: 2026, month: 1, day: 5, weekday: 1, hour: 3, minute: 4, second: 59 };
        assert_eq!(by_ctime(&local), "Mon Jan  5 03:04:59 2026");
    }
}
