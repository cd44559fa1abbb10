//! A load before it is played: its plan, its queries, and the subject to watch.

use std::time::Duration;

use kqps_dataset::{CaptureFacts, Dataset, Format};
use kqps_host::SubjectWatched;
use kqps_kernel::affinity;
use kqps_player::plan::{Hostile, SEED};
use kqps_player::replay::mean_rate_qps;
use kqps_player::{Arrivals, LoadPlan, MomentsPlan, Plan, ReplayPlan, Stop};
use kqps_testbed::words::counted;
use kqps_verdict::rate::rate;

use super::capture::no_capture;
use super::flags::{LANES, Reading, may_be_capture, open_dataset};
use super::rate::Rate;
use super::replay::{Captured, RequestedLoad, passes_within};
use super::{Args, TIMEOUT, check_against, dnsperf, hostile};
use crate::exit::bad_input;

/// Queries a second that no thread sends: about twice as many as the player was seen to send on a fast core, without the
/// work of the kernel.
const THREAD_MOST_QPS: f64 = 5e6;

/// A load that can be played.
pub(super) struct Prepared {
    pub(super) plan: Plan,
    pub(super) subject: SubjectWatched,
    pub(super) dataset: Dataset,
}

impl Prepared {
    /// The load of these flags. `format` is that of its queries, unless it shows in the file.
    pub(super) fn new(args: &Args, format: Option<Format>) -> anyhow::Result<Self> {
        if let Some(kind) = args.hostile {
            hostile::check(args, kind, format.is_some())?;
        }
        let has_queries = args.hostile.is_none_or(Hostile::has_queries);
        let rate = args.rate.lay(args.duration)?;
        let stop = stop_of(args, &rate)?;
        let reading = args.per_query.reading();
        let reading = Reading { format: format.unwrap_or(reading.format), ..reading };
        let opened = if format.is_none() && has_queries { opened_early(args)? } else { None };
        let facts = opened.as_ref().and_then(|dataset| Some((dataset, dataset.capture()?)));
        let captured = facts.map(|(dataset, facts)| args.captured(dataset, facts, &rate)).transpose()?;
        let load =
            |threads| captured.as_ref().map_or_else(|| load_of(args, &rate, threads), |(_, load)| *load);
        let captured = captured.as_ref().map(|(captured, _)| captured);
        // The plan of the replay has the number of passes.
        let stop = captured.map_or(stop, |_| Stop { passes: stop.passes.map(|_| 1), ..stop });
        let (plan, subject) = args.player.plan(load, stop, |_| TIMEOUT, captured)?;
        let seed = args.seed.unwrap_or(SEED);
        let per_query = args.per_query.plan();
        // A steady load without a page does not pay for them.
        let has_moments = rate.course.is_some() || args.out.is_some() || args.scenario.is_some();
        let moments = has_moments.then(MomentsPlan::default);
        let plan =
            Plan { seed, drop_reasons: args.drop_reasons, per_query, course: rate.course, moments, ..plan };
        let plan = match args.hostile {
            Some(kind) => hostile::turn(plan, kind, args.player.has_count())?,
            None => plan,
        };
        warn_of_a_high_rate(&plan);
        let dataset = match opened {
            _ if !has_queries => hostile::no_queries()?,
            Some(opened) => opened,
            None => open_dataset(&args.player, reading)?,
        };
        if dataset.capture().is_none() {
            args.check_no_capture(&dataset)?;
        }
        check_against(&plan, &dataset)?;
        Ok(Self { plan, subject, dataset })
    }
}

/// Says beforehand that no player sends a rate: its highest, if it follows a course.
fn warn_of_a_high_rate(plan: &Plan) {
    let LoadPlan::Open { rate_qps, .. } = plan.load else { return };
    let needed = (rate_qps / THREAD_MOST_QPS).ceil();
    if needed > plan.threads as f64 {
        eprintln!(
            "kqps: warning: {} q/s are more than {} can send: no thread sends {} q/s; give -T {needed} or more, and a core \
             for each (--cpus)",
            rate(rate_qps),
            counted(plan.threads as u64, "thread"),
            rate(THREAD_MOST_QPS),
        );
    }
}

/// Says beforehand that this host does not send the rates of all classes together. Each of them alone was judged before.
pub(super) fn warn_of_all_rates<'a>(plans: impl Iterator<Item = &'a Plan>) {
    let rates = plans.filter_map(|plan| match plan.load {
        LoadPlan::Open { rate_qps, .. } => Some(rate_qps),
        _ => None,
    });
    let Ok(cores) = affinity::allowed() else { return };
    if let Some(why) = too_much(&rates.collect::<Vec<f64>>(), cores.len()) {
        eprintln!("kqps: warning: {why}");
    }
}

/// Why so many cores do not send these rates of classes together; `None` if they might, or if there is one class.
fn too_much(rates_qps: &[f64], cores: usize) -> Option<String> {
    let all_qps: f64 = rates_qps.iter().sum();
    let is_too_much = rates_qps.len() > 1 && all_qps > cores as f64 * THREAD_MOST_QPS;
    is_too_much.then(|| {
        format!(
            "{} q/s of all classes together are more than {} can send: none sends {} q/s",
            rate(all_qps),
            counted(cores as u64, "core"),
            rate(THREAD_MOST_QPS)
        )
    })
}

/// The queries, if they may be a capture: its content decides what the plan is. Other queries are opened when the plan
/// is known to be a good one.
fn opened_early(args: &Args) -> anyhow::Result<Option<Dataset>> {
    if !may_be_capture(&args.player) {
        return Ok(None);
    }
    if args.mix.is_none() {
        args.player.names_transport()?;
    }
    open_dataset(&args.player, args.per_query.reading()).map(Some)
}

impl Args {
    /// A capture with the plan of its replay, and the load.
    fn captured(
        &self,
        dataset: &Dataset,
        facts: &CaptureFacts,
        rate: &Rate,
    ) -> anyhow::Result<(Captured, LoadPlan)> {
        if let Some(flag) = self.per_query.first_given() {
            return Err(bad_input(format!(
                "{flag}: queries of a capture are sent as they are; leave it out"
            )));
        }
        let (window, pile) = (self.player.capture.window(), self.player.capture.pile());
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let plan = ReplayPlan { from: window.from, to: window.to, pile, seed, ..ReplayPlan::default() };
        let asked = RequestedLoad {
            rate_qps: rate.qps,
            arrivals: self.arrivals,
            outstanding: self.outstanding,
            speed: self.speed,
        };
        // Queries by other transports have no lane.
        let goes_by_all = self.mix.is_some() || self.player.names_transport()?;
        let carried = if goes_by_all { None } else { Some(LANES) };
        let (speed, load) = asked.load(mean_rate_qps(&plan, dataset, carried))?;
        let is_captured = matches!(load, LoadPlan::Open { arrivals: Arrivals::Captured, .. });
        if !is_captured && self.repeat.is_some_and(|repeat| repeat.gap.is_some()) {
            return Err(bad_input(
                "the pause of -n is between passes with captured gaps, and -Q or -q has none: leave it out, or add \
                 --arrivals captured",
            ));
        }
        let plan = ReplayPlan { speed, ..plan };
        let repeat = match (self.repeat, rate.duration) {
            (Some(repeat), _) => repeat.times,
            (None, Some(duration)) => passes_within(duration, &plan, facts),
            (None, None) => 1,
        };
        let gap = self.repeat.and_then(|repeat| repeat.gap).unwrap_or_default();
        let captured = Captured::new(facts, ReplayPlan { repeat, gap, ..plan }, true);
        Ok((Captured { mix: self.mix.clone(), ..captured }, load))
    }

    /// Refuses the flags of captures for queries that are none.
    fn check_no_capture(&self, dataset: &Dataset) -> anyhow::Result<()> {
        let given = [
            ("--arrivals captured", self.arrivals == Some(Arrivals::Captured)),
            ("--speed", self.speed.is_some()),
            ("--mix", self.mix.is_some()),
            ("the pause of -n", self.repeat.is_some_and(|repeat| repeat.gap.is_some())),
        ];
        match given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag)) {
            Some(flag) => Err(no_capture(flag, dataset)),
            None => self.player.capture.check_none_is_given(dataset),
        }
    }
}

/// The load that the flags ask for; by default a closed loop.
fn load_of(args: &Args, rate: &Rate, threads: u64) -> LoadPlan {
    match rate.qps {
        Some(rate_qps) => {
            LoadPlan::Open { rate_qps, arrivals: args.arrivals.unwrap_or_default(), window: args.outstanding }
        }
        None => LoadPlan::Closed { outstanding: args.outstanding.unwrap_or(dnsperf::WINDOW.max(threads)) },
    }
}

/// The end of the sending, or an error if the flags ask for a load that sends nothing or prints without end.
fn stop_of(args: &Args, rate: &Rate) -> anyhow::Result<Stop> {
    if args.outstanding == Some(0) {
        return Err(bad_input("-q 0 would send nothing: at least 1 query must be outstanding"));
    }
    if args.repeat.is_some_and(|repeat| repeat.times == 0) {
        return Err(bad_input("-n 0 would send nothing"));
    }
    if args.interval == Some(Duration::ZERO) {
        return Err(bad_input("-S 0 would print without end; expected a time between two lines, such as 1s"));
    }
    if args.duration == Some(Duration::ZERO) {
        return Err(bad_input("-l 0 would send nothing"));
    }
    if let (Some(arrivals @ (Arrivals::Even | Arrivals::Poisson)), None) = (args.arrivals, rate.qps) {
        return Err(bad_input(format!(
            "--arrivals {arrivals} is of an open loop: add its --rate, such as -Q 10k"
        )));
    }
    let once = rate.duration.is_none().then_some(1);
    Ok(Stop { after: rate.duration, passes: args.repeat.map(|repeat| repeat.times).or(once) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_together_may_be_too_much_for_the_cores() {
        let said = too_much(&[4e6, 4e6, 4e6], 2).unwrap();
        assert!(
            said.starts_with("12,000,000 q/s of all classes together are more than 2 cores can send"),
            "{said}"
        );
        assert_eq!((too_much(&[4e6, 4e6], 2), too_much(&[12e6], 2)), (None, None));
    }
}
