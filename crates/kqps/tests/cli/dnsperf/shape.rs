//! Parts of two runs' output that must be the same: all lines of dnsperf, in their order, with their labels and counts.
//! Times, rates and what names the program may differ.

/// A line of `-S`.
pub(super) const INTERVAL: &str = "SECONDS: RATE";

/// A line of a histogram.
const BUCKET: &str = "  SECONDS - SECONDS:  COUNT";

/// The lines of a run whose counts are certain.
pub(super) fn lines(out: &str) -> Vec<String> {
    let mut lines: Vec<String> = own_part(out).map(certain).collect();
    // How many buckets a histogram has depends on the latencies.
    lines.dedup_by(|line, before| line == before && line == BUCKET);
    // Replies of one program may overtake each other.
    sort_runs(&mut lines);
    lines
}

/// The lines of a run with every number replaced. Equal lines and equal intervals that follow each other are one: how
/// many there are depends on the time.
pub(super) fn without_numbers(out: &str) -> Vec<String> {
    let mut lines: Vec<String> = own_part(out).map(|line| numbers_replaced(&certain(line))).collect();
    lines.dedup();
    let is_first = |line: &String| line.starts_with("Interval ") || line.starts_with("[Status] Testing");
    let mut blocks: Vec<Vec<String>> = Vec::new();
    for line in lines {
        match blocks.last_mut().filter(|_| !is_first(&line)) {
            Some(block) => block.push(line),
            None => blocks.push(vec![line]),
        }
    }
    blocks.dedup();
    blocks.concat()
}

/// dnsperf's lines: all before those that kqps adds.
fn own_part(out: &str) -> impl Iterator<Item = &str> {
    out.lines().take_while(|line| !line.starts_with("What kqps"))
}

/// A line without what may differ in two runs of one program.
fn certain(line: &str) -> String {
    let labels = [
        "Version ",
        "[Status] Command line: ",
        "[Status] Started at: ",
        "[Status] Sending queries (to 127.0.0.1:",
        "[Status] Sending queries (to [::1]:",
        "[Status] Sending updates (to 127.0.0.1:",
        "[Timeout] Query timed out: msg id ",
        "[Timeout] Update timed out: msg id ",
    ];
    if let Some(label) = labels.into_iter().find(|label| line.starts_with(label)) {
        return label.to_owned();
    }
    // Versions before 2.14 have another label. A player may open another number of connections.
    if line.starts_with("  Reconnections:") || line.starts_with("  Connection attempts:") {
        return "  Connection attempts:  # (# successful, #%)".to_owned();
    }
    let measured = ["Run time (s):", "per second:", "Latency (s):", "StdDev (s):"];
    if measured.iter().any(|label| line.contains(label)) {
        return numbers_replaced(line);
    }
    let is_bucket = line.split_once(" - ").is_some_and(|(low, _)| is_decimal(low.trim_start()));
    match line.rsplit_once(' ') {
        _ if is_bucket => BUCKET.to_owned(),
        _ if is_interval(line) => INTERVAL.to_owned(),
        // A line of -v, which ends with its latency.
        Some((before, latency)) if line.starts_with("> ") && is_decimal(latency) => {
            format!("{before} LATENCY")
        }
        _ => line.to_owned(),
    }
}

/// Whether this is a line of `-S`.
pub(super) fn is_interval(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(time, rate)| is_decimal(time) && is_decimal(rate))
}

fn is_decimal(text: &str) -> bool {
    text.contains('.') && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// A line with `#` for each number.
fn numbers_replaced(line: &str) -> String {
    let mut text = String::new();
    for letter in line.chars() {
        let is_of_number = letter.is_ascii_digit() || (letter == '.' && text.ends_with('#'));
        if !is_of_number {
            text.push(letter);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

/// Sorts each row of lines about single queries.
fn sort_runs(lines: &mut [String]) {
    for rows in lines.chunk_by_mut(|one, other| one.starts_with("> ") == other.starts_with("> ")) {
        if rows[0].starts_with("> ") {
            rows.sort_unstable();
        }
    }
}

#[test]
fn counts_stay_and_times_do_not() {
    let theirs = "Version 2.10.0\n  Queries sent:         2\n  Run time (s):         0.002354\n> NOERROR a A 0.000341\n\
                  1795736452.992427: 21.885931\n  Reconnections:        0\n  0.000080 - 0.000081:  3\n";
    let ours = "Version 2.14.0 (x)\n  Queries sent:         2\n  Run time (s):         10.5\n> NOERROR a A 0.1\n\
                1795736452.9: 2.0\n  Connection attempts:  1 (1 successful, 100.00%)\n  0.1 - 0.2:  7\n\
                What kqps 0.1.0 adds:\n";
    assert_eq!(lines(theirs), lines(ours));
    assert_ne!(lines(theirs), lines(&ours.replace("sent:         2", "sent:         3")));
    assert_eq!(numbers_replaced("a 1.5 (2%)"), "a # (#%)");
}
