//! Subjects that cannot be measured. Those of a comparison are tried before it begins, and a subject that
//! failed several times in succession is not started again.

use std::collections::BTreeMap;
use std::time::Instant;

use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::store::StoreError;
use kqps_observation::{Cell, Run, Trial};
use kqps_verdict::compare::Pairing;

use super::{Conducted, Conductor, Event, StartKey, seconds};
use crate::rounds;
use crate::warm_up::WarmUp;
use kqps_testbed::trial_request::{NoTrial, was_tried};

/// A subject that failed this many times in succession is hopeless.
const OFTEN: usize = 3;

/// The reason why a hopeless subject is left out.
pub(super) const HOPELESS: &str = "its last three starts failed";

/// A trial in which the player sent nothing is repeated this many times. The last one takes 16 times as long as the
/// first.
const REPEATS_MOST: u32 = 4;

/// The number of a start that only tries a subject. Measured starts count from 1.
const TRYOUT: u64 = 0;

/// Whether a cell is hopeless, so that it is not started in a block: its last [`OFTEN`] starts all failed. A
/// start that failed under its load counts as failed, although its warm-up succeeded. A start of which only the
/// trial for drop reasons failed has its figure, and counts as measured.
pub(super) fn is_hopeless(run: &Run, cell: usize, block: u32) -> bool {
    // Number of the start → whether it failed, and its block.
    let mut starts: BTreeMap<u64, (bool, u32)> = BTreeMap::new();
    for one in run.trials_of(cell) {
        let has_failed = one.failure().is_some() && !one.purpose.is_extra();
        starts.entry(one.start).or_insert((false, one.block)).0 |= has_failed;
    }
    let mut last = starts.values().rev().take(OFTEN);
    let failed = starts.len() >= OFTEN && last.all(|(has_failed, _)| *has_failed);
    failed && starts.values().all(|(_, of_block)| *of_block != block)
}

/// A subject that was tried.
struct Tried {
    trial: Option<Trial>,
    /// Seconds from its start to its stop, without trials in which the player sent nothing.
    took_s: f64,
}

impl Conductor<'_> {
    /// Starts both sides of a comparison once and plays at each for a moment. Returns `None` if both can be
    /// measured, or else how the run ends. A failure is stored as that of the first measured start.
    pub(super) fn can_compare(
        &mut self,
        run: &mut Run,
        pairing: Pairing,
    ) -> Result<Option<Conducted>, StoreError> {
        let sides = [pairing.a, pairing.b];
        let is_new = run.trials.is_empty();
        let (mut latency_s, mut took_s): (f64, f64) = (0.0, 0.0);
        for cell in sides {
            if run.trials_of(cell).any(|one| one.measured().is_some()) {
                continue;
            }
            let failure = match self.tried(run, cell) {
                Ok(tried) => {
                    took_s += tried.took_s;
                    let median_us = tried.trial.and_then(|trial| trial.latency_us.p50);
                    latency_s = latency_s.max(median_us.map_or(0.0, |us| us as f64 / 1e6));
                    continue;
                }
                Err(why) => why.failure(),
            };
            let Some((reason, output)) = failure else { return Ok(Some(Conducted::Interrupted)) };
            let start = self.store.next_start()?;
            let key = StartKey { cell, block: 0, start };
            self.commit(run, key, Purpose::WarmUp, Outcome::Failed { reason, output })?;
            return Ok(Some(Conducted::Whole));
        }
        if is_new {
            self.lengthen(run, latency_s)?;
            self.fit_blocks(run, took_s / sides.len() as f64)?;
        }
        Ok(None)
    }

    /// Plays for a moment at a server that ran before, if it is the only subject and no trial has measured it yet.
    /// Returns `None` if it can be measured, or else how the run ends: without it there is nothing to measure. A server
    /// may answer slowly at first, so it has [`OFTEN`] tries. The failure is stored as that of the first measured start.
    pub(super) fn can_reach(&mut self, run: &mut Run) -> Result<Option<Conducted>, StoreError> {
        let mut subjects = (0..run.cells.len()).filter(|&cell| run.cells[cell].role == Role::Subject);
        let (Some(cell), None) = (subjects.next(), subjects.next()) else { return Ok(None) };
        let is_measured = run.trials_of(cell).any(|one| one.measured().is_some());
        if run.cells[cell].target.is_none() || is_measured {
            return Ok(None);
        }
        let mut failure = (String::new(), Vec::new());
        for _ in 0..OFTEN {
            let Err(why) = self.tried(run, cell) else { return Ok(None) };
            let Some(last) = why.failure() else { return Ok(Some(Conducted::Interrupted)) };
            failure = last;
        }
        let (reason, output) = failure;
        let key = StartKey { cell, block: 0, start: self.store.next_start()? };
        self.commit(run, key, Purpose::WarmUp, Outcome::Failed { reason, output })?;
        Ok(Some(Conducted::Whole))
    }

    /// Adapts the duration of trials to the latency, now that it is known.
    fn lengthen(&mut self, run: &mut Run, latency_s: f64) -> Result<(), StoreError> {
        for number in 0..run.cells.len() {
            if rounds::lengthen(&mut run.cells[number], latency_s) {
                self.store.set_cell(number, &run.cells[number])?;
            }
        }
        Ok(())
    }

    /// Leaves out the blocks for which there is no time, now that it is known how long a subject takes to
    /// start, to warm up and to stop.
    fn fit_blocks(&mut self, run: &mut Run, tried_s: f64) -> Result<(), StoreError> {
        let Some((clock, began)) = self.clock else { return Ok(()) };
        let block_s: f64 = run.cells.iter().map(|cell| tried_s + rounds::trials_s(cell)).sum();
        let planned = run.blocks;
        let fitting = rounds::fitting(planned, clock.left_s(seconds(began)), block_s);
        if fitting < planned {
            run.blocks = fitting;
            self.store.set_blocks(run.blocks)?;
            let what = format!("{} of {planned} blocks", planned - fitting);
            self.drop(run, &what, &format!("a block takes {block_s:.0} s, more than was planned"))?;
        }
        Ok(())
    }

    /// A short trial of a fresh start. On a busy host the player may be too late to send anything, and then the trial says
    /// nothing about the subject. It is played again, each time for twice as long.
    fn tried(&mut self, run: &Run, cell: usize) -> Result<Tried, NoTrial> {
        (self.report)(&Event::Start { cell: &run.cells[cell], start: TRYOUT });
        if self.reach().is_none() {
            return Err(NoTrial::Interrupted);
        }
        let (began, patience) = (Instant::now(), self.patience(run, cell, 0, &[cell]));
        let mut play = (self.start)(cell, TRYOUT, patience)?;
        let (mut trial, mut empty_s) = (None, 0.0);
        let mut request = WarmUp::new(&Cell::default()).next(None);
        for _ in 0..=REPEATS_MOST {
            let Some(request) = &mut request else { break };
            let trial_began = Instant::now();
            trial = Some(play.play(request)?);
            if trial.as_ref().is_some_and(was_tried) {
                break;
            }
            empty_s += seconds(trial_began);
            request.duration_s *= 2.0;
        }
        drop(play);
        Ok(Tried { trial, took_s: seconds(began) - empty_s })
    }

    /// Leaves out the rest of a comparison if one side is hopeless. Returns whether it did.
    pub(super) fn gives_up(
        &mut self,
        run: &mut Run,
        pairing: Pairing,
        block: u32,
    ) -> Result<bool, StoreError> {
        let hopeless = [pairing.a, pairing.b].into_iter().find(|&cell| is_hopeless(run, cell, block));
        let Some(cell) = hopeless else { return Ok(false) };
        let why = format!("{} cannot be measured: {HOPELESS}", run.cells[cell].name);
        self.drop_blocks(run, block, &why)?;
        Ok(true)
    }
}
