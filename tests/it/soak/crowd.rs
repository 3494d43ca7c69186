//! A process with few file descriptors (C08).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;

use super::ledger::{Ledger, Line};
use super::places::places;
use super::receivers::{Book, Receiver};
use super::subject::{Disk, Subject};
use crate::support::server::{alone, beside_others, text, wait_for};

/// As few as the process starts with.
const FEW: u64 = 256;
const SOON: Duration = Duration::from_secs(20);

/// They are kept for 75 s, so nothing that happens sooner is due to their going.
#[test]
fn c08_callers_who_sit_there_leave_descriptors_for_attempts() {
    let _machine = beside_others();
    let (book, ledger, mut line) = (Arc::new(Book::default()), Ledger::default(), Line::default());
    let places = places(&book, &mut StdRng::seed_from_u64(8));
    let mut subject = Subject::new(Disk::new(64));
    assert!(subject.start(FEW), "{}", subject.log());
    let address = subject.address().expect("it listens");
    ledger.set_address(Some(address));
    line.insist(&ledger, "POST", "/endpoints", places[0].body().to_string().as_bytes()).json(201);
    let mut crowd = Vec::new();
    for _ in 0..FEW + 50 {
        let Ok(mut caller) = TcpStream::connect_timeout(&address, Duration::from_millis(50)) else { continue };
        caller.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
        caller.write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").expect("sent");
        let served = caller.read(&mut [0; 1024]).is_ok_and(|length| length > 0);
        crowd.push(caller);
        // The others would only wait as well.
        if !served && crowd.len() > 100 {
            break;
        }
    }
    let event = json!({"type": "soak.a", "data": 1}).to_string();
    let accepted = line.insist(&ledger, "POST", "/events", event.as_bytes()).json(202);
    let delivery = text(&accepted["deliveries"][0]["id"]);
    let delivered = wait_for("it is delivered beside them", SOON, || {
        let found = line.insist(&ledger, "GET", &format!("/deliveries/{delivery}"), b"").json(200);
        (found["state"] == "delivered").then_some(found)
    });
    assert_eq!(delivered["attempts_total"], 1);
    assert!(!subject.log().contains("no file descriptors"), "{}", subject.log());
    drop(crowd);
}

/// Who cannot accept connections must not try again and again.
#[test]
fn c08_without_descriptors_the_process_rests_and_accepts_again_when_it_can() {
    let _machine = beside_others();
    let mut subject = Subject::new(Disk::new(64));
    assert!(subject.start(FEW), "{}", subject.log());
    let address = subject.address().expect("it listens");
    let ask = |caller: &mut TcpStream| {
        caller.set_read_timeout(Some(SOON)).expect("a limit");
        caller.write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").expect("sent");
    };
    let answered = |caller: &mut TcpStream| {
        let mut answer = [0; 12];
        caller.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 200");
    };
    let mut first = TcpStream::connect(address).expect("it listens");
    ask(&mut first);
    answered(&mut first);
    subject.opens(false);
    let mut callers: Vec<_> = (0..20).map(|_| TcpStream::connect(address).expect("the kernel takes it")).collect();
    callers.iter_mut().for_each(ask);
    let before = subject.processor_time();
    subject.live(Duration::from_secs(2));
    let spent = subject.processor_time() - before;
    assert!(spent < Duration::from_millis(500), "{spent:?} in two seconds");

    subject.opens(true);
    callers.iter_mut().for_each(answered);
}

/// More receivers than descriptors, each of which keeps its connection.
#[test]
fn c08_two_hundred_receivers_share_few_descriptors() {
    let _machine = alone();
    const RECEIVERS: usize = 200;
    const EACH: usize = 10;
    let (book, ledger, mut line) = (Arc::new(Book::default()), Ledger::default(), Line::default());
    let place = places(&book, &mut StdRng::seed_from_u64(8)).swap_remove(0);
    let receivers: Vec<_> = (0..RECEIVERS).map(|n| Receiver::start(n, &place.secret, book.clone())).collect();
    let mut subject = Subject::new(Disk::new(64));
    assert!(subject.start(FEW), "{}", subject.log());
    ledger.set_address(subject.address());
    for receiver in &receivers {
        let mut body = place.body();
        body["url"] = receiver.url("/").into();
        line.insist(&ledger, "POST", "/endpoints", body.to_string().as_bytes()).json(201);
    }
    for number in 0..EACH {
        let event = json!({"id": format!("e{number}"), "type": "soak.a", "data": number}).to_string();
        let answer = line.insist(&ledger, "POST", "/events", event.as_bytes()).json(202);
        assert_eq!(answer["deliveries"].as_array().map(Vec::len), Some(RECEIVERS));
    }
    wait_for("all are delivered", SOON, || (book.count() >= RECEIVERS * EACH).then_some(()));
    let failed = line.insist(&ledger, "GET", "/deliveries?state=failed", b"").json(200);
    assert_eq!(failed["data"], json!([]), "a fault of ours is no failure of theirs");
}
