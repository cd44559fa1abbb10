//! Names of the kernel's errors.

/// The name of an error that opening a socket, sending or receiving can end with, such as `EPERM`; for others
/// `errno-` and the number.
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
