//! The shapes of courses as people type them: ramps, steps, waves, and files of moments and rates.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

use super::{Course, Leg};
use crate::value::{NUMBERS, parse_seconds, scaled};

/// The greatest accepted rate, queries a second. No link carries more, so a greater one is a slip.
pub const RATE_MOST: f64 = 100e6;

/// The most legs of a course.
const LEGS_MOST: usize = 100_000;

/// The legs of each period of a wave. Straight lines between so many points of a cosine stay within 0.02 % of its height.
const LEGS_OF_PERIOD: u32 = 120;

/// Why text or legs are no course.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages say it
pub enum CourseError {
    #[error("expected {0}")]
    Expected(&'static str),
    #[error("`{0}` is no rate: expected queries a second, such as 500, 100k or 1.5M, and 100M at most")]
    Rate(String),
    #[error("{0}")]
    Time(String),
    #[error("say how long: {0}, or with -l")]
    NoTime(&'static str),
    #[error("a leg of a course has a time above 0, and rates of 0 or more")]
    Leg,
    #[error("a course needs a rate above 0")]
    Nothing,
    #[error("line {line}: {why}")]
    Line { line: usize, why: String },
    #[error("a course has {LEGS_MOST} legs at most; this one has {0}")]
    TooLong(usize),
}

/// A course as it is typed, before the length of the load is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// An even change from one rate to another, in this many seconds or in the whole time of the load.
    Ramp {
        /// Queries per second at the begin.
        from: f64,
        /// Queries per second at the end, and after it.
        to: f64,
        /// Seconds of the change.
        seconds: Option<f64>,
    },
    /// Rates one after another, each for this many seconds or for an equal part of the load's time.
    Steps {
        /// Queries per second.
        rates: Vec<f64>,
        /// Seconds of each step.
        seconds: Option<f64>,
    },
    /// A cosine between two rates, which begins at the lower one.
    Wave {
        /// Queries per second at the begin of each period.
        low: f64,
        /// Queries per second in the middle of each period.
        high: f64,
        /// Seconds of a period.
        period: f64,
    },
    /// The legs of a file.
    Legs(Course),
}

impl fmt::Display for Shape {
    /// As [`FromStr`] reads it; a file has no words.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |seconds: &Option<f64>| seconds.map_or_else(String::new, |seconds| format!("/{seconds}s"));
        match self {
            Self::Ramp { from, to, seconds } => write!(formatter, "ramp {from}..{to}{}", time(seconds)),
            Self::Steps { rates, seconds } => {
                let rates: Vec<String> = rates.iter().map(ToString::to_string).collect();
                write!(formatter, "steps {}{}", rates.join(","), time(seconds))
            }
            Self::Wave { low, high, period } => write!(formatter, "wave {low}..{high}/{period}s"),
            Self::Legs(course) => write!(formatter, "file of {} legs", course.legs().len()),
        }
    }
}

impl FromStr for Shape {
    type Err = CourseError;

    /// Reads `ramp 1k..200k/10s`, `steps 10k,20k,50k/5s` or `wave 1k..20k/2m`.
    fn from_str(text: &str) -> Result<Self, CourseError> {
        match text.trim().split_once(' ') {
            Some(("ramp", rates)) => Self::ramp(rates),
            Some(("steps", rates)) => Self::steps(rates),
            Some(("wave", rates)) => Self::wave(rates),
            _ => Err(CourseError::Expected(EXPECTED)),
        }
    }
}

/// Courses in words, with examples.
pub const EXPECTED: &str = "a course, such as `ramp 1k..200k`, `steps 10k,20k,50k/5s` or `wave 1k..20k/2m`";

impl Shape {
    /// Reads a ramp: `1k..200k`, or `1k..200k/10s`.
    pub fn ramp(text: &str) -> Result<Self, CourseError> {
        let (rates, seconds) = with_seconds(text)?;
        let (from, to) = two_rates(rates, "two rates, and perhaps a time, such as 1k..200k/10s")?;
        Ok(Self::Ramp { from, to, seconds })
    }

    /// Reads steps: `10k,20k,50k`, or `10k,20k,50k/5s` for 5 seconds each.
    pub fn steps(text: &str) -> Result<Self, CourseError> {
        let (rates, seconds) = with_seconds(text)?;
        let rates: Vec<f64> = rates.split(',').map(rate).collect::<Result<_, _>>()?;
        if rates.len() > LEGS_MOST {
            return Err(CourseError::TooLong(rates.len()));
        }
        Ok(Self::Steps { rates, seconds })
    }

    /// Reads a wave: `1k..20k/2m`.
    pub fn wave(text: &str) -> Result<Self, CourseError> {
        const EXPECTED: &str = "two rates and a period, such as 1k..20k/2m";
        let (rates, period) = with_seconds(text)?;
        let (low, high) = two_rates(rates, EXPECTED)?;
        let period = period.ok_or(CourseError::Expected(EXPECTED))?;
        Ok(Self::Wave { low, high, period })
    }

    /// Reads a file of moments: on each line seconds since the begin and the rate at that moment, between which the rate
    /// changes evenly. Two lines with one moment are a jump. Space, a comma or a semicolon stands between the two. Empty
    /// lines, lines that begin with `#`, and a first line of names are no moments.
    pub fn file(text: &str) -> Result<Self, CourseError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        let mut is_first = true;
        for (index, line) in text.lines().enumerate() {
            let line_text = line.trim();
            if line_text.is_empty() || line_text.starts_with('#') {
                continue;
            }
            let is_names =
                std::mem::take(&mut is_first) && line_text.starts_with(|c: char| c.is_alphabetic());
            if is_names {
                continue;
            }
            let wrong = |why: String| CourseError::Line { line: index + 1, why };
            let (second, rate) = point(line_text).map_err(wrong)?;
            let earlier = points.last().map_or(0.0, |(earlier, _)| *earlier);
            if points.is_empty() && second != 0.0 {
                return Err(wrong("the first moment is 0, the begin of the load".to_owned()));
            }
            if second < earlier {
                return Err(wrong(format!("{second} s is before {earlier} s: time goes forwards")));
            }
            points.push((second, rate));
            if points.len() > LEGS_MOST {
                return Err(CourseError::TooLong(points.len()));
            }
        }
        let leg =
            |pair: &[(f64, f64)]| Leg { seconds: pair[1].0 - pair[0].0, from: pair[0].1, to: pair[1].1 };
        let legs: Vec<Leg> = points.windows(2).map(leg).filter(|leg| leg.seconds > 0.0).collect();
        if legs.is_empty() {
            return Err(CourseError::Expected(
                "two moments at least, each with its rate: `0 1000`, `60 5000`",
            ));
        }
        Course::new(legs).map(Self::Legs)
    }

    /// Lays the course out for a load of this many seconds; `None` lets the course say how long the load is.
    ///
    /// A load that is longer than its ramp or its steps keeps their last rate, a wave goes on, and the legs of a file end
    /// the load. A shorter load ends before its course does.
    pub fn lay(&self, seconds: Option<f64>) -> Result<Course, CourseError> {
        let legs = match self {
            Self::Ramp { from, to, seconds: own } => {
                let ramp = own.or(seconds).ok_or(CourseError::NoTime("--ramp 1k..200k/10s"))?;
                vec![Leg { seconds: ramp, from: *from, to: *to }]
            }
            Self::Steps { rates, seconds: own } => {
                let part = seconds.map(|seconds| seconds / rates.len() as f64);
                let each = own.or(part).ok_or(CourseError::NoTime("--steps 10k,20k,50k/5s"))?;
                rates.iter().map(|&rate| Leg { seconds: each, from: rate, to: rate }).collect()
            }
            Self::Wave { low, high, period } => {
                let whole = seconds.unwrap_or(*period);
                let legs = (whole / period * f64::from(LEGS_OF_PERIOD)).ceil();
                if legs > LEGS_MOST as f64 {
                    return Err(CourseError::TooLong(legs as usize));
                }
                let turn = |number: u32| f64::from(number % LEGS_OF_PERIOD) / f64::from(LEGS_OF_PERIOD);
                let rate = |number: u32| low + (high - low) * (1.0 - (TAU * turn(number)).cos()) / 2.0;
                let each = period / f64::from(LEGS_OF_PERIOD);
                let leg = |number| Leg { seconds: each, from: rate(number), to: rate(number + 1) };
                (0..).take(legs as usize).map(leg).collect()
            }
            Self::Legs(course) => course.legs().to_vec(),
        };
        let course = Course::new(legs)?;
        let rest = seconds.map_or(0.0, |seconds| seconds - course.seconds());
        if rest > 0.0 && !matches!(self, Self::Legs(_)) {
            let mut legs = course.legs().to_vec();
            let last = legs.last().map_or(0.0, |leg| leg.to);
            legs.push(Leg { seconds: rest, from: last, to: last });
            return Course::new(legs);
        }
        Ok(course)
    }
}

/// Splits a time from the end of text: `…/10s`.
fn with_seconds(text: &str) -> Result<(&str, Option<f64>), CourseError> {
    let Some((rates, time)) = text.rsplit_once('/') else { return Ok((text, None)) };
    let seconds = parse_seconds(time).map_err(CourseError::Time)?.as_secs_f64();
    if seconds > 0.0 { Ok((rates, Some(seconds))) } else { Err(CourseError::Leg) }
}

fn two_rates(text: &str, expected: &'static str) -> Result<(f64, f64), CourseError> {
    let (first, second) = text.split_once("..").ok_or(CourseError::Expected(expected))?;
    Ok((rate(first)?, rate(second)?))
}

/// A rate, which may be 0 for a while.
fn rate(text: &str) -> Result<f64, CourseError> {
    let rate = scaled(text, &NUMBERS);
    rate.filter(|rate| *rate <= RATE_MOST).ok_or_else(|| CourseError::Rate(text.trim().to_owned()))
}

/// A line of a file: seconds, and the rate then.
fn point(line: &str) -> Result<(f64, f64), String> {
    let mut words =
        line.split(|c: char| c.is_whitespace() || c == ',' || c == ';').filter(|word| !word.is_empty());
    let (Some(second), Some(given), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("expected seconds and a rate, such as `60 5000`, and found `{line}`"));
    };
    let seconds = parse_seconds(second).map_err(|why| format!("`{second}`: {why}"))?;
    Ok((seconds.as_secs_f64(), rate(given).map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legs(course: &Course) -> Vec<(f64, f64, f64)> {
        course.legs().iter().map(|leg| (leg.seconds, leg.from, leg.to)).collect()
    }

    #[test]
    fn a_ramp_takes_its_own_time_or_that_of_the_load() {
        let own = Shape::ramp("1k..200k/10s").unwrap();
        assert_eq!(legs(&own.lay(None).unwrap()), [(10.0, 1e3, 200e3)]);
        assert_eq!(legs(&own.lay(Some(15.0)).unwrap()), [(10.0, 1e3, 200e3), (5.0, 200e3, 200e3)]);
        assert_eq!(legs(&own.lay(Some(5.0)).unwrap()), [(10.0, 1e3, 200e3)]);
        let open = Shape::ramp("200k..0").unwrap();
        assert_eq!(legs(&open.lay(Some(4.0)).unwrap()), [(4.0, 200e3, 0.0)]);
        assert_eq!(open.lay(None).unwrap_err().to_string(), "say how long: --ramp 1k..200k/10s, or with -l");
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        for text in ["ramp 1000..200000/10s", "ramp 5..1", "steps 10,0,50/0.5s", "wave 1000..20000/120s"] {
            assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
        }
        assert_eq!("hill 1..2".parse::<Shape>().unwrap_err().to_string(), format!("expected {EXPECTED}"));
    }

    #[test]
    fn steps_share_the_time_unless_they_have_their_own() {
        let shared = Shape::steps("10k,20k,50k").unwrap();
        assert_eq!(
            legs(&shared.lay(Some(6.0)).unwrap()),
            [(2.0, 10e3, 10e3), (2.0, 20e3, 20e3), (2.0, 50e3, 50e3)]
        );
        let own = Shape::steps("10k,0/500ms").unwrap();
        assert_eq!(legs(&own.lay(Some(2.0)).unwrap()), [(0.5, 10e3, 10e3), (0.5, 0.0, 0.0), (1.0, 0.0, 0.0)]);
    }

    #[test]
    fn a_wave_has_the_mean_of_its_rates_and_goes_on() {
        let wave = Shape::wave("1k..3k/10s").unwrap();
        let course = wave.lay(Some(25.0)).unwrap();
        assert!((course.count_until(10.0) - 20_000.0).abs() < 1e-6);
        assert!(
            (course.rate_at(5.0) - 3_000.0).abs() < 1e-9 && (course.rate_at(20.0) - 1_000.0).abs() < 1e-9
        );
        assert!(course.seconds() >= 25.0);
        let half = course.count_until(2.5);
        let exact = 2_000.0 * 2.5 - 1_000.0 * 10.0 / TAU;
        assert!((half / exact - 1.0).abs() < 2e-4, "{half} {exact}");
    }

    #[test]
    fn a_file_has_moments_with_jumps_names_and_either_separator() {
        let text = "seconds,qps\n# a morning\n0,1k\n60;5000\n\n60 0\n 90\t0\n";
        let Shape::Legs(course) = Shape::file(text).unwrap() else { panic!("no legs") };
        assert_eq!(legs(&course), [(60.0, 1e3, 5e3), (30.0, 0.0, 0.0)]);
    }

    #[test]
    fn nonsense_gets_its_line_and_reason() {
        let said = |text: &str| Shape::file(text).unwrap_err().to_string();
        assert_eq!(said("0 1k\n5 2k\n4 1k\n"), "line 3: 4 s is before 5 s: time goes forwards");
        assert_eq!(said("1 1k\n2 1k\n"), "line 1: the first moment is 0, the begin of the load");
        assert!(said("0 1k\nsoon 2k\n").starts_with("line 2: `soon`: expected a duration"));
        assert!(said("0 1k 7\n").starts_with("line 1: expected seconds and a rate"));
        assert!(said("0 -5\n").starts_with("line 1: `-5` is no rate"));
        assert_eq!(said("0 0\n9 0\n"), "a course needs a rate above 0");
        assert!(said("").starts_with("expected two moments"));
        for bad in ["1k", "1k..", "..2k", "1k..2k/", "1k..2k/0s", "a..b", "1k..200M", "1..2/3/x"] {
            assert!(Shape::ramp(bad).is_err(), "{bad}");
        }
        assert!(
            Shape::steps("").is_err() && Shape::steps("1k,,2k").is_err() && Shape::wave("1k..2k").is_err()
        );
    }
}
