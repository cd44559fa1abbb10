//! Conducts a run: blocks, in each block every cell in random order, for each cell a fresh start of its subject
//! and then its trials. Cells under the same conditions are started together, and their trials take turns.
//! Every trial is committed before the next one starts.

mod group;
mod patience;
mod restart;
mod rounds;
mod time_left;
mod tryout;

use std::time::{Duration, Instant};

use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::store::StoreError;
use kqps_observation::{Cell, Run, RunTrial, Store};
use kqps_verdict::compare::{LEAST_BLOCKS, Pairing};
use kqps_verdict::search::Goal;

use crate::budget::{Clock, cost};
use crate::canary;
use crate::open_files;
use crate::order;
use crate::profile;
use crate::reasons;
use crate::residence;
use crate::unit::{Ending, Next, Unit};
use kqps_testbed::patience::Patience;
use kqps_testbed::started::Play;
use kqps_testbed::trial_request::{NoTrial, TrialRequest};

pub use restart::Hosts;

/// An event of a run, passed to [`Conductor::report`].
#[derive(Debug)]
pub enum Event<'a> {
    /// A block begins.
    Block {
        /// The block, from 0.
        block: u32,
    },
    /// The subject of a cell is being started. Starts are counted over the whole run, from 1.
    Start {
        /// The cell whose subject is started.
        cell: &'a Cell,
        /// The number of the start, or 0 for one that only tries the subject.
        start: u64,
    },
    /// A trial begins.
    Load {
        /// The cell of the trial.
        cell: &'a Cell,
        /// The block, from 0.
        block: u32,
        /// The request for the trial.
        request: &'a TrialRequest,
    },
    /// A trial was committed to the store.
    Trial {
        /// The cell of the trial.
        cell: &'a Cell,
        /// The stored trial.
        trial: &'a RunTrial,
    },
    /// A cell is done for this block.
    Over {
        /// The cell that is done.
        cell: &'a Cell,
        /// The block, from 0.
        block: u32,
        /// How the cell's unit ended.
        ending: &'a Ending,
    },
    /// Half a minute has passed: the results so far.
    SoFar {
        /// The run with its trials so far.
        run: &'a Run,
        /// Seconds since the budget began.
        after_s: f64,
    },
    /// A whole block was measured, and others are still to come.
    Left {
        /// Seconds that the rest of the run will take, judged by how long the block took.
        left_s: f64,
    },
    /// The planned blocks of a comparison took less than its budget, so there are more.
    Added {
        /// The number of blocks from now on.
        blocks: u32,
    },
    /// Something is left out: it does not fit the budget, or its subject failed too often.
    Dropped {
        /// The part in words: `blocks 2 to 3`, `block 1: knot`.
        what: &'a str,
        /// The reason in words.
        why: &'a str,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conducted {
    /// All that fits the budget is done.
    Whole,
    /// The user ended the run, or a host of it could not be reached again; `--resume` continues it.
    Interrupted,
}

/// Conducts a run. The plan is the stored run; this holds everything else.
pub struct Conductor<'a> {
    /// The store to which trials are committed.
    pub store: &'a Store,
    /// The goal of every rate search.
    pub goal: Goal,
    /// The budget and when it began. `None` for a run without a budget and for a resumed run, which completes
    /// its plan however long that takes.
    pub clock: Option<(Clock, Instant)>,
    /// Whether the kernel's reasons for its drops can be counted, or why not.
    pub reasons: Result<(), String>,
    /// Starts the subject of a cell. The arguments are the cell's index, the number of the start, and its time
    /// limits.
    pub start: &'a mut dyn FnMut(usize, u64, Patience) -> Result<Play<'a>, NoTrial>,
    /// The hosts of the run. No cell pays for the time that they were away.
    pub hosts: &'a dyn Hosts,
    /// The time that went into reaching lost hosts so far.
    pub away: Duration,
    /// Receives every event.
    pub report: &'a mut dyn FnMut(&Event<'_>),
}

/// The reason for parts that do not fit the budget.
const NO_TIME: &str = "the budget was used up";

impl Conductor<'_> {
    /// Makes all trials of `run` that are missing, and adds them to it.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn conduct(&mut self, run: &mut Run) -> Result<Conducted, StoreError> {
        open_files::allow(&run.cells);
        self.forget_dropped(run)?;
        let pairing = Pairing::from_run(run);
        if let Some(pairing) = pairing
            && let Some(ended) = self.can_compare(run, pairing)?
        {
            return Ok(ended);
        }
        if let Some(ended) = self.can_reach(run)? {
            return Ok(ended);
        }
        let mut last_block_s = 0.0;
        // A comparison may have more blocks while it is made.
        let mut blocks = 0..;
        while let Some(block) = blocks.next().filter(|block| *block < run.blocks) {
            self.forgive();
            if let Some(pairing) = pairing
                && self.gives_up(run, pairing, block)?
            {
                break;
            }
            if !self.fits(pairing, block, 0.0, last_block_s) {
                self.drop_blocks(run, block, NO_TIME)?;
                break;
            }
            let is_whole = !time_left::is_stored(run, block);
            let (began, away) = (Instant::now(), self.away);
            if self.block(run, block)? == Conducted::Interrupted {
                return Ok(Conducted::Interrupted);
            }
            self.forgive();
            last_block_s = (seconds(began) - self.away.saturating_sub(away).as_secs_f64()).max(0.0);
            if is_whole {
                self.add_blocks(run, pairing, block, last_block_s)?;
                self.report_left(run, pairing, block, last_block_s);
            }
        }
        Ok(Conducted::Whole)
    }

    /// Makes the trials of a block that are missing.
    fn block(&mut self, run: &mut Run, block: u32) -> Result<Conducted, StoreError> {
        (self.report)(&Event::Block { block });
        let canary = canary::cell(run);
        let mut order = order::of_block(run.seed, block, run.cells.len());
        order.retain(|cell| Some(*cell) != canary);
        let mut position = 0;
        let groups = group::groups(run, &order);
        let order: Vec<usize> = groups.iter().flatten().copied().collect();
        for cells in groups {
            let canary = canary.filter(|canary| canary::is_due(run, *canary, block, position));
            if self.canary(run, canary, block)? == Conducted::Interrupted {
                return Ok(Conducted::Interrupted);
            }
            if self.group(run, &cells, block, &order[position..])? == Conducted::Interrupted {
                return Ok(Conducted::Interrupted);
            }
            position += cells.len();
        }
        let canary = canary.filter(|canary| canary::is_due_at_end(run, *canary, block, order.len()));
        self.canary(run, canary, block)
    }

    /// Whether a block that begins in `in_s` seconds fits the budget, if the block before it took `last_block_s`.
    fn fits(&self, pairing: Option<Pairing>, block: u32, in_s: f64, last_block_s: f64) -> bool {
        let fits = |(clock, began): (Clock, Instant)| match pairing {
            // Nothing in such a block can be cut short.
            Some(_) => block < LEAST_BLOCKS || clock.fits_cell(seconds(began) + in_s, last_block_s),
            None => clock.fits_block(seconds(began) + in_s, block, last_block_s),
        };
        self.clock.is_none_or(fits)
    }

    /// Plans as many more blocks after the last one of a comparison as fit its budget. The time alone decides, not the
    /// result.
    fn add_blocks(
        &mut self,
        run: &mut Run,
        pairing: Option<Pairing>,
        block: u32,
        took_s: f64,
    ) -> Result<(), StoreError> {
        let Some((clock, began)) = self.clock.filter(|_| pairing.is_some() && block + 1 == run.blocks) else {
            return Ok(());
        };
        let more = clock.more_blocks(seconds(began), took_s);
        if more > 0 {
            run.blocks = run.blocks.saturating_add(more);
            self.store.set_blocks(run.blocks)?;
            (self.report)(&Event::Added { blocks: run.blocks });
        }
        Ok(())
    }

    /// Gives the budget the time back that went into reaching lost hosts since the last call, and returns it.
    fn forgive(&mut self) -> Duration {
        let away = self.hosts.take_away_time();
        self.away += away;
        if let Some((_, began)) = &mut self.clock {
            *began += away;
        }
        away
    }

    /// Reaches the host of the subjects, before the time of a start is divided. Returns the time that this took; `None`
    /// ends the run in order.
    fn reach(&mut self) -> Option<Duration> {
        let is_there = self.hosts.reach();
        let away = self.forgive();
        is_there.then_some(away)
    }

    /// Why a cell is not started in a block; `None` if it is. The first block has all of its ceilings in any
    /// case: they are cheap, and every figure is stated as a share of one. A subject is started there if half
    /// of its cost fits.
    fn why_not(&self, run: &Run, cell: usize, block: u32) -> Option<&'static str> {
        if tryout::is_hopeless(run, cell, block) {
            return Some(tryout::HOPELESS);
        }
        let facts = &run.cells[cell];
        let may_go = block > 0 || facts.role == Role::Subject;
        let cell_s = cost::cell_s(facts, &run.goal, block) + patience::together_s(run, cell, block);
        let cell_s = cell_s * if block == 0 { 0.5 } else { 1.0 };
        (may_go && !self.fits_cell(0.0, cell_s)).then_some(NO_TIME)
    }

    /// Whether a start of a cell that begins in `in_s` seconds and costs `cell_s` fits the budget.
    fn fits_cell(&self, in_s: f64, cell_s: f64) -> bool {
        self.clock.is_none_or(|(clock, began)| clock.fits_cell(seconds(began) + in_s, cell_s))
    }

    fn drop_blocks(&mut self, run: &mut Run, first: u32, why: &str) -> Result<(), StoreError> {
        let what = if first + 1 == run.blocks {
            format!("block {}", run.blocks)
        } else {
            format!("blocks {} to {}", first + 1, run.blocks)
        };
        self.drop(run, &what, why)
    }

    fn drop(&mut self, run: &mut Run, what: &str, why: &str) -> Result<(), StoreError> {
        self.skip(run, what, why)?;
        (self.report)(&Event::Dropped { what, why });
        Ok(())
    }

    fn skip(&mut self, run: &mut Run, what: &str, why: &str) -> Result<(), StoreError> {
        self.store.add_skipped(what, why)?;
        run.skipped.insert(what.to_string(), why.to_string());
        Ok(())
    }

    /// Forgets the parts that an earlier session of this run left out to keep to its budget, since there may be
    /// time now. Parts that are left out again are reported again.
    fn forget_dropped(&mut self, run: &mut Run) -> Result<(), StoreError> {
        let may_be_had =
            |what: &str, why: &str| why == NO_TIME || what == reasons::NAME && self.reasons.is_ok();
        let stale = run.skipped.iter().filter(|(what, why)| may_be_had(what, why));
        let stale: Vec<String> = stale.map(|(what, _)| what.clone()).collect();
        for what in stale {
            self.store.remove_skipped(&what)?;
            run.skipped.remove(&what);
        }
        Ok(())
    }

    /// Plays the canary once, if it is due.
    fn canary(&mut self, run: &mut Run, canary: Option<usize>, block: u32) -> Result<Conducted, StoreError> {
        let Some((cell, request)) = canary.and_then(|cell| Some((cell, canary::request(run, cell)?))) else {
            return Ok(Conducted::Whole);
        };
        let mut lost = 0;
        loop {
            if self.reach().is_none() {
                return Ok(Conducted::Interrupted);
            }
            let start = self.store.next_start()? + u64::from(lost);
            (self.report)(&Event::Start { cell: &run.cells[cell], start });
            let patience = self.patience(run, cell, block, &[cell]);
            (self.report)(&Event::Load { cell: &run.cells[cell], block, request: &request });
            let played = (self.start)(cell, start, patience).and_then(|mut play| play.play(&request));
            let outcome = match played {
                Err(NoTrial::Interrupted) => return Ok(Conducted::Interrupted),
                Err(NoTrial::Lost { .. }) if lost < restart::MOST => {
                    lost += 1;
                    continue;
                }
                Err(NoTrial::Lost { reason }) => {
                    Outcome::Failed { reason: restart::too_often(&reason), output: Vec::new() }
                }
                Err(NoTrial::Failed { reason, output }) => Outcome::Failed { reason, output },
                Ok(trial) => Outcome::Measured(Box::new(trial)),
            };
            self.commit(run, StartKey { cell, block, start }, request.purpose, outcome)?;
            return Ok(Conducted::Whole);
        }
    }

    /// The next step of a unit. The trial for the reasons of its losses is left out if they cannot be counted
    /// or if no time is left, and its residence and its profile if no time is left; the run records that once.
    fn next(&mut self, run: &mut Run, unit: &mut Unit, cell: usize) -> Result<Next, StoreError> {
        let in_time = self.clock.is_none_or(|(clock, began)| clock.fits_reasons(seconds(began)));
        let mut next = self.next_or_reasons(run, unit, cell, in_time)?;
        if !in_time && matches!(next, Next::Trial(request) if request.purpose == Purpose::Residence) {
            self.leave_residence(run, unit, cell, NO_TIME)?;
            next = unit.next();
        }
        if matches!(&next, Next::Over(ending) if !matches!(ending, Ending::Failed(_))) {
            self.leave_residence(run, unit, cell, residence::NO_LOAD)?;
        }
        if in_time || !matches!(next, Next::Trial(request) if request.purpose.is_for_profile()) {
            return Ok(next);
        }
        self.leave_profile(run, unit, cell, NO_TIME)?;
        Ok(unit.next())
    }

    /// Leaves out the trial of a cell's residence, and records the reason once.
    fn leave_residence(
        &mut self,
        run: &mut Run,
        unit: &mut Unit,
        cell: usize,
        why: &str,
    ) -> Result<(), StoreError> {
        let what = residence::name(&run.cells[cell]);
        if unit.wants_residence() && !run.skipped.contains_key(&what) {
            self.skip(run, &what, why)?;
        }
        unit.leave_residence();
        Ok(())
    }

    /// Leaves out the rest of a cell's profile, and records the reason once.
    fn leave_profile(
        &mut self,
        run: &mut Run,
        unit: &mut Unit,
        cell: usize,
        why: &str,
    ) -> Result<(), StoreError> {
        let what = profile::name(&run.cells[cell]);
        if unit.wants_profile() && !run.skipped.contains_key(&what) {
            self.skip(run, &what, why)?;
        }
        unit.leave_profile();
        Ok(())
    }

    fn next_or_reasons(
        &mut self,
        run: &mut Run,
        unit: &mut Unit,
        cell: usize,
        in_time: bool,
    ) -> Result<Next, StoreError> {
        let next = unit.next();
        let (what, why) = match &self.reasons {
            _ if !is_for_reasons(&next) => return Ok(next),
            Err(why) => (reasons::NAME.to_string(), why.clone()),
            Ok(()) if in_time => return Ok(next),
            Ok(()) => (format!("{} of {}", reasons::NAME, run.cells[cell].name), NO_TIME.to_string()),
        };
        if !run.skipped.contains_key(&what) {
            self.skip(run, &what, &why)?;
        }
        unit.leave_reasons();
        Ok(unit.next())
    }

    fn commit(
        &mut self,
        run: &mut Run,
        key: StartKey,
        purpose: Purpose,
        outcome: Outcome,
    ) -> Result<u64, StoreError> {
        let number = self.store.next_number()?;
        let cell = u32::try_from(key.cell).expect("a run has few cells");
        let trial = RunTrial { number, cell, block: key.block, start: key.start, purpose, outcome };
        self.store.commit(&trial)?;
        (self.report)(&Event::Trial { cell: &run.cells[key.cell], trial: &trial });
        run.trials.push(trial);
        Ok(number)
    }
}

fn is_for_reasons(next: &Next) -> bool {
    matches!(next, Next::Trial(request) if request.purpose.is_for_reasons())
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// A start of a subject: its cell, its block, and its number in the run.
#[derive(Clone, Copy)]
struct StartKey {
    cell: usize,
    block: u32,
    start: u64,
}

#[cfg(test)]
mod tests;
