//! Comments that open with a word in place of a noun, such as *What* or *Those*: a reader has to find out what the word
//! stands for. Their number may only fall.

use super::Source;

/// The words.
const WORDS: [&str; 7] = ["Of", "One", "That", "The same", "Those", "What", "Which"];

/// The number of such comments.
const KNOWN: usize = 0;

/// A fault if there are more such comments than are known, or fewer, so that the number is lowered.
pub(super) fn faults(sources: &[Source]) -> Vec<String> {
    let found: usize = sources.iter().map(|source| openings(&source.text)).sum();
    let words = WORDS.join(", ");
    let fault = match found.cmp(&KNOWN) {
        std::cmp::Ordering::Less => format!(
            "only {found} comments open with one of: {words}; lower the number in xtask/src/tidy/openings.rs"
        ),
        std::cmp::Ordering::Equal => return Vec::new(),
        std::cmp::Ordering::Greater => {
            format!("{found} comments open with one of: {words}; at most {KNOWN} may. Name the thing instead")
        }
    };
    vec![fault]
}

/// How many comments of a file open with one of the words.
fn openings(text: &str) -> usize {
    let mut is_comment_before = false;
    let mut found = 0;
    for line in text.lines() {
        let comment = line.trim_start().strip_prefix("//");
        if let Some(comment) = comment.filter(|_| !is_comment_before) {
            found += usize::from(opens_so(comment.trim_start_matches(['/', '!']).trim_start()));
        }
        is_comment_before = comment.is_some();
    }
    found
}

fn opens_so(comment: &str) -> bool {
    let mut rests = WORDS.iter().filter_map(|word| comment.strip_prefix(word));
    rests.any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_each_comment_counts() {
        let lines = [
            "//! What it is.",
            "//! What else.",
            "fn f() {} // What",
            "    /// Those that wait.",
            "    // One.",
            "}",
            "/// One-shot timers.",
            "/// The same names.",
            "x",
            "// Ofcom.",
        ];
        assert_eq!(openings(&lines.join("\n")), 2);
    }
}
