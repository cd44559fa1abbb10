//! Advice in words and tables.

use comfy_table::Table;
use kqps_host::setup::HostSetup;
use kqps_observation::cpu_list;
use kqps_testbed::words::counted;
use kqps_tuning::advise::{Advice, Layout, Piece};
use kqps_verdict::rate::rate;

use crate::run::words::wrapped;
use crate::table::titled;

/// The layouts whose reasons are printed. More are not worth a trial before these.
const EXPLAINED: usize = 3;

/// The changes of a piece that are printed one by one.
const CHANGES_SHOWN: usize = 4;

pub(super) fn output(setup: &HostSetup, advice: &Advice) -> String {
    let mut sections = vec![device(setup, advice)];
    if advice.layouts.is_empty() {
        sections.push("No core may be used here, so there is no layout.".into());
    } else {
        sections.push(format!("Layouts, the most promising first:\n{}", layouts(&advice.layouts).trim_fmt()));
        let explained = advice.layouts.iter().take(EXPLAINED).map(explained);
        sections.push(explained.collect::<String>().trim_end().into());
    }
    sections.push(pieces(&advice.pieces).trim_end().into());
    sections.extend(next(advice).map(|text| text.trim_end().into()));
    if !advice.notes.is_empty() {
        let notes = advice.notes.iter().map(|note| wrapped("- ", note));
        sections.push(format!("Notes:\n{}", notes.collect::<String>().trim_end()));
    }
    sections.join("\n\n") + "\n"
}

fn device(setup: &HostSetup, advice: &Advice) -> String {
    let Some(device) = advice.device.as_deref().and_then(|name| setup.device(name)) else {
        return "No device is known that carries the queries.".into();
    };
    let mut facts = vec![device.driver.clone().unwrap_or_else(|| "driver not known".into())];
    facts.extend(device.speed_mbps.map(|speed| format!("{speed} Mbit/s")));
    facts.extend(device.numa_node.map(|node| format!("node {node}")));
    let (queues, most) = (device.queues.receiving(), device.queues.receiving_max());
    facts.push(format!("{queues} receive queues, {most} at most"));
    format!("Device {}: {}", device.name, facts.join(", "))
}

fn layouts(layouts: &[Layout]) -> Table {
    let mut table = titled(["", "layout", "queues", "receive on", "interrupts on", "workers on", "at most"]);
    for (number, layout) in (1..).zip(layouts) {
        let interrupts = if layout.interrupt_cpus.is_empty() {
            "-".into()
        } else {
            cpu_list::write(&layout.interrupt_cpus)
        };
        table.add_row([
            format!("{number}"),
            layout.kind.word().into(),
            layout.queues.to_string(),
            cpu_list::write(&layout.queue_cpus),
            interrupts,
            cpu_list::write(&layout.worker_cpus),
            layout.rate_qps.map_or_else(|| "not known".into(), |qps| format!("{} q/s", rate(qps))),
        ]);
    }
    table
}

/// Why a layout may be best, who found it, what it may cost, and the settings that try it.
fn explained(layout: &Layout) -> String {
    let mut text = wrapped(&format!("{}: ", layout.kind.word()), &layout.reason);
    text += &wrapped("  source: ", &layout.source);
    text += &wrapped("  costs:  ", &layout.cost);
    if let Some(busy) = layout.receive_busy {
        let busy = format!("each core that receives is {:.0} % busy with it", busy * 100.0);
        text += &wrapped("  load:   ", &busy);
    }
    if let [_, _, ..] = layout.queues_to_try[..] {
        let numbers: Vec<String> = layout.queues_to_try.iter().map(ToString::to_string).collect();
        let queues =
            format!("{} queues; stop when two numbers differ by less than a quarter", numbers.join(", "));
        text += &wrapped("  search: ", &queues);
    }
    text
}

fn pieces(pieces: &[Piece]) -> String {
    if pieces.is_empty() {
        return "Settings: the host is set as the first layout has it.".into();
    }
    let mut text = String::from("Settings for the first layout, in their order:\n");
    for piece in pieces {
        text += &wrapped("- ", &assignments(&piece.changes));
        text += &wrapped("  why:    ", &piece.reason);
        text += &wrapped("  source: ", &piece.source);
        text += &wrapped("  costs:  ", &piece.cost);
    }
    text
}

/// Settings as `apply` takes them; of many, the first and the last.
fn assignments(changes: &[(String, String)]) -> String {
    let words: Vec<String> = changes.iter().map(|(setting, value)| format!("{setting}={value}")).collect();
    match &words[..] {
        [first, .., last] if words.len() > CHANGES_SHOWN => {
            format!("{first} … {last} ({} settings)", words.len())
        }
        _ => words.join(" "),
    }
}

/// The command that pins the server, and those that try, apply and undo the advice.
fn next(advice: &Advice) -> Option<String> {
    let mut text: String = pinned(advice).map(|line| line + "\n").collect();
    if !advice.pieces.is_empty() {
        text += "To measure a setting: kqps host try SETTING=VALUE\n\
                 To set everything:    kqps host advise --json >advice.json && kqps host apply --from advice.json\n\
                 To take it back:      kqps host undo\n";
    }
    (!text.is_empty()).then_some(text)
}

/// The cores on which the server must be started for the first layout.
pub(super) fn pinned(advice: &Advice) -> impl Iterator<Item = String> {
    advice.layouts.first().into_iter().map(|layout| {
        let cpus = cpu_list::write(&layout.worker_cpus);
        let workers = counted(layout.worker_cpus.len() as u64, "worker");
        format!("Start the server with {workers}: taskset -c {cpus} SERVER")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_settings_are_shown_by_the_first_and_the_last() {
        let change = |queue: u32| (format!("xps.eth0.{queue}"), queue.to_string());
        let few: Vec<_> = (0..2).map(change).collect();
        let many: Vec<_> = (0..64).map(change).collect();
        assert_eq!(assignments(&few), "xps.eth0.0=0 xps.eth0.1=1");
        assert_eq!(assignments(&many), "xps.eth0.0=0 … xps.eth0.63=63 (64 settings)");
    }

    #[test]
    fn a_host_without_devices_and_cores_has_sentences() {
        let said = output(&HostSetup::default(), &Advice::default());
        assert!(said.starts_with("No device is known"), "{said}");
        assert!(said.contains("No core may be used") && said.ends_with("has it.\n"), "{said}");
    }
}
