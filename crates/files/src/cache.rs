//! The user's cache folder of kqps.

use std::path::PathBuf;

/// The user's cache folder of kqps: `$XDG_CACHE_HOME/kqps`, or `~/.cache/kqps`. `None` if neither variable
/// holds an absolute path.
pub fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(caches.join("kqps"))
}
