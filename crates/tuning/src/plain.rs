//! The plain commands that make a change, for people who want to see or type them.

use crate::setting::value::{self, NONE};
use crate::setting::{Change, Setting};

/// The command that makes a change of a single setting, for a shell with the rights of root. `irqbalance` has no
/// command of its own, so that line is a remark.
pub fn command(change: &Change) -> String {
    let Change { setting, value } = change;
    let quoted = |text: &str| if text.contains(' ') { format!("'{text}'") } else { text.to_owned() };
    let write = |file: String, value: &str| format!("echo {} > {file}", quoted(value));
    let of_device = |device: &str, rest: String| format!("/sys/class/net/{device}/{rest}");
    let listed = |pairs: &str| {
        let words = pairs.split(',').filter_map(|pair| pair.split_once('='));
        words.fold(String::new(), |listed, (key, value)| listed + " " + key + " " + value)
    };
    match setting {
        Setting::Sysctl(name) => format!("sysctl -w {name}={}", quoted(value)),
        Setting::Rps { device, queue } => {
            let file = of_device(device, format!("queues/rx-{}/rps_cpus", numbered(*queue)));
            write(file, &mask(value))
        }
        Setting::Xps { device, queue } => {
            let file = of_device(device, format!("queues/tx-{}/xps_cpus", numbered(*queue)));
            write(file, &mask(value))
        }
        Setting::Channels { device } if value.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("ethtool -L {device} combined {value}")
        }
        Setting::Channels { device } => format!("ethtool -L {device}{}", listed(value)),
        Setting::Rings { device } => format!("ethtool -G {device}{}", listed(value)),
        Setting::Coalesce { device } => format!("ethtool -C {device}{}", listed(value)),
        Setting::RssTable { device } => match value.strip_prefix("equal=") {
            Some(count) => format!("ethtool -X {device} equal {count}"),
            None => format!("# {setting}={value} has no command of ethtool: -X takes weights of queues"),
        },
        Setting::RssFields { device, flow } => {
            format!("ethtool -N {device} rx-flow-hash {} {value}", flow.word())
        }
        Setting::Feature { device, name } => format!("ethtool -K {device} {name} {value}"),
        Setting::Napi { device, of } => write(of_device(device, of.file().to_owned()), value),
        Setting::Irq(irq) => write(format!("/proc/irq/{}/smp_affinity_list", number_of(irq)), value),
        Setting::Irqs { device } => format!(
            "for irq in /sys/class/net/{device}/device/msi_irqs/*; do echo {value} > \
             /proc/irq/${{irq##*/}}/smp_affinity_list; done"
        ),
        Setting::Governor { policy } => {
            let policy = policy.map_or_else(|| "*".to_owned(), |policy| policy.to_string());
            let file = format!("/sys/devices/system/cpu/cpufreq/policy{policy}/scaling_governor");
            if policy == "*" { format!("echo {value} | tee {file}") } else { write(file, value) }
        }
        Setting::IdleStates if value == value::ALL => "cpupower idle-set -E".into(),
        Setting::IdleStates => format!("cpupower idle-set -D {}", value.trim_end_matches("us")),
        Setting::IdleState { cpu, state } => {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable");
            write(file, if value == "on" { "0" } else { "1" })
        }
        Setting::Irqbalance if value == NONE => "# irqbalance: leave no interrupt alone".into(),
        Setting::Irqbalance => format!("# irqbalance: leave the interrupts {value} alone"),
    }
}

/// The number of a queue, or the pattern of all.
fn numbered(queue: Option<u32>) -> String {
    queue.map_or_else(|| "*".to_owned(), |queue| queue.to_string())
}

/// A shell word for the number of an interrupt.
fn number_of(irq: &str) -> String {
    if irq.bytes().all(|byte| byte.is_ascii_digit()) {
        return irq.to_owned();
    }
    format!("$(awk -F: '/ {irq}$/ {{ print $1 + 0 }}' /proc/interrupts)")
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
            ("idle-states=2us", "cpupower idle-set -D 2"),
        ] {
            assert_eq!(command(&change.parse().unwrap()), wanted, "{change}");
        }
    }
}
