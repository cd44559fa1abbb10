//! Many zones: a file each, and lists of them for the servers that load them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use kqps_files::whole;

use super::plan::{Plan, Zone};
use super::zone;

/// A folder with more files than this has one level of subfolders.
const FILES_FLAT_MAX: u64 = 10_000;

/// The list of a folder's zones: a line `zone file` for each, with the file relative to the folder.
pub const LIST: &str = "zones.list";

/// The catalogues for servers: file, its heading, and an entry. `{zone}` and `{file}` stand for a zone's origin and its
/// file's absolute path.
const CATALOGUES: [(&str, &str, &str); 3] = [
    ("named.zones", "", "zone \"{zone}\" { type primary; file \"{file}\"; check-names ignore; };\n"),
    ("nsd.zones", "", "zone:\n    name: \"{zone}\"\n    zonefile: \"{file}\"\n"),
    ("knot.zones", "zone:\n", "  - domain: \"{zone}\"\n    file: \"{file}\"\n"),
];

/// Writes all zones of a plan into a folder, which appears whole or not at all. The folder must be absent or empty. Calls
/// `finish` with the origin and the file of every zone that loads.
pub(super) fn write(
    plan: &Plan<'_>,
    folder: &Path,
    finish: &mut dyn FnMut(&str, &Path) -> io::Result<()>,
) -> io::Result<()> {
    whole::whole_folder(folder, |unfinished, path| {
        let mut lists = Lists::new(plan, unfinished, path)?;
        let configured = plan.recipe.zones + plan.recipe.broken;
        let mut zone = plan.zone(0);
        for number in 0..configured {
            plan.turn_to(&mut zone, number);
            let relative = lists.file_of(&zone)?;
            let file = unfinished.join(&relative);
            let mut out = BufWriter::with_capacity(1 << 16, File::create(&file)?);
            if number < plan.recipe.zones {
                zone::write(plan, &zone, &mut out)?;
                out.flush()?;
                finish(&String::from_utf8_lossy(zone.origin.absolute()), &file)?;
            } else {
                zone::write_broken(&zone, &mut out)?;
                out.flush()?;
            }
            lists.add(&zone, &relative)?;
        }
        lists.finish()
    })
}

/// The lists while they grow.
struct Lists<'a> {
    /// The path of the folder while it is made, and its final path.
    unfinished: &'a Path,
    folder: &'a Path,
    hashed: bool,
    list: BufWriter<File>,
    catalogues: Vec<(&'static str, BufWriter<File>)>,
}

impl<'a> Lists<'a> {
    fn new(plan: &Plan<'_>, unfinished: &'a Path, folder: &'a Path) -> io::Result<Self> {
        fs::create_dir(unfinished.join("zones"))?;
        let create = |name: &str| File::create(unfinished.join(name)).map(BufWriter::new);
        let mut catalogues = Vec::new();
        for (name, head, form) in CATALOGUES {
            let mut file = create(name)?;
            file.write_all(head.as_bytes())?;
            catalogues.push((form, file));
        }
        let hashed = plan.recipe.zones + plan.recipe.broken > FILES_FLAT_MAX;
        Ok(Self { unfinished, folder, hashed, list: create(LIST)?, catalogues })
    }

    /// The path of a zone's file, relative to the folder. Makes the file's own folder.
    fn file_of(&self, zone: &Zone) -> io::Result<PathBuf> {
        let name = String::from_utf8_lossy(zone.origin.relative()).into_owned();
        // Replace letters of an origin with escapes that mean something in a path or a server's pattern.
        let plain =
            name.replace(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter), "_");
        let plain = if plain.trim_matches('_').is_empty() { "root".to_owned() } else { plain };
        let mut relative = PathBuf::from("zones");
        if self.hashed {
            let hash = blake3::hash(name.as_bytes());
            relative.push(format!("{:02x}", hash.as_bytes()[0]));
            fs::create_dir_all(self.unfinished.join(&relative))?;
        }
        relative.push(format!("{plain}.zone"));
        Ok(relative)
    }

    fn add(&mut self, zone: &Zone, relative: &Path) -> io::Result<()> {
        let origin = String::from_utf8_lossy(zone.origin.absolute()).into_owned();
        writeln!(self.list, "{origin} {}", relative.display())?;
        let file = self.folder.join(relative).display().to_string();
        for (form, catalogue) in &mut self.catalogues {
            catalogue.write_all(form.replace("{zone}", &origin).replace("{file}", &file).as_bytes())?;
        }
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        for mut file in self.catalogues.into_iter().map(|(_, file)| file).chain([self.list]) {
            file.flush()?;
        }
        Ok(())
    }
}
