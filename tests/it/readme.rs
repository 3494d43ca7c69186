//! The README's tour is run as it stands: every block marked `<!-- tour -->`, in order, in one shell.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::machine::beside_others;
use crate::support::taken::TakenPort;

/// It takes some ten seconds; what it waits for has no limit of its own.
const TOUR_LIMIT: Duration = Duration::from_secs(180);

/// The shell blocks of the tour.
fn tour(readme: &str) -> String {
    let mut script = String::from("set -eu\n");
    for part in readme.split("<!-- tour -->").skip(1) {
        let block = part.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
        script.push_str(block.expect("a tour mark stands before a shell block"));
    }
    script
}

#[test]
fn the_tour_does_what_the_readme_shows() {
    let readme = include_str!("../../README.md");
    let _machine = beside_others();
    // Instead of the ports of the tour, so that tests can run beside other programs.
    let ports = [TakenPort::reserved(), TakenPort::reserved()];
    let [api, receiver] = [0, 1].map(|n: usize| ports[n].address.port().to_string());
    let script = tour(readme)
        .replace("posthaste serve", &format!("posthaste serve --listen 127.0.0.1:{api}"))
        .replace("posthaste receive", &format!("posthaste receive --listen 127.0.0.1:{receiver}"))
        .replace("127.0.0.1:9000", &format!("127.0.0.1:{receiver}"))
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{api}"));
    // Each background start is waited for by what it prints; the deliveries by asking.
    let wait = format!(
        "until curl -sf http://127.0.0.1:{api}/readyz >/dev/null; do sleep 0.05; done\n\
         until (exec 3<>/dev/tcp/127.0.0.1/{receiver}) 2>/dev/null; do sleep 0.05; done\n"
    );
    let script =
        script.replacen("posthaste endpoints create", &format!("{wait}posthaste endpoints create"), 1).replacen(
            "posthaste deliveries\n",
            "until posthaste deliveries | grep -q delivered; do sleep 0.1; done\nposthaste deliveries\n",
            1,
        );
    // The last block stops both; if one went on, the wait would not end.
    let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}wait\necho all are stopped\n");
    let folder = tempfile::tempdir().unwrap();
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_posthaste")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut child = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("TMPDIR", folder.path())
        .env("POSTHASTE_URL", format!("http://127.0.0.1:{api}"))
        .env_remove("POSTHASTE_SECRET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let errors = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stderr.read_to_string(&mut text);
        text
    });
    let (told, output) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        let _ = told.send(text);
    });
    let output = output.recv_timeout(TOUR_LIMIT);
    // All of it: what the shell started would keep the pipes open.
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).stderr(Stdio::null()).status();
    let status = child.wait().unwrap();
    let errors = errors.join().unwrap();
    let output = output.unwrap_or_else(|_| panic!("the tour did not end: {errors}"));
    assert!(status.success(), "{output}\n{errors}");
    for shown in [
        "listening on http://",
        "receiving on http://",
        "whsec_",
        "evt_order-42",
        "attempt 3",
        "answered 200",
        "delivered",
        "evt_order-42 (was there before)",
        "The dead-letter queue is empty.",
        "dead (exhausted) after 14m40s",
        "\"type\":\"order.paid\"",
        "all are stopped",
    ] {
        assert!(output.contains(shown), "`{shown}` is missing in\n{output}\n{errors}");
    }
}

/// The numbers of days that receivers are told to remember ids for are those of the presets, and one more.
#[test]
fn ids_are_remembered_a_day_longer_than_dead_letters_are_kept() {
    use posthaste::domain::policy::{Policy, Preset};
    let readme = include_str!("../../README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let days = |preset: Preset| Policy::preset(preset).dead_letters.as_millis() / 86_400_000 + 1;
    let (orbit, shellorbit, salaf) = (days(Preset::Orbit), days(Preset::Shellorbit), days(Preset::Salaf));
    assert_eq!(shellorbit, salaf);
    let told = format!("{orbit} days for `orbit`, {shellorbit} for `shellorbit` and `salaf`");
    assert!(readme.contains(&told), "{told}");
}

#[test]
fn the_two_commands_stand_in_the_readme() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains("\ncargo run --release -- demo\n") && readme.contains("\ntests/run\n"));
}

/// What `posthaste demo --help` promises, in real time. It takes some ten seconds.
const DEMO_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn the_demo_shows_the_main_job() {
    let _machine = beside_others();
    let began = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_posthaste")).arg("demo").output().unwrap();
    let took = began.elapsed();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let requeued = text.lines().find_map(|line| line.split_once("  ")?.1.trim().split_once(" is requeued"));
    let (letter, _) = requeued.unwrap_or_else(|| panic!("nothing is requeued in {text}"));
    // The story in its order: each line stands behind the one before it.
    let mut rest = &*text;
    for shown in [
        " delivered\n",
        "failed, the next attempt",
        " delivered\n",
        &format!("{letter} dead (permanent_response)"),
        "auto_disabled",
        "is enabled",
        &format!("{letter} is requeued"),
        &format!("{letter} delivered\n"),
        "That is the main job",
    ] {
        let at = rest.find(shown).unwrap_or_else(|| panic!("`{shown}` is missing, or too early, in {text}"));
        rest = &rest[at + shown.len()..];
    }
    assert!(!text.contains('\u{1b}'), "no colours when piped");
    assert!(took < DEMO_LIMIT, "the demo takes less than a minute once it is built, not {took:?}");
}
