//! The file of licences: the texts of all crates and libraries in the program.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::libraries::Library;
use super::licences::Crate;

/// The texts of all crates and of these libraries. Equal texts stand once, below all crates that have them.
pub(super) fn texts(crates: &[Crate], libraries: &[Library]) -> String {
    let mut whose: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut text = String::from(
        "kqps contains these crates, under these licences, and the libraries at the end. Their texts follow.\n\n",
    );
    for one in crates {
        let Crate { name, version, license, .. } = one;
        writeln!(text, "{name} {version}: {license}").expect("a string takes everything");
        for (file, content) in &one.texts {
            whose.entry(content.trim()).or_default().push(format!("{name} {version} ({file})"));
        }
    }
    let mut sections: Vec<_> = whose.into_iter().map(|(content, names)| (names, content)).collect();
    sections.sort();
    for (names, content) in sections {
        write!(text, "\n{}\n{}:\n\n{content}\n", "-".repeat(80), names.join(", ")).expect("as above");
    }
    for Library { name, version, license, text: content, .. } in libraries {
        let line = "-".repeat(80);
        write!(text, "\n{line}\n{name} {version}: {license}\n\n{}\n", content.trim()).expect("as above");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn equal_texts_stand_once() {
        let one = |name: &str, license: &str, text: &str| Crate {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.into(),
            authors: Vec::new(),
            texts: vec![("LICENSE".into(), text.into())],
            folder: PathBuf::new(),
        };
        let crates = [
            one("alpha", "MIT", "the same\n"),
            one("beta", "MIT", "the same"),
            one("gamma", "ISC", "another"),
        ];
        let library = Library {
            name: "lib",
            version: "2".into(),
            license: "MIT",
            holders: &["us"],
            text: "its text".into(),
        };
        let text = texts(&crates, &[library]);
        assert!(text.ends_with("\nlib 2: MIT\n\nits text\n"), "{text}");
        assert_eq!(text.matches("the same").count(), 1);
        assert!(text.contains("alpha 1.0.0 (LICENSE), beta 1.0.0 (LICENSE):\n\nthe same\n"), "{text}");
        assert!(text.contains("gamma 1.0.0: ISC\n"), "{text}");
    }
}
