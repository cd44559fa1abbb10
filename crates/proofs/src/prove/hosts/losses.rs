//! The ledger over several hosts: losses that are planted between the hosts, and counted by what drops them, are found
//! at their place. A loss at the server's own interface is not planted, since the end of a veth pair drops nothing that
//! arrives.

use anyhow::{Context as _, Result, ensure};
use kqps_observation::{Place, Run, RunTrial};
use serde_json::Value;

use super::super::Bench;
use super::super::ledger::agree;
use super::super::ledger::network::{dropped, nft};
use super::host::DATA;
use super::lab::Lab;
use super::study::{self, Extent};
use crate::path::run_in;

const DISK: &str = "64m";

/// Packets per dropped one, on average. Drops are random.
const ONE_IN: u32 = 50;

/// The place that drops packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plant {
    /// The queue of a player's interface.
    Interface,
    /// The switch, of the queries.
    Out,
    /// The switch, of the replies.
    Back,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench, DISK)?;
    let extent = bench.choose(
        Extent { repetitions: 1, rate_qps: 5_000, seconds: 1.0 },
        Extent { repetitions: 5, rate_qps: 10_000, seconds: 2.0 },
    );
    let file = study::write(&lab, extent)?;
    let program = &bench.kqps.program;
    let hosts = study::write_hosts(bench, &lab, "hosts.toml", program, |host| lab.ssh(&host.name))?;
    for plant in [Plant::Interface, Plant::Out, Plant::Back] {
        if let Err(reason) = plant.begin(&lab) {
            // Kernels are built without this scheduler of packets; every other place is planted everywhere.
            ensure!(plant == Plant::Interface, "{plant:?}: {reason:#}");
            eprintln!("no loss at {:?} is planted: {reason:#}", plant.place());
            continue;
        }
        let out = lab.home.join(format!("{plant:?}"));
        let run = study::play(study::command(bench, &lab, &file, &hosts, &out)?, &out)?.run;
        let truth = plant.end(&lab)?;
        compare(&run, plant.place(), truth).with_context(|| format!("{plant:?}"))?;
        eprintln!("{plant:?}: {truth} losses are placed at {:?}, and none elsewhere", plant.place());
    }
    Ok(())
}

impl Plant {
    /// The place where the ledger must find the losses.
    fn place(self) -> Place {
        match self {
            Self::Interface => Place::NicOut,
            Self::Out => Place::PathOut,
            Self::Back => Place::PathBack,
        }
    }

    /// Begins to drop packets.
    fn begin(self, lab: &Lab) -> Result<()> {
        if self == Self::Interface {
            let loss = format!("{}%", 100.0 / f64::from(ONE_IN));
            let words = ["qdisc", "add", "dev", DATA, "root", "netem", "loss", &loss];
            return run_in(&lab.players()[0].network, "tc", &words).map(drop);
        }
        // Not every kernel filters bridges. Then the packets of one host are dropped as they arrive at the switch.
        let at = lab.data.namespace();
        let [of_bridge, of_port] = self.rules(lab);
        nft(at, &[&of_bridge]).or_else(|_| nft(at, &[&of_port])).map(drop)
    }

    fn rules(self, lab: &Lab) -> [String; 2] {
        let (server, player) = (lab.server(), &lab.players()[0]);
        let (field, port) = match self {
            Self::Back => ("saddr", server.data_port.name()),
            _ => ("daddr", player.data_port.name()),
        };
        let drop = format!("ip protocol udp numgen random mod {ONE_IN} == 0 counter drop");
        [
            format!(
                "add table bridge proof; add chain bridge proof drops {{ type filter hook forward priority 0; }}; add \
                 rule bridge proof drops ip {field} {} {drop}",
                server.data
            ),
            format!(
                "add table netdev proof; add chain netdev proof drops {{ type filter hook ingress device \"{port}\" \
                 priority 0; }}; add rule netdev proof drops {drop}"
            ),
        ]
    }

    /// Ends it. Returns how many packets were dropped.
    fn end(self, lab: &Lab) -> Result<u64> {
        if self == Self::Interface {
            let at = &lab.players()[0].network;
            let shown = run_in(at, "tc", &["-s", "-j", "qdisc", "show", "dev", DATA, "root"])?;
            run_in(at, "tc", &["qdisc", "del", "dev", DATA, "root"])?;
            let shown: Value = serde_json::from_str(&shown)?;
            return shown[0]["drops"].as_u64().with_context(|| format!("no drops are in {shown}"));
        }
        let at = lab.data.namespace();
        let count = dropped(at)?;
        nft(at, &["flush", "ruleset"])?;
        Ok(count)
    }
}

/// Compares the ledgers of all trials of a run with the truth. Losses of an attempt that was void and repeated are in no
/// record.
fn compare(run: &Run, place: Place, truth: u64) -> Result<()> {
    agree(run.trials.iter().filter_map(RunTrial::measured).map(|trial| &trial.ledger), place, truth)
}

#[cfg(test)]
mod tests {
    use kqps_observation::ledger::{FoundBy, Placed};
    use kqps_observation::run::{Outcome, Purpose};
    use kqps_observation::{Ledger, Trial};

    use super::*;

    fn run_with(places: &[(Place, u64)], unexplained: i64) -> Run {
        let placed = |(place, count): &(Place, u64)| Placed {
            place: *place,
            count: *count,
            by: FoundBy::Drops,
            shared: false,
        };
        let ledger = Ledger { places: places.iter().map(placed).collect(), unexplained, ..Ledger::default() };
        let outcome = Outcome::Measured(Box::new(Trial { ledger, ..Trial::default() }));
        let one = RunTrial { number: 1, cell: 0, block: 0, start: 1, purpose: Purpose::Rate, outcome };
        Run { trials: vec![one], ..Run::default() }
    }

    #[test]
    fn a_ledger_that_names_another_place_or_count_is_refused() {
        let is_right = |places: &[(Place, u64)], unexplained| {
            compare(&run_with(places, unexplained), Place::PathOut, 100).is_ok()
        };
        assert!(is_right(&[(Place::PathOut, 100), (Place::PlayerUnsent, 7)], 0));
        assert!(!is_right(&[(Place::PathOut, 99)], 1));
        assert!(!is_right(&[(Place::PathBack, 100)], 0));
        assert!(!is_right(&[(Place::PathOut, 100), (Place::NicIn, 1)], 0));
        assert!(!is_right(&[(Place::PathOut, 100)], -1));
        assert!(compare(&run_with(&[(Place::PathOut, 9)], 0), Place::PathOut, 9).is_err(), "too few");
    }
}
