//! A search that ended: its verdict, in words or as JSON.

use kqps_host::SubjectWatched;
use kqps_observation::run::Purpose;
use kqps_observation::trial::rate_unit;
use kqps_observation::{TlsFacts, Trial};
use kqps_player::Plan;
use kqps_testbed::trial_request::Played;
use kqps_verdict::breaking;
use kqps_verdict::grade::Grade;
use kqps_verdict::judge::{CutShort, SearchContext, SearchVerdict, judge_search};
use kqps_verdict::search::Goal;
use kqps_verdict::speed::usual_of;

use super::attack::Attack;
use super::ceiling::{Ceilings, Interface};
use super::{Args, words};
use crate::load::{surroundings, watched};
use crate::print;

/// A search that ended, with what its verdict needs.
pub(super) struct EndedSearch<'a> {
    pub(super) args: &'a Args,
    pub(super) goal: &'a Goal,
    pub(super) plan: &'a Plan,
    pub(super) subject: &'a SubjectWatched,
    pub(super) interface: &'a Interface,
    pub(super) ceilings: &'a Ceilings,
    /// The attack whose rate was searched.
    pub(super) attack: Option<&'a Attack>,
    pub(super) played: Vec<Played>,
    /// The reason that ended the search before it was over.
    pub(super) cut_short: Option<CutShort>,
}

impl EndedSearch<'_> {
    /// Judges the search and prints the verdict. Returns its grade.
    pub(super) fn judge_and_print(&self, targets: String) -> anyhow::Result<Grade> {
        let Self { args, plan, ceilings, played, .. } = self;
        let all = || ceilings.trials().chain(played.iter().map(|one| &one.trial));
        let verdict = self.judged_at_usual_speed();
        let searched = words::Searched {
            verdict: &verdict,
            targets,
            ceilings,
            interface: self.interface,
            subject: played.last().and_then(|one| watched(&one.trial)),
            accepts_any: played.iter().any(|one| accepts_any(&one.trial)),
            is_gauged: played.iter().any(|one| one.trial.speed.is_some()),
            unit: played
                .last()
                .map_or(rate_unit(plan.has_connections_alone()), |one| breaking::rate_unit(&one.trial)),
            trials: all().collect(),
            sought: played.iter().map(|one| &one.trial).collect(),
            timeout: plan.timeout,
            folder: args.out.as_deref(),
            is_why: args.why,
            attack: self.attack,
        };
        if args.json {
            print::json(&verdict)?;
        } else {
            print!("{}", words::words(&searched));
        }
        Ok(verdict.grade)
    }

    /// The verdict at the usual speed of the host, which the trials show.
    pub(super) fn judged_at_usual_speed(&self) -> SearchVerdict {
        let all = self.ceilings.trials().chain(self.played.iter().map(|one| &one.trial));
        self.judged(usual_of(all))
    }

    fn judged(&self, usual_speed: f64) -> SearchVerdict {
        let trials: Vec<(Purpose, &Trial)> =
            self.played.iter().map(|one| (one.purpose, &one.trial)).collect();
        let known = SearchContext {
            surroundings: surroundings(&self.args.player, self.plan, self.subject),
            player_qps: self.ceilings.player_qps(),
            echo_qps: self.ceilings.echo_qps(),
            echo: self.ceilings.echo_estimate(),
            usual_speed: Some(usual_speed),
            cut_short: self.cut_short,
        };
        judge_search(self.goal, &trials, &known)
    }
}

/// Whether a trial accepted a certificate without a check.
fn accepts_any(trial: &Trial) -> bool {
    let tls = trial.connections.as_ref().and_then(|connections| connections.tls.as_ref());
    tls.is_some_and(TlsFacts::accepted_unchecked)
}
