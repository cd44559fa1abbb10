//! A group of cells in one block. The subject of each is started, and then they have trials in turn until none
//! needs more. Each cell chooses its trials as if it ran alone. The order of turns follows from the stored
//! trials and the seed alone.

mod member;
mod quiet;

use std::collections::BTreeSet;

use kqps_observation::Run;
use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::store::StoreError;
use kqps_verdict::disturbed::rounds_with;

use super::group::ceiling_of;
use super::{Conducted, Conductor, Event, StartKey, restart, seconds};
use crate::order;
use crate::unit::{self, Next, Unit};
use kqps_testbed::patience::Patience;
use kqps_testbed::trial_request::{NoTrial, Played, TrialRequest};
use member::Member;

/// A group that is being conducted.
struct Group<'a> {
    block: u32,
    /// All cells of the block that are still to come, those of the group first.
    rest: Vec<usize>,
    /// The time limits of the whole group.
    patience: Patience,
    members: Vec<Member<'a>>,
    /// Cells that had to leave the group or could not join it, and that follow alone.
    alone: Vec<usize>,
    /// Cells that did not start beside the others, with the reason; they are tried alone.
    apart: Vec<(usize, String)>,
    /// The number of the newest start, with or without a trial. The store knows only starts that have one.
    newest: u64,
    /// Whether the results so far were reported.
    is_reported: bool,
}

/// A server that was busy in this many trials of others continues alone. A few are forgiven, since every server
/// has housekeeping to do.
const RESTLESS_MOST: u32 = 3;

/// Seconds after which the results so far are reported.
const SO_FAR_S: f64 = 30.0;

impl<'a> Conductor<'a> {
    /// Conducts these cells in a block, side by side. `rest` are all cells of the block that are still to come,
    /// these first.
    pub(super) fn group(
        &mut self,
        run: &mut Run,
        cells: &[usize],
        block: u32,
        rest: &[usize],
    ) -> Result<Conducted, StoreError> {
        if self.reach().is_none() {
            return Ok(Conducted::Interrupted);
        }
        let patience = self.patience_of_all(run, cells, block, rest);
        let mut group = Group {
            block,
            rest: rest.to_vec(),
            patience,
            members: Vec::new(),
            alone: Vec::new(),
            apart: Vec::new(),
            newest: 0,
            is_reported: block > 0,
        };
        let wanted = self.wanted(run, cells, block)?;
        for &cell in cells.iter().filter(|cell| wanted.contains(cell)) {
            if self.join(run, &mut group, cell)? == Conducted::Interrupted {
                return Ok(Conducted::Interrupted);
            }
        }
        while let Some((at, request)) = self.turn(run, &mut group)? {
            if self.trial(run, &mut group, at, &request)? == Conducted::Interrupted {
                return Ok(Conducted::Interrupted);
            }
        }
        let (alone, apart) = (std::mem::take(&mut group.alone), std::mem::take(&mut group.apart));
        drop(group);
        for (cell, why) in apart {
            if self.group(run, &[cell], block, &[cell])? == Conducted::Interrupted {
                return Ok(Conducted::Interrupted);
            }
            // A cell that does not start alone either fails for another reason.
            if run.trials_of(cell).any(|one| one.block == block && one.measured().is_some()) {
                self.skip(run, &rounds_with(&run.cells[cell].name), &why)?;
            }
        }
        for cell in alone {
            if self.group(run, &[cell], block, &[cell])? == Conducted::Interrupted {
                return Ok(Conducted::Interrupted);
            }
        }
        Ok(Conducted::Whole)
    }

    /// The cells that need trials, and the echoes that searched ones among them are compared with. Reports the
    /// end of all other cells.
    fn wanted(&mut self, run: &mut Run, cells: &[usize], block: u32) -> Result<BTreeSet<usize>, StoreError> {
        let mut over = Vec::new();
        let mut wanted = BTreeSet::new();
        for &cell in cells {
            let mut unit = Unit::from_run(run, &self.goal, cell, block);
            match self.next(run, &mut unit, cell)? {
                // Another start cannot continue a search that was cut short: its trials would come from another
                // process of the subject.
                Next::Trial(_) if run.skipped.contains_key(&unit::rest_of_search(run, cell, block)) => {}
                Next::Trial(_) => {
                    wanted.insert(cell);
                    wanted.extend(ceiling_of(run, cell).filter(|echo| cells.contains(echo)));
                }
                Next::Over(ending) => over.push((cell, ending)),
            }
        }
        for (cell, ending) in over.into_iter().filter(|(cell, _)| !wanted.contains(cell)) {
            (self.report)(&Event::Over { cell: &run.cells[cell], block, ending: &ending });
        }
        Ok(wanted)
    }

    /// Starts the subject of a cell, and warms it up, if there is time and memory for it.
    fn join(&mut self, run: &mut Run, group: &mut Group<'a>, cell: usize) -> Result<Conducted, StoreError> {
        let block = group.block;
        if let Some(why) = self.why_not(run, cell, block) {
            self.drop(run, &format!("block {}: {}", block + 1, run.cells[cell].name), why)?;
            return Ok(Conducted::Whole);
        }
        if let Some(why) = quiet::why_no_room(run, cell, &group.members) {
            self.leave_alone(run, group, cell, &why)?;
            return Ok(Conducted::Whole);
        }
        self.begin(run, group, cell, 0)
    }

    /// Starts the subject of a cell, and warms it up. If its host is lost meanwhile, the subject is started again.
    /// `lost` is how often in succession that was so before.
    fn begin(
        &mut self,
        run: &mut Run,
        group: &mut Group<'a>,
        cell: usize,
        mut lost: u32,
    ) -> Result<Conducted, StoreError> {
        let block = group.block;
        loop {
            let Some(away) = self.reach() else { return Ok(Conducted::Interrupted) };
            group.patience = group.patience.later(away);
            let start = self.store.next_start()?.max(group.newest + 1);
            group.newest = start;
            (self.report)(&Event::Start { cell: &run.cells[cell], start });
            let patience = self.patience(run, cell, block, &group.rest);
            let unit = Unit::from_run(run, &self.goal, cell, block);
            let mut member = Member::new(StartKey { cell, block, start }, unit, &run.cells[cell], lost);
            let begun = match (self.start)(cell, start, patience) {
                // Two servers of a kind may need the same file, socket or memory.
                Err(NoTrial::Failed { reason, .. }) if is_beside_its_like(run, cell, &group.members) => {
                    group.apart.push((cell, format!("it does not start beside the others: {reason}")));
                    return Ok(Conducted::Whole);
                }
                Err(why) => Err(why),
                Ok(play) => {
                    member.play = Some(play);
                    self.warm_up(run, &mut member, patience, &mut group.patience)?
                }
            };
            let failure = match begun {
                Err(NoTrial::Interrupted) => return Ok(Conducted::Interrupted),
                Ok(()) => {
                    group.members.push(member);
                    return Ok(Conducted::Whole);
                }
                Err(NoTrial::Lost { .. }) if lost < restart::MOST => {
                    lost += 1;
                    continue;
                }
                Err(NoTrial::Lost { reason }) => (restart::too_often(&reason), Vec::new()),
                Err(NoTrial::Failed { reason, output }) => (reason, output),
            };
            self.fail(run, &mut member, Purpose::default(), failure)?;
            self.end(run, &mut member);
            return Ok(Conducted::Whole);
        }
    }

    /// Warms a subject up until it is warm enough or the time is over. Outages lengthen the time of the group.
    fn warm_up(
        &mut self,
        run: &mut Run,
        member: &mut Member<'a>,
        mut patience: Patience,
        of_group: &mut Patience,
    ) -> Result<Result<(), NoTrial>, StoreError> {
        while !(member.warmed.is_some() && patience.is_over())
            && let Some(request) = member.warm_up.next(member.warmed.as_ref())
        {
            let Some(play) = &mut member.play else { break };
            let StartKey { cell, block, .. } = member.key;
            (self.report)(&Event::Load { cell: &run.cells[cell], block, request: &request });
            let played = play.play(&request);
            let away = self.forgive();
            (patience, *of_group) = (patience.later(away), of_group.later(away));
            match played {
                Err(NoTrial::Failed { reason, output }) => {
                    self.fail(run, member, request.purpose, (reason, output))?;
                }
                Err(why) => return Ok(Err(why)),
                Ok(trial) => {
                    member.warmed = Some(trial.clone());
                    self.commit(run, member.key, request.purpose, Outcome::Measured(Box::new(trial)))?;
                }
            }
        }
        Ok(Ok(()))
    }

    /// The member whose turn it is, and its trial. Of the members that need a trial, it is the one with the
    /// fewest in this block; among equals, the seed decides. An echo has further trials as long as a search
    /// runs that is compared with it.
    fn turn(
        &mut self,
        run: &mut Run,
        group: &mut Group<'a>,
    ) -> Result<Option<(usize, TrialRequest)>, StoreError> {
        let mut wanted = Vec::new();
        for member in &mut group.members {
            wanted.push(self.wants(run, member, &group.patience)?);
        }
        let searching = wanted
            .iter()
            .zip(&group.members)
            .filter(|(request, member)| member.is_searching(request.as_ref()));
        let ceilings: BTreeSet<usize> =
            searching.filter_map(|(_, member)| ceiling_of(run, member.key.cell)).collect();
        let mut first: Option<((usize, u64), usize, TrialRequest)> = None;
        for (at, (member, request)) in group.members.iter_mut().zip(wanted).enumerate() {
            if request.is_none() {
                self.end(run, member);
            }
            let is_ceiling = member.play.is_some() && ceilings.contains(&member.key.cell);
            let as_ceiling = is_ceiling.then(|| member.unit.ceiling_beside());
            let trials = member.unit.trials();
            let rank = (trials, order::draw(run.seed, group.block, trials, member.key.cell));
            if let Some(request) = request.or(as_ceiling)
                && first.as_ref().is_none_or(|(before, ..)| rank < *before)
            {
                first = Some((rank, at, request));
            }
        }
        Ok(first.map(|(_, at, request)| (at, request)))
    }

    /// Plays a trial at one member, while all others must be idle.
    fn trial(
        &mut self,
        run: &mut Run,
        group: &mut Group<'a>,
        at: usize,
        request: &TrialRequest,
    ) -> Result<Conducted, StoreError> {
        let idle = quiet::Idle::read(run, &group.members, at);
        let member = &mut group.members[at];
        let Some(play) = &mut member.play else { return Ok(Conducted::Whole) };
        (self.report)(&Event::Load { cell: &run.cells[member.key.cell], block: group.block, request });
        let played = play.play(request);
        let away = self.forgive();
        group.patience = group.patience.later(away);
        match played {
            Err(NoTrial::Interrupted) => return Ok(Conducted::Interrupted),
            Err(NoTrial::Lost { reason }) if member.lost >= restart::MOST => {
                self.fail(run, member, request.purpose, (restart::too_often(&reason), Vec::new()))?;
            }
            Err(NoTrial::Lost { .. }) => {
                let Member { key, lost, .. } = group.members.remove(at);
                return self.begin(run, group, key.cell, lost + 1);
            }
            Err(NoTrial::Failed { reason, output }) => {
                self.fail(run, member, request.purpose, (reason, output))?;
            }
            Ok(mut trial) => {
                trial.beside = idle.beside(&group.members);
                let restless = idle.restless(&trial);
                let member = &mut group.members[at];
                member.lost = 0;
                let outcome = Outcome::Measured(Box::new(trial.clone()));
                let number = self.commit(run, member.key, request.purpose, outcome)?;
                member.unit.add(Played { number, purpose: request.purpose, trial });
                self.report_so_far(run, group);
                for (at, why) in restless.into_iter().rev() {
                    group.members[at].restless += 1;
                    if group.members[at].restless >= RESTLESS_MOST {
                        let member = group.members.remove(at);
                        self.leave_alone(run, group, member.key.cell, &why)?;
                    }
                }
            }
        }
        Ok(Conducted::Whole)
    }

    /// Reports once, in the first block, what is known of the searched subjects.
    fn report_so_far(&mut self, run: &Run, group: &mut Group<'a>) {
        let Some(after_s) = self.clock.map(|(_, began)| seconds(began)) else { return };
        let is_search = group.members.iter().any(|member| member.unit.is_search());
        if is_search && !group.is_reported && after_s >= SO_FAR_S {
            group.is_reported = true;
            (self.report)(&Event::SoFar { run, after_s });
        }
    }

    /// Makes a cell run alone, in this block and in later ones.
    fn leave_alone(
        &mut self,
        run: &mut Run,
        group: &mut Group<'a>,
        cell: usize,
        why: &str,
    ) -> Result<(), StoreError> {
        self.skip(run, &rounds_with(&run.cells[cell].name), why)?;
        group.alone.push(cell);
        Ok(())
    }

    /// Stores a failure. If a trial failed that only explains others, a subject still has its figure; after any
    /// other failure its start is over.
    fn fail(
        &mut self,
        run: &mut Run,
        member: &mut Member<'a>,
        purpose: Purpose,
        (reason, output): (String, Vec<String>),
    ) -> Result<(), StoreError> {
        member.play = None;
        if purpose.is_extra() {
            if !purpose.is_for_profile() {
                let why = format!("another trial of its start failed: {reason}");
                self.leave_profile(run, &mut member.unit, member.key.cell, &why)?;
            }
            member.unit.leave_extras();
        } else {
            member.unit.fail(reason.clone());
        }
        self.commit(run, member.key, purpose, Outcome::Failed { reason, output }).map(drop)
    }

    /// Reports how a member ended.
    fn end(&mut self, run: &Run, member: &mut Member<'a>) {
        let StartKey { cell, block, .. } = member.key;
        if let Next::Over(ending) = member.unit.next()
            && !std::mem::replace(&mut member.is_reported, true)
        {
            (self.report)(&Event::Over { cell: &run.cells[cell], block, ending: &ending });
        }
    }
}

/// Whether a cell belongs to a comparison of which another cell is running.
fn is_beside_its_like(run: &Run, cell: usize, members: &[Member<'_>]) -> bool {
    members.iter().any(|member| member.play.is_some()) && run.cells[cell].factors.compared_as().is_some()
}
