//! The attack beside the good clients of a cell: a scenario with a rate that the cell names, or whose rate is searched.

use kqps_observation::Cell;
use kqps_observation::factors::Scenario;
use kqps_observation::run::Purpose;
use kqps_player::{Arrivals, LoadPlan, Plan};
use serde::{Deserialize, Serialize};

use crate::trial_request::{RequestedPace, TrialRequest};

/// A scenario that a player reads beside its plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayScenario {
    /// Its name, with the rate behind it if it has one.
    pub scenario: String,
    /// The rate that it leaves open.
    pub rate: OpenRate,
    /// The speed of the cores that the trial follows, and of several players the share of one. All rates of the scenario but a
    /// sought one are multiplied by it.
    pub speed: f64,
}

impl PlayScenario {
    /// Whether several hosts may share it: one that kqps has, whose clients ask.
    pub fn can_be_shared(&self) -> bool {
        let is_known = kqps_catalogue::scenario::check(&self.scenario).is_ok();
        is_known && Scenario::read(&self.scenario).is_some_and(|scenario| scenario.may_be_shared())
    }
}

/// The rate that a scenario leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpenRate {
    /// The rate behind its name.
    Named,
    /// A rate of a search, queries a second.
    Sought(f64),
    /// A closed loop with this many queries outstanding, with which a search begins.
    Closed(u64),
    /// A closed loop that sends no more than `most_qps` queries a second.
    Limited {
        /// Queries outstanding.
        outstanding: u64,
        /// Queries a second at most.
        most_qps: f64,
    },
}

/// The attack of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellAttack {
    scenario: String,
    /// The rate of the good clients, queries a second, if that of the attack is searched.
    good_qps: Option<f64>,
    /// The part of these rates that one player plays.
    share: f64,
}

impl CellAttack {
    /// The attack of a cell; `None` if it has none.
    pub fn from_cell(cell: &Cell) -> Option<Self> {
        let Scenario { word, has_rate } = cell.factors.scenario()?;
        let good_qps = cell.factors.good_qps().filter(|_| !has_rate);
        Some(Self { scenario: word.to_owned(), good_qps, share: 1.0 })
    }

    /// The part of one of several players that share it.
    #[must_use]
    pub fn shared(self, players: usize) -> Self {
        let share = 1.0 / players.max(1) as f64;
        Self { good_qps: self.good_qps.map(|good_qps| good_qps * share), share, ..self }
    }

    /// The scenario of a trial; `None` for a warm-up, which good clients have for themselves. Sets the load of the good
    /// clients in their plan. `asked` is the trial that the search wants, and `played` that at the speed of the cores.
    pub fn lay(&self, plan: &mut Plan, asked: &TrialRequest, played: &TrialRequest) -> Option<PlayScenario> {
        if asked.purpose == Purpose::WarmUp {
            return None;
        }
        // A thread that runs before all others would hold up those of other classes.
        plan.own_cores = false;
        let rate = match (self.good_qps, plan.load) {
            (None, _) => OpenRate::Named,
            (Some(_), LoadPlan::Open { rate_qps, .. }) => OpenRate::Sought(rate_qps),
            (Some(_), LoadPlan::Closed { outstanding }) => OpenRate::Closed(outstanding),
            (Some(_), LoadPlan::Limited { outstanding, rate_qps }) => {
                OpenRate::Limited { outstanding, most_qps: rate_qps }
            }
        };
        let speed = speed(asked, played);
        if let Some(good_qps) = self.good_qps {
            let rate_qps = good_qps * speed;
            plan.load = LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None };
        }
        Some(PlayScenario { scenario: self.scenario.clone(), rate, speed: speed * self.share })
    }
}

/// Attempts of attackers a second with which a search begins, unless its greatest rate is below. They have no closed loop.
const ATTEMPTS_OF_OVERLOAD: f64 = 10_000.0;

/// The load of attackers with which a search of their rate begins.
pub fn attempts_of_overload(most_qps: Option<f64>) -> LoadPlan {
    let rate_qps = most_qps.unwrap_or(ATTEMPTS_OF_OVERLOAD).min(ATTEMPTS_OF_OVERLOAD);
    LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None }
}

/// The rate of a trial as it is played, as a multiple of the wanted one: the speed of the cores that it follows.
pub fn speed(asked: &TrialRequest, played: &TrialRequest) -> f64 {
    match (asked.pace, played.pace) {
        (RequestedPace::Open { rate_qps: asked_qps }, RequestedPace::Open { rate_qps }) => {
            rate_qps / asked_qps
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::Factors;

    use super::*;
    use crate::player_setup::PlayerSetup;

    fn laid(
        words: &[(&str, &str)],
        pace: RequestedPace,
        purpose: Purpose,
    ) -> (Option<PlayScenario>, LoadPlan) {
        let words = words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned()));
        let cell = Cell { factors: Factors::read(words).unwrap(), ..Cell::default() };
        let asked = TrialRequest { pace, duration_s: 1.0, purpose };
        let played = match pace {
            RequestedPace::Open { rate_qps } => {
                TrialRequest { pace: RequestedPace::Open { rate_qps: rate_qps / 2.0 }, ..asked }
            }
            RequestedPace::Closed => asked,
        };
        let target = ["127.0.0.1:53".parse().unwrap()];
        let subject = kqps_host::SubjectWatched::default();
        let mut plan = PlayerSetup::from_cell(&cell).plan(&played, (&target, None), &[], &subject).unwrap();
        let scenario = CellAttack::from_cell(&cell).and_then(|attack| attack.lay(&mut plan, &asked, &played));
        (scenario, plan.load)
    }

    #[test]
    fn several_players_share_an_attack_and_its_good_clients() {
        let words = [("scenario", "one-name"), ("good_rate", "1000")];
        let words = words.map(|(name, word)| (name.to_owned(), word.to_owned()));
        let cell = Cell { factors: Factors::read(words).unwrap(), ..Cell::default() };
        let attack = CellAttack::from_cell(&cell).unwrap().shared(4);
        let wanted = CellAttack { scenario: "one-name".into(), good_qps: Some(250.0), share: 0.25 };
        assert_eq!(attack, wanted);
    }

    #[test]
    fn a_search_varies_the_attack_and_good_clients_follow_the_speed_alone() {
        let words = [("scenario", "one-name"), ("good_rate", "1000")];
        let open = |rate_qps| LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None };
        let (scenario, good) = laid(&words, RequestedPace::Open { rate_qps: 8000.0 }, Purpose::Search);
        let scenario = scenario.unwrap();
        assert_eq!((scenario.rate, scenario.speed, good), (OpenRate::Sought(4000.0), 0.5, open(500.0)));
        let (scenario, good) = laid(&words, RequestedPace::Closed, Purpose::Ceiling);
        assert!(matches!(scenario.unwrap().rate, OpenRate::Closed(1..)));
        assert_eq!(good, open(1000.0));
        assert_eq!(laid(&words, RequestedPace::Closed, Purpose::WarmUp).0, None);
        let pace = RequestedPace::Open { rate_qps: 8000.0 };
        let (scenario, good) = laid(&[("scenario", "one-name=5k")], pace, Purpose::Rate);
        let wanted = PlayScenario { scenario: "one-name=5k".into(), rate: OpenRate::Named, speed: 0.5 };
        assert_eq!((scenario, good), (Some(wanted), open(4000.0)));
        assert_eq!(laid(&[("scenario", "none")], pace, Purpose::Rate).0, None);
    }
}
