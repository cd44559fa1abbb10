//! The kernel's counters of its backlog and of single UDP sockets.

use std::collections::{BTreeMap, BTreeSet};

/// A core's counters of the backlog since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Softnet {
    pub(crate) dropped: u64,
    pub(crate) squeezed: u64,
}

/// Parses `/proc/net/softnet_stat`: a line per core, with hexadecimal columns. The second is `dropped`, the
/// third `squeezed`. They have 32 bits and may wrap; see [`Softnet::since`].
pub(crate) fn parse_softnet(text: &str) -> Vec<Softnet> {
    let line = |line: &str| {
        let mut columns = line.split_whitespace().map(|column| u64::from_str_radix(column, 16).unwrap_or(0));
        Softnet { dropped: columns.nth(1).unwrap_or(0), squeezed: columns.next().unwrap_or(0) }
    };
    text.lines().map(line).collect()
}

impl Softnet {
    /// The counts of all cores between two readings.
    pub(crate) fn since(before: &[Self], after: &[Self]) -> Self {
        let grown = |before: u64, after: u64| after.wrapping_sub(before) & u64::from(u32::MAX);
        before.iter().zip(after).fold(Self::default(), |sum, (before, after)| Self {
            dropped: sum.dropped + grown(before.dropped, after.dropped),
            squeezed: sum.squeezed + grown(before.squeezed, after.squeezed),
        })
    }
}

/// Parses `/proc/net/udp` and `udp6`: inode → drops, for the sockets in `inodes`.
pub(crate) fn parse_sockets(text: &str, inodes: &BTreeSet<u64>) -> BTreeMap<u64, u64> {
    let socket = |line: &str| {
        let mut columns = line.split_whitespace();
        let inode = columns.nth(9)?.parse().ok()?;
        let drops = columns.nth(2)?.parse().ok()?;
        inodes.contains(&inode).then_some((inode, drops))
    };
    text.lines().skip(1).filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backlog_counts_in_hexadecimal_and_wraps() {
        let before =
            parse_softnet("0000000d 0000000a 00000001 00000000\n00001087 fffffffe 00000000 00000000\n");
        let after =
            parse_softnet("0000000d 00000010 00000003 00000000\n00001087 00000001 00000000 00000000\n");
        assert_eq!(Softnet::since(&before, &after), Softnet { dropped: 6 + 3, squeezed: 2 });
    }

    #[test]
    fn a_sockets_drops_are_found_by_its_inode() {
        let text = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
 1234: 0100007F:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9001 2 0000000000000000 812
 1235: 0100007F:14B5 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9002 2 0000000000000000 7
";
        assert_eq!(parse_sockets(text, &BTreeSet::from([9001, 5])), BTreeMap::from([(9001, 812)]));
    }
}
