//! Text of other programs about DNS traffic, which has queries in every line and is no list of queries. It is known by
//! its lines.

/// A format, and the sentence that helps.
type NamedText = (&'static str, &'static str);

/// The formats, each with the parts that its lines have, in this order.
const FORMATS: [(&[&str], NamedText); 7] = [
    (&[" IP ", " > ", ": "], TCPDUMP),
    (&[" IP6 ", " > ", ": "], TCPDUMP),
    (
        &["client ", "#", ": query: ", " "],
        (
            "a query log of BIND",
            r"`sed -n 's/.*: query: \([^ ]*\) [A-Z]* \([^ ]*\) .*/\1 \2/p'` makes queries of it",
        ),
    ),
    (
        &["unbound[", " info: ", " IN"],
        (
            "a query log of Unbound",
            r"`sed -n 's/.* info: [^ ]* \([^ ]*\) \([^ ]*\) IN$/\1 \2/p'` makes queries of it",
        ),
    ),
    (
        &[": query[", "] ", " from "],
        (
            "a query log of dnsmasq",
            r"`sed -n 's/.*: query\[\(.*\)\] \([^ ]*\) from .*/\2 \1/p'` makes queries of it",
        ),
    ),
    (
        &["Q ", " -> ", "b ", "/IN/"],
        ("text that dnstap-read printed", "give kqps the file of dnstap that it was made of"),
    ),
    (&["#separator "], ("a log of Zeek", "`zeek-cut query qtype_name` makes queries of the one of DNS")),
];

const TCPDUMP: NamedText =
    ("text that tcpdump printed", "`tcpdump -w FILE` keeps the packets, which kqps reads");

/// The format of a text that begins so, if a whole line of it is known. Comments are not looked at.
pub(crate) fn text_format(first: &[u8]) -> Option<NamedText> {
    let text = String::from_utf8_lossy(first);
    let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.find_map(|line| {
        let line = line.trim_end_matches('\r');
        let is_comment = line.starts_with(';') || line.starts_with("# ");
        let known = FORMATS.iter().find(|(parts, _)| !is_comment && has(line, parts));
        known.map(|(_, format)| *format)
    })
}

/// Whether a line has all these parts, one after the other.
fn has(line: &str, parts: &[&str]) -> bool {
    let mut rest = Some(line);
    for part in parts {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_comments_are_no_log() {
        for text in [
            "www.example.test A\nIP.test A\n",
            "; 12:00:00.1 IP 192.0.2.1.4242 > 192.0.2.53.53: 1+ A? a.test. (24)\na.test A\n",
            "# client 192.0.2.1#4242 (a.test): query: a.test IN A +\na.test A\n",
            // Its line is not whole.
            "12:00:00.1 IP 192.0.2.1.4242 > 192.0.2.53.53: 1+ A?",
            "#separator.test A\n",
        ] {
            assert_eq!(text_format(text.as_bytes()), None, "{text}");
        }
    }
}
