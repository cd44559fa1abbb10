//! The definitions that the program contains, so that it works in any folder.

use super::definition::Definition;

const SERVERS: [(&str, &str); 14] = [
    ("subjects/nsd.toml", include_str!("../../../../subjects/nsd.toml")),
    ("subjects/knot.toml", include_str!("../../../../subjects/knot.toml")),
    ("subjects/bind.toml", include_str!("../../../../subjects/bind.toml")),
    ("subjects/pdns.toml", include_str!("../../../../subjects/pdns.toml")),
    ("subjects/unbound.toml", include_str!("../../../../subjects/unbound.toml")),
    ("subjects/pdns-recursor.toml", include_str!("../../../../subjects/pdns-recursor.toml")),
    ("subjects/unbound-resolver.toml", include_str!("../../../../subjects/unbound-resolver.toml")),
    ("subjects/bind-resolver.toml", include_str!("../../../../subjects/bind-resolver.toml")),
    ("subjects/pdns-resolver.toml", include_str!("../../../../subjects/pdns-resolver.toml")),
    ("subjects/knot-resolver.toml", include_str!("../../../../subjects/knot-resolver.toml")),
    ("subjects/dnsdist.toml", include_str!("../../../../subjects/dnsdist.toml")),
    ("subjects/kqps-auth.toml", include_str!("../../../../subjects/kqps-auth.toml")),
    ("subjects/kqps-cache.toml", include_str!("../../../../subjects/kqps-cache.toml")),
    ("subjects/front.toml", include_str!("../../../../subjects/front.toml")),
];

const ECHO: (&str, &str) = ("subjects/echo.toml", include_str!("../../../../subjects/echo.toml"));

const DEFAULT: [&str; 3] = ["nsd", "knot", "bind"];

/// The name servers of the default study, in the order in which they are shown.
pub fn of_default_study() -> Vec<Definition> {
    servers().into_iter().filter(|server| DEFAULT.contains(&server.name.as_str())).collect()
}

/// All built-in name servers, in the order in which they are shown.
pub fn servers() -> Vec<Definition> {
    SERVERS.iter().map(|(file, text)| read(file, text)).collect()
}

/// The definition of the reference echo.
pub fn echo() -> Definition {
    read(ECHO.0, ECHO.1)
}

fn read(file: &str, text: &str) -> Definition {
    Definition::read(file, text).unwrap_or_else(|error| panic!("a definition within kqps is wrong: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_right_and_have_names_of_their_own() {
        let mut names: Vec<_> = servers().into_iter().chain([echo()]).map(|server| server.name).collect();
        let many = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), many);
    }

    #[test]
    fn none_puts_a_colon_behind_an_address_that_may_have_some_itself() {
        for (file, text) in SERVERS.iter().chain([&ECHO]) {
            assert!(!text.contains("{address}:"), "{file} means {{endpoint}}");
        }
    }

    #[test]
    fn every_definition_in_the_folder_is_carried() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../subjects");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = format!("subjects/{}", entry.unwrap().file_name().display());
            assert!(SERVERS.iter().chain([&ECHO]).any(|(file, _)| *file == name), "{name} is not built in");
        }
    }
}
