//! Splits a command line as getopt(3) does: flags of one letter, alone or together, whose values follow them or are the
//! next word.

/// Flags that take a value, and flags that take none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Letters {
    pub(super) with_value: &'static str,
    pub(super) alone: &'static str,
}

/// A part of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A flag without a value.
    Flag(char),
    /// A flag with its value.
    Value(char, String),
    /// A letter that is no flag.
    Unknown(char),
    /// A flag at the end, whose value is missing.
    NoValue(char),
    /// `--help`, which getopt(3) does not know.
    LongHelp,
    /// A word that belongs to no flag.
    Word(String),
}

/// The parts of a command line, the words that belong to no flag last.
pub(super) fn split(words: &[String], letters: Letters) -> Vec<Part> {
    let (mut parts, mut left) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            left.extend(words.by_ref().map(|word| Part::Word(word.clone())));
            break;
        }
        if word == "--help" {
            parts.push(Part::LongHelp);
            continue;
        }
        let Some(together) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) else {
            left.push(Part::Word(word.clone()));
            continue;
        };
        let mut rest = together.chars();
        while let Some(letter) = rest.next() {
            if letters.alone.contains(letter) {
                parts.push(Part::Flag(letter));
            } else if letters.with_value.contains(letter) {
                let own = rest.as_str();
                let value = if own.is_empty() { words.next().cloned() } else { Some(own.to_owned()) };
                parts.push(value.map_or(Part::NoValue(letter), |value| Part::Value(letter, value)));
                break;
            } else {
                parts.push(Part::Unknown(letter));
            }
        }
    }
    parts.extend(left);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_by_getopt() {
        let parts = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            split(&words, Letters { with_value: "sq", alone: "eD" })
        };
        let value = |letter, text: &str| Part::Value(letter, text.to_owned());
        let word = |text: &str| Part::Word(text.to_owned());
        assert_eq!(
            parts("-s ::1 -q5 -eDq 7"),
            [value('s', "::1"), value('q', "5"), Part::Flag('e'), Part::Flag('D'), value('q', "7"),]
        );
        assert_eq!(parts("a -e b -- -D"), [Part::Flag('e'), word("a"), word("b"), word("-D")]);
        assert_eq!(parts("-q -1 -s"), [value('q', "-1"), Part::NoValue('s')]);
        assert_eq!(
            parts("-eZD --x -"),
            [
                Part::Flag('e'),
                Part::Unknown('Z'),
                Part::Flag('D'),
                Part::Unknown('-'),
                Part::Unknown('x'),
                word("-"),
            ]
        );
    }
}
