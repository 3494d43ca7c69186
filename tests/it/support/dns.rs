//! A name server over UDP that answers as it is told (RFC 1035 §4).

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// What a question is answered with.
#[derive(Clone, Debug)]
pub enum Said {
    /// These addresses, of the kind that was asked for, valid for so many seconds.
    Addresses(Vec<IpAddr>, u8),
    /// That there are none of the kind that was asked for, for so many seconds (RFC 2308 §2.2).
    None(u8),
    /// A response code: 2 SERVFAIL, 3 NXDOMAIN, 5 REFUSED.
    Code(u8),
    Nothing,
    /// Bytes that are no answer.
    Garbage,
}

/// The types of questions.
pub const A: u16 = 1;
pub const AAAA: u16 = 28;

pub struct NameServer {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, u16)>>>,
}

impl NameServer {
    /// `says`: what a name's question of a type is answered with.
    pub fn start(says: impl Fn(&str, u16) -> Said + Send + 'static) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("bound");
        let asked = Arc::<Mutex<Vec<(String, u16)>>>::default();
        let noted = asked.clone();
        thread::spawn(move || {
            let mut packet = [0; 1_500];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                let question = &packet[..length];
                let (name, kind, end) = parse(question);
                noted.lock().expect("asked").push((name.clone(), kind));
                if let Some(answer) = answer(question, end, kind, says(&name, kind)) {
                    socket.send_to(&answer, from).expect("sent");
                }
            }
        });
        NameServer { address, asked }
    }

    /// Names and types, in the order in which they were asked for.
    pub fn asked(&self) -> Vec<(String, u16)> {
        self.asked.lock().expect("asked").clone()
    }
}

/// The name of the only question, its type, and where the question ends.
fn parse(packet: &[u8]) -> (String, u16, usize) {
    let (mut at, mut labels) = (12, Vec::new());
    while packet[at] != 0 {
        let end = at + 1 + usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..end]).to_lowercase());
        at = end;
    }
    (labels.join("."), u16::from_be_bytes([packet[at + 1], packet[at + 2]]), at + 5)
}

fn answer(question: &[u8], end: usize, kind: u16, said: Said) -> Option<Vec<u8>> {
    let none_for = if let Said::None(ttl) = said { Some(ttl) } else { None };
    let (code, addresses, ttl) = match said {
        Said::Nothing => return None,
        Said::Garbage => return Some(question[..2].iter().copied().chain([0xFF; 40]).collect()),
        Said::Code(code) => (code, Vec::new(), 0),
        Said::None(ttl) => (0, Vec::new(), ttl),
        Said::Addresses(addresses, ttl) => (0, addresses, ttl),
    };
    let records: Vec<IpAddr> = addresses.into_iter().filter(|ip| ip.is_ipv4() == (kind == A)).collect();
    let mut packet = question[..2].to_vec();
    // A response, recursion desired and available; one question, so many answers, and who says that there are none.
    let (answers, authorities) = (u8::try_from(records.len()).expect("few"), u8::from(none_for.is_some()));
    packet.extend([0x81, 0x80 | code, 0, 1, 0, answers, 0, authorities, 0, 0]);
    packet.extend(&question[12..end]);
    for ip in records {
        let data = match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        // The name stands at 12; class IN.
        packet.extend([0xC0, 12, 0, u8::try_from(kind).expect("small"), 0, 1, 0, 0, 0, ttl, 0]);
        packet.push(u8::try_from(data.len()).expect("short"));
        packet.extend(data);
    }
    if let Some(ttl) = none_for {
        // The root's SOA (RFC 1035 §3.3.13): class IN, two names that are the root, four numbers, and for how long.
        packet.extend([0, 0, 6, 0, 1, 0, 0, 0, ttl, 0, 22]);
        packet.extend([0; 18]);
        packet.extend([0, 0, 0, ttl]);
    }
    Some(packet)
}
