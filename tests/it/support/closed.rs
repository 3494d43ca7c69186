//! A port on which nobody listens, and nobody will: it stays taken for as long as this lives.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

pub struct ClosedPort {
    pub address: SocketAddr,
    _bound: Socket,
}

impl ClosedPort {
    /// Whoever connects is refused.
    pub fn take() -> ClosedPort {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        bound.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port");
        let address = bound.local_addr().ok().and_then(|address| address.as_socket()).expect("its address");
        ClosedPort { address, _bound: bound }
    }
}
