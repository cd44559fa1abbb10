//! Circles of imports: no two files of a crate may need each other, directly or through other files. A file may
//! need a file that contains it, since a module and its parent are one thing in two files.

mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Source;
use names::{Names, Path as Module, Written};

/// The most re-exports through which a path is followed.
const HOPS_MOST: usize = 6;

/// Every circle.
pub(super) fn faults(sources: &[Source]) -> Vec<String> {
    let mut crates: BTreeMap<&Path, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        if let Some(folder) = source.path.ancestors().find(|folder| folder.ends_with("src")) {
            crates.entry(folder.parent().unwrap_or(folder)).or_default().push(source);
        }
    }
    let of_crate = |(folder, sources): (&Path, Vec<&Source>)| {
        let circles = Crate::read(folder, &sources).circles();
        let fault =
            |circle| format!("{}: these files import each other: {}", folder.display(), shown(circle));
        circles.iter().map(|circle| fault(circle)).collect::<Vec<_>>()
    };
    crates.into_iter().flat_map(of_crate).collect()
}

fn shown(circle: &[Module]) -> String {
    circle.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(", ")
}

/// The files of a crate, each as the module that it is.
struct Crate {
    files: BTreeMap<Module, Names>,
}

impl Crate {
    fn read(folder: &Path, sources: &[&Source]) -> Self {
        let has_library = sources.iter().any(|source| source.path.ends_with("src/lib.rs"));
        let read = |source: &&Source| {
            let within = source.path.strip_prefix(folder.join("src")).ok()?;
            let module = module_of(within).filter(|_| !has_library || within != Path::new("main.rs"))?;
            let names = Names::from_code(source.text.parse().ok()?, &module);
            Some((module, names))
        };
        let mut files: BTreeMap<Module, Names> = sources.iter().filter_map(read).collect();
        let of_tests = |(module, names): (&Module, &Names)| {
            names
                .tests
                .iter()
                .map(|test| [module.as_slice(), std::slice::from_ref(test)].concat())
                .collect::<Vec<_>>()
        };
        let tests: Vec<Module> = files.iter().flat_map(of_tests).collect();
        files.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self { files }
    }

    /// Files that need each other, the largest circle first.
    fn circles(&self) -> Vec<Vec<Module>> {
        let needs: BTreeMap<&Module, BTreeSet<&Module>> =
            self.files.iter().map(|(module, names)| (module, self.needed(module, names))).collect();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            needs.keys().map(|module| (*module, reach(module, &needs))).collect();
        let mut circles: Vec<Vec<Module>> = Vec::new();
        for (module, others) in &reached {
            let is_placed = circles.iter().any(|circle| circle.contains(module));
            if others.contains(module) && !is_placed {
                let circle = others.iter().filter(|other| reached[**other].contains(module));
                circles.push(circle.map(|other| (*other).clone()).collect());
            }
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// The files that a file needs, without those that contain it.
    fn needed(&self, module: &Module, names: &Names) -> BTreeSet<&Module> {
        let named =
            names.written.iter().filter_map(|written| self.file_of(&self.absolute(written)?, HOPS_MOST));
        named.filter(|needed| !module.starts_with(needed)).collect()
    }

    /// The path from the crate's root; `None` if it leads out of the crate.
    fn absolute(&self, written: &Written) -> Option<Module> {
        let (module, segments) = (&written.module, &written.segments);
        let supers = segments.iter().take_while(|segment| *segment == "super").count();
        match segments[0].as_str() {
            "crate" => Some(segments[1..].to_vec()),
            "self" => Some([module, &segments[1..]].concat()),
            "super" => Some([module.get(..module.len().checked_sub(supers)?)?, &segments[supers..]].concat()),
            child => {
                let child = [module.as_slice(), &[child.to_owned()]].concat();
                self.files.contains_key(&child).then(|| [module, segments.as_slice()].concat())
            }
        }
    }

    /// The file that defines what a path leads to, followed through the imports of the files on its way.
    fn file_of(&self, path: &[String], hops: usize) -> Option<&Module> {
        let length = (0..=path.len()).rev().find(|&length| self.files.contains_key(&path[..length]))?;
        let (module, names) = self.files.get_key_value(&path[..length])?;
        let imported = path.get(length).filter(|_| hops > 0).and_then(|name| names.imports.get(name));
        let followed = imported.and_then(|segments| {
            let written = Written { module: module.clone(), segments: segments.clone() };
            self.file_of(&[&self.absolute(&written)?, &path[length + 1..]].concat(), hops - 1)
        });
        Some(followed.unwrap_or(module))
    }
}

/// All files that a file needs, directly or through others. The file itself is among them only if it is in a circle.
fn reach<'a>(from: &'a Module, needs: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> BTreeSet<&'a Module> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        next.extend(needs[module].iter().filter(|needed| reached.insert(**needed)));
    }
    reached
}

/// The module that a file within `src` is.
fn module_of(file: &Path) -> Option<Module> {
    let mut module: Module =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if matches!(module.last()?.as_str(), "mod" | "lib" | "main") {
        module.pop();
    }
    Some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate of these files.
    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source {
                path: Path::new("crates/x/src").join(path),
                text: (*text).to_owned(),
                syntax: syn::parse_file(text).unwrap(),
            })
            .collect();
        let sources: Vec<&Source> = sources.iter().collect();
        Crate::read(Path::new("crates/x"), &sources).circles().iter().map(|circle| shown(circle)).collect()
    }

    #[test]
    fn files_that_need_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B(super::c::C);"),
            ("c.rs", "use crate::a::A; pub struct C;"),
        ];
        assert_eq!(circles(&files), ["a, b, c"]);
        assert!(circles(&files[..3]).is_empty());
    }

    #[test]
    fn a_child_may_need_its_parent() {
        let files =
            [("lib.rs", "mod a;"), ("a.rs", "mod b; use b::B; pub struct A;"), ("a/b.rs", "use super::A;")];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn a_name_is_followed_to_the_file_that_defines_it() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod c; pub use c::C;"),
            ("a/c.rs", "use crate::b::B; pub struct C;"),
            ("b.rs", "use crate::a::C; pub struct B;"),
        ];
        assert_eq!(circles(&files), ["a::c, b"]);
    }

    #[test]
    fn tests_are_in_no_circle() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
        ];
        assert!(circles(&files).is_empty());
    }
}
