//! What the commands that change host settings print.

use std::fmt::Write as _;
use std::path::Path;

use comfy_table::{Table, presets};
use kqps_observation::SCHEMA;
use kqps_observation::visible::visible_line;
use kqps_tuning::journal::Record;
use kqps_tuning::setting::value::same;
use kqps_tuning::undo::Left;
use kqps_tuning::{Applied, Journal, Real, System as _, Undone};
use schemars::JsonSchema;
use serde::Serialize;

use crate::print;

/// What `--json` prints of host settings.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TuningOutput {
    schema: u32,
    /// `host-apply`, `host-undo` or `host-status`.
    kind: &'static str,
    /// The folder of the journal.
    journal: String,
    settings: Vec<SettingOutput>,
    /// Remarks, each a sentence.
    remarks: Vec<String>,
}

/// One setting of this host.
#[derive(Default, Serialize, JsonSchema)]
struct SettingOutput {
    setting: String,
    /// The value before kqps changed it.
    old: String,
    /// The value that kqps gave it; null for one that was undone.
    wanted: Option<String>,
    /// The value now; null if it cannot be read.
    now: Option<String>,
    /// What became of it: `set`, `undone`, `left`, `gone`, `changed`.
    state: &'static str,
    /// Why it was left, or is gone.
    reason: Option<String>,
    /// The process whose end undoes it; null if it stays until it is undone.
    owner: Option<u32>,
}

/// Prints what was applied.
pub(super) fn print_applied(applied: &Applied, journal: &Journal, json: bool) -> anyhow::Result<()> {
    let settings = applied.made.iter().map(|made| SettingOutput {
        setting: made.setting.to_string(),
        old: made.old.clone(),
        wanted: Some(made.now.clone()),
        now: Some(made.now.clone()),
        state: "set",
        ..SettingOutput::default()
    });
    if json {
        return print("host-apply", journal.folder(), settings.collect(), applied.remarks.clone());
    }
    for made in &applied.made {
        println!("{}: {} instead of {}", made.setting, made.now, made.old);
    }
    for change in &applied.already {
        println!("{}: as it was, {}", change.setting, change.value);
    }
    for remark in &applied.remarks {
        eprintln!("Note: {remark}.");
    }
    if !applied.made.is_empty() {
        eprintln!("To take it back: kqps host undo");
    }
    Ok(())
}

/// Prints what was undone.
pub(super) fn print_undone(undone: &Undone, journal: &Journal, json: bool) -> anyhow::Result<()> {
    let Undone { restored, left, gone, held, .. } = undone;
    if json {
        let restored = restored.iter().map(|one| SettingOutput {
            setting: one.setting.to_string(),
            old: one.value.clone(),
            now: Some(one.value.clone()),
            state: "undone",
            ..SettingOutput::default()
        });
        let gone = gone.iter().map(|(setting, why)| SettingOutput {
            setting: setting.to_string(),
            state: "gone",
            reason: Some(why.clone()),
            ..SettingOutput::default()
        });
        let held = held.iter().map(|(setting, owner)| SettingOutput {
            setting: setting.to_string(),
            state: "set",
            owner: Some(owner.pid),
            ..SettingOutput::default()
        });
        let settings = restored.chain(left.iter().map(of_left)).chain(gone).chain(held).collect();
        return print("host-undo", journal.folder(), settings, Vec::new());
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
    if restored.is_empty() && left.is_empty() && gone.is_empty() && held.is_empty() {
        eprintln!("There is nothing to undo.");
    }
    Ok(())
}

fn of_left(left: &Left) -> SettingOutput {
    SettingOutput {
        setting: left.setting.to_string(),
        old: left.old.clone(),
        now: left.found.clone(),
        state: "left",
        reason: Some(left.reason.clone()),
        ..SettingOutput::default()
    }
}

/// Prints the journal with the present values.
pub(super) fn print_status(records: &[Record], journal: &Journal, json: bool) -> anyhow::Result<()> {
    let system = Real::host();
    let mut settings = Vec::new();
    for record in records {
        for part in &record.parts {
            // Those of another network namespace cannot be read from here.
            let is_here = record.network == system.network();
            let now = is_here.then(|| system.read(&part.setting).ok()).flatten();
            let given = part.found.as_ref().unwrap_or(&part.wanted);
            let is_given = now.as_ref().is_none_or(|now| same(&part.setting, now, given));
            settings.push(SettingOutput {
                setting: part.setting.to_string(),
                old: part.old.clone(),
                wanted: Some(given.clone()),
                state: if is_given { "set" } else { "changed" },
                now,
                reason: part.left.clone(),
                owner: record.owner.map(|owner| owner.pid),
            });
        }
    }
    if json {
        return print("host-status", journal.folder(), settings, Vec::new());
    }
    if settings.is_empty() {
        println!("kqps has set nothing here since this host booted.");
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["setting", "before", "set to", "now", "until"]);
    for one in &settings {
        let until = one.owner.map_or_else(|| "kqps host undo".into(), |pid| format!("process {pid} ends"));
        let now = one.now.clone().unwrap_or_else(|| "-".into());
        let wanted = one.wanted.clone().unwrap_or_default();
        let row = [&one.setting, &one.old, &wanted, &now, &until].map(|text| visible_line(text).into_owned());
        table.add_row(row);
    }
    let mut text = table.trim_fmt() + "\n";
    for one in settings.iter().filter_map(|one| Some((one, one.reason.as_ref()?))) {
        let _ = writeln!(text, "{} was left when it was undone: {}.", one.0.setting, visible_line(one.1));
    }
    print!("{text}");
    Ok(())
}

fn print(
    kind: &'static str,
    journal: &Path,
    settings: Vec<SettingOutput>,
    remarks: Vec<String>,
) -> anyhow::Result<()> {
    let journal = journal.display().to_string();
    Ok(print::json(&TuningOutput { schema: SCHEMA, kind, journal, settings, remarks })?)
}
