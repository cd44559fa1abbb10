//! The built-in recipes, with which the program works in any folder.

/// The recipes' files, each named for its recipe.
const RECIPES: [(&str, &str); 8] = [
    ("recipes/tiny.toml", include_str!("../../../recipes/tiny.toml")),
    ("recipes/root.toml", include_str!("../../../recipes/root.toml")),
    ("recipes/tld.toml", include_str!("../../../recipes/tld.toml")),
    ("recipes/hosting.toml", include_str!("../../../recipes/hosting.toml")),
    ("recipes/resolver.toml", include_str!("../../../recipes/resolver.toml")),
    ("recipes/windows-positive.toml", include_str!("../../../recipes/windows-positive.toml")),
    ("recipes/windows-mix.toml", include_str!("../../../recipes/windows-mix.toml")),
    ("recipes/attack.toml", include_str!("../../../recipes/attack.toml")),
];

/// The names of the built-in recipes.
pub fn names() -> Vec<&'static str> {
    RECIPES.iter().map(|(file, _)| name_of(file)).collect()
}

/// The file name and the text of a built-in recipe; `None` if there is no such recipe.
pub fn text(name: &str) -> Option<(&'static str, &'static str)> {
    RECIPES.iter().find(|(file, _)| name_of(file) == name).copied()
}

fn name_of(file: &'static str) -> &'static str {
    file.trim_start_matches("recipes/").trim_end_matches(".toml")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recipe;

    #[test]
    fn all_are_right_and_say_what_they_are_about() {
        for name in names() {
            let recipe = Recipe::named(name, &[]).unwrap_or_else(|error| panic!("{error}"));
            assert!(recipe.about.ends_with('.'), "{name}: {}", recipe.about);
        }
    }

    /// The recipe of the tree of an Internet, which is of another kind: `kqps-internet` carries it.
    const OTHER: &str = "internet.toml";

    #[test]
    fn every_recipe_in_the_folder_is_carried() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes");
        let files = std::fs::read_dir(folder).expect("the folder");
        let mut there: Vec<_> =
            files.map(|file| file.expect("a file").file_name().into_string().expect("a name")).collect();
        let mut carried: Vec<_> = names().iter().map(|name| format!("{name}.toml")).collect();
        there.retain(|file| file != OTHER);
        there.sort();
        carried.sort();
        assert_eq!(there, carried);
    }
}
