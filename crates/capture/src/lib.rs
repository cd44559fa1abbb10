//! Captures of DNS traffic, read message by message: pcap, pcapng and dnstap, plain or compressed by gzip or zstd, from
//! files and pipes. [`write`](mod@write) writes captures, for tests and for other programs.
//!
//! For: which client asked which server, when, over which transport and connection, and the bytes of query and
//! response. Not for: the fields of messages (`message`), and queries that are ready to be sent (`dataset`).
//!
//! C-DNS (RFC 8618) is not read, since no maintained crate reads it. Traffic that is encrypted cannot be read either;
//! of DNS over TLS, HTTPS and QUIC, dnstap alone holds the messages.
//!
//! Invariant: every packet is counted once, memory is bounded whatever the bytes are, and no bytes cause a panic. No
//! socket, no clock.

mod compression;
mod container;
mod counts;
mod dnstap;
mod duplicates;
mod ends;
mod error;
mod flow;
mod foreign;
mod format;
mod fragments;
mod ip;
mod link;
mod logged;
mod message;
mod packets;
mod reader;
mod settings;
mod table;
mod tcp;
mod timeline;
mod window;
pub mod write;

pub use counts::{Counts, Why, ports_in_words};
pub use error::CaptureError;
pub use foreign::{FIRST_BYTES, Foreign, is_binary};
pub use format::is_capture;
pub use message::{Event, Kind, Message, Transport};
pub use reader::Reader;
pub use settings::Settings;
