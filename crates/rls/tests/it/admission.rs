//! Of many that ask at once, exactly as many pass as the limit says: for both protocols, on both backends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Barrier};
use std::thread;

use tollgate_testkit::Server;
use tollgate_testkit::peers;
use tollgate_wire::rls::rate_limit_response::Code;

use crate::support::{Client, Service, descriptor, request};

const CONNECTIONS: usize = 100;
/// Requests of each connection.
const EACH: usize = 20;
const LIMIT: usize = 100;

async fn admitted_by_grpc(service: &Service) -> usize {
    let addr = service.server().grpc_addr().expect("TCP");
    let start = Arc::new(tokio::sync::Barrier::new(CONNECTIONS));
    let asking: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let start = start.clone();
            tokio::spawn(async move {
                let mut client = Client::connect(addr).await;
                start.wait().await;
                let mut admitted = 0;
                for _ in 0..EACH {
                    let response = client
                        .ask(request(vec![descriptor(&["hundred=grpc"])]))
                        .await
                        .expect("an answer");
                    admitted += usize::from(response.overall_code() == Code::Ok);
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in asking {
        admitted += task.await.expect("no panic");
    }
    admitted
}

fn admitted_by_http(service: &Service) -> usize {
    let addr = service.server().http_addr().expect("TCP");
    let start = Arc::new(Barrier::new(CONNECTIONS));
    let asking: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let start = start.clone();
            thread::spawn(move || {
                let body = r#"{"domain":"test","descriptors":[{"entries":[{"key":"hundred","value":"http"}]}]}"#;
                let len = body.len();
                let one = format!("POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: {len}\r\n\r\n{body}");
                let mut stream = TcpStream::connect(addr).expect("the service listens");
                start.wait();
                let mut admitted = 0;
                for _ in 0..EACH {
                    stream.write_all(one.as_bytes()).expect("the service reads");
                    let mut seen = Vec::new();
                    while !seen.ends_with(b"}") {
                        let mut chunk = [0; 4096];
                        let n = stream.read(&mut chunk).expect("the service writes");
                        assert!(n > 0, "the service closed the connection");
                        seen.extend_from_slice(&chunk[..n]);
                    }
                    admitted += usize::from(seen.starts_with(b"HTTP/1.1 200"));
                }
                admitted
            })
        })
        .collect();
    asking
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .sum()
}

#[tokio::test(flavor = "current_thread")]
async fn exactly_the_limit_on_the_embedded_store() {
    let service = Service::embedded();
    assert_eq!(admitted_by_grpc(&service).await, LIMIT);
    assert_eq!(admitted_by_http(&service), LIMIT);
}

#[tokio::test(flavor = "current_thread")]
async fn exactly_the_limit_on_redis() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip("exactly_the_limit_on_redis", "redis-server");
    };
    let service = Service::remote(&format!("redis://{}", redis.addr()));
    assert_eq!(admitted_by_grpc(&service).await, LIMIT);
    assert_eq!(admitted_by_http(&service), LIMIT);
}

#[tokio::test(flavor = "current_thread")]
async fn exactly_the_limit_on_tollgate() {
    let tollgate = Server::tollgate(&[]).expect("tollgate starts");
    let service = Service::remote(&format!("redis://{}", tollgate.addr()));
    assert_eq!(admitted_by_grpc(&service).await, LIMIT);
    assert_eq!(admitted_by_http(&service), LIMIT);
}

/// Two services on one store share its counters.
#[tokio::test(flavor = "current_thread")]
async fn two_services_share_one_store() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip("two_services_share_one_store", "redis-server");
    };
    let url = format!("redis://{}", redis.addr());
    let services = [Service::remote(&url), Service::remote(&url)];
    let (first, second) = tokio::join!(
        admitted_by_grpc(&services[0]),
        admitted_by_grpc(&services[1])
    );
    assert_eq!(first + second, LIMIT);
}
