//! Texts with `{placeholders}`: the command lines and configuration files of a subject. Only a lower-case word
//! in braces is a placeholder, so the braces of other languages can stay as they are.

use crate::toml_file::nearest;

/// What a placeholder stands for in one start of a subject.
#[derive(Clone, Debug, Default)]
pub struct Values(Vec<(&'static str, String)>);

/// The placeholders that there are.
pub const KNOWN: [&str; 8] = ["cpus", "dir", "io", "kqps", "origin", "port", "workers", "zone"];

impl Values {
    /// Sets what one of [`KNOWN`] stands for.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &dyn ToString) -> Self {
        debug_assert!(KNOWN.contains(&name));
        self.0.push((name, value.to_string()));
        self
    }

    /// The text with every placeholder replaced. A word that has no value stays as it is: [`check`] has
    /// refused it when the definition was read.
    pub fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut done = 0;
        for found in placeholders(text) {
            let value = self.0.iter().find(|(name, _)| *name == found.name);
            filled.push_str(&text[done..found.start]);
            filled.push_str(value.map_or(&text[found.start..found.end], |(_, value)| value));
            done = found.end;
        }
        filled + &text[done..]
    }
}

/// A placeholder that nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// It, with its braces.
    pub placeholder: String,
    /// The known one that was probably meant, with its braces.
    pub nearest: Option<String>,
}

/// Whether all placeholders of a text are known.
pub fn check(text: &str) -> Result<(), Unknown> {
    match placeholders(text).find(|found| !KNOWN.contains(&found.name)) {
        None => Ok(()),
        Some(found) => Err(Unknown {
            placeholder: format!("{{{}}}", found.name),
            nearest: nearest(found.name, &KNOWN).map(|name| format!("{{{name}}}")),
        }),
    }
}

/// Whether a text uses a placeholder.
pub fn uses(text: &str, name: &str) -> bool {
    placeholders(text).any(|found| found.name == name)
}

struct Found<'t> {
    name: &'t str,
    start: usize,
    end: usize,
}

fn placeholders(text: &str) -> impl Iterator<Item = Found<'_>> {
    text.match_indices('{').filter_map(|(start, _)| {
        let inside = &text[start + 1..];
        let length = inside.bytes().take_while(|byte| byte.is_ascii_lowercase() || *byte == b'_').count();
        let closed = length > 0 && inside[length..].starts_with('}');
        closed.then(|| Found { name: &inside[..length], start, end: start + length + 2 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_in_braces_are_placeholders() {
        let values = Values::default().with("port", &5300).with("dir", &"/tmp/x");
        assert_eq!(
            values.fill("listen-on port {port} { none; }; \"{dir}/a\" {}"),
            "listen-on port 5300 { none; }; \"/tmp/x/a\" {}"
        );
        assert_eq!(check("listen { 127.0.0.1; } {port}"), Ok(()));
    }

    #[test]
    fn an_unknown_one_is_refused_with_the_nearest() {
        let unknown = check("-p {prot}").unwrap_err();
        assert_eq!(unknown, Unknown { placeholder: "{prot}".into(), nearest: Some("{port}".into()) });
    }
}
