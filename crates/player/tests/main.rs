//! Trials as the player plays them: in this process, against subjects of the tests. All of it is one test program, so that
//! tests, which mostly wait for their loads, share the cores. `failing` and `flood` are programs of their own.

mod accounts;
mod capture;
mod classes;
mod connected;
mod early_data;
mod ends;
mod hostile;
mod http;
mod loops;
mod network;
mod offered;
mod opening;
mod past;
mod patience;
mod quic;
mod records;
mod replay;
mod replay_connections;
mod short;
mod sockets;
mod start;
mod stream;
mod support;
mod tcp;
mod tls;
mod trouble;
mod xdp;
mod xdp_killed;
mod xdp_memory;
mod xdp_replay;
mod xdp_tcp;
mod xdp_ways;
