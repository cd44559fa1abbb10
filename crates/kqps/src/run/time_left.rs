//! How long the rest of a run or a comparison takes: beside its progress, and in a line if the whole takes much longer
//! or shorter than was announced.

use std::time::{Duration, Instant};

use kqps_testbed::words::time;

/// The whole time is announced anew if it differs by more than this factor.
const FACTOR: f64 = 1.5;

/// A smaller difference deserves no line.
const LEAST_S: f64 = 5.0;

/// The announced time, and the newest estimate of the rest.
#[derive(Debug)]
pub(crate) struct TimeLeft {
    began: Instant,
    /// Seconds of the whole; `None` if nothing was announced, as when a run is resumed.
    announced_s: Option<f64>,
    /// `None` before the first estimate.
    ends: Option<Instant>,
}

impl Default for TimeLeft {
    /// A measurement that begins now, of which nothing was announced.
    fn default() -> Self {
        Self { began: Instant::now(), announced_s: None, ends: None }
    }
}

impl TimeLeft {
    /// `whole_s` is how long the measurement takes, as was printed.
    pub(crate) fn announced(began: Instant, whole_s: f64) -> Self {
        Self { began, announced_s: Some(whole_s), ends: None }
    }

    /// Takes a new estimate of the rest, in seconds. Returns the line to print, if there is one.
    pub(crate) fn line(&mut self, left_s: f64) -> Option<String> {
        self.ends = Some(Instant::now().checked_add(Duration::try_from_secs_f64(left_s).ok()?)?);
        self.line_after(self.began.elapsed().as_secs_f64(), left_s)
    }

    /// The rest in words; `None` if it is over or not known.
    pub(crate) fn words(&self) -> Option<String> {
        let left = self.ends?.checked_duration_since(Instant::now())?;
        (left.as_secs() > 0).then(|| format!("about {} left", time(left.as_secs_f64().round())))
    }

    fn line_after(&mut self, after_s: f64, left_s: f64) -> Option<String> {
        let whole_s = after_s + left_s;
        let before_s = self.announced_s;
        let is_news = |before_s: f64| {
            let is_far = whole_s > before_s * FACTOR || whole_s < before_s / FACTOR;
            is_far && (whole_s - before_s).abs() >= LEAST_S
        };
        if left_s < 1.0 || !before_s.is_none_or(is_news) {
            return None;
        }
        self.announced_s = Some(whole_s);
        let said = |seconds: f64| time(seconds.round());
        let instead =
            before_s.map(|before_s| format!(": {} in all instead of {}", said(whole_s), said(before_s)));
        let instead = instead.unwrap_or_default();
        Some(format!("after {}   about {} left{instead}", said(after_s), said(left_s)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_time_than_was_announced_is_printed_once() {
        let mut left = TimeLeft::announced(Instant::now(), 12.0);
        let mut line = |after_s, left_s| left.line_after(after_s, left_s);
        assert_eq!(line(6.0, 11.0), None, "about as announced");
        let longer = "after 10 s   about 15 s left: 25 s in all instead of 12 s";
        assert_eq!(line(10.0, 15.0).as_deref(), Some(longer));
        assert_eq!(line(15.0, 12.0), None, "it was printed");
        let much_longer = "after 1 min   about 2 min 30 s left: 3 min 30 s in all instead of 25 s";
        assert_eq!(line(60.0, 150.2).as_deref(), Some(much_longer));
        let shorter = "after 1 min 40 s   about 2 s left: 1 min 42 s in all instead of 3 min 30 s";
        assert_eq!(line(99.7, 2.3).as_deref(), Some(shorter));
        assert_eq!(line(190.0, 0.5), None, "it is over");
        let mut short = TimeLeft::announced(Instant::now(), 6.0);
        assert_eq!(short.line_after(3.0, 7.0), None, "4 s more");
        assert!(short.line_after(3.0, 9.0).is_some());
        assert_eq!(short.line(f64::MAX), None, "no clock goes so far");
        assert_eq!(short.line(1e19), None);
    }

    #[test]
    fn a_resumed_run_announces_its_rest_when_it_is_known() {
        let mut left = TimeLeft::default();
        assert_eq!(left.words(), None);
        assert_eq!(left.line_after(8.0, 30.0).as_deref(), Some("after 8 s   about 30 s left"));
        assert_eq!(left.line_after(20.0, 20.0), None);
        left.line(100.0);
        assert!(left.words().is_some_and(|words| words.starts_with("about 1 min ")), "{:?}", left.words());
    }
}
