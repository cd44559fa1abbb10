//! Answers that lost queries expected, in words.

use std::collections::BTreeMap;

/// Lost queries by the answer that they expected: `90 expected NOERROR, 4 REFUSED and 6 no rcode`. `None` if none of
/// them expected an answer.
pub fn expected_by_lost(lost: &BTreeMap<String, u64>) -> Option<String> {
    let (unknown, known): (Vec<_>, Vec<_>) = lost.iter().partition(|(expected, _)| *expected == "unknown");
    let known = known.iter().enumerate().map(|(index, (expected, count))| {
        if index == 0 { format!("{count} expected {expected}") } else { format!("{count} {expected}") }
    });
    let mut parts: Vec<String> = known.collect();
    if parts.is_empty() {
        return None;
    }
    parts.extend(unknown.iter().map(|(_, count)| format!("{count} no rcode")));
    let last = parts.pop().unwrap_or_default();
    let first = if parts.is_empty() { String::new() } else { format!("{} and ", parts.join(", ")) };
    Some(first + &last)
}
