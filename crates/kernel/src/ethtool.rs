//! Settings and counters of a device in the calling thread's network namespace that rtnetlink does not offer: commands
//! of linux/ethtool.h to its driver.

pub(crate) mod channels;
pub(crate) mod counters;
pub(crate) mod driver;
mod request;
pub mod spreading;
pub(crate) mod value;
