//! Connections over TCP between two ends of a target.

use std::net::{TcpListener, TcpStream};

use kqps_kernel::tcp_client::TcpClient;

thread_local! {
    /// The listening socket of all connections of a thread.
    static LISTENER: TcpListener = TcpListener::bind("127.0.0.1:0").expect("a free port");
}

/// The two ends of a connection. The client's end leaves no port in `TIME_WAIT`.
pub(crate) fn pair() -> (TcpClient, TcpStream) {
    LISTENER.with(|listener| {
        let address = listener.local_addr().expect("it is bound");
        let client = TcpClient::connect(address, None).expect("it listens");
        client.close_by_reset().expect("a socket");
        let (server, _) = listener.accept().expect("a client waits");
        server.set_nodelay(true).expect("a socket");
        (client, server)
    })
}
