//! The table of settings in `docs/STUDIES.md`.

use crate::setting::{Kind, Setting};
use crate::settings;

/// The settings that studies give as a table in Markdown, a line for each.
pub fn of_studies() -> String {
    let head = "| factor | values | over | sets |\n| --- | --- | --- | --- |\n";
    settings::of_studies().fold(head.to_owned(), |table, setting| table + &row(setting))
}

fn row(setting: &Setting) -> String {
    let Setting { name, meaning, kind, over, .. } = setting;
    format!("| `{name}` | {} | {} | {meaning} |\n", values(kind), over.words())
}

fn values(kind: &Kind) -> String {
    match kind {
        Kind::Choice(_) | Kind::Truth(..) => {
            kind.words().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        _ => kind.expected_of_people(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The marks around the table.
    const MARKS: (&str, &str) = ("<!-- settings, from crates/catalogue -->\n", "<!-- end of settings -->\n");

    /// With `KQPS_WRITE_TABLES=1`, writes the table instead.
    #[test]
    fn the_guide_to_studies_has_the_table_of_studies() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/STUDIES.md");
        let text = std::fs::read_to_string(&page).unwrap();
        let (before, rest) = text.split_once(MARKS.0).unwrap();
        let (table, after) = rest.split_once(MARKS.1).unwrap();
        if std::env::var_os("KQPS_WRITE_TABLES").is_some() {
            let (begin, end) = MARKS;
            std::fs::write(page, format!("{before}{begin}\n{}\n{end}{after}", of_studies())).unwrap();
            return;
        }
        assert_eq!(
            table.trim(),
            of_studies().trim(),
            "write it: KQPS_WRITE_TABLES=1 cargo test -p kqps-catalogue"
        );
    }

    #[test]
    fn no_two_settings_share_a_name_or_a_flag() {
        let all: Vec<&Setting> = settings::all().collect();
        for (at, setting) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert_ne!(setting.name, other.name);
                let (one, two) = (setting.flag.map(|flag| flag.long), other.flag.map(|flag| flag.long));
                assert!(one.is_none() || one != two, "{one:?}");
            }
        }
    }
}
