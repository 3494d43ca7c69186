//! What survives the end of a process, and how a process ends (S10, S13, S25; the lock; the schema).

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};

use super::SOON;
use crate::support::receiver::{Gate, Receiver, Reply};
use crate::support::server::{Options, Server, beside_others, micros, wait_for};

/// What must not change by a restart.
fn memory(server: &Server, endpoint: &str, deliveries: &[String]) -> Vec<Value> {
    let status = server.status(endpoint);
    let kept = |name: &str| status[name].clone();
    let endpoint = ["failure_streak", "exhausted_streak", "next_retry_at", "next_retry_reason", "last_attempt"];
    let of_delivery = |id: &String| {
        let found = server.delivery(id);
        let members = ["state", "run", "attempt", "next_retry_at", "next_retry_reason", "updated_at"];
        Value::from_iter(members.map(|name| (name, found[name].clone())))
    };
    endpoint.map(kept).into_iter().chain(deliveries.iter().map(of_delivery)).collect()
}

#[test]
fn s10_s13_a_restart_keeps_due_times_and_streaks() {
    let _machine = beside_others();
    let receiver = Receiver::always(503);
    let mut server = Server::start(Options::default());
    let policy = json!({"schedule": {"ladder": ["10m"]}, "jitter": 0.5, "auto_disable": null});
    let endpoint = server.endpoint(json!({"url": receiver.url("/"), "policy": policy}));
    let deliveries: Vec<String> = (0..7).map(|n| server.event(&format!("e{n}"), "a.b").remove(0)).collect();
    wait_for("all have failed once", SOON, || {
        (server.status(&endpoint)["failure_streak"]["failures"] == 7).then_some(())
    });
    let before = memory(&server, &endpoint, &deliveries);
    server.kill();
    server.restart();
    assert_eq!(memory(&server, &endpoint, &deliveries), before, "after kill -9");
    server.terminate();
    assert!(server.wait_for_exit(SOON).success());
    server.restart();
    assert_eq!(memory(&server, &endpoint, &deliveries), before, "after a drain");
    assert_eq!(receiver.count(), 7, "nothing was sent before its time");
}

#[test]
fn s06_a_drain_records_what_answers_in_time_and_refuses_what_is_new() {
    let _machine = beside_others();
    let gate = Gate::default();
    let receiver = {
        let gate = gate.clone();
        Receiver::start(move |arrival| {
            if arrival.path == "/hangs" {
                return Reply::Hang;
            }
            gate.pass();
            Reply::Answer(200)
        })
    };
    let mut server = Server::start(Options::default().with(&["--drain-timeout", "8s"]));
    for path in ["/answers", "/hangs"] {
        server.endpoint(json!({"url": receiver.url(path), "policy": {"timeout": "60s"}}));
    }
    let deliveries = server.event("e1", "a.b");
    receiver.wait("both are on the wire", SOON, |ledger| ledger.len() == 2);
    let began = Instant::now();
    server.terminate();
    wait_for("it says that it drains", SOON, || (server.call("GET", "/readyz", None).status == 503).then_some(()));
    let refused = server.post("/events", &json!({"type": "a.b", "data": 1}), 503);
    assert_eq!(refused["code"], "unavailable");
    assert_eq!(server.call("GET", "/events", None).status, 200, "reading goes on");
    gate.open();
    let status = server.wait_for_exit(2 * SOON);
    let took = began.elapsed();
    assert!(status.success(), "{status}");
    assert!((8.0..20.0).contains(&took.as_secs_f64()), "one of them hung, so the whole drain timeout: {took:?}");
    server.restart();
    let states: Vec<(Value, Value)> = deliveries
        .iter()
        .map(|id| server.delivery(id))
        .map(|found| (found["state"].clone(), found["attempts_total"].clone()))
        .collect();
    assert_eq!(states, [(json!("delivered"), json!(1)), (json!("pending"), json!(0))], "cut off: no rung used");
    receiver.wait("the one that was cut off is made again", SOON, |ledger| ledger.len() == 3);
    let again = receiver.ledger().pop().expect("three");
    assert_eq!((again.path.as_str(), again.attempt), ("/hangs", 1));
}

#[test]
fn s06_a_second_signal_stops_at_once() {
    let _machine = beside_others();
    let receiver = Receiver::start(|_| Reply::Hang);
    let mut server = Server::start(Options::default().with(&["--drain-timeout", "50s"]));
    server.endpoint(json!({"url": receiver.url("/"), "policy": {"timeout": "60s"}}));
    server.event("e1", "a.b");
    receiver.wait("it is on the wire", SOON, |ledger| ledger.len() == 1);
    server.terminate();
    wait_for("it says that it drains", SOON, || (server.call("GET", "/readyz", None).status == 503).then_some(()));
    let began = Instant::now();
    server.terminate();
    let status = server.wait_for_exit(SOON);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(status.success(), "{status}");
}

#[test]
fn a_second_process_on_the_same_file_names_the_lock() {
    let _machine = beside_others();
    let server = Server::start(Options::default());
    let began = Instant::now();
    let second = server.command().stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("it runs");
    assert!(began.elapsed() < Duration::from_secs(10), "it waits for nobody: {:?}", began.elapsed());
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("posthaste.db.lock") && said.contains("another posthaste process"), "{said}");
    server.get("/events");
}

#[test]
fn c52_of_two_processes_that_start_together_one_delivers() {
    const EVENTS: usize = 100;
    let _machine = beside_others();
    let (receiver, gate) = Receiver::behind_a_gate();
    let mut server = Server::start(Options::default());
    server.endpoint(json!({"url": receiver.url("/")}));
    (0..EVENTS).for_each(|n| drop(server.event(&format!("e{n}"), "a.b")));
    receiver.wait("every slot is taken", SOON, |ledger| ledger.len() == 16);
    server.kill();
    let sent = receiver.events();
    gate.open();

    let start = || server.command().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut both = [start(), start()];
    let gone = wait_for("one of them gives up", SOON, || {
        both.iter_mut().position(|process| process.try_wait().expect("a child").is_some())
    });
    let [first, second] = both;
    let (gone, mut left) = if gone == 0 { (first, second) } else { (second, first) };
    let gone = gone.wait_with_output().expect("it is gone");
    let said = String::from_utf8_lossy(&gone.stderr);
    assert!(!gone.status.success() && said.contains("another posthaste process"), "{said}");
    receiver.wait("the other delivers all", SOON, |ledger| ledger.len() == sent.len() + EVENTS);
    assert_eq!(left.try_wait().expect("a child"), None, "it is alive");

    left.kill().expect("it is there");
    left.wait().expect("it was there");
    let mut again = receiver.events().split_off(sent.len());
    let mut all: Vec<_> = (0..EVENTS).map(|n| format!("e{n}")).collect();
    again.sort();
    all.sort();
    assert_eq!(again, all, "each once more, those included that were on the wire");
}

/// `posthaste serve` with nothing said to it yet.
fn program(server: &Server) -> Command {
    let mut command = Command::new(server.command().get_program());
    command.arg("serve").env_remove("POSTHASTE_OPERATOR_KEY").stdin(Stdio::null());
    command
}

/// Two names of one file are one database.
#[test]
fn a_second_process_that_comes_through_a_link_meets_the_same_lock() {
    let _machine = beside_others();
    let server = Server::start(Options::default());
    let link = server.database().with_file_name("soft.db");
    std::os::unix::fs::symlink(server.database(), &link).expect("a link");
    is_locked(&server, &link);
    let link = server.database().with_file_name("hard.db");
    std::fs::hard_link(server.database(), &link).expect("a link");
    is_locked(&server, &link);
    server.get("/events");
}

fn is_locked(server: &Server, database: &Path) {
    let second = program(server)
        .args(["--listen", "127.0.0.1:0", "--encryption-key", &"11".repeat(32)])
        .args(["--database-url", &format!("sqlite:{}", database.display())])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && said.contains("another posthaste process"), "{said}");
}

/// Nobody has seen a key then, so the next start makes one.
#[test]
fn a_start_that_fails_says_why_and_makes_no_key_that_nobody_sees() {
    let _machine = beside_others();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let mut server = Server::stopped(Options::default());
    let failed = program(&server)
        .args(["--listen", &address, "--database-url", &format!("sqlite:{}", server.database().display())])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains(&address) && !said.contains("panicked") && !said.contains("operator key"), "{said}");
    server.without_key().restart();
    let key = server.log().lines().find_map(|line| line.trim().strip_prefix("ph_").map(|key| format!("ph_{key}")));
    assert!(key.is_some(), "{}", server.log());
}

/// Endpoints could be made with it, and be read with neither key.
#[test]
fn another_encryption_key_is_refused_at_the_start() {
    let _machine = beside_others();
    let mut server = Server::start(Options::default());
    server.kill();
    let output = server.command().args(["--encryption-key", &"11".repeat(32)]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("another key"), "{said}");
    server.restart();
    server.get("/events");
}

/// What it said 202 to would be lost with the process.
#[test]
fn s01_nothing_is_accepted_once_the_database_is_gone_from_its_place() {
    let _machine = beside_others();
    let server = Server::start(Options::default());
    server.event("before", "a");
    let away = server.database().with_file_name("away.db");
    std::fs::rename(server.database(), &away).expect("moved away");
    let event = json!({"id": "gone", "type": "a", "data": 1});
    let refused = server.call("POST", "/events", Some(&event));
    assert_eq!(refused.status, 503);
    wait_for("it is not ready", SOON, || {
        let mut client = server.client();
        (client.send("GET", "/readyz", b"").ok()?.status == 503).then_some(())
    });
    assert!(server.log().contains("posthaste.db is not there"), "{}", server.log());
    std::fs::rename(&away, server.database()).expect("moved back");
    assert_eq!(server.call("POST", "/events", Some(&event)).status, 202);
}

#[test]
fn an_older_binary_refuses_a_newer_schema_by_name() {
    let _machine = beside_others();
    let mut server = Server::start(Options::default());
    server.kill();
    let mut conn: diesel::SqliteConnection =
        diesel::Connection::establish(&server.database().to_string_lossy()).expect("the database");
    conn.batch_execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('99990101000000')").expect("inserted");
    drop(conn);
    let refused = server.command().stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("it runs");
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("99990101000000") && said.contains("newer"), "{said}");
}

#[test]
fn s25_engine_time_goes_on_through_downtime_and_a_new_scale() {
    let _machine = beside_others();
    let receiver = Receiver::always(503);
    let mut server = Server::start(Options::scaled(1_000.0));
    let policy = json!({"schedule": {"ladder": ["10h"]}, "jitter": 0, "auto_disable": null});
    server.endpoint(json!({"url": receiver.url("/"), "policy": policy}));
    let delivery = server.event("e1", "a.b").remove(0);
    let failed =
        wait_for("it fails", SOON, || Some(server.delivery(&delivery)).filter(|found| found["state"] == "failed"));
    server.kill();
    // 10 h at scale 1,000 are 36 s of real time; a scale of 20,000 leaves less than 2 s of it.
    server = server.rescaled(20_000.0);
    thread::sleep(Duration::from_millis(300));
    server.restart();
    assert_eq!(server.delivery(&delivery)["next_retry_at"], failed["next_retry_at"]);
    let began = Instant::now();
    receiver.wait("the retry comes by the new scale", SOON, |ledger| ledger.len() == 2);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let attempts = wait_for("it is recorded", SOON, || {
        Some(server.delivery(&delivery)["attempts"].clone())
            .filter(|attempts| attempts.as_array().is_some_and(|all| all.len() == 2))
    });
    let started = micros(&attempts[1]["started_at"]);
    assert!(started >= micros(&failed["next_retry_at"]), "not before its time: {attempts}");
}
