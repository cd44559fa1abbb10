//! A command line of resperf, typed, and its errors in resperf's words. Flags that dnsperf has as well are read as there.

use std::time::Duration;

use kqps_catalogue::course::{Course, Leg};

use super::super::command::value::{seconds, whole, whole_or_zero};
use super::super::command::{Command as Base, Fault};
use super::super::getopt::{Letters, Part, split};
use super::usage::{LONG, USAGE};

/// The most outstanding queries of each client: one to each ID.
const IDS: u64 = 1 << 16;

/// The shortest interval of the plot. A shorter one would have fewer queries than a moment can show.
const INTERVAL_LEAST: Duration = Duration::from_millis(1);

/// The usual file of the plot.
pub(super) const PLOT_FILE: &str = "resperf.gnuplot";

const LETTERS: Letters = Letters { with_value: "fMspaxdtbEyimPrcLCqFO", alone: "eDvWRhH" };

/// The request of a command line.
#[derive(Debug)]
pub(super) enum Parsed {
    Run(Box<Command>),
    /// A single help text.
    Help(&'static str),
}

/// A load that rises to a rate, and may stay at it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Command {
    /// The settings that dnsperf has as well.
    pub(super) base: Base,
    pub(super) plot_interval: Duration,
    pub(super) plot_file: String,
    pub(super) max_qps: u64,
    pub(super) ramp: Duration,
    pub(super) constant: Duration,
    /// The maximum is looked for up to the first interval that lost more than this, percent.
    pub(super) max_loss: f64,
    pub(super) reopens: bool,
    /// The test ends when so many queries are late; `None` for any number.
    pub(super) fall_behind: Option<u64>,
}

/// Reads a command line.
pub(super) fn parse(words: &[String]) -> Result<Parsed, Fault> {
    let mut command = Command::new();
    let fault = |fault: Fault| fault.of_program(USAGE);
    for part in split(words, LETTERS) {
        match part {
            Part::Flag('h') => return Ok(Parsed::Help(USAGE)),
            Part::Flag('H') | Part::LongHelp => return Ok(Parsed::Help(LONG)),
            Part::Flag('R') => command.reopens = true,
            Part::Flag(letter) => command.base.flag(letter),
            Part::Value(letter, value) => command.value(letter, &value).map_err(fault)?,
            Part::Unknown(letter) => {
                return Err(fault(Fault::usage(format!("resperf: invalid option -- '{letter}'"))));
            }
            Part::NoValue(letter) => {
                return Err(fault(Fault::usage(format!(
                    "resperf: option requires an argument -- '{letter}'"
                ))));
            }
            Part::Word(word) => return Err(fault(Fault::usage(format!("unexpected argument {word}")))),
        }
    }
    if command.ramp.is_zero() && command.constant.is_zero() {
        return Err(Fault::alone("Error: rampup_time and constant_traffic_time must not both be 0"));
    }
    let outstanding = command.base.outstanding;
    if outstanding > command.base.clients * IDS {
        let why = format!(
            "Error: number of outstanding packets ({outstanding}) must not be more than 64K per client"
        );
        return Err(Fault::alone(why));
    }
    Ok(Parsed::Run(Box::new(command)))
}

impl Command {
    /// The command of a line without flags.
    pub(super) fn new() -> Self {
        Self {
            base: Base { timeout: Duration::from_secs(45), outstanding: IDS, ..Base::new() },
            plot_interval: Duration::from_millis(500),
            plot_file: PLOT_FILE.into(),
            max_qps: 100_000,
            ramp: Duration::from_mins(1),
            constant: Duration::ZERO,
            max_loss: 100.0,
            reopens: false,
            fall_behind: Some(1000),
        }
    }

    fn value(&mut self, letter: char, value: &str) -> Result<(), Fault> {
        match letter {
            'M' => self.base.value('m', value)?,
            'C' => self.base.value('c', value)?,
            'q' => self.base.outstanding = whole("num_outstanding", value)?,
            'i' => {
                let interval = seconds("plot_interval", value)?;
                if interval < INTERVAL_LEAST {
                    return Err(Fault::usage(format!("invalid plot_interval: {value}")));
                }
                self.plot_interval = interval;
            }
            'm' => self.max_qps = whole("max_qps", value)?,
            'P' => value.clone_into(&mut self.plot_file),
            'r' => self.ramp = seconds("ramp_time", value)?,
            'c' => self.constant = seconds("constant_traffic_time", value)?,
            'L' => self.max_loss = seconds("max_query_loss", value)?.as_secs_f64(),
            'F' => {
                let count = whole_or_zero("fall_behind", value)?;
                self.fall_behind = Some(count).filter(|count| *count > 0);
            }
            _ => self.base.value(letter, value)?,
        }
        Ok(())
    }

    /// The time for which it sends.
    pub(super) fn sending(&self) -> Duration {
        self.ramp + self.constant
    }

    /// The course of its rate, as shares of the maximum.
    pub(super) fn course(&self) -> anyhow::Result<Course> {
        let ramp = Leg { seconds: self.ramp.as_secs_f64(), from: 0.0, to: 1.0 };
        let constant = Leg { seconds: self.constant.as_secs_f64(), from: 1.0, to: 1.0 };
        Ok(Course::new([ramp, constant].into_iter().filter(|leg| leg.seconds > 0.0).collect())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, Fault> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&words)? {
            Parsed::Run(command) => Ok(*command),
            Parsed::Help(_) => panic!("{line} asks for help"),
        }
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let command = parsed("").unwrap();
        assert_eq!(
            (command.max_qps, command.ramp, command.constant),
            (100_000, Duration::from_mins(1), Duration::ZERO)
        );
        assert_eq!((command.base.timeout, command.base.outstanding), (Duration::from_secs(45), 65_536));
        assert_eq!(
            (command.plot_interval, &*command.plot_file),
            (Duration::from_millis(500), "resperf.gnuplot")
        );
        assert_eq!((command.fall_behind, command.reopens), (Some(1000), false));
    }

    #[test]
    fn flags_of_dnsperf_have_their_own_letters() {
        let command = parsed("-M tcp -C 4 -q 200000 -F 0 -R -L 5 -r 0 -c 2 -m 7").unwrap();
        assert_eq!(
            (command.base.mode.word(), command.base.clients, command.base.outstanding),
            ("tcp", 4, 200_000)
        );
        assert_eq!((command.fall_behind, command.reopens), (None, true));
        let course = command.course().unwrap();
        assert!((course.seconds() - 2.0).abs() < 1e-9 && (course.count_until(2.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn nonsense_has_the_words_of_resperf() {
        let said = |line: &str| parsed(line).unwrap_err().to_string();
        assert_eq!(said("-r 0"), "Error: rampup_time and constant_traffic_time must not both be 0\n");
        assert!(said("-q 65537").contains("(65537) must not be more than 64K per client"));
        for (line, message) in [
            ("-m 0", "invalid max_qps: 0"),
            ("-i 0", "invalid plot_interval: 0"),
            ("-L x", "invalid max_query_loss: x"),
            ("-F -1", "invalid fall_behind: -1"),
            ("-Z", "resperf: invalid option -- 'Z'"),
            ("-M foo", "Warning: invalid socket mode"),
            ("extra", "unexpected argument extra"),
        ] {
            assert!(said(line).starts_with(&format!("{message}\nUsage: resperf")), "{line}: {}", said(line));
        }
    }
}
