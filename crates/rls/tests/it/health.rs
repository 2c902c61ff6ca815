//! Health as load balancers ask for it.

use std::time::{Duration, Instant};

use prost::Message;
use tollgate_commands::gate::Restrictions;
use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_testkit::process::free_port;
use tollgate_testkit::{PATIENCE, Server, peers};
use tollgate_wire::rls::SERVICE_NAME;
use tonic::Code;

use crate::support::{Service, descriptor, request, told};

pub(crate) const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;
const SERVICE_UNKNOWN: i32 = 3;

#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(crate) struct HealthRequest {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub(crate) struct HealthResponse {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}

fn of(service: &str) -> HealthRequest {
    HealthRequest {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn whoever_watches_is_told_at_once_and_at_the_end() {
    let mut service = Service::embedded();
    let mut client = service.client().await;
    let mut known = Vec::new();
    for name in ["", "ratelimit", SERVICE_NAME] {
        let mut changes = client
            .follow::<_, HealthResponse>(WATCH, of(name))
            .await
            .expect(name);
        let first = changes
            .message()
            .await
            .expect("a message")
            .expect("a first");
        assert_eq!(first.status, SERVING, "{name}");
        known.push(changes);
    }
    let mut unknown = client
        .follow::<_, HealthResponse>(WATCH, of("other"))
        .await
        .expect("a stream");
    let first = unknown
        .message()
        .await
        .expect("a message")
        .expect("a first");
    assert_eq!(first.status, SERVICE_UNKNOWN);
    // One that is given up leaves the others.
    drop(known.pop());
    let server = service.server.take().expect("running");
    server.shutdown();
    for mut changes in known {
        let last = changes.message().await.expect("a message").expect("a last");
        assert_eq!(last.status, NOT_SERVING);
        let end = changes.message().await.expect_err("the service stops");
        assert_eq!(end.code(), Code::Unavailable);
    }
    let end = unknown.message().await.expect_err("the service stops");
    assert_eq!(end.code(), Code::Unavailable);
    tokio::task::spawn_blocking(move || server.wait())
        .await
        .expect("the service ends");
}

#[tokio::test]
async fn health_follows_a_backend_elsewhere() {
    // Nobody listens there.
    let url = format!("redis://127.0.0.1:{}", free_port().expect("a free port"));
    let service = Service::remote(&url);
    becomes(&service, NOT_SERVING).await;
}

/// Waits until the service says so of itself.
async fn becomes(service: &Service, status: i32) {
    let mut client = service.client().await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reply: HealthResponse = client.call(CHECK, of("")).await.expect("an answer");
        if reply.status == status {
            break;
        }
        assert!(Instant::now() < deadline, "still {reply:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = service.http("GET", "/healthcheck", "").0;
    assert_eq!(told, if status == SERVING { 200 } else { 500 });
}

/// A service that could only answer errors must not be sent requests.
#[tokio::test]
async fn health_follows_whether_the_own_store_counts() {
    let engine = Engine::new(EngineConfig::default());
    let service = |on_error| {
        let rules = format!(
            "domain: d\ndescriptors: [{{key: a, rate_limit: {{unit: day, requests_per_unit: 1, on_error: {on_error}}}}}]\n"
        );
        Service::with_store(Handle::new(engine.clone()), &rules)
    };
    let (errs, decides) = (service("error"), service("closed"));
    becomes(&errs, SERVING).await;
    engine.refuse_writes_without_replicas(true);
    becomes(&errs, NOT_SERVING).await;
    becomes(&decides, SERVING).await;
    engine.refuse_writes_without_replicas(false);
    becomes(&errs, SERVING).await;
    engine.restrict(Restrictions::READ_ONLY);
    becomes(&errs, NOT_SERVING).await;
    engine.restrict(Restrictions::NONE);
    becomes(&errs, SERVING).await;
}

/// A store that answers but takes no writes decides nothing. A look at it goes well all the same, so once a request has failed the
/// store is asked to count.
async fn health_follows_whether_a_store_elsewhere_counts(store: &Server) {
    let service = Service::remote(&format!("redis://{}", store.addr()));
    let mut client = service.client().await;
    let mut ask = async || client.ask(request(vec![descriptor(&["ten=x"])])).await;
    ask().await.expect("an answer");
    becomes(&service, SERVING).await;
    let mut control = store.connect().expect("it listens");
    let mut needs = |replicas| {
        let words = ["CONFIG", "SET", "min-replicas-to-write", replicas];
        told(&mut control, &words);
    };
    needs("1");
    ask().await.expect_err("nothing is counted");
    becomes(&service, NOT_SERVING).await;
    // With nobody who asks.
    needs("0");
    becomes(&service, SERVING).await;
    ask().await.expect("an answer");
}

#[tokio::test]
async fn health_follows_whether_redis_counts() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip("health_follows_whether_redis_counts", "redis-server");
    };
    health_follows_whether_a_store_elsewhere_counts(&redis).await;
}

#[tokio::test]
async fn health_follows_whether_a_tollgate_elsewhere_counts() {
    let store = Server::tollgate(&[]).expect("it starts");
    health_follows_whether_a_store_elsewhere_counts(&store).await;
}
