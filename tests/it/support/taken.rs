//! Ports that stay taken for as long as these live, so that no other test or program gets them.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port of 127.0.0.1 on which nobody listens.
pub struct TakenPort {
    pub address: SocketAddr,
    _bound: Socket,
}

impl TakenPort {
    /// Nobody ever will: whoever connects is refused.
    pub fn closed() -> TakenPort {
        TakenPort::bind(false)
    }

    /// Only a program that is told the port can listen there, if it reuses addresses, as servers do.
    pub fn reserved() -> TakenPort {
        TakenPort::bind(true)
    }

    fn bind(reuse: bool) -> TakenPort {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        bound.set_reuse_address(reuse).expect("an option");
        bound.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port");
        let address = bound.local_addr().ok().and_then(|address| address.as_socket()).expect("its address");
        TakenPort { address, _bound: bound }
    }
}
