//! The ports to which replies past the kernel come.

use std::ops::RangeInclusive;

/// The ports below are those of well-known services.
const FIRST: u16 = 1024;

/// With fewer ports in a row than this, the kernel's own range is taken.
const ENOUGH: usize = 4096;

/// The most ports in a row, of `least` at least, that the kernel gives to no program by itself: a connection of another
/// program to the same target then cannot have one of them. `ephemeral` are the ports that the kernel gives, in order;
/// if it has left too few, they are the result.
pub(crate) fn quiet(ephemeral: &[u16], least: usize) -> RangeInclusive<u16> {
    let (Some(&first), Some(&last)) = (ephemeral.first(), ephemeral.last()) else { return FIRST..=u16::MAX };
    let below = FIRST..=first.saturating_sub(1);
    let above = last.saturating_add(1)..=u16::MAX;
    let most = if count(&above) > count(&below) { above } else { below };
    if count(&most) >= least.max(ENOUGH) { most } else { first..=last }
}

/// Ports for connections, of which `needed` are enough, and a note if the kernel gives them to other programs as well:
/// it then leaves no others, and they are only as many as are needed.
pub(crate) fn for_connections(ephemeral: &[u16], needed: usize) -> (RangeInclusive<u16>, Option<String>) {
    let all = quiet(ephemeral, 1);
    if !ephemeral.contains(all.start()) {
        return (all, None);
    }
    let last = *all.end();
    let first = random_port(all, needed);
    let end = (usize::from(first) + needed.max(1) - 1).min(last.into()) as u16;
    let what = "which the kernel gives to other programs as well, since it leaves no others";
    let risk = "a connection of another program from one of them to a target would be reset";
    let advice = "narrow net.ipv4.ip_local_port_range";
    (first..=end, Some(format!("connections come from ports {first} to {end}, {what}: {risk}; {advice}")))
}

/// A port of these that has enough others after it, if they have enough.
pub(crate) fn random_port(ports: RangeInclusive<u16>, needed: usize) -> u16 {
    let (first, last) = ports.into_inner();
    let latest = (usize::from(last) + 1).saturating_sub(needed).max(usize::from(first));
    fastrand::u16(first..=(latest as u16).min(last))
}

/// The number of ports in a range.
fn count(ports: &RangeInclusive<u16>) -> usize {
    (usize::from(*ports.end()) + 1).saturating_sub(usize::from(*ports.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_as_few_ports_with_other_programs_as_they_can() {
        let usual: Vec<u16> = (32_768..=60_999).collect();
        assert_eq!(for_connections(&usual, 100), (1024..=32_767, None));
        let all: Vec<u16> = (1024..=65_535).collect();
        for needed in [1, 100, 5000] {
            let (ports, note) = for_connections(&all, needed);
            assert_eq!(count(&ports), needed);
            assert!(*ports.start() >= 1024 && note.unwrap().contains(&ports.end().to_string()));
        }
        assert_eq!(for_connections(&all, 100_000).0, 1024..=65_535);
    }

    #[test]
    fn ports_are_those_that_the_kernel_does_not_give() {
        let ports = |range: RangeInclusive<u16>, least| quiet(&range.collect::<Vec<_>>(), least);
        assert_eq!(ports(32_768..=60_999, 32), 1024..=32_767);
        assert_eq!(ports(2048..=30_000, 32), 30_001..=65_535);
        assert_eq!(ports(1024..=65_535, 32), 1024..=65_535);
        assert_eq!(ports(10_000..=60_000, 10_000), 10_000..=60_000);
        assert_eq!(quiet(&[], 1), 1024..=65_535);
        let none = RangeInclusive::new(1024, 1023);
        assert_eq!((count(&(7..=7)), count(&none), count(&(0..=65_535))), (1, 0, 65_536));
    }
}
