//! Settings of network devices that their drivers keep: numbers of queues, rings, delays of interrupts, the spreading
//! of packets over queues, offloads. The ioctl `SIOCETHTOOL` reads and sets them, by the commands of linux/ethtool.h
//! (ethtool(8)).
//!
//! Devices are those of the calling thread's network namespace; an unknown name is the error `ENODEV`. Reading needs
//! no privilege, setting needs `CAP_NET_ADMIN`. A setting that a driver does not have reads as `None`, and setting it
//! is the error `EOPNOTSUPP`.

mod channels;
mod coalesce;
pub(crate) mod counters;
mod driver;
mod features;
mod hash_fields;
mod names;
mod request;
mod rings;
mod spreading;
pub(crate) mod value;

#[cfg(test)]
mod tests;

pub use channels::{Channels, channels, set_channels};
pub use coalesce::{Coalesce, coalesce, set_coalesce};
pub use driver::{DriverInfo, driver_info, permanent_mac};
pub use features::{Feature, features, kernel_name, set_feature, short_name};
pub use hash_fields::{Flow, HashFields, UnknownField, hash_fields, set_hash_fields};
pub use rings::{Rings, rings, set_rings};
pub use spreading::{Spreading, set_spreading, spreading};
pub use value::is_linked;
