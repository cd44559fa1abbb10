//! Settings by the caller for all connections of a thread.

use std::time::Duration;

/// Limits and times of connections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Connections at once, at most 2^30.
    pub connections: u32,
    /// Bytes of the longest packet of IP, headers included, 576 or more.
    pub mtu: u16,
    /// The window that peers are granted, bytes, at most 1 GiB. Of what arrives out of order, 32 pieces of 1536 bytes are
    /// held.
    pub receive_window: u32,
    /// Bytes that one connection takes before its peer has acknowledged them.
    pub send_buffer: u32,
    /// Bytes that all connections together take, in blocks of 256 bytes. Memory is used as it is needed.
    pub send_pool: usize,
    /// Bytes that all connections together hold of what arrived out of order, in blocks of 1536 bytes.
    pub receive_pool: usize,
    /// Ended pairs that are remembered, so that a FIN that comes once more gets its ACK; 16 bytes each.
    pub remembered: u32,
    /// The time before a SYN is sent again; each time doubles it. Also that of data before a round trip was measured.
    pub syn_timeout: Duration,
    /// The least time before data is sent again.
    pub rto_least: Duration,
    /// The most time between two retransmissions.
    pub rto_most: Duration,
    /// How often a SYN is sent again before the connection times out.
    pub syn_retries: u8,
    /// How often data is sent again, or a peer that answers nothing is probed, before the connection times out.
    pub data_retries: u8,
    /// How often a FIN without data is sent again before the connection times out.
    pub fin_retries: u8,
    /// How long a connection that the caller has closed waits for the peer's FIN.
    pub fin_wait: Duration,
    /// How long an ACK waits for data to go with; 0 if it does not. Every second segment is acknowledged at once.
    pub ack_delay: Duration,
    /// Whether timestamps are offered.
    pub timestamps: bool,
}

impl Default for Settings {
    /// Values of Linux, where it has them: the first timeout of RFC 6298, 200 ms at least, 120 s at most, six SYNs
    /// more, and ACKs that wait for 40 ms.
    fn default() -> Self {
        Self {
            connections: 1 << 16,
            mtu: 1500,
            receive_window: 1 << 18,
            send_buffer: 1 << 16,
            send_pool: 64 << 20,
            receive_pool: 16 << 20,
            remembered: 1 << 16,
            syn_timeout: Duration::from_secs(1),
            rto_least: Duration::from_millis(200),
            rto_most: Duration::from_mins(2),
            syn_retries: 6,
            data_retries: 15,
            fin_retries: 8,
            fin_wait: Duration::from_mins(1),
            ack_delay: Duration::from_millis(40),
            timestamps: true,
        }
    }
}
