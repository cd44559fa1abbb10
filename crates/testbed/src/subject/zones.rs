//! The zones that a subject serves, as its configuration lists them: one text for each.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};

use kqps_files::whole::write_whole;

use super::template::Values;

/// A zone and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The name, with a dot at the end (`bench.test.`).
    pub origin: String,
    /// The path of the master file. A zone that must fail to load has one that does not exist.
    pub file: PathBuf,
}

impl Zone {
    /// A zone of this name with this master file.
    pub fn new(origin: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self { origin: origin.into(), file: file.into() }
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

/// Raises the serial of a zone's SOA by one in its master file, which a new file then replaces.
///
/// # Errors
///
/// If the file cannot be read or replaced, or has no SOA record with a serial.
pub fn renew(file: &Path) -> io::Result<()> {
    let mut text = std::fs::read(file)?;
    let no_serial = || io::Error::new(io::ErrorKind::InvalidData, "it has no SOA record with a serial");
    let (at, serial) = serial_of(&text).ok_or_else(no_serial)?;
    text.splice(at, serial.wrapping_add(1).to_string().into_bytes());
    write_whole(file, &text)
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

/// Adds the texts of `{origin}` and `{zone}`, which are those of the first zone; and of `{zones}`, which is the
/// text `each` for every zone.
pub(super) fn with(values: Values, each: Option<&str>, zones: &[Zone]) -> Values {
    let Some(first) = zones.first() else { return values };
    let values = with_zone(values, first);
    let Some(each) = each else { return values };
    let mut all = String::new();
    let mut one = values.clone();
    for zone in zones {
        one = with_zone(one, zone);
        all.push_str(&one.fill(each));
    }
    values.with("zones", &all)
}

fn with_zone(values: Values, zone: &Zone) -> Values {
    values.with("origin", &zone.origin).with("zone", &zone.file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_zone_has_its_text_and_the_first_stands_alone() {
        let zone = |name: &str| Zone::new(format!("{name}."), format!("/z/{name}"));
        let values = Values::default().with("port", &53);
        let each = Some("zone {origin} {zone} on {port}\n");
        let values = with(values, each, &[zone("a.test"), zone("b.test")]);
        assert_eq!(
            values.fill("{origin}\n{zones}{zone}"),
            "a.test.\nzone a.test. /z/a.test on 53\nzone b.test. /z/b.test on 53\n/z/a.test"
        );
    }

    #[test]
    fn a_zone_gets_the_next_serial() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.zone");
        let renewed = |text: &str| {
            std::fs::write(&file, text).unwrap();
            renew(&file).map(|()| std::fs::read_to_string(&file).unwrap()).map_err(|error| error.to_string())
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
            with(Values::default(), None, &zones).fill("{origin} {zone} {zones}"),
            "a.test. /z/a {zones}"
        );
    }
}
