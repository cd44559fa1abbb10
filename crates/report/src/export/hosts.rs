//! The hosts of a run, their cores, and each player's part in every trial.

use kqps_observation::{Cell, Fingerprint, HostRole, Run};

use super::sheet::{Field, Sheet, Value, cell, count, counted, number, numbers, p99_at_most, text, words};
use crate::section::host::of_subjects;

/// A row for every host of a run that names them, or for the only one.
pub(super) fn hosts(run: &Run) -> Sheet {
    let mut sheet = Sheet::new("hosts", "one host");
    if run.hosts.is_empty() {
        let first = [Value::None, text("both"), Value::None, words(&run.kqps_version)];
        sheet.push(host(first, &run.fingerprint));
    }
    for one in &run.hosts {
        let role = match one.role {
            HostRole::Server => "server",
            HostRole::Player => "player",
        };
        let version = words(one.kqps.version.as_deref().unwrap_or_default());
        let first = [text(&one.name), text(role), text(one.address.to_string()), version];
        sheet.push(host(first, &one.fingerprint));
    }
    sheet
}

/// The row of a host with these first values.
fn host([name, role, address, kqps]: [Value; 4], facts: &Fingerprint) -> [Field; 14] {
    let known = |text: &Option<String>| words(text.as_deref().unwrap_or_default());
    let memory = counted(Some(facts.memory_bytes).filter(|bytes| *bytes > 0));
    let is_turbo_on = facts.turbo.map_or(Value::None, Value::Flag);
    [
        ("host", "its name; nothing if the run names none", name),
        ("role", "server, player, or both", role),
        ("address", "where its subjects listen, or from where its player sends", address),
        ("kqps", "version of the kqps that ran there", kqps),
        ("cpu_model", "its processor", words(&facts.cpu_model)),
        ("cpus", "number of logical CPUs", count(facts.cores.len())),
        ("memory_bytes", "its memory", memory),
        ("hypervisor", "its hypervisor, if it is a virtual machine", known(&facts.hypervisor)),
        ("kernel", "its kernel", words(&facts.kernel)),
        ("system", "its system", known(&facts.os)),
        ("clock_source", "its clock", known(&facts.clock_source)),
        ("governor", "its frequency governor", known(&facts.governor)),
        ("is_turbo_on", "whether cores may run faster than their base frequency", is_turbo_on),
        ("microcode", "its microcode", known(&facts.microcode)),
    ]
}

/// A row for every logical CPU of the subjects' host.
pub(super) fn cores(run: &Run) -> Sheet {
    let mut sheet = Sheet::new("cores", "one logical CPU of the subjects' host");
    for core in &of_subjects(run).cores {
        let cells = |has: &dyn Fn(&Cell) -> bool| count(run.cells.iter().filter(|cell| has(cell)).count());
        // The cores of players on other hosts are not those of this one.
        let is_one_host = run.hosts.is_empty();
        let player_cells = cells(&|cell| is_one_host && cell.player_cpus.contains(&core.cpu));
        let subject_cells = cells(&|cell| cell.subject_cpus.contains(&core.cpu));
        sheet.push([
            ("cpu", "the logical CPU", count(core.cpu)),
            ("package", "its package", count(core.package)),
            ("core", "its core", count(core.core)),
            ("numa_node", "its memory node", count(core.numa_node)),
            ("player_cells", "number of cells whose player had it", player_cells),
            ("subject_cells", "number of cells whose subject had it", subject_cells),
        ]);
    }
    sheet
}

/// A row for every player's part in every trial of several players.
pub(super) fn parts(run: &Run) -> Sheet {
    let mut sheet = Sheet::new("parts", "one player's part in one trial");
    for one in &run.trials {
        let Some(trial) = one.measured() else { continue };
        let name = run.cells.get(one.cell as usize).map_or("", |cell| &cell.name);
        for part in &trial.parts {
            let bad_share = part.accounts.bad_ratio();
            let (late_us, uncertainty_us) =
                (part.start.late_ns as f64 / 1e3, part.start.uncertainty_ns as f64 / 1e3);
            sheet.push([
                cell(one.cell),
                ("name", "the cell's name", words(name)),
                ("host", "the player's host", text(&part.host)),
                ("offered_qps", "queries a second that it sent", number(part.offered_qps)),
                ("answered_qps", "correct answers a second that it got", number(part.answered_qps)),
                ("intended", "queries that it was to send", count(part.accounts.intended)),
                ("bad_share", "share of them without a correct answer in time", number(bad_share)),
                ("p50_us", "median latency", counted(part.latency_us.p50)),
                ("p99_us", "p99 latency", counted(part.latency_us.p99)),
                p99_at_most(&part.latency_us),
                ("max_us", "greatest latency", counted(part.latency_us.max)),
                ("late_us", "how much later than asked it began", number(late_us)),
                (
                    "clock_uncertainty_us",
                    "the greatest error of what is known of its clock",
                    number(uncertainty_us),
                ),
                (
                    "trial_skew_us",
                    "how far apart the players of this trial began at most",
                    number(trial.start_skew_us),
                ),
                ("trials", "number of the trial", numbers(&[one.number])),
            ]);
        }
    }
    sheet
}
