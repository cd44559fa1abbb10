//! A change of a setting as the commands that people would type.

use kqps_host::setup::{Direction, HostSetup};
use kqps_observation::cpu_list;

/// The shell commands for a change: `channels.eth0` and `combined=8` are `ethtool -L eth0 combined 8`. A line that
/// begins with `#` says what no command does. Empty for a setting that advice never changes.
pub fn plain(setup: &HostSetup, setting: &str, value: &str) -> Vec<String> {
    let Some((kind, rest)) = setting.split_once('.') else { return without_device(setting, value) };
    // The last word of some settings belongs to the device; a device's name may have dots as well.
    let (device, last) = rest.rsplit_once('.').unwrap_or((rest, ""));
    let words = value.replace(['=', ','], " ");
    match kind {
        "sysctl" => vec![format!("sysctl -w {rest}={value}")],
        "channels" => vec![
            format!("ethtool -L {rest} {words}"),
            "# Interrupts may have new numbers now: ask for the commands again.".into(),
        ],
        "rings" => vec![format!("ethtool -G {rest} {words}")],
        "coalesce" => vec![format!("ethtool -C {rest} {words}")],
        "rss" => vec![format!("ethtool -X {rest} {words}")],
        "rss-fields" => vec![format!("ethtool -N {device} rx-flow-hash {last} {value}")],
        "feature" => vec![format!("ethtool -K {device} {last} {value}")],
        "irqs" => interrupts(setup, rest, value),
        "rps" => vec![format!(
            "for queue in /sys/class/net/{rest}/queues/rx-*; do echo {} >$queue/rps_cpus; done",
            mask(value)
        )],
        "xps" => vec![format!("echo {} >/sys/class/net/{device}/queues/tx-{last}/xps_cpus", mask(value))],
        _ => Vec::new(),
    }
}

fn without_device(setting: &str, value: &str) -> Vec<String> {
    match setting {
        "governor" => vec![format!(
            "for file in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo {value} >$file; done"
        )],
        "idle-states" => vec![format!("cpupower idle-set -D {}", value.trim_end_matches("us"))],
        "irqbalance" => vec![
            format!("# irqbalance must leave these interrupts alone: {value}"),
            "systemctl stop irqbalance".into(),
        ],
        _ => Vec::new(),
    }
}

fn interrupts(setup: &HostSetup, device: &str, value: &str) -> Vec<String> {
    let cpus = cpu_list::parse(value).unwrap_or_default();
    let device = setup.device(device);
    let mut of_queues: Vec<(u32, u32)> = device
        .into_iter()
        .flat_map(|device| &device.interrupts)
        .filter(|one| matches!(one.direction, Direction::Receive | Direction::Both))
        .filter_map(|one| Some((one.queue?, one.irq)))
        .collect();
    of_queues.sort_unstable();
    if of_queues.is_empty() {
        return vec!["# The interrupts of the queues are not known: see /proc/interrupts.".into()];
    }
    let pairs = of_queues.iter().zip(cpus.iter().cycle());
    pairs.map(|((_, irq), cpu)| format!("echo {cpu} >/proc/irq/{irq}/smp_affinity_list")).collect()
}

/// A list of cores as the kernel's masks of 32 bits, the highest first: `0-3,32` is `1,0000000f`.
fn mask(list: &str) -> String {
    let cpus = cpu_list::parse(list).unwrap_or_default();
    let words = cpus.iter().max().map_or(0, |cpu| cpu / 32) as usize + 1;
    let mut mask = vec![0_u32; words];
    for cpu in cpus {
        mask[(cpu / 32) as usize] |= 1 << (cpu % 32);
    }
    let mut highest_first = mask.iter().rev();
    let first = highest_first.next().map(|word| format!("{word:x}"));
    let all: Vec<String> = first.into_iter().chain(highest_first.map(|word| format!("{word:08x}"))).collect();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_the_kernel_reads_them() {
        assert_eq!([mask(""), mask("0-3"), mask("31")], ["0", "f", "80000000"]);
        assert_eq!([mask("0-3,32"), mask("64")], ["1,0000000f", "1,00000000,00000000"]);
    }

    #[test]
    fn changes_are_commands() {
        let of = |setting, value| plain(&HostSetup::default(), setting, value).join("; ");
        assert!(of("channels.eth0", "combined=8").starts_with("ethtool -L eth0 combined 8; #"));
        assert_eq!(of("rings.eth0.7", "rx=4096,tx=512"), "ethtool -G eth0.7 rx 4096 tx 512");
        assert_eq!(of("rss.eth0", "equal=8"), "ethtool -X eth0 equal 8");
        assert_eq!(of("rss-fields.eth0.udp4", "sdfn"), "ethtool -N eth0 rx-flow-hash udp4 sdfn");
        assert_eq!(of("feature.eth0.7.gro", "off"), "ethtool -K eth0.7 gro off");
        assert_eq!(of("xps.eth0.3", "5,7"), "echo a0 >/sys/class/net/eth0/queues/tx-3/xps_cpus");
        assert_eq!(of("sysctl.net.core.rmem_max", "8388608"), "sysctl -w net.core.rmem_max=8388608");
        assert_eq!(of("idle-states", "2us"), "cpupower idle-set -D 2");
        assert_eq!(of("no-such-setting", "1"), "");
    }
}
