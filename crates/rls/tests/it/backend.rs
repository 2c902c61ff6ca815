//! Remote stores: what they decide, and what happens when they cannot.

use std::time::{Duration, Instant};

use tollgate_testkit::{PATIENCE, Server, peers};
use tollgate_wire::resp::Value;
use tollgate_wire::rls::RateLimitDescriptor;
use tollgate_wire::rls::UInt64Value;
use tollgate_wire::rls::rate_limit_response::Code;
use tonic::Code as GrpcCode;

use crate::support::{RULES, Service, descriptor, redis, request};

#[tokio::test]
async fn redis_gives_the_answers_of_the_embedded_store() {
    let Some(redis) = redis("redis_gives_the_answers_of_the_embedded_store", &[]) else {
        return;
    };
    compare_with_embedded(&redis).await;
}

#[tokio::test]
async fn valkey_gives_the_answers_of_the_embedded_store() {
    let Some(program) = peers::find_where_packaged("valkey-server") else {
        return;
    };
    let valkey = Server::like_redis(&program, &[]).expect("valkey-server starts");
    compare_with_embedded(&valkey).await;
}

#[tokio::test]
async fn tollgate_gives_the_answers_of_the_embedded_store() {
    let tollgate = Server::tollgate(&[]).expect("tollgate starts");
    compare_with_embedded(&tollgate).await;
    let mut control = tollgate.connect().expect("tollgate answers");
    let kind = control
        .call(&["TYPE", "rl:M:4:test:3:ten:1:a"])
        .expect("tollgate answers");
    assert_eq!(
        kind,
        Value::Simple(b"ratelimit".to_vec()),
        "its own command counts"
    );
}

/// The same requests get the same answers from the embedded store and from another.
async fn compare_with_embedded(store: &Server) {
    let (embedded, remote) = (
        Service::embedded(),
        Service::remote(&format!("redis://{}", store.addr())),
    );
    let (mut embedded, mut remote) = (embedded.client().await, remote.client().await);
    let hits = |pairs: &[&str], value| RateLimitDescriptor {
        hits_addend: Some(UInt64Value { value }),
        ..descriptor(pairs)
    };
    let back = |pairs: &[&str], value| RateLimitDescriptor {
        is_negative_hits: true,
        ..hits(pairs, value)
    };
    let requests = [
        vec![descriptor(&["ten=a"])],
        vec![descriptor(&["ten=a"]), descriptor(&["ten=a"])],
        vec![hits(&["ten=a"], 7), hits(&["hundred=a"], 50)],
        vec![hits(&["ten=a"], 1), hits(&["hundred=a"], 50)],
        vec![hits(&["ten=a"], 7), hits(&["ten=a"], 0)],
        vec![hits(&["ten=a"], 11)],
        vec![hits(&["hundred=a"], 49), descriptor(&["none=x"])],
        vec![
            hits(&["hundred=a"], 49),
            descriptor(&["open=x"]),
            descriptor(&["other=x"]),
        ],
        vec![hits(&["hundred=a"], 50), descriptor(&["hundred=a"])],
        vec![hits(&["ten=a"], u64::MAX)],
        vec![
            descriptor(&["hundred=a", "user=b"]),
            descriptor(&["hundred=a"]),
            descriptor(&["one=a"]),
        ],
        vec![
            descriptor(&["hundred=a", "user=b"]),
            descriptor(&["hundred=a"]),
            descriptor(&["one=a"]),
        ],
        vec![back(&["ten=a"], 4), descriptor(&["hundred=b"])],
        vec![back(&["ten=a"], 100), descriptor(&["none=x"])],
        vec![back(&["ten=nobody"], 1)],
        vec![hits(&["ten=a"], 10)],
        vec![descriptor(&["shadow=a"]), descriptor(&["ten=b"])],
        vec![descriptor(&["shadow=a"]), descriptor(&["ten=b"])],
        vec![descriptor(&["shadow=b"]), descriptor(&["none=x"])],
        vec![descriptor(&["shadow=b"])],
        vec![descriptor(&["quota=a"]), descriptor(&["none=x"])],
        vec![descriptor(&["quota=a"]), descriptor(&["ten=c"])],
        vec![hits(&["quota=a"], 2), descriptor(&["ten=c"])],
        vec![hits(&["quota=a"], 2), descriptor(&["quota=b"])],
        vec![descriptor(&["ten=c"])],
        vec![descriptor(&["shared=files1"])],
        vec![descriptor(&["shared=files2"])],
        vec![descriptor(&["shared=files3"])],
    ];
    for descriptors in requests {
        let mut want = embedded
            .ask(request(descriptors.clone()))
            .await
            .expect("an answer");
        let mut got = remote
            .ask(request(descriptors.clone()))
            .await
            .expect("an answer");
        for status in want.statuses.iter_mut().chain(&mut got.statuses) {
            // The two clocks may stand on both sides of a second.
            let reset = status.duration_until_reset.take();
            assert_eq!(reset.is_some(), status.current_limit.is_some());
        }
        assert_eq!(got, want, "{descriptors:?}");
    }
}

#[tokio::test]
async fn scripts_are_loaded_again_when_the_store_forgets_them() {
    let Some(redis) = redis("scripts_are_loaded_again", &[]) else {
        return;
    };
    let service = Service::remote(&format!("redis://{}", redis.addr()));
    let mut client = service.client().await;
    let mut control = redis.connect().expect("redis-server answers");
    for left in [9, 8, 7] {
        let response = client
            .ask(request(vec![descriptor(&["ten=flush"])]))
            .await
            .expect("an answer");
        assert_eq!(response.statuses[0].limit_remaining, left);
        control
            .call(&["SCRIPT", "FLUSH"])
            .expect("redis-server answers");
    }
}

#[tokio::test]
async fn counters_go_with_their_window() {
    let Some(redis) = redis("counters_go_with_their_window", &[]) else {
        return;
    };
    let service = Service::remote(&format!("redis://{}", redis.addr()));
    let mut client = service.client().await;
    client
        .ask(request(vec![descriptor(&["hundred=a", "user=b"])]))
        .await
        .expect("an answer");
    let mut control = redis.connect().expect("redis-server answers");
    let ttl = control
        .call(&["PTTL", "rl:d:4:test:7:hundred:1:a:4:user:1:b"])
        .expect("redis-server answers");
    let ttl = ttl.as_int().expect("an integer");
    assert!((1..=86_400_000).contains(&ttl), "{ttl}");
}

#[tokio::test]
async fn a_password_and_a_database_are_used() {
    let Some(redis) = redis(
        "a_password_and_a_database_are_used",
        &["--requirepass", "sesame"],
    ) else {
        return;
    };
    let service = Service::remote(&format!("redis://:sesame@{}/3", redis.addr()));
    let mut client = service.client().await;
    client
        .ask(request(vec![descriptor(&["ten=a"])]))
        .await
        .expect("an answer");
    let mut control = redis.connect().expect("redis-server answers");
    control
        .call(&["AUTH", "sesame"])
        .expect("redis-server answers");
    control
        .call(&["SELECT", "3"])
        .expect("redis-server answers");
    let exists = control
        .call(&["EXISTS", "rl:M:4:test:3:ten:1:a"])
        .expect("redis-server answers");
    assert_eq!(exists.as_int(), Some(1));

    let wrong = Service::remote(&format!("redis://:wrong@{}", redis.addr()));
    let status = wrong
        .client()
        .await
        .ask(request(vec![descriptor(&["ten=a"])]))
        .await
        .expect_err("refused");
    assert_eq!(status.code(), GrpcCode::Unavailable);
}

/// A store that is away makes errors at once, and decisions again when it is back.
#[tokio::test]
async fn a_store_that_goes_and_comes_back() {
    let Some(redis) = redis("a_store_that_goes_and_comes_back", &[]) else {
        return;
    };
    let addr = redis.addr();
    let service = Service::remote(&format!("redis://{addr}"));
    let mut client = service.client().await;
    let ask = || request(vec![descriptor(&["hundred=back"])]);
    assert_eq!(
        client.ask(ask()).await.expect("an answer").overall_code(),
        Code::Ok
    );
    drop(redis);
    for _ in 0..5 {
        let status = client.ask(ask()).await.expect_err("the store is gone");
        assert_eq!(status.code(), GrpcCode::Unavailable, "{status}");
        assert!(
            status.message().starts_with("rate limit backend: "),
            "{status}"
        );
        let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"ten","value":"x"}]}]}"#;
        let (code, text) = service.json(body);
        assert_eq!(code, 500);
        assert!(
            text.starts_with("Internal Server Error: rate limit backend: "),
            "{text}"
        );
    }
    // What needs no decision is answered all the same.
    let free = client
        .ask(request(vec![descriptor(&["free=x"])]))
        .await
        .expect("an answer");
    assert_eq!(free.overall_code(), Code::Ok);

    let again = restart(addr);
    let deadline = Instant::now() + PATIENCE;
    let response = loop {
        match client.ask(ask()).await {
            Ok(response) => break response,
            Err(status) => assert!(Instant::now() < deadline, "{status}"),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(response.overall_code(), Code::Ok);
    drop(again);
}

/// redis-server once more on an address that was its own a moment ago.
pub(crate) fn restart(addr: std::net::SocketAddr) -> impl Drop {
    struct Process(std::process::Child);
    impl Drop for Process {
        fn drop(&mut self) {
            self.0.kill().expect("redis-server runs");
            self.0.wait().expect("redis-server ends");
        }
    }
    let program = peers::find("redis-server").expect("it ran before");
    let port = addr.port().to_string();
    let mut command = std::process::Command::new(program);
    command.args([
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    command.stdout(std::process::Stdio::null());
    Process(command.spawn().expect("redis-server starts"))
}

/// A store that holds still is an error in time, and the service recovers with it.
#[tokio::test]
async fn a_store_that_stalls() {
    let Some(redis) = redis("a_store_that_stalls", &[]) else {
        return;
    };
    let service = Service::on_store(&format!("redis://{}", redis.addr()), RULES, |config| {
        config.store.timeout = Duration::from_secs(3);
    });
    let mut client = service.client().await;
    let ask = || request(vec![descriptor(&["hundred=stall"])]);
    client.ask(ask()).await.expect("an answer");
    let mut control = redis.connect().expect("redis-server answers");
    // Sleeps in the store's only thread, on a connection whose reply nobody waits for.
    let stalled = std::thread::spawn(move || control.call(&["DEBUG", "SLEEP", "8"]));
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match client.ask(ask()).await {
            Ok(_) => assert!(Instant::now() < deadline, "the store does not stall"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), GrpcCode::Unavailable, "{status}");
    stalled
        .join()
        .expect("no panic")
        .expect("redis-server wakes up");
    let deadline = Instant::now() + PATIENCE;
    while let Err(status) = client.ask(ask()).await {
        assert!(Instant::now() < deadline, "{status}");
    }
}
