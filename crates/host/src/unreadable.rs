//! Notes of what could not be read.

use std::collections::BTreeMap;
use std::fmt::Display;

/// The reading. If it failed, its default, with an entry in `unreadable`.
pub(crate) fn noted<T: Default, E: Display>(
    what: impl Into<String>,
    read: Result<T, E>,
    unreadable: &mut BTreeMap<String, String>,
) -> T {
    read.unwrap_or_else(|why| {
        unreadable.insert(what.into(), why.to_string());
        T::default()
    })
}
