//! Requests to a cluster that its client library sends again, since the connection was lost after the node had heard them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::LocalSet;
use tollgate_limiter::{Act, AlgorithmKind, Cost, Method, Quota};
use tollgate_policy::{HotKey, LimitCheck, OnError, Role};
use tollgate_testkit::{Server, peers};

use super::tests::{NOW, YEAR};
use super::{Decide, Places, Stores};
use crate::config::{EnvoyCounters, StoreConfig};

/// A way to a server that closes the connection of a request instead of passing its reply on, once, when it is told to.
struct Cutter {
    port: u16,
    armed: Arc<AtomicBool>,
}

impl Cutter {
    /// Requests with these bytes lose their reply.
    fn listen(listener: TcpListener, to: SocketAddr, bytes: &'static [u8]) -> Self {
        let port = listener.local_addr().expect("bound").port();
        let armed = Arc::new(AtomicBool::new(false));
        let arm = Arc::clone(&armed);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(to) else {
                    return;
                };
                let cut = Arc::new(AtomicBool::new(false));
                pass(&client, &server, {
                    let (armed, cut) = (Arc::clone(&arm), Arc::clone(&cut));
                    move |request| {
                        if request.windows(bytes.len()).any(|part| part == bytes)
                            && armed.swap(false, Ordering::SeqCst)
                        {
                            cut.store(true, Ordering::SeqCst);
                        }
                        true
                    }
                });
                pass(&server, &client, move |_| !cut.load(Ordering::SeqCst));
            }
        });
        Self { port, armed }
    }
}

/// Passes on what comes while it may; then both ways are closed.
fn pass(
    from: &TcpStream,
    to: &TcpStream,
    mut may_pass: impl FnMut(&[u8]) -> bool + Send + 'static,
) {
    let mut from = from.try_clone().expect("a stream");
    let mut to = to.try_clone().expect("a stream");
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if !may_pass(&bytes[..count]) || to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        for stream in [&from, &to] {
            stream.shutdown(Shutdown::Both).ok();
        }
    });
}

/// What is left of ten after all were taken and `back` given back, the reply to which is lost.
async fn left_after(envoy: bool, back: u64) -> Option<u64> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port().to_string();
    let flags = ["--cluster-enabled", "yes", "--cluster-announce-port", &port];
    let node = Server::redis(&flags).expect("redis-server starts")?;
    let mut control = node.connect().expect("a connection");
    let mut ask = |words: &[&str]| {
        let reply = control.call(words).expect("a reply");
        String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned()
    };
    ask(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let began = Instant::now();
    while !ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
        assert!(began.elapsed() < Duration::from_secs(60), "no cluster");
        thread::sleep(Duration::from_millis(10));
    }
    let bytes: &[u8] = if envoy {
        b"DECRBY"
    } else {
        b"$6\r\nrefund\r\n"
    };
    let cutter = Cutter::listen(listener, node.addr(), bytes);
    let store = StoreConfig {
        // A busy machine makes anything wait.
        timeout: Duration::from_secs(20),
        ..StoreConfig::default()
    };
    let url = format!("redis+cluster://127.0.0.1:{}", cutter.port);
    let counters = envoy.then(EnvoyCounters::default);
    let places = Places::one(&url, &store, counters).expect("a URL");
    let stores = Stores::new(&places, || NOW);
    let check = |cost, act| LimitCheck {
        key: b"rl:s:4:shop:4:user:1:a",
        method: Method::Small(AlgorithmKind::FixedWindowEpoch),
        quota: Quota::new(10, YEAR),
        cost: Cost(cost),
        role: Role::Enforced,
        act,
        descriptor: 0,
        on_error: OnError::DEFAULT,
        exact: false,
        predecessor: None,
        hot_key: HotKey::Exact,
    };
    let work = async {
        let taken = stores.decide(&[check(10, Act::Take)]).await;
        assert!(taken.expect("decided")[0].allowed);
        // The node knows the script from here on.
        stores
            .refund(&check(1, Act::Take))
            .await
            .expect("given back");
        cutter.armed.store(true, Ordering::SeqCst);
        stores
            .refund(&check(back, Act::Take))
            .await
            .expect("given back");
        assert!(!cutter.armed.load(Ordering::SeqCst), "nothing was cut");
        let there = stores.decide(&[check(0, Act::Peek)]).await;
        there.expect("decided")[0].remaining
    };
    Some(LocalSet::new().run_until(work).await)
}

#[tokio::test]
async fn units_come_back_once_though_the_request_is_sent_twice() {
    for envoy in [false, true] {
        let Some(left) = left_after(envoy, 2).await else {
            peers::skip(
                "units_come_back_once_though_the_request_is_sent_twice",
                "redis-server",
            );
            return;
        };
        assert_eq!(left, 3, "envoy's counters: {envoy}");
    }
}
