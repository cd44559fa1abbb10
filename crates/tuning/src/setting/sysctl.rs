//! The folders and the file that a sysctl's dotted name stands for.

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

#[cfg(test)]
mod tests {
    use super::*;

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
