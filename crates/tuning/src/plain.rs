//! The plain commands that make a change, for people who want to see or type them.

use std::borrow::Cow;

use crate::setting::value::{self, NONE};
use crate::setting::{Change, Setting, components};

/// The command that makes a change of a single setting, for a shell with the rights of root. `irqbalance` has no
/// command of its own, so that line is a remark.
pub fn command(change: &Change) -> String {
    let Change { setting, value } = change;
    let cpus = "/sys/devices/system/cpu";
    match setting {
        Setting::Sysctl(name) => format!("sysctl -w {}={}", dotted(name), quoted(value)),
        Setting::Rps { device, queue } => of_queues(device, "rx", *queue, "rps_cpus", value),
        Setting::Xps { device, queue } => of_queues(device, "tx", *queue, "xps_cpus", value),
        Setting::Channels { device } if value.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("ethtool -L {} combined {value}", quoted(device))
        }
        Setting::Channels { device } => format!("ethtool -L {}{}", quoted(device), listed(value)),
        Setting::Rings { device } => format!("ethtool -G {}{}", quoted(device), listed(value)),
        Setting::Coalesce { device } => format!("ethtool -C {}{}", quoted(device), listed(value)),
        Setting::RssTable { device } => match value.strip_prefix("equal=") {
            Some(count) => format!("ethtool -X {} equal {count}", quoted(device)),
            None => format!("# {setting}={value} has no command of ethtool: -X takes weights of queues"),
        },
        Setting::RssFields { device, flow } => {
            format!("ethtool -N {} rx-flow-hash {} {value}", quoted(device), flow.word())
        }
        Setting::Feature { device, name } => {
            format!("ethtool -K {} {} {value}", quoted(device), quoted(name))
        }
        Setting::Napi { device, of } => write(&format!("/sys/class/net/{device}/{}", of.file()), value),
        Setting::Irq(irq) => format!("echo {value} > /proc/irq/{}/smp_affinity_list", number_of(irq)),
        Setting::Irqs { device } => in_turn(device, value),
        Setting::Governor { policy: None } => {
            format!("echo {} | tee {cpus}/cpufreq/policy*/scaling_governor", quoted(value))
        }
        Setting::Governor { policy: Some(policy) } => {
            write(&format!("{cpus}/cpufreq/policy{policy}/scaling_governor"), &quoted(value))
        }
        Setting::IdleStates if value == value::ALL => "cpupower idle-set -E".into(),
        // It switches off states that take this long, too.
        Setting::IdleStates => {
            let limit_us = value.trim_end_matches("us").parse::<u64>().map_or(0, |limit_us| limit_us + 1);
            format!("cpupower idle-set -D {limit_us}")
        }
        Setting::IdleState { cpu, state } => {
            let file = format!("{cpus}/cpu{cpu}/cpuidle/state{state}/disable");
            write(&file, if value == "on" { "0" } else { "1" })
        }
        Setting::Irqbalance if value == NONE => "# irqbalance: leave no interrupt alone".into(),
        Setting::Irqbalance => format!("# irqbalance: leave the interrupts {value} alone"),
    }
}

/// A word as a shell reads it. Names of devices may have letters that a shell takes for something else.
fn quoted(text: &str) -> Cow<'_, str> {
    shlex::try_quote(text).unwrap_or(Cow::Borrowed(text))
}

/// Writes a value that needs no quotes.
fn write(file: &str, value: &str) -> String {
    format!("echo {value} > {}", quoted(file))
}

/// Pairs as ethtool takes them: ` rx 4 tx 4`.
fn listed(pairs: &str) -> String {
    let words = pairs.split(',').filter_map(|pair| pair.split_once('='));
    words.fold(String::new(), |listed, (key, value)| listed + " " + key + " " + value)
}

/// A sysctl as sysctl(8) takes it: a dot within a component, such as the name of a device, is a slash.
fn dotted(name: &str) -> String {
    let parts: Vec<String> = components(name).iter().map(|part| part.replace('.', "/")).collect();
    quoted(&parts.join(".")).into_owned()
}

/// Writes the mask of a queue or, with several files, that of all queues. A shell redirects to one file only.
fn of_queues(device: &str, way: &str, queue: Option<u32>, file: &str, cores: &str) -> String {
    let (folder, mask) = (format!("/sys/class/net/{device}/queues/{way}-"), mask(cores));
    match queue {
        Some(queue) => write(&format!("{folder}{queue}/{file}"), &mask),
        None => format!("echo {mask} | tee {}*/{file}", quoted(&folder)),
    }
}

/// A loop that gives the interrupts of each queue one of the cores in turn, as kqps does. If a queue has two, as with
/// virtio, both get the same core. The interrupts of a virtio device are those of the device above it.
fn in_turn(device: &str, cores: &str) -> String {
    let cores: Vec<String> = value::cores(cores).iter().map(u32::to_string).collect();
    let folder = format!("/sys/class/net/{}/device", quoted(device));
    let irqs = format!("ls {folder}/msi_irqs {folder}/../msi_irqs 2>/dev/null | sort -n | uniq");
    let name = "awk -v irq=$irq: '$1 == irq { print $NF }' /proc/interrupts";
    format!(
        "(for irq in $({irqs} | grep -E '^[0-9]+$'); do queue=$({name} | sed -nE '{MLX5}; {NAMED}'); [ \"$queue\" ] || \
         continue; set -- {}; shift $((queue % $#)); echo $1 > /proc/irq/$irq/smp_affinity_list; done)",
        cores.join(" ")
    )
}

/// Scripts of sed that turn the name of a handler into the number of its queue. Names with a colon belong to no queue.
const MLX5: &str = r"s/^mlx5_comp([0-9]+)(@.*)?$/\1/p";
const NAMED: &str = r"s/^[^:@]*-([Tt]x-?[Rr]x|[Rr]x[Tt]x|[Rr]x|[Tt]x|input|output)[-.]([0-9]+)(@.*)?$/\2/p";

/// A shell word for the number of an interrupt.
fn number_of(irq: &str) -> String {
    if irq.bytes().all(|byte| byte.is_ascii_digit()) {
        return irq.to_owned();
    }
    format!("$(awk -v name={} '$NF == name {{ print $1 + 0 }}' /proc/interrupts)", quoted(irq))
}

/// A set of cores in the kernel's format: hexadecimal words of 32 bits, the highest first.
pub(crate) fn mask(cores: &str) -> String {
    let cpus = value::cores(cores);
    let words = cpus.iter().max().map_or(1, |highest| highest / 32 + 1);
    let word = |number: u32| {
        cpus.iter().filter(|cpu| **cpu / 32 == number).fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let words: Vec<String> = (0..words)
        .rev()
        .map(|number| {
            if number + 1 == words { format!("{:x}", word(number)) } else { format!("{:08x}", word(number)) }
        })
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_has_its_command() {
        for (change, wanted) in [
            ("sysctl.net.core.rmem_max=16777216", "sysctl -w net.core.rmem_max=16777216"),
            ("sysctl.net.ipv4.udp_mem=1 2 3", "sysctl -w net.ipv4.udp_mem='1 2 3'"),
            ("rps.eth0.3=0,2-3", "echo d > /sys/class/net/eth0/queues/rx-3/rps_cpus"),
            ("xps.eth0.0=33", "echo 2,00000000 > /sys/class/net/eth0/queues/tx-0/xps_cpus"),
            ("rps.eth0.3=none", "echo 0 > /sys/class/net/eth0/queues/rx-3/rps_cpus"),
            ("channels.eth0=8", "ethtool -L eth0 combined 8"),
            ("channels.eth0=rx=4,tx=4", "ethtool -L eth0 rx 4 tx 4"),
            ("rings.eth0=4096", "ethtool -G eth0 rx 4096 tx 4096"),
            ("coalesce.eth0=rx-usecs=75,adaptive-rx=off", "ethtool -C eth0 rx-usecs 75 adaptive-rx off"),
            ("rss.eth0=8", "ethtool -X eth0 equal 8"),
            ("rss-fields.eth0.udp4=sdfn", "ethtool -N eth0 rx-flow-hash udp4 sdfn"),
            ("feature.eth0.gro=off", "ethtool -K eth0 gro off"),
            ("napi-defer.eth0=2", "echo 2 > /sys/class/net/eth0/napi_defer_hard_irqs"),
            ("irq.45=3", "echo 3 > /proc/irq/45/smp_affinity_list"),
            (
                "governor.0=performance",
                "echo performance > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
            ),
            ("idle-state.2.3=off", "echo 1 > /sys/devices/system/cpu/cpu2/cpuidle/state3/disable"),
            ("idle-states=2us", "cpupower idle-set -D 3"),
            ("rps.eth0=0-1", "echo 3 | tee /sys/class/net/eth0/queues/rx-*/rps_cpus"),
            (
                "governor=performance",
                "echo performance | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
            ),
            ("sysctl.net.ipv4.conf.eth0.100.rp_filter=0", "sysctl -w net.ipv4.conf.eth0/100.rp_filter=0"),
            ("sysctl.kernel.core_pattern=|/bin/x %p;y", "sysctl -w kernel.core_pattern='|/bin/x %p;y'"),
            (
                "irq.eth0-TxRx-3=2",
                "echo 2 > /proc/irq/$(awk -v name=eth0-TxRx-3 '$NF == name { print $1 + 0 }' \
                 /proc/interrupts)/smp_affinity_list",
            ),
        ] {
            assert_eq!(command(&change.parse().unwrap()), wanted, "{change}");
        }
    }

    #[test]
    fn no_word_of_a_setting_acts_on_the_shell() {
        for word in ["rps.a$(x).3=0", "channels.a;b=8", "feature.a.b`x`=on", "napi-defer.a&b=2", "irq.a;x=1"]
        {
            let change: Change = word.parse().unwrap();
            let words = shlex::split(&command(&change)).unwrap();
            let name = change.setting.device().unwrap_or("name=a;x");
            assert!(words.iter().any(|word| word.contains(name)), "{words:?}");
            let is_bare = |sign: char| words.iter().all(|word| *word != sign.to_string());
            assert!(is_bare(';') && is_bare('&'), "{words:?}");
        }
    }

    #[test]
    fn interrupts_of_queues_take_turns_in_a_shell() {
        let of_card = [(50, "eth0"), (51, "eth0-TxRx-0"), (52, "eth0-TxRx-1"), (100, "eth0-TxRx-2")];
        assert_eq!(in_a_shell(&of_card), ["before", "2", "5", "2"]);
        // Both interrupts of a queue go to its core, as kqps has it.
        let of_virtio = [
            (50, "virtio3-config"),
            (51, "virtio3-input.0"),
            (52, "virtio3-output.0"),
            (53, "virtio3-input.1"),
            (54, "virtio3-output.1"),
        ];
        assert_eq!(in_a_shell(&of_virtio), ["before", "2", "2", "5", "5"]);
        let of_others = [
            (60, "eth0-tx-0"),
            (61, "eth0-rx-1"),
            (62, "eth0-txrx-3"),
            (63, "ens5-Tx-Rx-2"),
            (64, "mlx5_comp3@pci:0000:3b:00.0"),
            (65, "i40e-0000:3b:00.0:fdir-TxRx-0"),
            (66, "mlx5_async0@pci:0000:3b:00.0"),
        ];
        assert_eq!(in_a_shell(&of_others), ["2", "5", "5", "2", "5", "before", "before"]);
    }

    /// The cores of interrupts after the loop, as a shell runs it on files that stand in for those of the kernel.
    fn in_a_shell(handlers: &[(u32, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mut interrupts = vec!["     CPU0\n  9:  4  IO-APIC  9-fasteoi  acpi\n".to_owned()];
        for (irq, name) in handlers {
            write(&format!("sys/class/net/eth0/device/msi_irqs/{irq}"), "msix");
            write(&format!("proc/irq/{irq}/smp_affinity_list"), "before");
            interrupts.push(format!(" {irq}:  1  PCI-MSI  524288-edge  {name}\n"));
        }
        write("proc/interrupts", &interrupts.concat());
        let root_folder = root.path().display().to_string();
        let command = command(&"irqs.eth0=2,5".parse().unwrap());
        let command = command.replace("/sys/", &format!("{root_folder}/sys/"));
        let command = command.replace("/proc/", &format!("{root_folder}/proc/"));
        let ran = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
        assert!(ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
        let cores = handlers.iter().map(|(irq, _)| {
            let file = root.path().join(format!("proc/irq/{irq}/smp_affinity_list"));
            std::fs::read_to_string(file).unwrap().trim().to_owned()
        });
        cores.collect()
    }
}
