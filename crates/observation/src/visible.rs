//! Makes text from outside safe to print: names, versions and output of programs, quoted files, host facts. A terminal
//! obeys control characters. Characters that change the direction of writing make a reader see other text than there is.
//! All code that prints passes such text through here, which shows each such character as its number.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with `\x1b` in place of an escape, and `\u{202e}` in place of a right-to-left override. Line feeds and tabs
/// stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |safe, c| match c {
        '\0'..='\x7f' => write!(safe, "\\x{:02x}", u32::from(c)),
        _ => write!(safe, "\\u{{{:x}}}", u32::from(c)),
    })
}

/// Escapes as [`visible`] does, for text that must stay one line. A name from outside may hold a line feed, and must
/// not look like a second line of the program's output.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    match visible(text) {
        safe if safe.contains('\n') => Cow::Owned(safe.replace('\n', "\\x0a")),
        safe => safe,
    }
}

/// Escapes as [`visible`] does, for JSON. Such characters stand only within its strings, where `\u001b` means the same
/// as the character.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    escaped(json, |safe, c| write!(safe, "\\u{:04x}", u32::from(c)))
}

fn escaped(text: &str, write: impl Fn(&mut String, char) -> std::fmt::Result) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) {
            write(&mut safe, c).expect("writing to memory succeeds");
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Whether a character has an effect instead of a shape: the controls C0, DEL and C1, separators of lines and paragraphs,
/// and characters that change the direction of writing (Unicode Standard Annex 9, section 2).
fn acts(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters with an effect, and how they show in text and in JSON.
    const ACTING: [(&str, &str, &str); 9] = [
        ("\x1b[31m", r"\x1b[31m", r"\u001b[31m"),
        ("\0", r"\x00", r"\u0000"),
        ("a\rb", r"a\x0db", r"a\u000db"),
        ("\x07\x08", r"\x07\x08", r"\u0007\u0008"),
        ("\x7f", r"\x7f", r"\u007f"),
        ("\u{80}\u{9f}", r"\u{80}\u{9f}", r"\u0080\u009f"),
        ("\u{9b}31m", r"\u{9b}31m", r"\u009b31m"),
        ("\u{202e}", r"\u{202e}", r"\u202e"),
        ("\u{2066}\u{200f}", r"\u{2066}\u{200f}", r"\u2066\u200f"),
    ];

    #[test]
    fn what_a_terminal_obeys_shows_as_its_number() {
        for (text, shown, in_json) in ACTING {
            assert_eq!((&*visible(text), &*visible_json(text)), (shown, in_json));
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(visible_line("a\nb\x1b\u{85}"), r"a\x0ab\x1b\u{85}");
        assert!(matches!(visible_line("a\tb"), Cow::Borrowed("a\tb")));
        for (text, shown, _) in ACTING {
            assert_eq!(visible_line(text), shown);
        }
    }

    #[test]
    fn all_other_text_stays_as_it_is() {
        for text in ["", "a\n\tb \\x1b", "µ ± – 漢 \u{a0} \u{202f} עברית \u{fffd}"] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_means_the_same_afterwards() {
        for (text, ..) in ACTING {
            let json = serde_json::to_string(text).unwrap();
            let shown = visible_json(&json);
            assert!(!shown.contains(acts), "{shown}");
            assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
