//! The name of a subject, which identifies its files: two builds of one server are two subjects.

use serde::Deserialize;
use toml::Spanned;

use super::Definition;

impl Definition {
    /// Gives the subject another name, which its text then has as well.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        /// The one key to find.
        #[derive(Deserialize)]
        struct Name {
            name: Spanned<String>,
        }
        if name != self.name {
            let found: Name = toml::from_str(&self.text).expect("it was read before");
            self.text.replace_range(found.name.span(), &format!("\"{name}\""));
            self.name = name.into();
        }
        self
    }
}
