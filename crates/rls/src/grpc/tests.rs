//! Connections of a runtime whose peer reads late.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::task::{LocalSet, spawn_local, yield_now};
use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_limiter::Timestamp;
use tollgate_policy::{HeaderForm, Ruleset};
use tollgate_testkit::PATIENCE;

use super::*;
use crate::backend::{AnyBackend, Embedded};
use crate::fallback::Fallbacks;
use crate::health::{Health, HealthNeeds};
use crate::in_force::Loads;
use crate::metrics::Metrics;
use crate::service::Backing;

/// Bytes that lie between the peer and the service, each way.
const ROOM: usize = 4 << 20;
/// A ping, and as many bytes as its answer.
const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
/// What a peer says first.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// What it takes at most of what the service says first.
const GREETED: usize = 256;

fn clock() -> Timestamp {
    Timestamp::from_secs(1)
}

fn service() -> Rc<Service> {
    let (_, rules) = watch::channel(Arc::new(Ruleset::default()));
    let health = Health::new(&rules.borrow(), HealthNeeds::default());
    let metrics = Metrics::new(1, Arc::new(Loads::default()), health.clone(), 0.8);
    let handle = Handle::new(Engine::new(EngineConfig::default()));
    let backing = Backing {
        backend: AnyBackend::Embedded(Embedded::new(handle, clock)),
        local_cache: None,
        fallbacks: Fallbacks::new(clock),
    };
    let counters = Arc::new(metrics).of_thread(0);
    let silent = HeaderForm::Silent;
    Rc::new(Service::new(rules, counters, backing, health, silent, None))
}

#[tokio::test]
async fn a_peer_that_reads_late_is_read_from_again() {
    // More than lies in between and the answers that are kept, both ways.
    const PINGS: usize = (2 * ROOM + 3 * UNWRITTEN_MAX) / PING.len();
    let (near, far) = duplex(ROOM);
    let (_stop, stopped) = watch::channel(false);
    let (mut answers, mut asks) = split(far);
    let work = async {
        spawn_local(serve(near, service(), stopped));
        spawn_local(async move {
            asks.write_all(GREETING).await.expect("it listens");
            let all = PING.repeat(PINGS);
            asks.write_all(&all).await.expect("it listens");
            // Kept open.
            std::future::pending::<()>().await;
        });
        // Until neither side gets on.
        for _ in 0..10_000 {
            yield_now().await;
        }
        let mut room = vec![0; 2 * ROOM];
        let mut came = 0;
        while came < PINGS * PING.len() {
            came += answers.read(&mut room).await.expect("it answers");
        }
        came
    };
    let came = tokio::time::timeout(PATIENCE, LocalSet::new().run_until(work)).await;
    let came = came.expect("all are answered");
    assert!(came <= PINGS * PING.len() + GREETED, "{came}");
}
