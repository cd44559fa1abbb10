//! Chooses the trial in which packets are stamped on the subjects' host: once for a cell, at half of the load that its
//! other trials found. A function of the stored trials, so that a run that was killed neither loses nor repeats it.

use std::collections::BTreeMap;

use kqps_observation::run::{Purpose, Role};
use kqps_observation::trial::Transport;
use kqps_observation::{Cell, Run};
use kqps_verdict::search::{Goal, Probe};

use kqps_testbed::echo_io::XDP;
use kqps_testbed::site::Site;
use kqps_testbed::trial_request::{Played, RequestedPace, TrialRequest, counted};

/// The share of the load that was found. Stamping takes time on the subjects' host, and at the whole load the queries
/// would wait for each other.
const SHARE: f64 = 0.5;

/// Seconds of the trial: at 10,000 queries a second, enough for a p99.
pub(crate) const TRIAL_S: f64 = 1.0;

/// Why a cell that was measured has no trial of its residence.
pub(crate) const NO_LOAD: &str = "no load was found at which the server met the goal";

/// The name of residence among the parts that a run left out.
const NAME: &str = "residence";

/// The name of a cell's residence among the parts that a run left out.
pub(crate) fn name(cell: &Cell) -> String {
    format!("{NAME} of {}", cell.name)
}

/// Whether the residence of a cell is wanted, and was not measured yet. Whatever comes of its trial, it is the only one.
pub(crate) fn is_wanted(run: &Run, cell: usize) -> bool {
    let is_of_cell = |one: &kqps_observation::RunTrial| one.cell as usize == cell;
    let facts = &run.cells[cell];
    facts.residence && !run.trials.iter().any(|one| is_of_cell(one) && one.purpose == Purpose::Residence)
}

/// The trial for a cell whose other trials found this load, queries a second.
pub(crate) fn request(found_qps: f64) -> TrialRequest {
    let pace = RequestedPace::Open { rate_qps: (found_qps * SHARE).round().max(1.0) };
    TrialRequest { pace, duration_s: TRIAL_S, purpose: Purpose::Residence }
}

/// The highest of the fixed rates that a cell was given at which no more queries were bad than the goal allows, queries a
/// second; `None` if there is none.
pub(crate) fn highest_qps(goal: &Goal, played: &[Played]) -> Option<f64> {
    let of_rates = counted(played).into_iter().filter(|one| one.purpose == Purpose::Rate);
    let met = of_rates.filter(|one| Probe::from_trial(&one.trial, goal, one.purpose).bad_ratio <= goal.loss);
    met.filter_map(|one| one.trial.load.intended_qps).max_by(f64::total_cmp)
}

/// Whether the host of the subjects can stamp packets, or the reason why not; `None` if it plays itself.
pub(crate) fn can_stamp(site: &Site) -> Option<Result<(), String>> {
    let hosts = site.players.as_ref()?;
    Some(match (site.lacking.get("packet-stamps"), &hosts.server_device) {
        (Some(reason), _) => Err(format!("the server's host cannot stamp packets: {reason}")),
        (None, None) => {
            Err("it is not certain which interface has the address of the server's host; name it by \
                             `device` in the hosts' file"
                .into())
        }
        (None, Some(_)) => Ok(()),
    })
}

/// Why cells over connections have no residence.
const CONNECTED: &str = "only queries over UDP are stamped: a packet of a connection has parts of queries or several of \
                         them, and those that are encrypted have no ID that can be read";

/// Why cells that use `AF_XDP` have no residence.
const PAST_THE_KERNEL: &str =
    "the kernel of the server's host has no packets of a subject that answers past it";

/// Marks the cells whose residence is measured: of those that ask for it, or of all if `all` is true, the subjects over
/// UDP, if their host can stamp. Returns what is left out, with the reason.
pub(crate) fn mark(
    cells: &mut [Cell],
    all: bool,
    can_stamp: Option<&Result<(), String>>,
) -> BTreeMap<String, String> {
    let mut left_out = BTreeMap::new();
    for cell in cells {
        let is_wanted = (all || cell.residence) && cell.role == Role::Subject;
        cell.residence = false;
        let Some(can_stamp) = can_stamp.filter(|_| is_wanted) else { continue };
        let transport = cell.factors.transport();
        match can_stamp {
            Err(why) => {
                left_out.insert(NAME.to_owned(), why.clone());
            }
            Ok(()) if transport != Transport::Udp => {
                left_out.insert(format!("{NAME} over {}", transport.word()), CONNECTED.to_owned());
            }
            Ok(()) if cell.io == XDP => {
                left_out.insert(format!("{NAME} with {XDP}"), PAST_THE_KERNEL.to_owned());
            }
            Ok(()) => cell.residence = true,
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use kqps_observation::run::Outcome;
    use kqps_observation::{Accounts, RunTrial, Trial};
    use kqps_verdict::search::Preset;

    use super::*;
    use kqps_testbed::player_hosts::PlayerHosts;

    fn cells() -> Vec<Cell> {
        let cell = |role, transport| {
            let mut cell = Cell { role, name: "nsd".into(), residence: true, ..Cell::default() };
            cell.factors.set("player.transport", transport).unwrap();
            cell
        };
        let past = Cell { io: XDP.into(), ..cell(Role::Subject, "udp") };
        vec![cell(Role::EchoCeiling, "udp"), cell(Role::Subject, "udp"), cell(Role::Subject, "tls"), past]
    }

    fn marked(cells: &[Cell]) -> Vec<bool> {
        cells.iter().map(|cell| cell.residence).collect()
    }

    #[test]
    fn subjects_over_udp_are_stamped_on_a_host_that_can() {
        let mut of = cells();
        assert!(mark(&mut of, true, None).is_empty(), "one host has no residence, and owes no reason");
        assert_eq!(marked(&of), [false; 4]);

        let mut of = cells();
        let left_out = mark(&mut of, false, Some(&Ok(())));
        assert_eq!(marked(&of), [false, true, false, false]);
        let reasons = [("residence over tls", CONNECTED), ("residence with xdp", PAST_THE_KERNEL)];
        assert_eq!(left_out, reasons.map(|(what, why)| (what.to_owned(), why.to_owned())).into());
        assert!(mark(&mut of[1..2], false, Some(&Ok(()))).is_empty() && of[1].residence);

        let mut of = cells();
        let left_out = mark(&mut of, false, Some(&Err("no right".into())));
        assert_eq!(marked(&of), [false; 4]);
        assert_eq!(left_out, [("residence".to_owned(), "no right".to_owned())].into(), "said once");

        let mut unasked = vec![Cell::default()];
        assert!(mark(&mut unasked, false, Some(&Err("no right".into()))).is_empty(), "nobody asked for it");
        assert!(mark(&mut unasked, true, Some(&Ok(()))).is_empty() && unasked[0].residence);
    }

    #[test]
    fn a_host_without_the_right_or_without_a_known_interface_says_so() {
        let mut site = Site::default();
        assert_eq!(can_stamp(&site), None);
        site.players = Some(PlayerHosts::default());
        assert!(can_stamp(&site).unwrap().unwrap_err().contains("`device`"));
        site.players = Some(PlayerHosts { server_device: Some("eth0".into()), ..PlayerHosts::default() });
        assert_eq!(can_stamp(&site), Some(Ok(())));
        site.lacking.insert("packet-stamps".into(), "CAP_NET_RAW".into());
        assert!(can_stamp(&site).unwrap().unwrap_err().ends_with("CAP_NET_RAW"));
    }

    #[test]
    fn it_is_half_of_the_highest_rate_that_held_and_comes_once() {
        let goal = Preset::Quick.goal();
        let played = |rate_qps: f64, lost| {
            let accounts =
                Accounts { intended: 1_000, sent: 1_000, correct: 1_000 - lost, lost, ..Accounts::default() };
            let mut trial = Trial { accounts, ..Trial::default() };
            trial.load.intended_qps = Some(rate_qps);
            Played { number: 1, purpose: Purpose::Rate, trial }
        };
        let all = [played(1_000.0, 0), played(5_000.0, 0), played(20_000.0, 500)];
        assert_eq!(highest_qps(&goal, &all), Some(5_000.0));
        assert_eq!(highest_qps(&goal, &all[2..]), None);
        let TrialRequest { pace, purpose, .. } = request(5_001.0);
        assert_eq!((pace, purpose), (RequestedPace::Open { rate_qps: 2_501.0 }, Purpose::Residence));

        let mut run = Run { cells: vec![Cell::default(), Cell::default()], ..Run::default() };
        assert!(!is_wanted(&run, 0));
        (run.cells[0].residence, run.cells[1].residence) = (true, true);
        let outcome = Outcome::Failed { reason: "it died".into(), output: Vec::new() };
        run.trials = vec![RunTrial { number: 1, cell: 0, block: 0, start: 1, purpose, outcome }];
        assert_eq!((is_wanted(&run, 0), is_wanted(&run, 1)), (false, true));
    }
}
