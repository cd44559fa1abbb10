//! The machine-readable copyright file of the Debian package (DEP-5).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result, bail, ensure};

use super::libraries::{Library, of_toolchain};
use super::licences::Crate;
use crate::workspace;

/// The file: kqps, then every crate and library in it, then the texts of the licences or where they stand.
pub(super) fn copyright(crates: &[Crate], libraries: &[Library]) -> Result<String> {
    let ours = workspace::root().join("LICENSE-MIT");
    let ours = fs::read_to_string(&ours).with_context(|| format!("cannot read {}", ours.display()))?;
    // The licence itself begins after our own notice.
    let mit = ours.find(MIT_BEGINS).map_or(&*ours, |begin| &ours[begin..]);
    copyright_with(crates, libraries, mit, &of_toolchain("LLVM-exception")?, &of_toolchain("Unicode-3.0")?)
}

/// The file, with these texts of the MIT licence, of LLVM's exception to Apache-2.0, and of Unicode's licence.
fn copyright_with(
    crates: &[Crate],
    libraries: &[Library],
    mit: &str,
    exception: &str,
    unicode: &str,
) -> Result<String> {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: kqps\n\
         Comment: The program contains the crates and libraries below vendor/, each linked into it.\n \
         Their licences with all notices are in /usr/share/doc/kqps/third-party.txt.gz.\n\n\
         Files: *\nCopyright: 2026 The kqps authors\nLicense: Apache-2.0 or MIT\n",
    );
    let mut names = BTreeSet::from(["Apache-2.0 or MIT".to_owned()]);
    let of_crates = crates.iter().map(|one| (&*one.name, &*one.version, &*one.license, one.holders()));
    let holders = |one: &Library| one.holders.iter().map(|holder| (*holder).to_owned()).collect();
    let of_libraries = libraries.iter().map(|one| (one.name, &*one.version, one.license, holders(one)));
    for (name, version, license, holders) in of_crates.chain(of_libraries) {
        let license = debian_license(license).with_context(|| format!("{name} {version}: {license}"))?;
        let holders = holders.join("\n           ");
        write!(text, "\nFiles: vendor/{name}-{version}/*\nCopyright: {holders}\nLicense: {license}\n")
            .expect("a string takes everything");
        names.insert(license);
    }
    let single: BTreeSet<String> = names.iter().flat_map(|name| single_licenses(name)).collect();
    for name in single {
        let body = match name.as_str() {
            "Apache-2.0" => APACHE.to_owned(),
            WITH_EXCEPTION => format!("{APACHE} .\n{}", indented(exception)),
            "MIT" => indented(mit),
            "MIT-0" => indented(&without_conditions(mit)?),
            "Unicode-3.0" => indented(unicode),
            other => {
                let of_library = || libraries.iter().find(|one| one.license == other).map(|one| &*one.text);
                let text = text_of(crates, other).or_else(of_library);
                indented(
                    text.with_context(|| format!("no crate has the text of {other} in a file of its own"))?,
                )
            }
        };
        write!(text, "\nLicense: {name}\n{body}").expect("a string takes everything");
    }
    Ok(text)
}

/// The first words of the MIT licence after the notice of who has the copyright.
const MIT_BEGINS: &str = "Permission is hereby granted";

/// The sentence in place of the text of Apache-2.0, which every Debian has (Debian policy, section 12.5).
const APACHE: &str =
    " On Debian systems, the text of Apache-2.0 is in /usr/share/common-licenses/Apache-2.0.\n";

/// Apache-2.0 with LLVM's exception, as DEP-5 writes it.
const WITH_EXCEPTION: &str = "Apache-2.0 with LLVM-exception exception";

/// MIT-0, which is the MIT licence without its only condition, the second of its three paragraphs. An error if the text is
/// not such a one.
fn without_conditions(mit: &str) -> Result<String> {
    let paragraphs: Vec<&str> = mit.trim().split("\n\n").collect();
    let [grant, _, warranty] = paragraphs[..] else {
        bail!(
            "the MIT licence has {} paragraphs in place of 3: MIT-0 cannot be made of it",
            paragraphs.len()
        );
    };
    let grant = grant.strip_suffix(", subject to the following conditions:");
    let grant = grant.context("the MIT licence does not announce conditions: MIT-0 cannot be made of it")?;
    Ok(format!("{grant}.\n\n{warranty}"))
}

/// The text of a licence (Debian policy, section 12.5): the only file of a crate that has no other licence, or a file that is
/// named after the licence, such as `LICENSE-ZLIB`.
fn text_of<'c>(crates: &'c [Crate], name: &str) -> Option<&'c str> {
    let word = name.split(['-', ' ']).next().unwrap_or(name).to_lowercase();
    let of = |one: &'c Crate| {
        let licences = single_licenses(&debian_license(&one.license).ok()?);
        if !licences.iter().any(|licence| licence == name) {
            return None;
        }
        let named = one.texts.iter().find(|(file, _)| file.to_lowercase().ends_with(&word));
        let only = one.texts.first().filter(|_| licences.len() == 1 && one.texts.len() == 1);
        only.or(named).map(|(_, text)| text.as_str())
    };
    crates.iter().find_map(of)
}

/// An SPDX expression as DEP-5 writes it. A slash is the old way to say `OR`. DEP-5 has no brackets: `and` binds before `or`,
/// and after a comma before it `and` binds last. An error if that does not suffice.
fn debian_license(expression: &str) -> Result<String> {
    let expression = expression.replace('/', " OR ");
    let groups = split(&expression, " AND ");
    if !expression.contains('(') || groups.len() == 1 {
        let whole = expression.trim();
        let inner = whole.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        return plain(inner.filter(|inner| !inner.contains(['(', ')'])).unwrap_or(whole));
    }
    let plain_group = |group: &&str| {
        let group = group.trim();
        plain(group.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(group))
    };
    let groups = groups.iter().map(plain_group).collect::<Result<Vec<_>>>()?;
    Ok(groups.join(", and "))
}

/// An expression without brackets, as DEP-5 writes it.
fn plain(expression: &str) -> Result<String> {
    ensure!(!expression.contains(['(', ')']), "DEP-5 cannot say this licence without brackets");
    let words = expression.split_whitespace().map(|word| match word {
        "OR" => "or",
        "AND" => "and",
        "WITH" => "with",
        other => other,
    });
    let words: Vec<&str> = words.collect();
    Ok(words.join(" ").replace("with LLVM-exception", "with LLVM-exception exception"))
}

/// The parts of an expression between these words, of which those in brackets do not count. The whole if an `OR` outside of
/// brackets binds them.
fn split<'e>(expression: &'e str, between: &str) -> Vec<&'e str> {
    let (mut depth, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && expression[at..].starts_with(" OR ") => return vec![expression],
            _ if depth == 0 && expression[at..].starts_with(between) => {
                parts.push(&expression[begin..at]);
                begin = at + between.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[begin..]);
    parts
}

/// The licences in an expression of DEP-5, an exception with the licence that it belongs to.
fn single_licenses(expression: &str) -> Vec<String> {
    let groups = expression.split(", and ").flat_map(|group| group.split(" or "));
    let alternatives = groups.flat_map(|part| part.split(" and "));
    alternatives.map(|one| one.trim().to_owned()).collect()
}

/// A text as the body of a field: each line is indented, and an empty one is a dot.
fn indented(text: &str) -> String {
    text.trim()
        .lines()
        .map(|line| if line.trim().is_empty() { " .\n".into() } else { format!(" {line}\n") })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::{libraries, licences, tools};
    use super::*;

    fn one(name: &str, license: &str, text: &str) -> Crate {
        Crate {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.into(),
            authors: Vec::new(),
            texts: vec![("LICENSE".into(), text.into())],
            folder: PathBuf::new(),
        }
    }

    #[test]
    fn expressions_are_those_of_dep_5() {
        for (expression, wanted) in [
            ("MIT/Apache-2.0", "MIT or Apache-2.0"),
            ("MIT OR ISC AND Zlib", "MIT or ISC and Zlib"),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", "MIT or Apache-2.0, and Unicode-3.0"),
            ("ISC AND (Apache-2.0 OR ISC) AND MIT", "ISC, and Apache-2.0 or ISC, and MIT"),
            ("(MIT OR ISC)", "MIT or ISC"),
        ] {
            assert_eq!(debian_license(expression).unwrap(), wanted);
        }
        for deep in ["MIT OR (ISC AND (Zlib OR MIT-0))", "MIT OR (ISC OR Zlib) AND MIT-0"] {
            assert!(debian_license(deep).is_err(), "{deep}");
        }
        let with = debian_license("Apache-2.0 WITH LLVM-exception OR MIT").unwrap();
        assert_eq!(single_licenses(&with), ["Apache-2.0 with LLVM-exception exception", "MIT"]);
        assert_eq!(single_licenses("MIT or ISC, and Zlib"), ["MIT", "ISC", "Zlib"]);
    }

    #[test]
    fn every_licence_has_a_paragraph_and_every_crate_its_holders() {
        let crates = [
            one("alpha", "MIT", "Copyright (c) 2019 Alpha authors\n\nPermission is granted"),
            one("beta", "ISC AND Zlib", "no notice here"),
            one("gamma", "BSL-1.0", "Boost text"),
            one("delta", "MIT-0 OR Apache-2.0 WITH LLVM-exception", "either"),
            one("zlib", "Zlib", "altered\n\nversions"),
            one("isc", "ISC", "AS IS"),
        ];
        let mit = format!("{MIT_BEGINS}, subject to the following conditions:\n\nthe notice\n\nlast\n");
        let library = Library {
            name: "sqlite",
            version: "3.0".into(),
            license: "blessing",
            holders: &["None"],
            text: "May you do good\n".into(),
        };
        let text = copyright_with(&crates, &[library], &mit, "As an exception", "Unicode's").unwrap();
        assert!(
            text.contains("\nFiles: vendor/sqlite-3.0/*\nCopyright: None\nLicense: blessing\n"),
            "{text}"
        );
        assert!(text.contains("\nLicense: blessing\n May you do good\n"), "{text}");
        assert!(
            text.contains("\nFiles: vendor/alpha-1.0.0/*\nCopyright: (c) 2019 Alpha authors\nLicense: MIT\n")
        );
        assert!(text.contains(
            "\nFiles: vendor/beta-1.0.0/*\nCopyright: the authors of beta\nLicense: ISC and Zlib\n"
        ));
        assert!(text.contains("\n .\n the notice\n .\n last\n"), "{text}");
        assert!(text.contains(&format!("\nLicense: MIT-0\n {MIT_BEGINS}.\n .\n last\n")), "{text}");
        assert!(text.contains("common-licenses/Apache-2.0.\n .\n As an exception\n"), "{text}");
        assert!(text.contains("\nLicense: BSL-1.0\n Boost text\n"), "{text}");
        for name in ["Apache-2.0", "ISC", "MIT", "Zlib"] {
            assert!(text.contains(&format!("\n\nLicense: {name}\n ")), "{name}: {text}");
        }
    }

    #[test]
    fn only_the_known_form_of_the_mit_licence_gives_mit_0() {
        let mit = format!("{MIT_BEGINS}, subject to the following conditions:\n\nthe notice\n\nlast\n");
        assert_eq!(without_conditions(&mit).unwrap(), format!("{MIT_BEGINS}.\n\nlast"));
        assert!(without_conditions(&mit.replace("subject to", "under")).is_err());
        assert!(without_conditions(&mit.replace("\n\nlast", "")).is_err());
    }

    #[test]
    fn dep_5_can_say_all_licences_of_the_program() {
        let crates = licences::crates(&tools::gnu()).unwrap();
        let libraries = libraries::libraries(&crates, false).unwrap();
        let text = copyright(&crates, &libraries).unwrap();
        assert!(text.contains("\nFiles: vendor/rust-std-"), "{text}");
        assert!(text.contains("\n           1991-2024 Unicode, Inc.\n"), "{text}");
        assert!(text.contains("\nLicense: Unicode-3.0\n UNICODE LICENSE V3"), "{text}");
        // lintian takes the whole text for an error.
        assert!(!text.contains("TERMS AND CONDITIONS FOR USE"), "{text}");
    }
}
