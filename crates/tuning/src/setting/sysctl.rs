//! The folders and the file that a sysctl's dotted name stands for.

use std::collections::BTreeSet;

/// Folders below `net` and a family that have a folder for each device.
const OF_DEVICES: [&str; 2] = ["conf", "neigh"];

/// The names of the folders and of the file. A device's name may have dots: `net.ipv4.conf.eth0.100.rp_filter` is a
/// setting of `eth0.100`.
pub(crate) fn components(name: &str) -> Vec<&str> {
    let plain: Vec<&str> = name.split('.').collect();
    let [net @ "net", family, kind, _, _, ..] = plain[..] else { return plain };
    if !OF_DEVICES.contains(&kind) {
        return plain;
    }
    let rest = &name[net.len() + family.len() + kind.len() + 3..];
    match rest.rsplit_once('.') {
        Some((device, file)) => vec![net, family, kind, device, file],
        None => plain,
    }
}

/// The one form of a value that the kernel writes otherwise than people do; `None` if it writes what it was given.
pub(super) fn canonical(name: &str, value: &str) -> Option<String> {
    match name.rsplit('.').next()? {
        "ip_local_reserved_ports" => ports(value),
        "rps_default_mask" | "flow_limit_cpu_bitmap" => bits(value),
        _ => None,
    }
}

/// Ports and ranges of them (`proc_do_large_bitmap`): `8053,8054-8056` is written as `8053-8056`.
fn ports(text: &str) -> Option<String> {
    let mut all: BTreeSet<u16> = BTreeSet::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u16>().ok()?..=last.parse().ok()?);
    }
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for port in all {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(port) => *last = port,
            _ => ranges.push((port, port)),
        }
    }
    Some(ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect::<Vec<_>>().join(","))
}

/// Hexadecimal words of 32 bits, the highest first. The kernel writes as many as it has cores for.
fn bits(text: &str) -> Option<String> {
    let words: Option<Vec<u32>> =
        text.split(',').map(|word| u32::from_str_radix(word.trim(), 16).ok()).collect();
    let digits: Vec<String> = words?.iter().map(|word| format!("{word:08x}")).collect();
    Some(digits.concat().trim_start_matches('0').to_owned())
}

/// Whether the kernel rounds a sysctl: to a power of two (`net/core/sysctl_net_core.c`), or to its ticks
/// (`proc_dointvec_ms_jiffies`, net/core/neighbour.c).
pub(super) fn is_rounded(name: &str) -> bool {
    name == "net.core.rps_sock_flow_entries" || (name.contains(".neigh.") && name.ends_with("_ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_in_a_form_of_its_own_is_the_same() {
        for (name, typed, written) in [
            ("net.ipv4.ip_local_reserved_ports", "8053,8054-8056,53", "53,8053-8056"),
            ("net.ipv4.ip_local_reserved_ports", "65535,65534", "65534-65535"),
            ("net.core.rps_default_mask", "3", "00000000,00000003"),
            ("net.core.flow_limit_cpu_bitmap", "1,00000000", "0001,00000000"),
        ] {
            let (typed, written) = (canonical(name, typed), canonical(name, written));
            assert!(typed.is_some() && typed == written, "{name}: {typed:?} {written:?}");
        }
        let ports = |text: &str| canonical("net.ipv4.ip_local_reserved_ports", text);
        assert_ne!(ports("53"), ports("53-54"));
        assert_eq!((ports("x"), ports("")), (None, Some(String::new())));
        assert_ne!(bits("3"), bits("3,00000000"));
        assert_eq!(canonical("net.core.rmem_max", "3"), None);
    }

    #[test]
    fn dots_in_the_name_of_a_device_are_no_folders() {
        for (name, wanted) in [
            ("net.core.rmem_max", "net/core/rmem_max"),
            ("net.ipv4.conf.all.rp_filter", "net/ipv4/conf/all/rp_filter"),
            ("net.ipv4.conf.eth0.100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
            ("net.ipv6.neigh.eth0.100.200.gc_stale_time", "net/ipv6/neigh/eth0.100.200/gc_stale_time"),
            ("net.ipv4.conf.x", "net/ipv4/conf/x"),
            ("kernel.numa_balancing", "kernel/numa_balancing"),
        ] {
            assert_eq!(components(name).join("/"), wanted);
        }
    }
}
