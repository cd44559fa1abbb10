//! Names of subjects, by which cells and files are told apart: two builds of one server are two subjects.

use serde::Deserialize;
use toml::Spanned;

use super::Definition;

/// Gives every subject a name of its own: a second `nsd` becomes `nsd-2`.
pub fn with_names_of_their_own(definitions: Vec<Definition>) -> Vec<Definition> {
    let mut named: Vec<Definition> = Vec::new();
    for definition in definitions {
        let taken = |name: &String| named.iter().any(|other| other.name == *name);
        let numbered = (2..).map(|number| format!("{}-{number}", definition.name));
        let name = [definition.name.clone()].into_iter().chain(numbered).find(|name| !taken(name));
        named.push(definition.named(&name.expect("there is always a further number")));
    }
    named
}

impl Definition {
    /// The same subject under another name, in its text as well.
    fn named(mut self, name: &str) -> Self {
        /// The one key that is looked for.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::builtin;

    #[test]
    fn a_second_of_one_name_is_numbered_in_its_text_too() {
        let servers = builtin::servers();
        let twice = vec![servers[0].clone(), servers[1].clone(), servers[0].clone(), servers[0].clone()];
        let named = with_names_of_their_own(twice);
        let names: Vec<&str> = named.iter().map(|definition| definition.name.as_str()).collect();
        assert_eq!(names, ["nsd", "knot", "nsd-2", "nsd-3"]);
        for definition in named {
            assert_eq!(Definition::read("again", &definition.text).unwrap(), definition);
        }
    }
}
