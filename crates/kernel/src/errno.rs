//! Symbolic names of the kernel's error numbers.

/// The number of the error "try again".
pub const EAGAIN: i32 = libc::EAGAIN;

/// The number of the error "device or resource busy".
pub const EBUSY: i32 = libc::EBUSY;

/// The number of the error "message too long".
pub const EMSGSIZE: i32 = libc::EMSGSIZE;

/// The number of the error "no such device".
pub const ENODEV: i32 = libc::ENODEV;

/// The number of the error "operation not supported".
pub const EOPNOTSUPP: i32 = libc::EOPNOTSUPP;

/// The number of the error "network is down".
pub const ENETDOWN: i32 = libc::ENETDOWN;

/// The symbolic name, such as `EPERM`, of an error that can occur when a socket is opened, sends or receives.
/// For other errors `errno-` and the number.
pub fn name(number: i32) -> String {
    let name = match number {
        libc::EPERM => "EPERM",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::EAGAIN => "EAGAIN",
        libc::ENFILE => "ENFILE",
        libc::EMFILE => "EMFILE",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EBUSY => "EBUSY",
        libc::EINVAL => "EINVAL",
        libc::EPIPE => "EPIPE",
        libc::EMSGSIZE => "EMSGSIZE",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETDOWN => "ENETDOWN",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ENOBUFS => "ENOBUFS",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        other => return format!("errno-{other}"),
    };
    name.to_owned()
}
