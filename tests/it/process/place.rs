//! Where the process runs: as the first process of a container (C55), in another time zone (C45).

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::SOON;
use crate::support::receiver::Receiver;
use crate::support::server::{Options, Server, beside_others, micros, text, wait_for};

/// Starts a program as process 1 of a namespace of its own, and takes it along when it is killed itself.
const FIRST: [&str; 4] = ["unshare", "--pid", "--fork", "--kill-child"];

/// The same without the right to make namespaces, where the kernel lets everybody have one of his own.
const FIRST_OF_MINE: [&str; 6] = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"];

/// How to become process 1 here; nothing where nobody may.
fn first() -> Vec<&'static str> {
    let works = |starter: &[&str]| {
        let mut command = Command::new(starter[0]);
        command.args(&starter[1..]).arg("true").stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let starters = [FIRST.to_vec(), FIRST_OF_MINE.to_vec()];
    starters.into_iter().find(|starter| works(starter)).unwrap_or_default()
}

/// Process 1 gets no signal that it has not asked for, so one that relies on the default is killed after the patience of
/// whoever stops the container.
#[test]
fn c55_process_1_ends_in_order_at_either_signal() {
    let _machine = beside_others();
    for signal in ["TERM", "INT"] {
        let (receiver, gate) = Receiver::behind_a_gate();
        let mut server = Server::start(Options { starter: first(), ..Options::default() });
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("its status");
        let line =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).expect("a line").trim().to_owned();
        match first().is_empty() {
            true => println!("no namespace of processes can be made here, so it is not process 1"),
            false => assert_eq!(line("NSpid:").split_whitespace().last(), Some("1")),
        }
        // Whatever its number, what it has asked for.
        let caught = u64::from_str_radix(&line("SigCgt:"), 16).expect("a mask");
        assert!([libc::SIGINT, libc::SIGTERM].iter().all(|number| caught >> (number - 1) & 1 == 1));
        server.endpoint(json!({"url": receiver.url("/"), "policy": {"timeout": "60s"}}));
        let delivery = server.event("e1", "a.b").remove(0);
        receiver.wait("it is on the wire", SOON, |ledger| ledger.len() == 1);
        server.signal(signal);
        wait_for("it says that it drains", SOON, || (server.call("GET", "/readyz", None).status == 503).then_some(()));
        gate.open();
        let status = server.wait_for_exit(SOON);
        assert!(status.success(), "{signal}: {status}");
        // The lock went with it, and the answer was recorded.
        server.restart();
        let found = server.delivery(&delivery);
        assert_eq!((&found["state"], &found["attempts_total"]), (&json!("delivered"), &json!(1)), "{signal}");
    }
}

/// From the start of the test until the clocks are changed, and between the two attempts; whatever is slow, the first is over
/// by then.
const CHANGED_AFTER: Duration = Duration::from_secs(10);
const RETRIED_AFTER: &str = "12s";

/// A zone hours away from UTC, and when its clocks are changed, which is soon: to summer time, or back (`man 3 tzset`).
fn changes_soon(to_summer: bool) -> (String, Duration) {
    // Local time until then: 7:30 ahead, in summer 8:30.
    let offset = Duration::from_secs(if to_summer { 27_000 } else { 30_600 });
    let changed = now() + CHANGED_AFTER;
    let local = (changed + offset).as_micros() as i64;
    let date = posthaste::domain::time::Timestamp::from_micros(local).to_string();
    let (month, day): (usize, u32) = (date[5..7].parse().expect("a month"), date[8..10].parse().expect("a day"));
    // Counted as if no year had a 29 February; this test is not for that day.
    let day = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month - 1] + day;
    let (soon, once) = (format!("J{day}/{}", &date[11..19]), format!("J{}", (day + 180) % 365 + 1));
    let (begins, ends) = if to_summer { (soon, once) } else { (once, soon) };
    (format!("XST-7:30XDT-8:30,{begins},{ends}"), changed)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

#[test]
fn c45_when_summer_time_begins_nothing_moves() {
    another_time_zone_changes_nothing(true);
}

#[test]
fn c45_when_summer_time_ends_nothing_moves() {
    another_time_zone_changes_nothing(false);
}

fn another_time_zone_changes_nothing(to_summer: bool) {
    let _machine = beside_others();
    let receiver = Receiver::always(503);
    let (zone, changed) = changes_soon(to_summer);
    println!("TZ={zone}");
    let server = Server::start(Options { zone: Some(zone), ..Options::default() });
    let policy = json!({"schedule": {"ladder": [RETRIED_AFTER, "1h"]}, "jitter": 0, "auto_disable": null});
    server.endpoint(json!({"url": receiver.url("/"), "policy": policy}));
    let before = now().as_micros() as i64;
    let id = server.event("e1", "a.b").remove(0);
    let after_attempt = |number: usize| {
        let failed = |found: &Value| found["state"] == "failed" && found["attempts_total"] == number;
        wait_for("it fails", SOON, || Some(server.delivery(&id)).filter(failed))
    };
    let due = micros(&after_attempt(1)["next_retry_at"]);
    let failed = after_attempt(2);
    let [first, again] = [0, 1].map(|nth: usize| micros(&failed["attempts"][nth]["started_at"]));
    let changed = changed.as_micros() as i64;
    assert!(first < changed && changed < again, "the clocks were changed between the two");
    assert!((due..due + 10_000_000).contains(&again), "at its time, not an hour off: {}", again - due);
    let after = now().as_micros() as i64;
    let attempt = &failed["attempts"][1];
    for time in [&failed["created_at"], &failed["updated_at"], &attempt["started_at"]] {
        assert!(text(time).ends_with('Z'));
        // Engine time was wall time when the database was made, and runs beside it.
        assert!((before - 1_000_000..after + 1_000_000).contains(&micros(time)), "{time}");
    }
    let ended = micros(&attempt["started_at"]) + (attempt["duration_ms"].as_f64().expect("a number") * 1e3) as i64;
    let wait = micros(&failed["next_retry_at"]) - ended;
    assert!((3_600_000_000..3_601_000_000).contains(&wait), "an hour: {wait} µs");
    // The same instant in another offset, its plus sign as people leave it.
    let shifted = |seconds: i64| {
        let at = posthaste::domain::time::Timestamp::from_micros(micros(&failed["created_at"]) + seconds * 1_000_000);
        let local = posthaste::domain::time::Timestamp::from_micros(at.as_micros() + 7_200_000_000);
        format!("{}+02:00", local.to_string().trim_end_matches('Z'))
    };
    let count = |query: String| server.all(&format!("/deliveries?{query}")).len();
    assert_eq!(count(format!("created_after={}", shifted(-1))), 1);
    assert_eq!(count(format!("created_after={}", shifted(1))), 0);
    assert_eq!(count(format!("created_before={}", shifted(1))), 1);
    let line = server.log().lines().next().expect("a line").to_owned();
    let stamp = line.trim_start_matches('[').split(' ').next().expect("a time").to_owned();
    assert!(stamp.ends_with('Z'), "{line}");
}
