//! The result of a test: its maximum, its lines, and the plot.

use std::fmt::Write as _;

use kqps_catalogue::course::Course;
use kqps_observation::Trial;
use kqps_observation::moments::Moment;

use super::super::statistics::Counts;
use super::super::statistics::codes;
use super::command::Command;
use super::ending::Ending;

/// The maximum throughput, and what was lost while it was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Maximum {
    /// Replies a second, by when their queries were sent.
    pub(super) qps: f64,
    /// The share of those queries without a reply.
    pub(super) lost: f64,
    /// Seconds from the begin to the end of its interval.
    pub(super) until_s: f64,
}

impl Maximum {
    /// The maximum of the intervals before the first that lost more than `max_loss` percent.
    pub(super) fn from_moments(moments: &[Moment], max_loss: f64) -> Self {
        let mut most = Self::default();
        for moment in moments {
            let lost = moment.sent.saturating_sub(moment.answered) as f64 / moment.sent.max(1) as f64;
            if lost * 100.0 > max_loss {
                break;
            }
            let qps = moment.answered as f64 / moment.seconds;
            if qps > most.qps {
                most = Self { qps, lost, until_s: moment.at_s + moment.seconds };
            }
        }
        most
    }
}

/// The statistics of a test, line by line as resperf prints them.
pub(super) fn text(counts: &Counts, maximum: Maximum, reconnections: u64) -> String {
    let mut text = String::from("\nStatistics:\n\n");
    let completed = counts.replies.replies();
    let _ = writeln!(text, "  Queries sent:         {}", counts.sent);
    let _ = writeln!(text, "  Queries completed:    {completed}");
    let _ = writeln!(text, "  Queries lost:         {}", counts.sent.saturating_sub(completed));
    let _ = writeln!(text, "  Response codes:       {}", codes(counts));
    let _ = writeln!(text, "  Reconnection(s):      {reconnections}");
    let _ = writeln!(text, "  Run time (s):         {:.6}", counts.run_time_s);
    let _ = writeln!(text, "  Maximum throughput:   {:.6} qps", maximum.qps);
    let _ = writeln!(text, "  Lost at that point:   {:.2}%", maximum.lost * 100.0);
    text
}

/// The file of the plot: a line for each interval, by when queries were sent.
pub(super) fn plot(command: &Command, course: &Course, moments: &[Moment]) -> String {
    let mut text = String::from(
        "# time target_qps actual_qps responses_per_sec failures_per_sec avg_latency connections conn_avg_latency\n",
    );
    for moment in moments {
        let at_s = moment.at_s + moment.seconds / 2.0;
        let target_qps = course.rate_at(at_s) * command.max_qps as f64;
        let per_second = |count: u64| count as f64 / moment.seconds;
        let (sent, answered, failed) =
            (per_second(moment.sent), per_second(moment.answered), per_second(moment.failed));
        let latency_s = moment.mean_us.unwrap_or(0.0) / 1e6;
        let _ = writeln!(
            text,
            "{at_s:7.3} {target_qps:8.2} {sent:8.2} {answered:8.2} {failed:8.2} {latency_s:8.6} {:8.2} {:8.6}",
            0.0, 0.0
        );
    }
    text
}

/// A sentence on whose limit the maximum is.
pub(super) fn limit(trial: &Trial, maximum: Maximum, ending: Option<Ending>) -> String {
    let (accounts, last) = (&trial.accounts, trial.moments.last());
    let end_s = last.map_or(0.0, |moment| moment.at_s);
    let bad = accounts.sent.saturating_sub(accounts.correct) as f64 / accounts.sent.max(1) as f64;
    let own = accounts.unsent + accounts.send_failed + trial.lost_by_player();
    if ending == Some(Ending::FellBehind) || own > accounts.intended / 1000 {
        return format!(
            "the maximum may be the player's: {own} queries were not sent, or their replies were lost at its own sockets"
        );
    }
    if ending == Some(Ending::Asked) {
        return "the test was ended by a signal: the server may answer more".into();
    }
    if ending == Some(Ending::Outstanding) {
        return "the maximum is the server's, or that of the way to it: its answers fell behind until too many queries \
                were outstanding (-q)"
            .into();
    }
    if bad < 0.001 && maximum.until_s >= end_s {
        return "the maximum is the highest rate that was asked for (-m), and nearly all of it was answered: the server \
                may answer more"
            .into();
    }
    format!(
        "the maximum is the server's, or that of the way to it: the player sent on time, and {:.2}% of the queries had no \
         answer",
        bad * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(at_s: f64, sent: u64, answered: u64) -> Moment {
        Moment {
            at_s,
            seconds: 0.5,
            intended: sent,
            sent,
            answered,
            mean_us: Some(250.0),
            failed: 2,
            ..Moment::default()
        }
    }

    #[test]
    fn the_maximum_is_that_before_too_much_was_lost() {
        let moments = [moment(0.0, 100, 100), moment(0.5, 200, 180), moment(1.0, 400, 200)];
        let all = Maximum::from_moments(&moments, 100.0);
        assert!((all.qps - 400.0).abs() < 1e-9 && (all.lost - 0.5).abs() < 1e-9, "{all:?}");
        let strict = Maximum::from_moments(&moments, 5.0);
        assert!((strict.qps - 200.0).abs() < 1e-9 && strict.lost == 0.0, "{strict:?}");
        assert_eq!(Maximum::from_moments(&[], 5.0), Maximum::default());
    }

    #[test]
    fn the_plot_has_a_line_for_each_interval() {
        let command = Command { max_qps: 1000, ramp: std::time::Duration::from_secs(1), ..Command::new() };
        let course = command.course().unwrap();
        let text = plot(&command, &course, &[moment(0.0, 125, 125), moment(0.5, 375, 100)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  0.250   250.00   250.00   250.00     4.00 0.000250     0.00 0.000000");
        assert_eq!(lines[2], "  0.750   750.00   750.00   200.00     4.00 0.000250     0.00 0.000000");
    }
}
