//! Output of the commands that change host settings.

use std::fmt::Write as _;

use kqps_observation::SCHEMA;
use kqps_observation::visible::visible_line;
use kqps_tuning::journal::{Part, Record};
use kqps_tuning::setting::value::alike;
use kqps_tuning::undo::{LeftSetting, value_now};
use kqps_tuning::{Applied, Journal, Real, Setting, System as _, Undone};
use schemars::JsonSchema;
use serde::Serialize;

use crate::print;
use crate::table::titled;

/// Host settings as `--json` prints them.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TuningOutput {
    schema: u32,
    /// `host-apply`, `host-undo` or `host-status`.
    kind: &'static str,
    /// The folder of the journal. A second one, of the user, is named in the remarks.
    journal: String,
    settings: Vec<SettingOutput>,
    /// Remarks, each a sentence.
    remarks: Vec<String>,
}

/// A setting of this host.
#[derive(Default, Serialize, JsonSchema)]
struct SettingOutput {
    setting: String,
    /// The value before kqps changed it.
    old: String,
    /// The value that kqps gave it; null for one that was undone.
    wanted: Option<String>,
    /// The value now; null if it cannot be read.
    now: Option<String>,
    /// Its state: `set`, `undone`, `left`, `gone`, `changed`; `planned` in a dry run, `unknown` if it cannot be
    /// read, `covered` if kqps has changed it again since, and `elsewhere` if it was set in another network namespace.
    state: &'static str,
    /// Why it was left, or is gone.
    reason: Option<String>,
    /// The running process whose end undoes it; null if it stays until it is undone.
    owner: Option<u32>,
    /// The number of the network namespace that it was set in, if that is another one.
    network: Option<u64>,
    /// The plain command that sets it, in a dry run.
    command: Option<String>,
}

impl SettingOutput {
    fn new(setting: &Setting, state: &'static str) -> Self {
        Self { setting: setting.to_string(), state, ..Self::default() }
    }
}

/// A setting in a dry run.
pub(super) struct Planned {
    pub(super) setting: String,
    /// The value now; `None` if it is not there yet.
    pub(super) now: Option<String>,
    pub(super) value: String,
    /// The plain command; `None` if it has the value already.
    pub(super) command: Option<String>,
}

/// Prints what a dry run would do.
pub(super) fn print_planned(planned: Vec<Planned>, json: bool) -> anyhow::Result<()> {
    if json {
        let settings = planned.into_iter().map(|one| SettingOutput {
            setting: one.setting,
            old: one.now.clone().unwrap_or_default(),
            wanted: Some(one.value),
            state: if one.command.is_some() { "planned" } else { "set" },
            now: one.now,
            command: one.command,
            ..SettingOutput::default()
        });
        let (journals, refused) = Journal::all_of_this_boot();
        return print("host-apply", &journals, settings.collect(), refused);
    }
    for Planned { setting, now, command, .. } in planned {
        match (command, now) {
            (None, now) => println!("# {setting} is {} already", now.unwrap_or_default()),
            (Some(command), now) => {
                println!("# {setting} is {}", now.as_deref().unwrap_or("not there yet"));
                println!("{command}");
            }
        }
    }
    Ok(())
}

/// Prints what was applied. If it `stays`, only `kqps host undo` takes it back.
pub(super) fn print_applied(
    applied: &Applied,
    journal: &Journal,
    stays: bool,
    json: bool,
) -> anyhow::Result<()> {
    let settings = applied.made.iter().map(|made| SettingOutput {
        old: made.old.clone(),
        wanted: Some(made.now.clone()),
        now: Some(made.now.clone()),
        ..SettingOutput::new(&made.setting, "set")
    });
    if json {
        let journal = std::slice::from_ref(journal);
        return print("host-apply", journal, settings.collect(), applied.remarks.clone());
    }
    for made in &applied.made {
        println!("{}: {} instead of {}", made.setting, made.now, made.old);
    }
    for change in &applied.already {
        println!("{}: as it was, {}", change.setting, change.value);
    }
    note(&applied.remarks);
    if stays && !applied.made.is_empty() {
        eprintln!("To take it back: kqps host undo");
    }
    Ok(())
}

/// Prints remarks, each a sentence without its full stop.
pub(super) fn note(remarks: &[String]) {
    for remark in remarks {
        eprintln!("Note: {remark}.");
    }
}

/// Prints what was undone for processes of kqps that ended without undoing it.
pub(super) fn print_ended(undone: &Undone) {
    eprint!("{}", of_ended(undone));
}

fn of_ended(undone: &Undone) -> String {
    let restored = undone.restored.iter().map(|one| {
        format!("Note: {} is {} again: the process of kqps that set it has ended.\n", one.setting, one.value)
    });
    let left = undone.left.iter().map(|left| format!("Note: an ended process of kqps left this: {left}.\n"));
    let troubles = undone.troubles.iter().map(|trouble| format!("Note: {trouble}.\n"));
    restored.chain(left).chain(troubles).collect()
}

/// Prints what was undone.
pub(super) fn print_undone(undone: &Undone, journals: &[Journal], json: bool) -> anyhow::Result<()> {
    let Undone { restored, left, gone, held, elsewhere, troubles, .. } = undone;
    if json {
        let restored = restored.iter().map(|one| SettingOutput {
            old: one.value.clone(),
            now: Some(one.value.clone()),
            ..SettingOutput::new(&one.setting, "undone")
        });
        let gone = gone.iter().map(|(setting, why)| SettingOutput {
            reason: Some(why.clone()),
            ..SettingOutput::new(setting, "gone")
        });
        let held = held.iter().map(|(setting, owner)| SettingOutput {
            owner: Some(owner.pid),
            ..SettingOutput::new(setting, "set")
        });
        let elsewhere = elsewhere.iter().map(|(setting, network)| SettingOutput {
            network: Some(*network),
            ..SettingOutput::new(setting, "elsewhere")
        });
        let settings = restored.chain(left.iter().map(of_left)).chain(gone).chain(held).chain(elsewhere);
        return print("host-undo", journals, settings.collect(), troubles.clone());
    }
    for one in restored {
        println!("{}: {} again", one.setting, one.value);
    }
    for (setting, why) in gone {
        println!("{setting}: nothing to undo: {why}");
    }
    for one in left {
        eprintln!("Left: {one}.");
    }
    for (setting, owner) in held {
        eprintln!("Left: {setting}, which {owner} holds until it ends.");
    }
    for (setting, network) in elsewhere {
        eprintln!(
            "Left: {setting}, which was set in network namespace {network}: run kqps host undo there (nsenter --net)."
        );
    }
    note(troubles);
    if undone.is_whole() && restored.is_empty() && gone.is_empty() {
        eprintln!("There is nothing to undo.");
    }
    Ok(())
}

fn of_left(left: &LeftSetting) -> SettingOutput {
    SettingOutput {
        old: left.old.clone(),
        now: left.found.clone(),
        reason: Some(left.reason.clone()),
        ..SettingOutput::new(&left.setting, "left")
    }
}

/// Prints journals with the present values.
pub(super) fn print_status(
    records: &[Record],
    troubles: &[String],
    journals: &[Journal],
    json: bool,
) -> anyhow::Result<()> {
    let system = Real::host();
    let parts = records.iter().flat_map(|record| {
        // Settings that a driver changed too may be left of a change that was undone.
        let of_driver = record.beside.iter().filter(move |_| record.parts.is_empty());
        record.parts.iter().chain(of_driver).map(move |part| (record, part))
    });
    let parts: Vec<(&Record, &Part)> = parts.collect();
    let settings: Vec<SettingOutput> = parts
        .iter()
        .enumerate()
        .map(|(at, (record, part))| {
            let is_below = is_below(part, record, &parts[at + 1..]);
            of_part(&system, record, part, is_below)
        })
        .collect();
    if json {
        return print("host-status", journals, settings, troubles.to_vec());
    }
    note(troubles);
    if settings.is_empty() {
        if troubles.is_empty() {
            println!("kqps has set nothing here since this host booted.");
        }
        return Ok(());
    }
    let mut table = titled(["setting", "before", "set to", "now", "until"]);
    for one in &settings {
        let until = match (one.owner, one.network) {
            (Some(pid), _) => format!("process {pid} ends"),
            (None, Some(network)) => format!("kqps host undo in network namespace {network}"),
            (None, None) => "kqps host undo".into(),
        };
        let now = one.now.clone().unwrap_or_else(|| "-".into());
        let wanted = one.wanted.clone().unwrap_or_default();
        let row = [&one.setting, &one.old, &wanted, &now, &until].map(|text| visible_line(text).into_owned());
        table.add_row(row);
    }
    let mut text = table.trim_fmt() + "\n";
    for one in &settings {
        if one.state == "changed" {
            let _ = writeln!(text, "{} has another value than kqps gave it.", one.setting);
        }
        if let Some(reason) = &one.reason {
            let _ = writeln!(text, "{} was left when it was undone: {}.", one.setting, visible_line(reason));
        }
    }
    print!("{text}");
    Ok(())
}

/// Whether one of the later parts changed the same setting once more.
fn is_below(part: &Part, record: &Record, later: &[(&Record, &Part)]) -> bool {
    let is_same = |(after, above): &(&Record, &Part)| {
        let is_device = !above.identity.differs_from(&part.identity);
        above.setting == part.setting && after.network == record.network && is_device
    };
    later.iter().any(is_same)
}

/// A setting of the journal with its present value, if it can be read from here. If a later change of kqps is above it,
/// that one has the present value.
fn of_part(system: &Real, record: &Record, part: &Part, is_below: bool) -> SettingOutput {
    let is_here = record.is_in(system.network());
    let now = is_here.then(|| value_now(system, part)).flatten().map(|(_, now)| now);
    let given = part.found.as_ref().unwrap_or(&part.wanted);
    let state = match &now {
        _ if !is_here => "elsewhere",
        None => "unknown",
        Some(_) if is_below => "covered",
        Some(now) if alike(&part.setting, now, given) => "set",
        Some(_) => "changed",
    };
    SettingOutput {
        old: part.old.clone(),
        wanted: Some(given.clone()),
        now,
        reason: part.left.clone(),
        owner: record.owner.filter(kqps_tuning::Owner::lives).map(|owner| owner.pid),
        network: record.network.filter(|_| !is_here),
        ..SettingOutput::new(&part.setting, state)
    }
}

fn print(
    kind: &'static str,
    journals: &[Journal],
    settings: Vec<SettingOutput>,
    mut remarks: Vec<String>,
) -> anyhow::Result<()> {
    let mut folders = journals.iter().map(|journal| journal.folder().display().to_string());
    let journal = folders.next().unwrap_or_default();
    remarks.extend(folders.map(|folder| format!("{folder} is another journal of this boot")));
    Ok(print::json(&TuningOutput { schema: SCHEMA, kind, journal, settings, remarks })?)
}

#[cfg(test)]
mod tests {
    use kqps_tuning::{Change, Identity, Owner};

    use super::*;

    #[test]
    fn a_state_says_what_is_known() {
        let system = Real::host();
        let change: Change = "sysctl.net.ipv4.ip_forward=1".parse().unwrap();
        let now = system.read(&change.setting).unwrap();
        let part = |name: &str, found: &str| Part {
            setting: name.parse().unwrap(),
            old: "7".into(),
            wanted: "8".into(),
            found: Some(found.to_owned()),
            identity: Identity::default(),
            left: None,
        };
        let this = Owner::this_process();
        let ended = Owner { started: this.started + 1, ..this };
        let record = |owner, network| Record {
            number: 1,
            change: change.clone(),
            parts: Vec::new(),
            beside: Vec::new(),
            owner,
            network,
            is_private: false,
            is_made: true,
        };
        let here = record(Some(this), Some(system.network()));
        let of =
            |record: &Record, name: &str, found: &str| of_part(&system, record, &part(name, found), false);
        let name = "sysctl.net.ipv4.ip_forward";
        assert_eq!((of(&here, name, &now).state, of(&here, name, &now).owner), ("set", Some(this.pid)));
        assert_eq!(of(&here, name, "9").state, "changed");
        assert_eq!(of(&here, "rps.none0.0", "0").state, "unknown", "it cannot be read");
        let elsewhere = of(&record(Some(ended), Some(7)), name, &now);
        assert_eq!((elsewhere.state, elsewhere.network, elsewhere.owner), ("elsewhere", Some(7), None));
        assert_eq!(of(&record(None, None), name, &now).state, "set", "of the whole host");

        let (first, second) = (part(name, "9"), part(name, &now));
        assert!(is_below(&first, &here, &[(&here, &second)]) && !is_below(&second, &here, &[]));
        assert_eq!(of_part(&system, &here, &first, true).state, "covered", "nobody else has changed it");
        let elsewhere = record(None, Some(7));
        assert!(!is_below(&first, &here, &[(&elsewhere, &second)]), "another namespace has its own");
        assert!(!is_below(&first, &here, &[(&here, &part("rps.none0.0", "0"))]));
    }

    #[test]
    fn what_was_undone_for_an_ended_process_is_said() {
        let restored = vec![kqps_tuning::undo::Restored {
            setting: "rps.eth0.0".parse().unwrap(),
            value: "none".into(),
        }];
        let text = of_ended(&Undone { restored, ..Undone::default() });
        assert_eq!(text, "Note: rps.eth0.0 is none again: the process of kqps that set it has ended.\n");
        assert_eq!(of_ended(&Undone::default()), "");
    }
}
