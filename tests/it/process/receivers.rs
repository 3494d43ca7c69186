//! What receivers can do to the process: its memory (C09, C12) and its file descriptors (C08).

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::SOON;
use crate::support::raw::RawReceiver;
use crate::support::server::{Client, KEY, Options, Server, beside_others, wait_for};

/// A process that may open so many files and sockets, and no more.
struct Limited {
    process: Child,
    address: SocketAddr,
    /// Its directory; this server itself never runs.
    _place: Server,
}

impl Limited {
    fn start(descriptors: u64) -> Limited {
        let place = Server::stopped(Options::default());
        let inner = place.command();
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""));
        command.arg(inner.get_program()).args(inner.get_args()).env("POSTHASTE_OPERATOR_KEY", KEY);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let line = lines.next().expect("a line").expect("read");
        let address = line.strip_prefix("listening on http://").expect("where").parse().expect("an address");
        Limited { process, address, _place: place }
    }

    fn client(&self) -> Client {
        Client::new(self.address)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.client().send("POST", path, body.to_string().as_bytes()).expect("an answer");
        assert!(matches!(answer.status, 201 | 202), "{path}: {answer:?}");
        answer.json(answer.status)
    }

    /// How many deliveries are in this state; at most a page of them.
    fn deliveries(&self, state: &str) -> usize {
        let path = format!("/deliveries?limit=250&state={state}");
        let answer = self.client().send("GET", &path, b"").expect("an answer").json(200);
        answer["data"].as_array().expect("data").len()
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id())).expect("it lives").count()
    }

    /// The most memory it ever had, in KiB.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// About so many bytes that are 160 times as many zeros to whoever decodes them: one block of fixed codes (RFC 1951 §3.2.6).
fn gzip_bomb(length: usize) -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let (mut bits, mut count) = (0_u64, 0);
    let mut push = |code: u64, width: u32, bytes: &mut Vec<u8>| {
        bits |= code << count;
        count += width;
        while count >= 8 {
            bytes.push(bits as u8);
            (bits, count) = (bits >> 8, count - 8);
        }
    };
    // The last block, fixed codes, a zero; codes have their first bit first.
    push(0b011, 3, &mut bytes);
    push(0b0000_1100, 8, &mut bytes);
    while bytes.len() < length {
        // 258 times the byte before.
        push(0b1010_0011, 8, &mut bytes);
        push(0, 5, &mut bytes);
    }
    push(0, 7 + 8, &mut bytes);
    bytes
}

#[test]
fn c09_c12_bombs_and_floods_cost_no_memory() {
    let _machine = beside_others();
    let server = Limited::start(4_096);
    let bomb = gzip_bomb(2 << 20);
    let harmless = RawReceiver::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let hostile = RawReceiver::scripted(move |conversation| {
        if conversation.request().is_none() {
            return;
        }
        let coding = ["gzip", "gzip, gzip", "br", "zstd"][conversation.number() / 2 % 4];
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", bomb.len());
        // Every other one floods for ever instead.
        if conversation.number().is_multiple_of(2) {
            conversation.write(head.as_bytes());
            conversation.write(&bomb);
        } else {
            conversation.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            while conversation.write(&[b"10000\r\n", &[b'x'; 0x10000][..], b"\r\n"].concat()) {}
        }
    });
    // The same load once without and once with the bombs: 50 attempts at once.
    let mut peaks = Vec::new();
    for (kind, receiver) in [("harmless", &harmless), ("hostile", &hostile)] {
        let members = json!({"url": receiver.url("/"), "event_types": [kind], "max_in_flight": 50});
        server.post("/endpoints", &members);
        let events: Vec<_> = (0..100).map(|n| json!({"type": kind, "data": n})).collect();
        let before = server.deliveries("delivered");
        server.post("/events/batch", &json!({"events": events}));
        wait_for(kind, SOON, || (server.deliveries("delivered") == before + 100).then_some(()));
        peaks.push(server.peak());
    }
    assert_eq!(hostile.requests().len(), 100, "each is delivered once");
    assert!(peaks[1] - peaks[0] < 16 * 1024, "KiB before and after: {peaks:?}");
}

#[test]
fn c08_few_descriptors_and_receivers_that_half_close() {
    const RECEIVERS: usize = 200;
    const EVENTS: usize = 10;
    let _machine = beside_others();
    rlimit::increase_nofile_limit(u64::MAX).expect("a limit");
    let server = Limited::start(256);
    let at_rest = server.open_files();
    let receivers: Vec<_> = (0..RECEIVERS)
        .map(|_| {
            RawReceiver::scripted(|conversation| {
                if conversation.request().is_some() {
                    conversation.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                    conversation.finish_writing();
                    conversation.wait_for_close();
                }
            })
        })
        .collect();
    for receiver in &receivers {
        server.post("/endpoints", &json!({"url": receiver.url("/")}));
    }
    let came = || receivers.iter().map(|receiver| receiver.requests().len()).sum::<usize>();
    let mut most = 0;
    for number in 1..=EVENTS {
        server.post("/events", &json!({"type": "a", "data": number}));
        // Each time on a connection of its own, as callers come.
        wait_for("all receivers have it", SOON, || {
            let healthy = server.client().send("GET", "/healthz", b"").expect("the API answers");
            assert_eq!(healthy.status, 200);
            most = most.max(server.open_files());
            (came() == number * RECEIVERS).then_some(())
        });
    }
    wait_for("all is recorded", SOON, || (server.deliveries("pending") == 0).then_some(()));
    assert_eq!((server.deliveries("failed"), server.deliveries("dead")), (0, 0));
    assert_eq!(came(), RECEIVERS * EVENTS, "each was sent once");
    assert!(most < 250, "there is room left: {most}");
    // Idle connections are closed after 15 seconds, whoever closed them before; files of the database stay open.
    wait_for(&format!("back to {at_rest} or so"), Duration::from_secs(40), || {
        (server.open_files() <= at_rest + 20).then_some(())
    });
}
