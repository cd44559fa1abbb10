//! A cell in one block: its trials, and its next trial. A function of the stored trials, so that a run that
//! was killed continues where it was.

use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::{Cell, CellLoad, Run};
use kqps_verdict::estimate::{self, Speed};
use kqps_verdict::interval::median_interval;
use kqps_verdict::search::{Bounds, Goal, Start};

use crate::profile;
use crate::reasons;
use crate::residence;
use crate::rounds::{self, LATENCIES};
use crate::search::{self, SearchStep};
use kqps_testbed::trial_request::{Played, RequestedPace, TrialRequest, counted};

/// The trial that finds a ceiling.
const CEILING: TrialRequest =
    TrialRequest { pace: RequestedPace::Closed, duration_s: 0.5, purpose: Purpose::Ceiling };

/// Seconds of an echo's trial beside others. It only gives a rate. The shorter it is, the less the host changes
/// meanwhile.
const BESIDE_OTHERS_S: f64 = 0.1;

/// The next step of a unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A trial under this load.
    Trial(TrialRequest),
    /// The unit is over.
    Over(Ending),
}

/// How a unit ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// A closed loop measured this rate, correct answers a second.
    Closed(f64),
    /// All fixed rates were played.
    Played,
    /// A search found these bounds.
    Found(Bounds),
    /// A trial could not be measured, for this reason.
    Failed(String),
}

/// A cell in one block, with its trials.
#[derive(Clone, Debug)]
pub struct Unit {
    role: Role,
    load: CellLoad,
    /// Number of trials under each given load.
    rounds: usize,
    goal: Goal,
    start: Start,
    /// Shares of the figure at which latency is measured, above 0 and below 1.
    latency_at: Vec<f64>,
    played: Vec<Played>,
    failed: Option<String>,
    /// Whether its search was cut short, and is therefore over.
    is_cut: bool,
    /// Whether a trial of this unit that lost queries should be repeated for the kernel's reasons.
    wants_reasons: bool,
    /// Whether packets should be stamped in a trial of this unit.
    wants_residence: bool,
    /// The number of trials that the profile of its cell has; `None` if this unit makes none.
    profiled: Option<usize>,
}

impl Unit {
    /// The unit from the store. A search begins at the bounds that the newest block before it found.
    pub fn from_run(run: &Run, goal: &Goal, cell: usize, block: u32) -> Self {
        // Each of those searches began at the bounds of the block before, so they are replayed in order.
        let searches = if is_search(&run.cells[cell]) { block } else { 0 };
        let bounds = (0..searches).fold(None, |before, earlier| {
            Self::after(before, run, goal, cell, earlier).bounds_qps().or(before)
        });
        Self::after(bounds, run, goal, cell, block)
    }

    /// The unit from the store, after a block that found these bounds, queries a second.
    fn after(bounds_qps: Option<(f64, f64)>, run: &Run, goal: &Goal, cell: usize, block: u32) -> Self {
        let facts = &run.cells[cell];
        let stored = || run.trials_of(cell).filter(move |trial| trial.block == block);
        let failed = stored().find_map(|trial| match &trial.outcome {
            Outcome::Failed { reason, .. } => Some(reason.clone()),
            Outcome::Measured(_) => None,
        });
        Self {
            role: facts.role,
            load: facts.load.clone(),
            rounds: rounds::rounds(facts),
            goal: goal.clone(),
            start: Start { bounds_qps },
            // Once is enough, and the first block is never dropped.
            latency_at: if block == 0 { latency_at(facts) } else { Vec::new() },
            played: stored().filter_map(Played::from_stored).filter(is_relevant).collect(),
            failed,
            is_cut: run.skipped.contains_key(&rest_of_search(run, cell, block)),
            wants_reasons: facts.role == Role::Subject && !reasons::are_asked(run, cell),
            wants_residence: block == 0 && residence::is_wanted(run, cell),
            profiled: (block == 0).then(|| profile::played(run, cell)),
        }
    }

    /// The next step: first the trials that its figures need, then the one for the reasons of its losses, then the one
    /// for its residence, and then those of its profile.
    pub fn next(&self) -> Next {
        let next = self.next_of_figures();
        let Next::Over(ending) = &next else { return next };
        if matches!(ending, Ending::Failed(_)) {
            return next;
        }
        let repeats = || reasons::repeated(&self.goal, &self.played, upper_qps(ending));
        let for_reasons = if self.wants_reasons { repeats() } else { None };
        let for_residence = || if self.wants_residence { self.found_qps(ending) } else { None };
        let extra = for_reasons.or_else(|| for_residence().map(residence::request));
        extra.or_else(|| profile::next(self.profiled?)).map_or(next, Next::Trial)
    }

    /// The load that its trials found, queries a second.
    fn found_qps(&self, ending: &Ending) -> Option<f64> {
        let found_qps = match ending {
            Ending::Found(bounds) => self.figure_qps(bounds),
            Ending::Closed(rate_qps) => Some(*rate_qps),
            Ending::Played => residence::highest_qps(&self.goal, &self.played),
            Ending::Failed(_) => None,
        };
        found_qps.filter(|rate_qps| *rate_qps > 0.0)
    }

    /// Ends its search with the trials so far.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Leaves out all trials that its figure does not rest on.
    pub fn leave_extras(&mut self) {
        self.latency_at.clear();
        self.wants_reasons = false;
        self.wants_residence = false;
        self.profiled = None;
    }

    /// Leaves out the trial for the reasons of its losses.
    pub fn leave_reasons(&mut self) {
        self.wants_reasons = false;
    }

    /// Whether the trial of its residence is missing.
    pub(crate) fn wants_residence(&self) -> bool {
        self.wants_residence
    }

    /// Leaves out the trial of its residence.
    pub fn leave_residence(&mut self) {
        self.wants_residence = false;
    }

    /// Whether trials of its profile are missing.
    pub(crate) fn wants_profile(&self) -> bool {
        self.profiled.is_some_and(|made| profile::next(made).is_some())
    }

    /// Leaves out the rest of its profile.
    pub fn leave_profile(&mut self) {
        self.profiled = None;
    }

    fn next_of_figures(&self) -> Next {
        if let Some(reason) = &self.failed {
            return Next::Over(Ending::Failed(reason.clone()));
        }
        match (self.role, &self.load) {
            (Role::PlayerCeiling | Role::EchoCeiling, _) => self.next_of_closed(CEILING),
            (_, CellLoad::Closed(duration_s)) => {
                let pace = RequestedPace::Closed;
                let request = TrialRequest { pace, duration_s: *duration_s, purpose: Purpose::Closed };
                self.next_of_closed(request)
            }
            (_, CellLoad::Rates { rates_qps, duration_s }) => self.next_of_rates(rates_qps, *duration_s),
            (_, CellLoad::Search) => self.next_of_search(),
        }
    }

    /// Adds a trial that was made, unless it is a warm-up or one that only explains others.
    pub fn add(&mut self, played: Played) {
        self.wants_reasons &= !played.purpose.is_for_reasons();
        self.wants_residence &= played.purpose != Purpose::Residence;
        self.profiled = self.profiled.map(|made| made + usize::from(played.purpose.is_for_profile()));
        if is_relevant(&played) {
            self.played.push(played);
        }
    }

    /// Records that a trial could not be made.
    pub fn fail(&mut self, reason: String) {
        self.failed = Some(reason);
    }

    /// The number of its trials, without warm-ups and without those that only explain others.
    pub fn trials(&self) -> usize {
        self.played.len()
    }

    /// The number of its trials that refine the estimate.
    pub fn refined(&self) -> usize {
        self.played.iter().filter(|one| one.purpose == Purpose::Refine).count()
    }

    /// The trial of an echo beside the searches that are compared with it. It is short, so that the host
    /// changes little between the two, but lasts a sufficient multiple of the echo's latency.
    pub(crate) fn ceiling_beside(&self) -> TrialRequest {
        let least_us = self.played.iter().filter_map(|one| one.trial.latency_us.min).min();
        let latency_s = least_us.map_or(0.0, |us| us as f64 / 1e6);
        let duration_s = (LATENCIES * latency_s).clamp(BESIDE_OTHERS_S, CEILING.duration_s);
        TrialRequest { duration_s, ..CEILING }
    }

    /// Whether it searches for a rate, which takes a varying number of trials; other loads have a fixed one.
    pub fn is_search(&self) -> bool {
        self.role == Role::Subject && self.load == CellLoad::Search
    }

    /// In a start with several trials, a spoiled one is not repeated, unless no other counts.
    fn next_of_closed(&self, request: TrialRequest) -> Next {
        let counted = counted(&self.played);
        if counted.is_empty() || self.played.len() < self.rounds {
            return Next::Trial(request);
        }
        let rates_qps: Vec<f64> = counted.iter().map(|one| one.trial.load.answered_qps).collect();
        Next::Over(Ending::Closed(median_interval(&rates_qps).map_or(0.0, |of| of.median)))
    }

    fn next_of_rates(&self, rates_qps: &[f64], duration_s: f64) -> Next {
        let purpose = Purpose::Rate;
        let counted = counted(&self.played).len();
        let made = if self.rounds > 1 && counted > 0 { self.played.len() } else { counted };
        match rates_qps.get(made / self.rounds) {
            Some(&rate_qps) => {
                let pace = RequestedPace::Open { rate_qps };
                Next::Trial(TrialRequest { pace, duration_s, purpose })
            }
            None => Next::Over(Ending::Played),
        }
    }

    fn next_of_search(&self) -> Next {
        let bounds = match search::wanted(&self.goal, &self.start, &self.played, 0.0) {
            SearchStep::Trial(request) if !self.is_cut => return Next::Trial(request),
            SearchStep::Trial(_) => search::so_far(&self.goal, &self.played),
            SearchStep::Done(bounds) => bounds,
        };
        let measured = counted(&self.played).iter().filter(|one| one.purpose == Purpose::Latency).count();
        let share = self.latency_at.get(measured);
        match share.and_then(|share| Some((share, self.figure_qps(&bounds)?))) {
            Some((share, figure_qps)) => Next::Trial(TrialRequest {
                pace: RequestedPace::Open { rate_qps: (figure_qps * share).round().max(1.0) },
                duration_s: self.goal.final_s,
                purpose: Purpose::Latency,
            }),
            None => Next::Over(Ending::Found(bounds)),
        }
    }

    /// The rate at parts of which latency is measured, once the search is over. Later trials must not change
    /// it.
    fn figure_qps(&self, bounds: &Bounds) -> Option<f64> {
        if bounds.throughput_qps.is_some() {
            return bounds.throughput_qps;
        }
        let sought = self.played.iter().filter(|one| one.purpose != Purpose::Latency).map(Played::facts);
        let sought: Vec<_> = sought.collect();
        Some(estimate::of_search(&self.goal, &sought, Speed::Reference)?.interval().median)
    }

    /// Where the search of the next block begins: at these bounds or, if they are not known and the search was
    /// cut short, a goal's width beside the estimate from all of its trials.
    fn bounds_qps(&self) -> Option<(f64, f64)> {
        let Next::Over(Ending::Found(bounds)) = self.next_of_figures() else { return None };
        let figure_qps = || if self.is_cut { self.figure_qps(&Bounds::default()) } else { None };
        let beside = |qps: f64| (qps * (1.0 - self.goal.width), qps * (1.0 + self.goal.width));
        bounds.lower_qps.zip(bounds.upper_qps).or_else(|| figure_qps().map(beside))
    }
}

/// The name, in a run, of the rest of a search that was cut short.
pub(crate) fn rest_of_search(run: &Run, cell: usize, block: u32) -> String {
    format!("block {}: the rest of the search of {}", block + 1, run.cells[cell].name)
}

/// Whether the next step of a unit depends on a trial.
fn is_relevant(trial: &Played) -> bool {
    trial.purpose != Purpose::WarmUp && !trial.purpose.is_extra()
}

/// The upper bound that a search found.
fn upper_qps(ending: &Ending) -> Option<f64> {
    match ending {
        Ending::Found(bounds) => bounds.upper_qps,
        _ => None,
    }
}

fn is_search(cell: &Cell) -> bool {
    cell.role == Role::Subject && cell.load == CellLoad::Search
}

fn latency_at(cell: &Cell) -> Vec<f64> {
    cell.factors.latency_at_percent().iter().map(|&percent| f64::from(percent) / 100.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Simulated;
    use kqps_observation::RunTrial;
    use kqps_verdict::search::Preset;

    fn run_of(role: Role) -> Run {
        let mut cell = Cell { role, ..Cell::default() };
        cell.factors.set_latency_at(&[25, 50, 75, 90]);
        Run { cells: vec![cell], ..Run::default() }
    }

    /// Plays one unit to its end and stores its trials in `run`, at most `most` of them.
    fn play(run: &mut Run, block: u32, subject: Simulated, most: usize) -> Next {
        let goal = Preset::Quick.goal();
        for _ in 0..most {
            let Next::Trial(request) = Unit::from_run(run, &goal, 0, block).next() else { break };
            let trial = subject.play(&request).unwrap();
            run.trials.push(RunTrial {
                number: run.trials.len() as u64 + 1,
                cell: 0,
                block,
                start: u64::from(block) + 1,
                purpose: request.purpose,
                outcome: Outcome::Measured(Box::new(trial)),
            });
        }
        Unit::from_run(run, &goal, 0, block).next()
    }

    #[test]
    fn a_ceiling_is_one_trial() {
        let mut run = run_of(Role::EchoCeiling);
        let end = play(&mut run, 0, Simulated::default(), 10);
        assert_eq!(end, Next::Over(Ending::Closed(100_000.0)));
        assert_eq!(run.trials.len(), 1);
    }

    #[test]
    fn an_echo_beside_others_has_short_trials_of_many_latencies() {
        let mut run = run_of(Role::EchoCeiling);
        let mut of = |min_us| {
            let mut trial = Simulated::default().play(&CEILING).unwrap();
            trial.latency_us.min = Some(min_us);
            run.trials = vec![RunTrial {
                number: 1,
                cell: 0,
                block: 0,
                start: 1,
                purpose: Purpose::Ceiling,
                outcome: Outcome::Measured(Box::new(trial)),
            }];
            Unit::from_run(&run, &Preset::Quick.goal(), 0, 0).ceiling_beside().duration_s
        };
        assert!((of(50) - 0.1).abs() < 1e-9);
        assert!((of(10_000) - 0.2).abs() < 1e-9, "a path of 10 ms");
        assert!((of(100_000) - CEILING.duration_s).abs() < 1e-9);
    }

    #[test]
    fn a_subject_is_a_search_and_then_latency_by_load_in_the_first_block_only() {
        let mut run = run_of(Role::Subject);
        let Next::Over(Ending::Found(bounds)) = play(&mut run, 0, Simulated::default(), 200) else {
            panic!()
        };
        let latency: Vec<_> =
            run.trials.iter().filter(|trial| trial.purpose == Purpose::Latency).cloned().collect();
        let figure_qps = bounds.throughput_qps.unwrap();
        let shares: Vec<_> = latency
            .iter()
            .map(|trial| trial.measured().unwrap().load.intended_qps.unwrap() / figure_qps * 100.0)
            .map(f64::round)
            .collect();
        assert_eq!(shares, [25.0, 50.0, 75.0, 90.0]);

        let first = run.trials.len();
        play(&mut run, 1, Simulated::default(), 200);
        assert!(run.trials.len() - first <= first - 4, "the second search begins at the bounds of the first");
        assert!(run.trials[first..].iter().all(|trial| trial.purpose != Purpose::Ceiling));
        assert!(run.trials[first..].iter().all(|trial| trial.purpose != Purpose::Latency));
    }

    #[test]
    fn cut_anywhere_it_goes_on_to_the_same_end() {
        let subject = Simulated { knee_qps: 61_000.0, spoiled_above_qps: 61_500.0 };
        let mut whole = run_of(Role::Subject);
        let end = play(&mut whole, 0, subject, 500);
        for cut in 0..whole.trials.len() {
            let mut run = run_of(Role::Subject);
            play(&mut run, 0, subject, cut);
            assert_eq!(play(&mut run, 0, subject, 500), end);
            assert_eq!(run, whole);
        }
    }

    #[test]
    fn a_cell_may_ask_for_a_closed_loop_or_for_fixed_rates() {
        let rates_qps = vec![1_000.0, 2_000.0, 50_000.0];
        for (load, purpose, trials) in [
            (CellLoad::Closed(1.0), Purpose::Closed, 1),
            (CellLoad::Rates { rates_qps, duration_s: 2.0 }, Purpose::Rate, 3),
        ] {
            let mut run = run_of(Role::Subject);
            run.cells[0].load = load;
            play(&mut run, 0, Simulated::default(), 10);
            assert!(run.trials.iter().all(|trial| trial.purpose == purpose));
            assert_eq!(run.trials.len(), trials);
        }
    }

    #[test]
    fn a_start_may_have_several_trials_and_goes_on_where_it_was() {
        let rates = CellLoad::Rates { rates_qps: vec![2_000.0], duration_s: 0.5 };
        // All trials of a faster subject are spoiled, and then one more is made.
        for (load, knee_qps, trials) in
            [(CellLoad::Closed(0.1), 50_000.0, 4), (rates, 50_000.0, 4), (CellLoad::Closed(0.1), 90_000.0, 4)]
        {
            let subject = Simulated { knee_qps, spoiled_above_qps: 80_000.0 };
            let mut run = run_of(Role::Subject);
            run.cells[0].load = load;
            run.cells[0].factors.set_rounds(4);
            play(&mut run, 0, subject, 3);
            assert_eq!(run.trials.len(), 3);
            play(&mut run, 0, subject, 10);
            assert_eq!(run.trials.len(), trials, "{knee_qps}");
        }
    }

    #[test]
    fn a_profile_is_wanted_until_it_is_there_or_left_out() {
        let mut run = run_of(Role::Subject);
        assert!(!Unit::from_run(&run, &Preset::Quick.goal(), 0, 0).wants_profile());
        run.cells[0].profile = true;
        let mut unit = Unit::from_run(&run, &Preset::Quick.goal(), 0, 0);
        assert!(unit.wants_profile() && !Unit::from_run(&run, &Preset::Quick.goal(), 0, 1).wants_profile());
        unit.leave_extras();
        assert!(!unit.wants_profile());
    }

    #[test]
    fn residence_is_measured_once_at_half_of_what_was_found() {
        let rates_qps = vec![1_000.0, 2_000.0, 900_000.0];
        for (load, half_qps) in [
            (CellLoad::Closed(0.1), 50_000.0),
            (CellLoad::Rates { rates_qps, duration_s: 0.5 }, 1_000.0),
            (CellLoad::Search, 50_000.0),
        ] {
            let mut run = run_of(Role::Subject);
            (run.cells[0].residence, run.cells[0].load) = (true, load);
            for block in 0..2 {
                play(&mut run, block, Simulated::default(), 200);
            }
            let stamped: Vec<_> = run.trials.iter().filter(|one| one.purpose == Purpose::Residence).collect();
            let [only] = stamped[..] else { panic!("{} trials", stamped.len()) };
            let rate_qps = only.measured().unwrap().load.intended_qps.unwrap();
            assert!((rate_qps / half_qps - 1.0).abs() < 0.02 && only.block == 0, "{rate_qps}");
        }
        let mut run = run_of(Role::Subject);
        run.cells[0].residence = true;
        let mut unit = Unit::from_run(&run, &Preset::Quick.goal(), 0, 0);
        assert!(
            unit.wants_residence() && !Unit::from_run(&run, &Preset::Quick.goal(), 0, 1).wants_residence()
        );
        unit.leave_residence();
        assert!(!unit.wants_residence());
    }

    #[test]
    fn a_failure_ends_it() {
        let mut run = run_of(Role::Subject);
        play(&mut run, 0, Simulated::default(), 2);
        let outcome = Outcome::Failed { reason: "it died".into(), output: Vec::new() };
        run.trials.push(RunTrial { number: 3, outcome, ..run.trials[0].clone() });
        let end = Unit::from_run(&run, &Preset::Quick.goal(), 0, 0).next();
        assert_eq!(end, Next::Over(Ending::Failed("it died".into())));
    }
}
