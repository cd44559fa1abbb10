//! A scenario that a player reads beside the plan that another process passes to it.

use std::net::SocketAddr;

use clap::Parser as _;
use kqps_dataset::Dataset;
use kqps_player::{LoadPlan, Plan};
use kqps_testbed::attack::{OpenRate as Rate, PlayScenario, attempts_of_overload};

use super::{ClassLoad, Words, classes};
use crate::exit::bad_input;

/// The classes beside good clients with this plan and these queries. Unless the scenario says otherwise, they have the
/// transport of the good clients, accept any certificate, and run on the last of their cores.
pub(crate) fn beside(asked: &PlayScenario, good: &Plan, queries: &Dataset) -> anyhow::Result<Vec<ClassLoad>> {
    let addresses = || good.targets.iter().map(SocketAddr::ip);
    let transport = good.wire.transport();
    let words = good.targets.iter().map(ToString::to_string);
    let words =
        words.chain([format!("--mode={}", transport.word()), format!("--scenario={}", asked.scenario)]);
    let words = words.chain(addresses().map(|address| format!("--allow-target={address}")));
    // The user, or the study, named the server.
    let words = words.chain(addresses().map(|address| format!("--yes-attack={address}")));
    let words = words.chain(transport.is_encrypted().then(|| "--insecure".to_owned()));
    let flags = Words::try_parse_from(words).map_err(|error| bad_input(error.to_string()))?.load;
    let Some(of_flags) = flags.asked() else { return Ok(Vec::new()) };
    let found = classes(&super::Asked { cpu: good.cpus.last().copied(), ..of_flags }, good, queries)?;
    // The queries are mapped: their sources go.
    let mut found: Vec<ClassLoad> = found.into_iter().map(|(class, _)| class).collect();
    for class in &mut found {
        class.plan.moments = None;
        let (threads, is_hostile) = (class.plan.threads as u64, class.plan.hostile.is_some());
        class.plan.load = played(asked, (class.is_sought, is_hostile), threads, class.plan.load);
        // With a rate of its own the attack is not what a search varies.
        class.is_sought &= asked.rate != Rate::Named;
    }
    Ok(found)
}

/// The load of a class of a trial that follows the speed of the cores, as the good clients do.
fn played(
    asked: &PlayScenario,
    (is_sought, is_hostile): (bool, bool),
    threads: u64,
    load: LoadPlan,
) -> LoadPlan {
    let speed = asked.speed;
    match (is_sought, asked.rate, load) {
        (true, Rate::Sought(rate_qps), LoadPlan::Open { arrivals, window, .. }) => {
            LoadPlan::Open { rate_qps, arrivals, window }
        }
        (true, Rate::Closed(_), _) if is_hostile => attempts_of_overload(None),
        (true, Rate::Limited { most_qps, .. }, _) if is_hostile => attempts_of_overload(Some(most_qps)),
        (true, Rate::Closed(outstanding), _) => LoadPlan::Closed { outstanding: outstanding.max(threads) },
        (true, Rate::Limited { outstanding, most_qps }, _) => {
            LoadPlan::Limited { outstanding: outstanding.max(threads), rate_qps: most_qps }
        }
        (_, _, LoadPlan::Open { rate_qps, arrivals, window }) => {
            LoadPlan::Open { rate_qps: rate_qps * speed, arrivals, window }
        }
        (_, _, LoadPlan::Limited { outstanding, rate_qps }) => {
            LoadPlan::Limited { outstanding, rate_qps: rate_qps * speed }
        }
        (_, _, LoadPlan::Closed { outstanding }) => LoadPlan::Closed { outstanding },
    }
}

#[cfg(test)]
mod tests {
    use kqps_player::Arrivals;

    use super::*;

    #[test]
    fn all_rates_but_the_sought_one_follow_the_speed() {
        let open = |rate_qps| LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None };
        let at = |rate, is_sought, load| {
            let asked = PlayScenario { scenario: "one-name".into(), rate, speed: 0.5 };
            played(&asked, (is_sought, false), 4, load)
        };
        assert_eq!(at(Rate::Named, true, open(5000.0)), open(2500.0));
        assert_eq!(at(Rate::Sought(800.0), true, open(5000.0)), open(800.0), "the speed is in it");
        assert_eq!(at(Rate::Sought(800.0), false, open(5000.0)), open(2500.0));
        assert_eq!(at(Rate::Closed(2), true, open(5000.0)), LoadPlan::Closed { outstanding: 4 });
        let limited = Rate::Limited { outstanding: 9, most_qps: 70.0 };
        let wanted = LoadPlan::Limited { outstanding: 9, rate_qps: 70.0 };
        assert_eq!(at(limited, true, open(5000.0)), wanted);
    }

    #[test]
    fn attackers_have_a_rate_where_queries_have_a_closed_loop() {
        let open = |rate_qps| LoadPlan::Open { rate_qps, arrivals: Arrivals::Even, window: None };
        let at = |rate| {
            let asked = PlayScenario { scenario: "handshakes".into(), rate, speed: 0.5 };
            played(&asked, (true, true), 4, open(5000.0))
        };
        assert_eq!(at(Rate::Closed(2)), open(10_000.0));
        assert_eq!(at(Rate::Limited { outstanding: 9, most_qps: 70.0 }), open(70.0));
        assert_eq!(at(Rate::Sought(800.0)), open(800.0));
    }
}
