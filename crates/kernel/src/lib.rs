//! Safe wrappers over the system calls that playing and serving need.
//!
//! For: clocks, alarms, UDP sockets one datagram or a batch at a time (with segmentation offload, kernel timestamps
//! and the destination address), readiness calls, `io_uring`, frames past the network stack (`AF_XDP`), a tap of the
//! packets that pass an interface, pinning, priority, steering, file mapping, worker processes, settings of network
//! devices, counts and samples of kernel events, and a probe that reports what works on this host and why the rest does
//! not.
//! Not for: what the bytes mean, nor when to send them.
//!
//! Invariant: this is the only crate with `unsafe`, and it knows nothing of DNS. Every `unsafe` block says what
//! makes it sound.

pub mod address;
pub mod affinity;
pub mod alarm;
pub mod batch;
pub mod clock;
pub mod ephemeral;
pub mod epoll;
pub mod errno;
pub mod ethtool;
pub mod heap;
pub mod idle;
pub mod inherited;
pub mod interface;
pub mod interrupts;
pub mod limits;
pub mod local_address;
pub mod map;
pub mod namespace;
pub mod perf;
pub mod poll;
pub mod port;
pub mod priority;
pub mod probe;
pub mod process;
pub mod select;
pub mod signal;
pub mod steer;
pub mod tap;
pub mod tcp;
pub mod tcp_client;
pub mod tcp_info;
pub mod tracefs;
pub mod tracepoint;
pub mod udp;
pub mod uring;
pub mod uring_send;
pub mod xdp;

mod bpf;
mod buffers;
mod cmsg;
mod headers;
mod memory;
mod perf_event;
mod reach;
mod sys;

pub use address::{Address, LocalAddress};
pub use batch::{RecvBatch, SendBatch, Wait};
pub use udp::{UdpOptions, UdpSocket};
