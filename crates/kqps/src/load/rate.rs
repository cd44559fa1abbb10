//! The rate of an open loop: one for the whole load, or a course.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kqps_catalogue::course::{Course, Shape};

use crate::exit::bad_input;
use crate::value::parse_rate;

/// The flags of the rate. One of them at most is given.
#[derive(clap::Args)]
#[group(multiple = false)]
pub(crate) struct RateArgs {
    /// Open loop: send this many queries a second
    ///
    /// They are sent no matter what the subject answers. With -q as well, a query that falls due while that many are
    /// outstanding is not sent, and counts as unsent.
    #[arg(short = 'Q', long, value_name = "RATE", value_parser = parse_rate, help_heading = "Load")]
    rate: Option<f64>,

    /// Open loop: change the rate evenly from A to B, in TIME or in the whole time of the load
    ///
    /// Such as 1k..200k/10s. A load that is longer (-l) goes on with B.
    #[arg(long, value_name = "A..B[/TIME]", value_parser = Shape::ramp, help_heading = "Load")]
    ramp: Option<Shape>,

    /// Open loop: send at one rate after another, each for TIME or for an equal part of the load's time
    ///
    /// Such as 10k,20k,50k/5s. A load that is longer (-l) goes on with the last rate.
    #[arg(long, value_name = "A,B,…[/TIME]", value_parser = Shape::steps, help_heading = "Load")]
    steps: Option<Shape>,

    /// Open loop: let the rate swing between two rates, from the lower one, once in TIME
    ///
    /// Such as 1k..20k/2m, a day's curve in two minutes. Without -l the load is one swing.
    #[arg(long, value_name = "LOW..HIGH/TIME", value_parser = Shape::wave, help_heading = "Load")]
    wave: Option<Shape>,

    /// Open loop: take the course of the rate from this file: on each line seconds since the begin, and the rate then
    ///
    /// Between two lines the rate changes evenly; two lines with one time are a jump. A comma, a semicolon or space
    /// stands between the two numbers. The load ends with the file, or earlier by -l.
    #[arg(long, value_name = "FILE", help_heading = "Load")]
    course: Option<PathBuf>,
}

/// The rate that the flags ask for.
pub(super) struct Rate {
    /// Queries per second, the most of a course; `None` if the flags name no rate.
    pub(super) qps: Option<f64>,
    /// The course, as shares of that rate.
    pub(super) course: Option<Course>,
    /// The end of the load: by -l, or that of the course.
    pub(super) duration: Option<Duration>,
}

impl RateArgs {
    /// Lays out the rate for a load of this duration.
    pub(super) fn lay(&self, duration: Option<Duration>) -> anyhow::Result<Rate> {
        let shape = match &self.course {
            Some(path) => Some(shape_of(path)?),
            None => self.ramp.as_ref().or(self.steps.as_ref()).or(self.wave.as_ref()).cloned(),
        };
        let Some(shape) = shape else { return Ok(Rate { qps: self.rate, course: None, duration }) };
        let course = shape.lay(duration.map(|duration| duration.as_secs_f64()));
        let course = course.map_err(|error| bad_input(error.to_string()))?;
        let end = Duration::from_secs_f64(course.seconds());
        let duration = Some(duration.map_or(end, |duration| duration.min(end)));
        Ok(Rate { qps: Some(course.peak()), course: Some(course.shares()), duration })
    }
}

/// The course of a file.
fn shape_of(path: &Path) -> anyhow::Result<Shape> {
    let wrong = |why: &dyn Display| bad_input(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    Shape::file(&text).map_err(|error| wrong(&error))
}
