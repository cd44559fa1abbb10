//! Placeholder.
/// The store.
#[derive(Debug)]
pub struct Store;
