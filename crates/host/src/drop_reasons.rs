//! Why the kernel dropped packets. The kernel gives a reason for each drop (tracepoint `skb:kfree_skb`). This
//! module counts drops by reason, for IPv4 and IPv6 packets of the whole host, in every network namespace.
//!
//! Counting makes each drop slower by some microseconds, since the kernel compares the drop with every reason.

use std::collections::BTreeMap;
use std::fs;

use kqps_kernel::tracepoint::Counters;
use kqps_kernel::{limits, tracefs};
use kqps_observation::cpu_list;

const EVENT: &str = "events/skb/kfree_skb";

/// The field `protocol` of a packet of IPv4 or IPv6 (`linux/if_ether.h`).
const OF_IP: &str = "(protocol == 0x0800 || protocol == 0x86dd)";

/// The name for drops whose reason is not in the kernel's own list, such as those of loadable modules.
const UNLISTED: &str = "UNLISTED";

/// A running count of drops by reason.
#[derive(Debug)]
pub struct DropReasons {
    names: Vec<String>,
    counters: Counters,
}

impl DropReasons {
    /// Begins to count. Returns the reason if it cannot.
    pub fn begin() -> Result<Self, String> {
        let of = |what: &'static str| move |error| format!("{what}: {error}");
        let read =
            |file: &str| tracefs::read(&format!("{EVENT}/{file}")).map_err(of("the kernel's trace events"));
        let event = read("id")?.trim().parse().map_err(|_| format!("{EVENT}/id is not a number"))?;
        let reasons = parse_reasons(&read("format")?)?;
        let cpus = fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let cpus = cpus
            .and_then(|text| cpu_list::parse(&text).ok())
            .ok_or("the kernel does not say which cores this host has")?;
        // First a counter of all drops, then one for each reason.
        let each = reasons.keys().map(|number| format!("reason == {number} && {OF_IP}"));
        let filters: Vec<String> = std::iter::once(OF_IP.to_string()).chain(each).collect();
        limits::raise_open_files().map_err(|error| format!("open files: {error}"))?;
        let counters = Counters::begin(event, &cpus, &filters).map_err(of("counters of drops"))?;
        Ok(Self { names: reasons.into_values().collect(), counters })
    }

    /// The packets dropped so far, by the kernel's name of the reason. Reasons without a drop are left out.
    pub fn counts(&self) -> Result<BTreeMap<String, u64>, String> {
        let counts = self.counters.counts().map_err(|error| format!("counters of drops: {error}"))?;
        let (all, each) = counts.split_first().ok_or("there is no counter of drops")?;
        let listed: u64 = each.iter().sum();
        let named = self.names.iter().cloned().zip(each.iter().copied());
        let unlisted = (UNLISTED.to_string(), all.saturating_sub(listed));
        Ok(named.chain([unlisted]).filter(|(_, count)| *count > 0).collect())
    }
}

/// Parses the reasons by number, from the event's format: `print fmt: … __print_symbolic(REC->reason, { 2,
/// "NOT_SPECIFIED" }, …)`. Kernels before 5.17 have no reasons.
fn parse_reasons(format: &str) -> Result<BTreeMap<u32, String>, String> {
    let is_field = |name: &str| format.contains(&format!(" {name};"));
    let Some((_, list)) = format.split_once("__print_symbolic(REC->reason,").filter(|_| is_field("protocol"))
    else {
        return Err("this kernel gives no reasons for its drops (Linux 5.17 and later do)".into());
    };
    let entry = |entry: &str| {
        let (number, name) = entry.split_once('}')?.0.split_once(',')?;
        Some((number.trim().parse().ok()?, name.trim().trim_matches('"').to_string()))
    };
    let entries: Option<BTreeMap<u32, String>> = list.split('{').skip(1).map(entry).collect();
    entries.filter(|entries| !entries.is_empty()).ok_or(format!("{EVENT}/format is not understood"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str = "\tfield:unsigned short protocol;\toffset:32;\tsize:2;\tsigned:0;\n";

    #[test]
    fn reasons_are_read_from_the_format() {
        let print = "print fmt: \"skbaddr=%p reason: %s\", REC->skbaddr, __print_symbolic(REC->reason, \
                     { 2, \"NOT_SPECIFIED\" }, { 6, \"SOCKET_RCVBUFF\" }, { 128, \"MAX\" })\n";
        let reasons = parse_reasons(&format!("{FIELDS}{print}")).unwrap();
        let expected = [(2, "NOT_SPECIFIED"), (6, "SOCKET_RCVBUFF"), (128, "MAX")];
        assert_eq!(reasons, expected.map(|(number, name)| (number, name.to_string())).into());
    }

    #[test]
    fn a_format_without_reasons_or_with_unknown_numbers_is_refused() {
        assert!(parse_reasons(FIELDS).unwrap_err().contains("5.17"));
        let unresolved =
            "__print_symbolic(REC->reason, { SKB_DROP_REASON_NOT_SPECIFIED, \"NOT_SPECIFIED\" })";
        assert!(parse_reasons(&format!("{FIELDS}{unresolved}")).unwrap_err().contains("not understood"));
    }
}
