//! Rust files that no crate reaches: every file must be reachable by `mod` items from a library, program or
//! test that cargo knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::ext::IdentExt as _;
use syn::{Expr, Item, Lit, Meta};

use super::Source;
use crate::workspace::{self, Metadata};

pub(super) fn faults(sources: &[Source], metadata: &Metadata) -> Vec<String> {
    let targets = metadata.packages.iter().flat_map(|package| &package.targets);
    let roots = targets.filter_map(|target| target.src_path.strip_prefix(workspace::root()).ok());
    dead(sources, roots)
        .into_iter()
        .map(|file| format!("{} is not reached by any `mod`", file.display()))
        .collect()
}

fn dead<'a>(sources: &'a [Source], roots: impl Iterator<Item = &'a Path>) -> Vec<&'a Path> {
    let known: BTreeMap<&Path, &Source> =
        sources.iter().map(|source| (source.path.as_path(), source)).collect();
    let mut reached = BTreeSet::new();
    // A root has its modules beside it, whatever its name.
    let mut to_read: Vec<(PathBuf, PathBuf)> = roots.map(|root| (root.to_owned(), folder_of(root))).collect();
    while let Some((file, modules_in)) = to_read.pop() {
        let Some(source) = known.get(file.as_path()) else { continue };
        if reached.insert(source.path.as_path()) {
            follow(&source.syntax.items, &folder_of(&file), &modules_in, &mut to_read);
        }
    }
    known.into_keys().filter(|file| !reached.contains(file)).collect()
}

/// Adds every file that `items` may refer to, with the folder of that file's own modules. The reader skips
/// files that do not exist.
fn follow(items: &[Item], folder: &Path, modules_in: &Path, to_read: &mut Vec<(PathBuf, PathBuf)>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        // A module with the name of a keyword, such as `r#gen`, is in `gen.rs`.
        let name = module.ident.unraw().to_string();
        let own_folder = modules_in.join(&name);
        if let Some((_, inner)) = &module.content {
            follow(inner, folder, &own_folder, to_read);
        } else if let Some(path) = path_attribute(&module.attrs) {
            let file = folder.join(path);
            to_read.push((file.clone(), folder_of(&file)));
        } else {
            to_read.push((modules_in.join(format!("{name}.rs")), own_folder.clone()));
            to_read.push((own_folder.join("mod.rs"), own_folder));
        }
    }
}

/// The text of `#[path = "…"]`.
fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.into(), syntax: syn::parse_file(text).unwrap() }
    }

    #[test]
    fn modules_are_followed_and_the_rest_is_dead() {
        let sources = [
            source("a/src/lib.rs", "mod io; mod inner { mod deep; } mod r#gen;"),
            source("a/src/gen.rs", ""),
            source("a/src/io/mod.rs", "mod plain;"),
            source("a/src/io/plain.rs", "mod part;"),
            source("a/src/io/plain/part.rs", ""),
            source("a/src/inner/deep.rs", ""),
            source("a/src/orphan.rs", ""),
        ];
        let dead = dead(&sources, [Path::new("a/src/lib.rs")].into_iter());
        assert_eq!(dead, [Path::new("a/src/orphan.rs")]);
    }
}
