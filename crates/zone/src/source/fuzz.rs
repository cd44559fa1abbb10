//! Lists of zones and configurations of BIND of arbitrary bytes, for the fuzz target. It panics if a property does not hold.

use std::path::Path;

use super::{SourceError, Sources, catalogue, list, text_of};

/// The word by which a configuration names other files. The target opens none.
const INCLUDE: &[u8] = b"include";

/// Takes any bytes as a list of zones, and as a configuration. Every zone has a name and a file, and every error can be
/// printed.
pub fn lists(bytes: &[u8]) {
    let path = Path::new("folder/zones");
    let Ok(text) = text_of(path, bytes) else { return };
    is_sound(list::read(path, text));
    let has_includes = text.windows(INCLUDE.len()).any(|word| word.eq_ignore_ascii_case(INCLUDE));
    catalogue::is_one(text);
    if !has_includes {
        is_sound(catalogue::read(path, text));
    }
}

fn is_sound(read: Result<Sources, SourceError>) {
    match read {
        Ok(sources) => {
            assert!(!sources.zones.is_empty());
            for zone in &sources.zones {
                assert!(zone.apex.is_some());
            }
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("folder/zones") && !said.contains(char::is_control), "{said}");
        }
    }
}
