//! Courses: rates that change with time.
//!
//! A course is a row of legs. Within a leg the rate changes evenly, so the number of queries that are due by a moment is
//! the area below straight lines, which is known exactly, as is the moment at which a query is due.

mod shape;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use shape::{CourseError, EXPECTED, RATE_MOST, Shape};

/// A part of a course, in which the rate changes evenly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Leg {
    /// How long it lasts, above 0.
    pub seconds: f64,
    /// The rate at its begin, 0 or more.
    pub from: f64,
    /// The rate at its end, 0 or more.
    pub to: f64,
}

impl Leg {
    /// The queries that are due in its first `seconds`.
    fn count(&self, seconds: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        seconds * (self.from + slope * seconds / 2.0)
    }

    /// The seconds after its begin by which `count` queries are due, of at most [`Self::count`] of the whole leg.
    fn second(&self, count: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        // The root of the quadratic equation in the form that loses no digits, whatever the slope's sign.
        let root = (self.from * self.from + 2.0 * slope * count).max(0.0).sqrt();
        let seconds = if count > 0.0 { 2.0 * count / (self.from + root) } else { 0.0 };
        seconds.min(self.seconds)
    }
}

/// A rate that changes with time. Its unit is that of its legs: queries per second, or a share of a rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Course {
    legs: Vec<Leg>,
}

impl Course {
    /// A course of these legs. An error says why they are none.
    pub fn new(legs: Vec<Leg>) -> Result<Self, CourseError> {
        let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
        let is_leg =
            |leg: &Leg| leg.seconds.is_finite() && leg.seconds > 0.0 && is_rate(leg.from) && is_rate(leg.to);
        if !legs.iter().all(is_leg) {
            return Err(CourseError::Leg);
        }
        let course = Self { legs };
        if course.peak() > 0.0 { Ok(course) } else { Err(CourseError::Nothing) }
    }

    /// Its legs, in their order.
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }

    /// The highest rate.
    pub fn peak(&self) -> f64 {
        self.legs.iter().flat_map(|leg| [leg.from, leg.to]).fold(0.0, f64::max)
    }

    /// How long it lasts.
    pub fn seconds(&self) -> f64 {
        self.legs.iter().map(|leg| leg.seconds).sum()
    }

    /// The course with each rate as a share of the highest.
    #[must_use]
    pub fn shares(&self) -> Self {
        let peak = self.peak();
        let share = |leg: &Leg| Leg { seconds: leg.seconds, from: leg.from / peak, to: leg.to / peak };
        Self { legs: self.legs.iter().map(share).collect() }
    }

    /// The course with each rate multiplied by a factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let times = |leg: &Leg| Leg { seconds: leg.seconds, from: leg.from * factor, to: leg.to * factor };
        Self { legs: self.legs.iter().map(times).collect() }
    }

    /// The rate at a moment, in seconds since the begin; 0 after the end. At a jump it is the later rate.
    pub fn rate_at(&self, seconds: f64) -> f64 {
        let mut begin = 0.0;
        for leg in &self.legs {
            if seconds < begin + leg.seconds {
                let share = ((seconds - begin) / leg.seconds).max(0.0);
                return leg.from + (leg.to - leg.from) * share;
            }
            begin += leg.seconds;
        }
        0.0
    }

    /// The area below the course until a moment, in seconds since the begin: the queries due before it.
    pub fn count_until(&self, seconds: f64) -> f64 {
        let (mut begin, mut count) = (0.0, 0.0);
        for leg in &self.legs {
            if seconds <= begin {
                break;
            }
            count += leg.count((seconds - begin).min(leg.seconds));
            begin += leg.seconds;
        }
        count
    }
}

/// A walk along a course: moments by counts that only grow.
#[derive(Clone, Debug)]
pub struct Walk {
    course: Course,
    /// The leg that the walk has reached, when it begins, and the area before it.
    leg: usize,
    begin_s: f64,
    before: f64,
}

impl Walk {
    /// A walk at the begin of a course.
    pub fn new(course: Course) -> Self {
        Self { course, leg: 0, begin_s: 0.0, before: 0.0 }
    }

    /// The moment, in seconds since the begin, by which the area below the course is `count`, and the rate then. `None`
    /// if the whole area is no more. `count` may be no less than in the call before.
    #[inline]
    pub fn reach(&mut self, count: f64) -> Option<(f64, f64)> {
        loop {
            let leg = self.course.legs.get(self.leg)?;
            let area = leg.count(leg.seconds);
            if count < self.before + area {
                let seconds = leg.second(count - self.before);
                let rate = leg.from + (leg.to - leg.from) * (seconds / leg.seconds);
                return Some((self.begin_s + seconds, rate));
            }
            self.before += area;
            self.begin_s += leg.seconds;
            self.leg += 1;
        }
    }

    /// The course.
    pub fn course(&self) -> &Course {
        &self.course
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(legs: &[(f64, f64, f64)]) -> Course {
        let leg = |&(seconds, from, to): &(f64, f64, f64)| Leg { seconds, from, to };
        Course::new(legs.iter().map(leg).collect()).unwrap()
    }

    #[test]
    fn areas_of_ramps_and_pauses_are_exact() {
        let course = course(&[(10.0, 0.0, 100.0), (5.0, 0.0, 0.0), (2.0, 100.0, 100.0)]);
        let micro = |figure: f64| (figure * 1e6).round() as u64;
        assert_eq!(
            [course.count_until(99.0), course.seconds(), course.peak()].map(micro),
            [700_000_000, 17_000_000, 100_000_000]
        );
        for (second, count) in
            [(0, 0), (5, 125), (10, 500), (12, 500), (15, 500), (16, 600), (17, 700), (99, 700)]
        {
            assert_eq!(micro(course.count_until(f64::from(second))), count * 1_000_000, "{second}");
        }
        for (second, rate) in [(0, 0), (5, 50), (10, 0), (15, 100), (17, 0)] {
            assert_eq!(micro(course.rate_at(f64::from(second))), rate * 1_000_000, "{second}");
        }
    }

    #[test]
    fn each_query_is_due_when_the_area_says() {
        let course =
            course(&[(10.0, 1_000.0, 200_000.0), (3.0, 200_000.0, 0.0), (4.0, 0.0, 0.0), (1.0, 7.0, 7.0)]);
        let mut walk = Walk::new(course.clone());
        let total = course.count_until(course.seconds()).ceil() as u64;
        let mut earlier_s = 0.0;
        for number in 0..total {
            let Some((second, _)) = walk.reach(number as f64) else {
                assert_eq!(number, total, "only the last is beyond");
                break;
            };
            assert!(second >= earlier_s);
            earlier_s = second;
            if number % 1000 == 0 {
                let area = course.count_until(second);
                assert!((area - number as f64).abs() < 1e-3, "{number}: {area}");
            }
        }
        assert_eq!(walk.reach(total as f64), None);
    }

    #[test]
    fn a_steady_course_is_a_rate() {
        let mut walk = Walk::new(course(&[(3600.0, 333_333.0, 333_333.0)]));
        let last = 333_333.0 * 3599.0;
        assert!((walk.reach(last).unwrap().0 - 3599.0).abs() < 1e-9);
    }

    #[test]
    fn legs_without_a_rate_or_a_time_are_refused() {
        let leg = |seconds, from, to| Course::new(vec![Leg { seconds, from, to }]);
        assert_eq!(leg(1.0, 0.0, 0.0).unwrap_err(), CourseError::Nothing);
        assert_eq!(Course::new(Vec::new()).unwrap_err(), CourseError::Nothing);
        for (seconds, from, to) in
            [(0.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, f64::NAN), (f64::INFINITY, 1.0, 1.0)]
        {
            assert_eq!(leg(seconds, from, to).unwrap_err(), CourseError::Leg);
        }
    }

    #[test]
    fn shares_are_of_the_highest_rate() {
        let shares = course(&[(1.0, 10.0, 30.0), (2.0, 15.0, 0.0)]).shares();
        assert_eq!((shares.peak(), shares.seconds(), shares.legs()[1].from), (1.0, 3.0, 0.5));
    }
}
