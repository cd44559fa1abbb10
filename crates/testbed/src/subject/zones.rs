//! The zones that a subject serves, as its configuration lists them: one text for each.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use kqps_files::whole::write_whole;
use tempfile::TempPath;

use super::template::Values;

/// A zone and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The name, with a dot at the end (`bench.test.`).
    pub origin: String,
    /// The path of the master file. A zone that must fail to load has one that does not exist.
    pub file: PathBuf,
    /// The port of its primary, at the subject's own address, if the subject transfers the zone in.
    pub primary: Option<u16>,
}

impl Zone {
    /// A zone of this name with this master file.
    pub fn new(origin: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self { origin: origin.into(), file: file.into(), primary: None }
    }

    /// The zones of a list, as [`kqps_recipe::zones`] writes it: a name and a file on each line,
    /// each file relative to the list's folder.
    ///
    /// # Errors
    ///
    /// If the list cannot be read, or a line has no file.
    pub fn listed(list: &Path) -> io::Result<Vec<Self>> {
        let folder = list.parent().unwrap_or(Path::new(""));
        let zone = |line: io::Result<String>| {
            let line = line?;
            let (origin, file) = line.split_once(' ').ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("no file of a zone in `{line}`"))
            })?;
            Ok(Self::new(origin, folder.join(file)))
        };
        BufReader::new(File::open(list)?).lines().map(zone).collect()
    }
}

/// A copy of a master file in this folder, which is made if it does not exist.
///
/// # Errors
///
/// If it cannot be written.
pub fn copy(file: &Path, folder: &Path) -> io::Result<TempPath> {
    std::fs::create_dir_all(folder)?;
    let copy = tempfile::Builder::new().suffix(".zone").tempfile_in(folder)?.into_temp_path();
    std::fs::copy(file, &copy)?;
    Ok(copy)
}

/// The line before the records that change.
const CHANGES: &[u8] = b"\n; records that change with the serial\n";

/// Raises the serial of a zone's SOA by one in its master file, which a new file then replaces, and changes the addresses of so
/// many names below the zone. If the file has none of these names, they are added. Returns the serial before.
///
/// # Errors
///
/// If the file cannot be read or replaced, or has no SOA record with a serial.
pub fn renew(file: &Path, origin: &str, changes: u32) -> io::Result<u32> {
    let mut text = std::fs::read(file)?;
    let no_serial = || io::Error::new(io::ErrorKind::InvalidData, "it has no SOA record with a serial");
    let (at, before) = serial_of(&text).ok_or_else(no_serial)?;
    let serial = before.wrapping_add(1);
    text.splice(at, serial.to_string().into_bytes());
    if let Some(at) = text.windows(CHANGES.len()).rposition(|part| part == CHANGES) {
        text.truncate(at);
    }
    if changes > 0 {
        text.extend_from_slice(CHANGES);
        for number in 0..changes {
            writeln!(text, "kqps-change-{number}.{origin} 60 IN A 192.0.2.{}", 1 + serial % 2)?;
        }
    }
    write_whole(file, &text)?;
    Ok(before)
}

/// The serial of a zone's SOA, and where it stands in the text. The server's name, the contact and perhaps a bracket
/// stand before it.
fn serial_of(text: &[u8]) -> Option<(Range<usize>, u32)> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let mut at = 0;
    let words = text.split(is_space).map(|word| {
        let from = at;
        at += word.len() + 1;
        (from..from + word.len(), word)
    });
    let is_word = |word: &[u8]| !word.is_empty() && word != b"(";
    let mut after_soa = words.skip_while(|(_, word)| *word != b"SOA").filter(|(_, word)| is_word(word));
    let (range, serial) = after_soa.nth(3)?;
    Some((range, std::str::from_utf8(serial).ok()?.parse().ok()?))
}

/// Adds the texts of `{origin}`, `{zone}` and `{primary_port}`, which are those of the first zone; and of `{zones}`, which is
/// the text `each` for every zone, or `secondary` for those with a primary.
pub(super) fn with(
    values: Values,
    (each, secondary): (Option<&str>, Option<&str>),
    zones: &[Zone],
) -> Values {
    let Some(first) = zones.first() else { return values };
    let values = with_zone(values, first);
    let Some(each) = each else { return values };
    let mut all = String::new();
    let mut one = values.clone();
    for zone in zones {
        one = with_zone(one, zone);
        all.push_str(&one.fill(secondary.filter(|_| zone.primary.is_some()).unwrap_or(each)));
    }
    values.with("zones", &all)
}

/// The port of a primary where there is none, since some configurations name one in any case.
const NO_PRIMARY: u16 = 53;

fn with_zone(values: Values, zone: &Zone) -> Values {
    values
        .with("origin", &zone.origin)
        .with("zone", &zone.file.display())
        .with("primary_port", &zone.primary.unwrap_or(NO_PRIMARY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_zone_has_its_text_and_the_first_stands_alone() {
        let zone = |name: &str| Zone::new(format!("{name}."), format!("/z/{name}"));
        let values = Values::default().with("port", &53);
        let each = (Some("zone {origin} {zone} on {port}\n"), None);
        let values = with(values, each, &[zone("a.test"), zone("b.test")]);
        assert_eq!(
            values.fill("{origin}\n{zones}{zone}"),
            "a.test.\nzone a.test. /z/a.test on 53\nzone b.test. /z/b.test on 53\n/z/a.test"
        );
    }

    #[test]
    fn a_zone_with_a_primary_has_a_text_of_its_own() {
        let first = Zone { primary: Some(5301), ..Zone::new("a.test.", "/z/a") };
        let texts = (Some("zone {origin}\n"), Some("secondary {origin} of {primary_port}\n"));
        let values = with(Values::default(), texts, &[first, Zone::new("b.test.", "/z/b")]);
        assert_eq!(values.fill("{zones}{primary_port}"), "secondary a.test. of 5301\nzone b.test.\n5301");
    }

    #[test]
    fn so_many_records_change_with_the_serial() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.zone");
        std::fs::write(&file, "@ SOA a b 7 1 1 1 1\n@ NS a").unwrap();
        let renewed = |changes| {
            let before = renew(&file, "a.test.", changes).unwrap();
            (before, std::fs::read_to_string(&file).unwrap())
        };
        let text = |serial: u32, records: &str| {
            format!("@ SOA a b {serial} 1 1 1 1\n@ NS a\n; records that change with the serial\n{records}")
        };
        let (one, two) = ("kqps-change-0.a.test. 60 IN A 192.0.2.", "kqps-change-1.a.test. 60 IN A 192.0.2.");
        assert_eq!(renewed(2), (7, text(8, &format!("{one}1\n{two}1\n"))));
        assert_eq!(renewed(2), (8, text(9, &format!("{one}2\n{two}2\n"))));
        assert_eq!(renewed(1), (9, text(10, &format!("{one}1\n"))));
        assert_eq!(renewed(0), (10, "@ SOA a b 11 1 1 1 1\n@ NS a".to_owned()));
    }

    #[test]
    fn a_zone_gets_the_next_serial() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.zone");
        let renewed = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let renewed = renew(&file, "a.", 0);
            renewed.map(|_| std::fs::read_to_string(&file).unwrap()).map_err(|error| error.to_string())
        };
        for (text, wanted) in [
            ("@ SOA a b 1 7200 1 1 1\n@ NS a\n", "@ SOA a b 2 7200 1 1 1\n@ NS a\n"),
            ("@ 60 IN SOA a. b. (\n  4294967295\n 7 )", "@ 60 IN SOA a. b. (\n  0\n 7 )"),
        ] {
            assert_eq!(renewed(text).unwrap(), wanted);
        }
        for text in ["", "@ NS a\n", "@ SOA a b", "@ SOA a b c 1"] {
            assert!(renewed(text).unwrap_err().contains("no SOA record"), "{text}");
        }
    }

    #[test]
    fn a_list_has_a_name_and_a_file_on_each_line() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("zones.list");
        std::fs::write(&list, "a.test. zones/a.zone\nb.test. zones/of b.zone\n").unwrap();
        let zones = Zone::listed(&list).unwrap();
        let file = |name: &str| folder.path().join(name);
        assert_eq!(
            zones,
            [Zone::new("a.test.", file("zones/a.zone")), Zone::new("b.test.", file("zones/of b.zone"))]
        );
        std::fs::write(&list, "a.test.\n").unwrap();
        assert_eq!(Zone::listed(&list).unwrap_err().to_string(), "no file of a zone in `a.test.`");
    }

    #[test]
    fn without_a_text_there_is_but_one() {
        let zones = [Zone::new("a.test.", "/z/a")];
        assert_eq!(
            with(Values::default(), (None, None), &zones).fill("{origin} {zone} {zones}"),
            "a.test. /z/a {zones}"
        );
    }
}
