//! Parts that a run leaves out, one line for each reason: a server that lacks a transport has dozens of cells in a
//! study of transports.

/// The lines for these cells, or other parts of a run, and their reasons. Parts with the same reason share the line of the
/// first one.
pub(crate) fn lines<'a>(skipped: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    let mut groups: Vec<(&str, &str, u64)> = Vec::new();
    for (what, reason) in skipped {
        match groups.iter_mut().find(|(_, known, _)| known == reason) {
            Some((_, _, count)) => *count += 1,
            None => groups.push((what, reason, 1)),
        }
    }
    let line = |(first, reason, count): (&str, &str, u64)| match count {
        1 => format!("Left out: {first}: {reason}"),
        _ => format!("Left out: {first}, and {} more like it: {reason}", count - 1),
    };
    groups.into_iter().map(line).collect()
}

/// The lines of these parts and their reasons, one for each part.
pub(crate) fn all<'a>(skipped: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<String> {
    skipped.into_iter().map(|(what, reason)| format!("Left out: {what}: {reason}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn parts_with_the_same_reason_share_a_line() {
        let skipped = [("a", "no tls"), ("b", "no quic"), ("c", "no tls"), ("d", "no tls")];
        let skipped: BTreeMap<String, String> =
            skipped.map(|(what, reason)| (what.to_owned(), reason.to_owned())).into();
        assert_eq!(lines(&skipped), ["Left out: a, and 2 more like it: no tls", "Left out: b: no quic"]);
    }
}
