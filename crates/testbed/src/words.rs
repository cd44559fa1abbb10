//! Formats amounts in words, for messages and plans.

/// A time in words: `45 s`, `1 min 42 s`, `8 h 41 min`.
pub fn time(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes, rest) {
        _ if seconds < 9.5 && seconds.fract() > 0.05 => format!("{seconds:.1} s"),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// A count with its noun: `1 block`, `2 blocks`, `0 queries`, `3 addresses`.
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {}", plural(noun)) }
}

/// The plural of a noun that forms it by the rules of spelling.
fn plural(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_do() {
        let said = [0.25, 3.0, 45.2, 60.0, 101.6, 3600.0, 31_260.0].map(time);
        assert_eq!(said, ["0.2 s", "3 s", "45 s", "1 min", "1 min 42 s", "1 h", "8 h 41 min"]);
    }

    #[test]
    fn plurals_are_spelt_right() {
        assert_eq!([counted(1, "cell"), counted(0, "cell")], ["1 cell", "0 cells"]);
        assert_eq!([counted(1, "query"), counted(0, "query")], ["1 query", "0 queries"]);
        let many = ["reply", "delay", "address", "batch", "kept connection"].map(|noun| counted(2, noun));
        assert_eq!(many, ["2 replies", "2 delays", "2 addresses", "2 batches", "2 kept connections"]);
    }
}
