//! `posthaste demo`: a server on a temporary database, receivers that fail on cue, a scaled clock, and a timeline on the
//! terminal as it happens: an event delivered, one retried down its ladder, one dead-lettered and its endpoint disabled,
//! re-enabled, requeued, delivered.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::connection::Connection;
use super::receive::{self, Behaviour, Received};
use super::script::{self, Act};
use super::{Failure, print_line};
use crate::app::App;
use crate::clock::{Clock, system_random};
use crate::config::Given;
use crate::domain::time::Timestamp;
use crate::signals::Signals;

/// How much faster the demo's clock runs: shellorbit's 15-minute ladder takes nine seconds.
const SCALE: f64 = 100.0;
/// The demo gives up if a step takes longer (real time).
const STEP_LIMIT: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(25);

#[derive(Args)]
pub struct Demo {
    /// Keep the server running at the end, to look around
    #[arg(long)]
    stay: bool,
}

/// A receiver of the demo and the endpoint that calls it.
struct Scene {
    name: &'static str,
    endpoint: String,
    heard: Receiver<Received>,
    server: actix_web::dev::ServerHandle,
}

struct Stage {
    api: Connection,
    clock: Clock,
    began: Timestamp,
    colour: bool,
    /// Notifications already told.
    told: HashSet<String>,
}

impl Demo {
    pub fn run(self) -> Result<(), Failure> {
        let folder = temporary_folder()?;
        let done = actix_web::rt::System::new().block_on(self.play(&folder));
        // Nobody needs it any more; if it cannot be removed the system's cleaner will.
        let _ = std::fs::remove_dir_all(&folder);
        done
    }

    async fn play(self, folder: &std::path::Path) -> Result<(), Failure> {
        let key: String = system_random().iter().map(|byte| format!("{byte:02x}")).collect();
        let key = format!("ph_{key}");
        let config = Given {
            listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            database_url: Some(format!("sqlite:{}", folder.join("demo.db").display())),
            allow_target: Some(vec!["127.0.0.0/8".into()]),
            time_scale: Some(SCALE),
            drain_timeout: Some("1s".into()),
            operator_key: Some(key.clone()),
            ..Given::default()
        };
        let app = App::start(config.validate()?).await?;
        let url = format!("http://{}", app.address);
        let clock = app.store.clock().clone();
        let mut stage = Stage {
            api: Connection::new(url.clone(), key.clone()),
            began: clock.now(),
            clock,
            colour: std::io::stdout().is_terminal(),
            told: HashSet::new(),
        };
        let played = stage.play(&url).await;
        let mut signals = Signals::hear();
        if played.is_ok() && self.stay {
            print_line(&format!("\nThe server goes on at {url} with the key {key}; stop it with Ctrl-C."))?;
            signals.next().await;
        }
        app.stop(signals.next()).await;
        played
    }
}

impl Stage {
    async fn play(&mut self, url: &str) -> Result<(), Failure> {
        self.title(&format!("Posthaste on {url}, a temporary database, time runs {SCALE} times faster"))?;
        self.title("1. An event is delivered")?;
        let healthy = self.scene("healthy", "200", "orbit").await?;
        self.post(&healthy, "order.created", json!({"order": 1, "total": "19.90"})).await?;
        self.follow(&healthy, "delivered").await?;

        self.title("2. A receiver is down for a while: shellorbit's ladder is 8s, 32s, 2m, 12m")?;
        let flaky = self.scene("flaky", "503*4,200", "shellorbit").await?;
        self.post(&flaky, "order.paid", json!({"order": 2})).await?;
        self.follow(&flaky, "delivered").await?;

        self.title("3. A receiver answers 410 Gone: dead-lettered, and its endpoint disabled")?;
        let gone = self.scene("gone", "410,200", "orbit").await?;
        let event = self.post(&gone, "order.shipped", json!({"order": 3})).await?;
        self.follow(&gone, "dead").await?;
        let endpoint = self.api.ask("GET", &format!("/endpoints/{}", gone.endpoint), None).await?;
        let reason = endpoint["disabled_reason"].as_str().unwrap_or_default();
        self.line(&format!("endpoint {} is {}: {reason}", gone.endpoint, text(&endpoint["status"])))?;
        self.notifications().await?;

        self.title("4. The receiver is mended: a person enables the endpoint and requeues")?;
        self.api.ask("POST", &format!("/endpoints/{}/enable", gone.endpoint), None).await?;
        self.line(&format!("endpoint {} is enabled; nothing is resurrected by that", gone.endpoint))?;
        let letters = self.api.ask("GET", &format!("/dlq?endpoint_id={}", gone.endpoint), None).await?;
        let letter = text(&letters["data"][0]["id"]).to_owned();
        self.line(&format!("the dead-letter queue holds {letter} ({event})"))?;
        self.api.ask("POST", &format!("/dlq/{letter}/requeue"), None).await?;
        self.line(&format!("{letter} is requeued: run 2, first rung"))?;
        self.follow(&gone, "delivered").await?;
        self.notifications().await?;

        self.title("That is the main job: nothing was lost, every step is in the log.")?;
        for scene in [healthy, flaky, gone] {
            scene.server.stop(false).await;
        }
        print_line(&format!("Run it for real: posthaste serve (see README.md).\nThis one was at {url}."))
    }

    /// A receiver and an endpoint for it.
    async fn scene(&self, name: &'static str, cues: &str, policy: &str) -> Result<Scene, Failure> {
        let (heard_here, heard) = mpsc::channel();
        let script: Vec<Act> = script::acts(&[cues.to_owned()])?;
        let behaviour = Behaviour { script, delay: Duration::ZERO, secrets: Vec::new() };
        let (address, server) = receive::start(SocketAddr::from(([127, 0, 0, 1], 0)), behaviour, heard_here)?;
        let body = json!({
            "url": format!("http://{address}/{name}"),
            "policy": policy,
            "description": format!("the demo's {name} receiver"),
        });
        let endpoint = self.api.ask("POST", "/endpoints", Some(body)).await?;
        let endpoint = text(&endpoint["id"]).to_owned();
        self.line(&format!("endpoint {endpoint} with the policy {policy}; its receiver will answer {cues}"))?;
        Ok(Scene { name, endpoint, heard, server })
    }

    async fn post(&self, scene: &Scene, event_type: &str, data: Value) -> Result<String, Failure> {
        let event = json!({"type": event_type, "data": data, "endpoint_ids": [scene.endpoint]});
        let accepted = self.api.ask("POST", "/events", Some(event)).await?;
        let id = text(&accepted["id"]).to_owned();
        self.line(&format!("202 {id} {event_type} is on disk, delivery {}", text(&accepted["deliveries"][0]["id"])))?;
        Ok(id)
    }

    /// Tells what the scene's receiver hears and where its newest delivery stands, until it is in `state`.
    async fn follow(&mut self, scene: &Scene, state: &str) -> Result<(), Failure> {
        let deadline = tokio::time::Instant::now() + STEP_LIMIT;
        let mut known = Value::Null;
        while tokio::time::Instant::now() < deadline {
            while let Ok(received) = scene.heard.try_recv() {
                let answered = received.answered.map_or("nothing".into(), |status| status.to_string());
                let attempt = received.header("-Attempt");
                self.line(&format!("attempt {attempt} reaches the {} receiver, which answers {answered}", scene.name))?;
            }
            let path = format!("/deliveries?limit=1&endpoint_id={}", scene.endpoint);
            let delivery = self.api.ask("GET", &path, None).await?["data"][0].clone();
            if delivery["updated_at"] != known["updated_at"] {
                self.standing(&delivery)?;
                known = delivery;
            }
            if known["state"] == state {
                return Ok(());
            }
            tokio::time::sleep(GLANCE).await;
        }
        Err(format!("the {} receiver's delivery did not become {state} in time", scene.name).into())
    }

    fn standing(&self, delivery: &Value) -> Result<(), Failure> {
        let id = text(&delivery["id"]);
        match text(&delivery["state"]) {
            "failed" => {
                let due = Timestamp::parse(text(&delivery["next_retry_at"])).unwrap_or(self.began);
                self.line(&self.paint("33", &format!("{id} failed, the next attempt is due at {}", self.elapsed(due))))
            }
            "delivered" => self.line(&self.paint("32", &format!("{id} delivered"))),
            "dead" => self.line(&self.paint("31", &format!("{id} dead ({})", text(&delivery["dead_reason"])))),
            _ => Ok(()),
        }
    }

    /// Tells the notifications that are new.
    async fn notifications(&mut self) -> Result<(), Failure> {
        let list = self.api.ask("GET", "/notifications", None).await?;
        for notice in list["data"].as_array().into_iter().flatten().rev() {
            if self.told.insert(text(&notice["id"]).to_owned()) {
                self.line(&format!("notification {}: {}", text(&notice["kind"]), text(&notice["title"])))?;
            }
        }
        Ok(())
    }

    fn title(&self, text: &str) -> Result<(), Failure> {
        print_line(&format!("\n{}", self.paint("1", text)))
    }

    /// One line of the timeline, with the time that has passed on the demo's clock.
    fn line(&self, text: &str) -> Result<(), Failure> {
        print_line(&format!("{:>7}  {text}", self.elapsed(self.clock.now())))
    }

    fn elapsed(&self, at: Timestamp) -> String {
        let seconds = at.since(self.began).as_millis() / 1_000;
        format!("{}m{:02}s", seconds / 60, seconds % 60)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A folder of our own in the system's place for temporary files.
fn temporary_folder() -> Result<PathBuf, Failure> {
    let random: String = system_random()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let path = std::env::temp_dir().join(format!("posthaste-demo-{random}"));
    std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
