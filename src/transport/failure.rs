//! What went wrong with an attempt, as one of a fixed set of wordings: without addresses, without other people's words
//! (C29), and sorted into the receiver's faults (S5) and ours (S6).

use std::io;

use rustls::CertificateError;

use super::framing::Fault;
use crate::domain::attempt::{ErrorKind, Finding};

/// Why an attempt got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The receiver's (or its network's, or its name server's) fault: it is recorded and uses up a rung.
    Theirs { kind: ErrorKind, error: &'static str },
    /// Ours (S6): the attempt is made again and nothing is recorded.
    Ours { reason: &'static str },
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Finding {
        match failure {
            Failure::Theirs { kind, error } => Finding::Failed { kind, error },
            Failure::Ours { reason } => Finding::Local { reason },
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        theirs(ErrorKind::Protocol, fault.wording())
    }
}

/// Shorthand for the tables below.
const fn theirs(kind: ErrorKind, error: &'static str) -> Failure {
    Failure::Theirs { kind, error }
}

/// Shorthand for the tables below.
const fn ours(reason: &'static str) -> Failure {
    Failure::Ours { reason }
}

pub const UNUSABLE_REQUEST: Failure =
    theirs(ErrorKind::Protocol, "the endpoint's URL or headers cannot be written as an HTTP request");
pub const BLOCKED: Failure =
    theirs(ErrorKind::BlockedAddress, "the host has no address that this installation may call");
pub const TIMEOUT: Failure = theirs(
    ErrorKind::Timeout,
    "no complete response head within the timeout; the receiver may have processed the event",
);
pub const TIMEOUT_UNSENT: Failure = theirs(ErrorKind::Timeout, "no connection within the timeout; nothing was sent");

pub const DNS_NO_ADDRESS: Failure = theirs(ErrorKind::Dns, "the host name has no address");
pub const DNS_FAILED: Failure = theirs(ErrorKind::Dns, "the host name's servers answered with an error");
pub const DNS_TIMEOUT: Failure = theirs(ErrorKind::Dns, "no answer about the host name in time");
pub const DNS_BUSY: Failure = ours("too many name lookups at once");
pub const NO_RESOLVER: Failure = ours("no name server is configured or none can be reached");

pub const REFUSED: Failure = theirs(ErrorKind::Connect, "connection refused");
pub const UNREACHABLE: Failure = theirs(ErrorKind::Connect, "the receiver's network cannot be reached");
pub const NO_CONNECTION: Failure = theirs(ErrorKind::Connect, "no connection in time");
pub const CONNECT_FAILED: Failure = theirs(ErrorKind::Connect, "the connection could not be made");
pub const NO_ROUTE: Failure = ours("this machine has no route to any network");
pub const NO_DESCRIPTORS: Failure = ours("no file descriptors left");
pub const NO_MEMORY: Failure = ours("no memory for another connection");
pub const NO_PORTS: Failure = ours("no local port left for another connection");

pub const TLS_TIMEOUT: Failure = theirs(ErrorKind::Tls, "the TLS handshake did not end in time");
pub const TLS_BROKEN: Failure = theirs(ErrorKind::Tls, "the connection broke during the TLS handshake");
pub const TLS_NOT_SPOKEN: Failure = theirs(ErrorKind::Tls, "the receiver does not speak TLS on this port");
pub const TLS_REFUSED: Failure = theirs(ErrorKind::Tls, "the receiver refused the TLS handshake");
pub const TLS_WANTS_CERTIFICATE: Failure = theirs(ErrorKind::Tls, "the receiver asks for a client certificate");
pub const TLS_INCOMPATIBLE: Failure = theirs(ErrorKind::Tls, "no TLS version or cipher suite in common");
pub const TLS_FLOOD: Failure = theirs(ErrorKind::Protocol, "more came over TLS than any response needs");
pub const TLS_FAILED: Failure = theirs(ErrorKind::Tls, "the TLS handshake failed");
pub const CERT_UNTRUSTED: Failure = theirs(ErrorKind::Tls, "the certificate is not from a trusted authority");
pub const CERT_EXPIRED: Failure = theirs(ErrorKind::Tls, "the certificate has expired");
pub const CERT_NOT_YET: Failure = theirs(ErrorKind::Tls, "the certificate is not valid yet");
pub const CERT_OTHER_HOST: Failure = theirs(ErrorKind::Tls, "the certificate is for another host");
pub const CERT_INVALID: Failure = theirs(ErrorKind::Tls, "the certificate is not valid");

pub const RESET: Failure = theirs(ErrorKind::Reset, "the connection broke before the response head was complete");
pub const CLOSED: Failure = theirs(ErrorKind::Reset, "the receiver closed the connection without an answer");
pub const CLIENT_FAILED: Failure = theirs(ErrorKind::Protocol, "the HTTP client gave up on the response");

/// Sorts what `connect(2)` (or `socket(2)`) said. `routes` tells which address families this machine has a route for;
/// it is asked only when that matters.
pub fn of_connect(error: &io::Error, ipv6: bool, routes: impl FnOnce() -> Routes) -> Failure {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => NO_DESCRIPTORS,
        Some(libc::ENOMEM | libc::ENOBUFS) => NO_MEMORY,
        Some(libc::ECONNREFUSED) => REFUSED,
        Some(libc::ETIMEDOUT) => NO_CONNECTION,
        Some(libc::EHOSTUNREACH | libc::EHOSTDOWN) => UNREACHABLE,
        // Taken, and broken before we looked: a refusal has a code of its own.
        Some(libc::ECONNRESET) => RESET,
        // Local ports have run out; or the family is switched off (Linux says the same for IPv6 then).
        Some(libc::EADDRNOTAVAIL) => match routes() {
            routes if routes.has(ipv6) => NO_PORTS,
            Routes { v4: false, v6: false } => NO_ROUTE,
            _ => UNREACHABLE,
        },
        // A machine with IPv4 only cannot reach an IPv6-only receiver: that must end as a failure of the delivery, or it
        // would be tried for ever. Only a machine without any route has itself to blame.
        Some(libc::ENETUNREACH | libc::ENETDOWN | libc::EAFNOSUPPORT) => match routes() {
            Routes { v4: false, v6: false } => NO_ROUTE,
            _ => UNREACHABLE,
        },
        _ => CONNECT_FAILED,
    }
}

/// Which address families this machine has a route for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routes {
    pub v4: bool,
    pub v6: bool,
}

impl Routes {
    /// Asks the kernel by connecting UDP sockets to addresses reserved for documentation (RFC 5737, RFC 3849), which
    /// looks up the route and sends nothing.
    pub fn of_this_machine() -> Routes {
        let routed = |from: &str, to: &str| {
            let socket = std::net::UdpSocket::bind(from);
            socket.and_then(|socket| socket.connect(to)).is_ok()
        };
        Routes { v4: routed("0.0.0.0:0", "198.51.100.1:9"), v6: routed("[::]:0", "[2001:db8::1]:9") }
    }

    fn has(self, ipv6: bool) -> bool {
        if ipv6 { self.v6 } else { self.v4 }
    }
}

/// Of two failed dials, the one that says more: a shortage of ours hides whether the receiver could have been reached;
/// a refusal is the receiver's own word; the absence of a route says least, since the other family may have one.
pub fn more_telling(one: Failure, other: Failure) -> Failure {
    let weight = |failure: Failure| match failure {
        NO_ROUTE => 0,
        Failure::Ours { .. } => 4,
        UNREACHABLE => 1,
        REFUSED => 3,
        _ => 2,
    };
    if weight(other) > weight(one) { other } else { one }
}

/// Sorts what the TLS handshake said.
pub fn of_tls(error: &io::Error) -> Failure {
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        return TLS_BROKEN;
    };
    match tls {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer => CERT_UNTRUSTED,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => CERT_EXPIRED,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => CERT_NOT_YET,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => CERT_OTHER_HOST,
            _ => CERT_INVALID,
        },
        rustls::Error::InvalidMessage(_) => TLS_NOT_SPOKEN,
        rustls::Error::AlertReceived(_) => of_tls_refusal(error).unwrap_or(TLS_REFUSED),
        rustls::Error::PeerIncompatible(_) | rustls::Error::NoApplicationProtocol => TLS_INCOMPATIBLE,
        _ => TLS_FAILED,
    }
}

/// What a TLS alert says about us, if it says that we are refused and not that something broke.
pub fn of_tls_refusal(error: &io::Error) -> Option<Failure> {
    use rustls::AlertDescription as Alert;
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::AlertReceived(Alert::CertificateRequired) => Some(TLS_WANTS_CERTIFICATE),
        rustls::Error::AlertReceived(
            Alert::HandshakeFailure | Alert::BadCertificate | Alert::AccessDenied | Alert::UnknownCA,
        ) => Some(TLS_REFUSED),
        rustls::Error::AlertReceived(Alert::ProtocolVersion | Alert::InsufficientSecurity) => Some(TLS_INCOMPATIBLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Routes = Routes { v4: true, v6: true };
    const NONE: Routes = Routes { v4: false, v6: false };
    const V4: Routes = Routes { v4: true, v6: false };

    #[test]
    fn s06_only_our_own_shortages_are_ours() {
        let table = [
            (libc::ECONNREFUSED, false, NONE, REFUSED),
            (libc::EMFILE, false, ALL, NO_DESCRIPTORS),
            (libc::ENFILE, false, ALL, NO_DESCRIPTORS),
            (libc::ENOMEM, false, ALL, NO_MEMORY),
            (libc::ENOBUFS, false, ALL, NO_MEMORY),
            (libc::EADDRNOTAVAIL, false, ALL, NO_PORTS),
            (libc::EADDRNOTAVAIL, true, V4, UNREACHABLE),
            (libc::EADDRNOTAVAIL, true, NONE, NO_ROUTE),
            (libc::ENETUNREACH, false, ALL, UNREACHABLE),
            (libc::ENETUNREACH, true, V4, UNREACHABLE),
            (libc::ENETUNREACH, false, NONE, NO_ROUTE),
            (libc::ENETDOWN, true, NONE, NO_ROUTE),
            (libc::EHOSTUNREACH, false, NONE, UNREACHABLE),
            (libc::ETIMEDOUT, false, NONE, NO_CONNECTION),
            (libc::ECONNRESET, false, ALL, RESET),
            (libc::EPERM, false, ALL, CONNECT_FAILED),
        ];
        for (code, ipv6, routes, expected) in table {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(of_connect(&error, ipv6, || routes), expected, "{error} ({ipv6}, {routes:?})");
        }
    }

    #[test]
    fn the_more_telling_failure_wins_either_way_round() {
        for (less, more) in
            [(NO_ROUTE, UNREACHABLE), (UNREACHABLE, NO_CONNECTION), (NO_CONNECTION, REFUSED), (REFUSED, NO_DESCRIPTORS)]
        {
            assert_eq!(more_telling(less, more), more);
            assert_eq!(more_telling(more, less), more);
        }
    }
}
