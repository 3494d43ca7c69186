//! How many connections wait for another request, over all endpoints of the process, and that none is forgotten in the
//! count whichever way it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste::transport::awc::AwcFactory;
use posthaste::transport::{Transport, TransportFactory};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, watch};

use super::{answer, local_options, on_actix, request};

/// As promised; a few more requests at once than that, over some endpoints.
const MOST: usize = 1_000;
const ENDPOINTS: usize = 3;
const EACH: usize = 340;
const WAVE: usize = ENDPOINTS * EACH;

/// Answers as many requests as come at once, all of them together, so that each has a connection of its own.
struct Receiver {
    url: String,
    made: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    close_all: watch::Sender<()>,
}

impl Receiver {
    /// For waves of so many requests.
    async fn start(wave: usize) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("bound"));
        let (made, open, close_all) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), watch::Sender::new(()));
        let receiver = Receiver { url, made: made.clone(), open: open.clone(), close_all: close_all.clone() };
        let together = Arc::new(Barrier::new(wave));
        actix_rt::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                made.fetch_add(1, Ordering::SeqCst);
                open.fetch_add(1, Ordering::SeqCst);
                let (together, open, mut closing) = (together.clone(), open.clone(), close_all.subscribe());
                actix_rt::spawn(async move {
                    tokio::select! {
                        () = converse(stream, &together) => {}
                        _ = closing.changed() => {}
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        receiver
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    /// Waits until no connection is open. Turns the loop instead of sleeping, so that it works while time stands still.
    async fn all_closed(&self) {
        for _ in 0..1_000_000 {
            if self.open.load(Ordering::SeqCst) == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{} connections stay open", self.open.load(Ordering::SeqCst));
    }
}

/// One connection, until the sender closes it.
async fn converse(mut stream: TcpStream, together: &Barrier) {
    // The small requests of these tests come in one piece.
    while let Ok(1..) = stream.read(&mut [0; 4096]).await {
        together.wait().await;
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.is_err() {
            return;
        }
    }
}

fn endpoints(factory: &AwcFactory) -> Vec<Box<dyn Transport>> {
    (0..ENDPOINTS).map(|_| factory.open()).collect()
}

/// So many requests of each endpoint, all at once; returns how many new connections they took.
async fn wave(transports: &[Box<dyn Transport>], receiver: &Receiver) -> usize {
    let before = receiver.made();
    let sends = transports
        .iter()
        .flat_map(|transport| std::iter::repeat_with(|| transport.send(request(&receiver.url))).take(EACH));
    for report in join_all(sends).await {
        assert_eq!(answer(report).status, 200);
    }
    receiver.made() - before
}

/// Two waves: the first finds no connection waiting, the second as many as may wait.
#[track_caller]
fn assert_all_places_were_free((first, second): (usize, usize), after: &str) {
    assert_eq!((first, WAVE - second), (WAVE, MOST), "new connections, and those used again, after {after}");
}

async fn two_waves(transports: &[Box<dyn Transport>], receiver: &Receiver) -> (usize, usize) {
    (wave(transports, receiver).await, wave(transports, receiver).await)
}

#[test]
fn at_most_1000_connections_of_all_endpoints_wait_and_each_that_ends_gives_its_place_back() {
    let descriptors = rlimit::increase_nofile_limit(u64::MAX).expect("a limit");
    assert!(descriptors > 4_096, "this test needs more than {descriptors} file descriptors");
    on_actix(async {
        let factory = Arc::new(AwcFactory::new(local_options()).expect("no roots"));
        let receiver = Receiver::start(WAVE).await;
        let transports = endpoints(&factory);
        assert_all_places_were_free(two_waves(&transports, &receiver).await, "the start");

        receiver.close_all.send_replace(());
        receiver.all_closed().await;
        assert_all_places_were_free(two_waves(&transports, &receiver).await, "the receiver closed them");

        tokio::time::pause();
        // The janitors take note of their timers before time moves.
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(16)).await;
        receiver.all_closed().await;
        tokio::time::resume();
        // Others need the places, while those whose connections were closed have no request and notice nothing.
        let others = endpoints(&factory);
        assert_all_places_were_free(two_waves(&others, &receiver).await, "15 idle seconds");

        drop((transports, others));
        receiver.all_closed().await;
        let elsewhere = std::thread::spawn({
            let factory = factory.clone();
            move || {
                // This test has its place on the machine.
                actix_rt::System::new().block_on(async {
                    let receiver = Receiver::start(EACH).await;
                    let transport = [factory.open()];
                    (wave(&transport, &receiver).await, wave(&transport, &receiver).await)
                })
            }
        });
        assert_eq!(elsewhere.join().expect("no panic"), (EACH, 0));
        let transports = endpoints(&factory);
        assert_all_places_were_free(two_waves(&transports, &receiver).await, "their endpoints and threads were gone");
    });
}
