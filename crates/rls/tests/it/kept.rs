//! Decisions that are told only when the append-only file has them (`appendfsync always`), on event loops and over TLS.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::FutureExt;
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_engine::{Engine, EngineConfig, Handle};
use tollgate_net::Backend as Io;
use tollgate_rls::RlsServer;
use tollgate_testkit::PATIENCE;
use tollgate_wire::rls::SHOULD_RATE_LIMIT;

use crate::support::{descriptor, request};
use crate::tls::Files;

/// A store that keeps a file which nobody writes: a very slow disk.
fn slow_store() -> (Arc<Engine>, Handle) {
    let engine = Engine::new(EngineConfig::default());
    engine.open_log();
    engine.promise_log(true);
    (engine.clone(), Handle::new(engine))
}

/// Waits until more was decided than the file had before; how much there is.
async fn appended(engine: &Engine, before: u64) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let appended = engine.log_facts().appended;
        if appended > before {
            return appended;
        }
        assert!(Instant::now() < deadline, "nothing is decided");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// `asking` is decided at once, and told when the file has the decision; what it was told.
async fn told_when_kept<T>(engine: &Engine, what: &str, asking: impl Future<Output = T>) -> T {
    let before = engine.log_facts().appended;
    let mut asking = Box::pin(asking);
    let appended = tokio::select! {
        _ = &mut asking => panic!("{what}: told before it was kept"),
        appended = appended(engine, before) => appended,
    };
    // Whatever is on its way already gets its chance to arrive.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!((&mut asking).now_or_never().is_none(), "{what}: told early");
    }
    engine.release_log(appended);
    let told = tokio::time::timeout(PATIENCE, asking).await;
    told.unwrap_or_else(|_| panic!("{what}: never told"))
}

/// The status line of one decision on a connection of HTTP.
pub(crate) async fn ask_http(mut io: impl AsyncRead + AsyncWrite + Unpin, key: &str) -> String {
    let body = format!(
        r#"{{"domain":"test","descriptors":[{{"entries":[{{"key":"{key}","value":"h"}}]}}]}}"#
    );
    let head = format!(
        "POST /json HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    io.write_all(format!("{head}{body}").as_bytes())
        .await
        .expect("it reads");
    let mut reply = Vec::new();
    // A peer of TLS may leave without a word.
    io.read_to_end(&mut reply).await.ok();
    let reply = String::from_utf8(reply).expect("text");
    reply.lines().next().unwrap_or_default().to_owned()
}

/// The first bytes of the answer to one decision over gRPC.
async fn ask_grpc(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Bytes {
    let (sender, connection) = h2::client::handshake(io).await.expect("HTTP/2");
    tokio::spawn(async move { connection.await.ok() });
    let mut sender = sender.ready().await.expect("HTTP/2");
    let head = http::Request::post(format!("http://localhost{SHOULD_RATE_LIMIT}"))
        .header("content-type", "application/grpc")
        .body(())
        .expect("a head");
    let message = request(vec![descriptor(&["hundred=g"])]).encode_to_vec();
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(&message);
    let (response, mut body) = sender.send_request(head, false).expect("a stream");
    body.send_data(framed.freeze(), true).expect("open");
    let mut response = response.await.expect("a response").into_body();
    let data = response.data().await.expect("a message");
    data.expect("a message")
}

/// The beginning of a gRPC message that says OK.
fn is_ok(message: &[u8]) -> bool {
    message.get(5..7) == Some(&[8, 1])
}

#[tokio::test]
async fn event_loops_tell_what_is_kept() {
    for io in [Io::Auto, Io::Epoll] {
        let files = Files::new();
        let (engine, store) = slow_store();
        let server = files.serve_on(store, |config| {
            config.io = io;
            config.threads = 1;
        });
        let connect = TcpStream::connect;
        let http = connect(server.http_addr().expect("TCP"))
            .await
            .expect("it listens");
        let told = told_when_kept(&engine, "HTTP", ask_http(http, "hundred")).await;
        assert_eq!(told, "HTTP/1.1 200 OK", "{io:?}");
        let grpc = connect(server.grpc_addr().expect("TCP"))
            .await
            .expect("it listens");
        let told = told_when_kept(&engine, "gRPC", ask_grpc(grpc)).await;
        assert!(is_ok(&told), "{io:?}: {told:?}");
        end(server);
    }
}

#[tokio::test]
async fn connections_with_tls_tell_what_is_kept() {
    let files = Files::new();
    let (engine, store) = slow_store();
    let server = files.serve_on(store, |config| {
        config.grpc_tls = Some(files.tls(None));
        config.http_tls = Some(files.tls(None));
    });
    let session = async |addr| {
        let session = files.connect(addr, "server", None).await;
        session.expect("a session")
    };
    let http = session(server.http_addr().expect("TCP")).await;
    let told = told_when_kept(&engine, "HTTP", ask_http(http, "hundred")).await;
    assert_eq!(told, "HTTP/1.1 200 OK");
    let grpc = session(server.grpc_addr().expect("TCP")).await;
    let told = told_when_kept(&engine, "gRPC", ask_grpc(grpc)).await;
    assert!(is_ok(&told), "{told:?}");
    end(server);
}

/// Without the promise, or when the file has all, nobody waits.
#[tokio::test]
async fn nothing_is_waited_for_without_a_promise() {
    let files = Files::new();
    let (engine, store) = slow_store();
    engine.promise_log(false);
    let server = files.serve_on(store, |_| {});
    let http = TcpStream::connect(server.http_addr().expect("TCP")).await;
    assert_eq!(
        ask_http(http.expect("it listens"), "hundred").await,
        "HTTP/1.1 200 OK"
    );
    end(server);
}

fn end(server: RlsServer) {
    server.shutdown();
    server.wait();
}
