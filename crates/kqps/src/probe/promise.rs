//! How closely runs on this host will know a rate: the cores are gauged for two seconds.

use std::thread::sleep;
use std::time::{Duration, Instant};

use kqps_host::gauge;
use kqps_verdict::percent;
use kqps_verdict::promise::Promise;

/// The time of the readings, of one reading, and of the pause after it.
const ALL: Duration = Duration::from_secs(2);
const READING: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(30);

/// Gauges the cores of this process.
///
/// # Errors
///
/// The reason why they cannot be gauged.
pub(super) fn measure() -> Result<Promise, String> {
    let began = Instant::now();
    let mut readings = Vec::new();
    while began.elapsed() < ALL {
        let reading = gauge(&[], READING).map_err(|error| error.to_string())?;
        let speed = reading.turns_per_s(&[]).ok_or("no core was gauged")?;
        readings.push((speed, reading.stalled_s() / (READING.as_secs_f64() + reading.stalled_s())));
        sleep(PAUSE);
    }
    Promise::from_readings(&readings).ok_or_else(|| "too few readings".to_owned())
}

/// The promise in sentences.
pub(super) fn words(promise: Result<&Promise, &str>) -> String {
    let promise = match promise {
        Ok(promise) => promise,
        Err(reason) => return format!("How closely a run here would know a rate is not known: {reason}.\n"),
    };
    let share = percent::short;
    let close = match promise.close_after_s {
        Some(seconds) if seconds <= 150.0 => "A longer run gives a narrower range.".to_owned(),
        Some(seconds) => {
            let minutes = (seconds / 60.0).ceil();
            format!(
                "For ± 2 % let it take {minutes:.0} min (`kqps run --budget {minutes:.0}m`), or use a quieter host."
            )
        }
        None => "For ± 2 % use a quieter host, or cores of your own.".to_owned(),
    };
    format!(
        "In the last two seconds the speed of the cores scattered by {} %, and other work interrupted them for {} % of the time. \
         If the host stays like this, a default run of `kqps run` finds a rate to about ± {} %. {close}\n",
        share(promise.scatter),
        share(promise.stalled),
        share(promise.default_run)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_names_the_time_for_a_closer_range() {
        let promise =
            Promise { scatter: 0.12, stalled: 0.004, default_run: 0.06, close_after_s: Some(1_080.0) };
        let said = words(Ok(&promise));
        assert!(
            said.contains("to about ± 6.0 %. For ± 2 % let it take 18 min (`kqps run --budget 18m`)"),
            "{said}"
        );
        let far = Promise { close_after_s: None, ..promise };
        assert!(words(Ok(&far)).ends_with("For ± 2 % use a quieter host, or cores of your own.\n"));
        assert!(words(Err("no loopback")).ends_with("is not known: no loopback.\n"));
    }
}
