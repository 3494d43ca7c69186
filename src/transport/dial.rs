//! From several addresses to one TCP connection: in turn, but without waiting long for any of them (RFC 8305, C18).

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::failure::{self, Failure, Routes};

/// The head start of one address before the next is tried as well (RFC 8305 §5).
pub const HEAD_START: Duration = Duration::from_millis(250);
/// Addresses of one host that are tried; the rest of a longer answer is ignored.
pub const MAX_ADDRESSES: usize = 8;

/// Connects to the first of `addresses` that lets us. `dialled` is told of every address that is tried.
///
/// # Errors
/// The most telling failure of all that were tried. An empty list is a failure to connect.
pub async fn dial(
    addresses: Vec<SocketAddr>,
    mut dialled: impl FnMut(SocketAddr),
) -> Result<(TcpStream, SocketAddr), Failure> {
    let mut waiting = interleave(addresses).into_iter().take(MAX_ADDRESSES).peekable();
    let mut racing = FuturesUnordered::new();
    let mut worst = None;
    loop {
        if let Some(address) = waiting.next() {
            dialled(address);
            racing.push(connect(address));
        }
        let ended = if waiting.peek().is_some() {
            tokio::select! {
                ended = racing.next() => ended,
                () = sleep(HEAD_START) => continue,
            }
        } else {
            racing.next().await
        };
        match ended {
            Some(Ok(connected)) => return Ok(connected),
            Some(Err(failure)) => worst = Some(worst.map_or(failure, |worst| failure::more_telling(worst, failure))),
            None => return Err(worst.unwrap_or(failure::CONNECT_FAILED)),
        }
    }
}

async fn connect(address: SocketAddr) -> Result<(TcpStream, SocketAddr), Failure> {
    let failed = |error| failure::of_connect(&error, address.is_ipv6(), Routes::of_this_machine);
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    // A request goes out in one or two writes; none of them is to wait for an acknowledgement.
    stream.set_nodelay(true).map_err(failed)?;
    Ok((stream, address))
}

/// Alternates between the families, beginning with that of the first address, and else keeps the order (RFC 8305 §4).
fn interleave(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut mixed = Vec::with_capacity(first.len() + second.len());
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return mixed;
        }
        mixed.extend(pair.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let addresses = |text: &[&str]| text.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        for (given, expected) in [
            (&["[::1]:1", "[::2]:1", "1.1.1.1:1"][..], &["[::1]:1", "1.1.1.1:1", "[::2]:1"][..]),
            (&["1.1.1.1:1", "[::1]:1", "[::2]:1"], &["1.1.1.1:1", "[::1]:1", "[::2]:1"]),
            (&["1.1.1.1:1", "2.2.2.2:1"], &["1.1.1.1:1", "2.2.2.2:1"]),
            (&[], &[]),
        ] {
            assert_eq!(interleave(addresses(given)), addresses(expected));
        }
    }
}
