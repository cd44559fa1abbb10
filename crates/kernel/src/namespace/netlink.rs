//! Requests to the kernel's routing subsystem (rtnetlink(7)), one at a time; each waits for its
//! acknowledgement.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// More bytes than any acknowledgement, which contains the request.
const REPLY_BYTES: usize = 4096;

/// The state that a request requires of the object that it names, and its effect on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestMode {
    /// The object must not exist; the request creates it.
    New,
    /// The request creates the object or replaces it.
    Set,
    /// The object must exist; the request changes it.
    Changed,
}

/// A connection to the kernel in the network namespace of the thread that opened it.
pub(crate) struct Netlink(Socket);

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// Sends one request, and returns when the kernel has executed it.
    pub(crate) fn request(&self, message: RouteNetlinkMessage, wanted: RequestMode) -> io::Result<()> {
        let wanted = match wanted {
            RequestMode::New => NLM_F_CREATE | NLM_F_EXCL,
            RequestMode::Set => NLM_F_CREATE | NLM_F_REPLACE,
            RequestMode::Changed => 0,
        };
        self.send(message, NLM_F_REQUEST | NLM_F_ACK | wanted)?;
        let mut reply = Vec::with_capacity(REPLY_BYTES);
        self.0.recv(&mut reply, 0)?;
        let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply).map_err(io::Error::other)?;
        match reply.payload {
            // An acknowledgement is an error with number 0.
            NetlinkPayload::Error(error) if error.code.is_none() => Ok(()),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            other => Err(io::Error::other(format!("the kernel answered a request with {other:?}"))),
        }
    }

    /// Requests one object. If it does not exist, the error is that of the kernel, such as `ENOENT` or `ENETUNREACH`.
    pub(crate) fn ask(&self, message: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        self.send(message, NLM_F_REQUEST)?;
        let (reply, _) = self.0.recv_from_full()?;
        let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply).map_err(io::Error::other)?;
        match reply.payload {
            NetlinkPayload::InnerMessage(inner) => Ok(inner),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            other => Err(io::Error::other(format!("the kernel answered a request with {other:?}"))),
        }
    }

    /// Requests all objects of a kind.
    pub(crate) fn dump(&self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.send(message, NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut all = Vec::new();
        loop {
            let (datagram, _) = self.0.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let message =
                    NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
                // Messages begin at multiples of four bytes (netlink(3)).
                let length = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or_default();
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(all),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(inner) => all.push(inner),
                    _ => (),
                }
            }
        }
    }

    fn send(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = flags;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.0.send(&bytes, 0).map(drop)
    }
}
