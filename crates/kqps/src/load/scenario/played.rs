//! A scenario that a player reads beside the plan that another process passes to it.

use std::net::SocketAddr;

use clap::Parser as _;
use kqps_dataset::Dataset;
use kqps_player::{LoadPlan, Plan};
use kqps_testbed::attack::{OpenRate as Rate, PlayScenario};

use super::{ClassLoad, Source, Words, classes};
use crate::exit::bad_input;

/// The classes beside good clients with this plan and these queries. Unless the scenario says otherwise, they have the
/// transport of the good clients, accept any certificate, and run on the last of their cores.
pub(crate) fn beside(
    asked: &PlayScenario,
    good: &Plan,
    queries: &Dataset,
) -> anyhow::Result<Vec<(ClassLoad, Source)>> {
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
    let mut found = classes(&super::Asked { cpu: good.cpus.last().copied(), ..of_flags }, good, queries)?;
    for (class, _) in &mut found {
        class.plan.moments = None;
        class.plan.load = match (class.is_sought, asked.rate, class.plan.load) {
            (true, Rate::Sought(rate_qps), LoadPlan::Open { arrivals, window, .. }) => {
                LoadPlan::Open { rate_qps, arrivals, window }
            }
            (true, Rate::Closed(outstanding), _) => {
                LoadPlan::Closed { outstanding: outstanding.max(class.plan.threads as u64) }
            }
            (_, _, load) => load,
        };
        // With a rate of its own the attack is not what a search varies.
        class.is_sought &= asked.rate != Rate::Named;
    }
    Ok(found)
}
