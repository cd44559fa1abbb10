//! Finds the place of a mistake in a study's file: at a key or behind it, and not at the first occurrence of
//! the same letters.

/// The byte offset of `value` behind `key =`. Without such a value it is that of the key, and without such a
/// key it is 0.
pub(super) fn of_value(text: &str, key: &str, value: &str) -> usize {
    let within = |(_, at): (usize, usize)| {
        let said = extent(&text[at..]);
        Some(at + words(said, value).next()?)
    };
    assignments(text, key).find_map(within).unwrap_or_else(|| of_key(text, key))
}

/// The byte offset of a key. If the word is no key, as in a list of factors, it is the offset of the quoted
/// word.
pub(super) fn of_key(text: &str, key: &str) -> usize {
    let quoted = || text.find(&format!("\"{key}\"")).map(|at| at + 1);
    assignments(text, key).next().map(|(at, _)| at).or_else(quoted).unwrap_or(0)
}

/// The offset of a key, and that of its value.
fn assignments<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
    words(text, key).filter_map(move |at| {
        let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let is_comment = text[line..at].trim_start().starts_with('#');
        let after = &text[at + key.len()..];
        let rest = after.strip_prefix('"').unwrap_or(after).trim_start_matches(' ').strip_prefix('=')?;
        let value = rest.trim_start_matches(' ');
        (!is_comment).then_some((at, text.len() - value.len()))
    })
}

/// The text of one value: a list, a string, or the text before the next key.
fn extent(value: &str) -> &str {
    let end = match value.chars().next() {
        Some('[') => value.find(']'),
        Some('"') => value[1..].find('"').map(|end| end + 2),
        _ => value.find([',', '}', '\n', '#']),
    };
    &value[..end.unwrap_or(value.len())]
}

/// The offsets of a word that stands alone, and not within another one.
fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_inner) && !after.is_some_and(is_inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_behind_its_key_alone() {
        let text = "# io = epol\nabout = \"epol\"\n\"player.io\" = \"epol\"\nio = [\"poll\", \"epol\"]\n";
        assert_eq!(&text[of_value(text, "io", "epol")..], "epol\"]\n");
        assert!(text[of_value(text, "player.io", "epol")..].starts_with("epol\"\nio"));
        assert!(
            text[of_value(text, "io", "plain")..].starts_with("io = ["),
            "the key if it has no such value"
        );
        assert_eq!(&text[of_key(text, "poll")..], "poll\", \"epol\"]\n");
        assert_eq!(of_value(text, "oi", "epol"), 0);
    }
}
