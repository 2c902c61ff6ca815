//! Decisions while a long command of another client holds a part of the store in this process: others go on, those that need
//! that part wait, and not for longer than they may.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tollgate_commands::{CmdError, NodeCommand, Reply};
use tollgate_engine::{Engine, EngineConfig, Handle, Node, NodeCx, Session};
use tollgate_net::Backend as Io;
use tollgate_rls::{RlsConfig, RlsServer};
use tollgate_testkit::PATIENCE;
use tollgate_wire::resp::{ReplyBuf, Value, read_value};
use tollgate_wire::rls::rate_limit_response::Code;
use tonic::Code as GrpcCode;

use crate::support::{Client, descriptor, http_exchange, request, system_clock};
use crate::tls::Files;

const RULES: &str = "
domain: test
descriptors:
  - key: error
    rate_limit: {unit: year, requests_per_unit: 100}
  - key: closed
    rate_limit: {unit: year, requests_per_unit: 100, on_error: closed}
  - key: open
    rate_limit: {unit: year, requests_per_unit: 100, on_error: open}
  - key: quota
    quota_mode: all
    rate_limit: {unit: year, requests_per_unit: 100}
";

/// A server that answers no command of its own.
struct NoNode;

impl Node for NoNode {
    fn run(&mut self, _command: NodeCommand, _cx: NodeCx<'_>) -> Result<Reply, CmdError> {
        Err(CmdError::err("not a server"))
    }
}

fn run(engine: &Engine, session: &mut Session, words: &[&[u8]]) -> Value {
    let mut out = ReplyBuf::default();
    engine.execute(session, words, system_clock(), &mut out, &mut NoNode);
    let (value, _) = read_value(out.bytes()).expect("valid").expect("whole");
    value
}

/// The only counter there is.
fn counter(engine: &Engine) -> Vec<u8> {
    match run(engine, &mut Session::new(1, true), &[b"KEYS", b"*"]) {
        Value::Array(mut keys) if keys.len() == 1 => match keys.remove(0) {
            Value::Bulk(key) => key,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A script that holds the shard of a key until it is killed.
struct Script {
    engine: Arc<Engine>,
    thread: JoinHandle<Value>,
}

impl Script {
    fn start(engine: &Arc<Engine>, key: &[u8]) -> Script {
        // It runs for as long as the test does, however slow the machine.
        engine.set_script_time_limit(0);
        let (runs, key) = (engine.clone(), key.to_vec());
        let thread = std::thread::spawn(move || {
            let mut session = Session::new(2, true).for_worker();
            let words: [&[u8]; 4] = [b"EVAL", b"while true do end return KEYS[1]", b"1", &key];
            run(&runs, &mut session, &words)
        });
        let script = Script {
            engine: engine.clone(),
            thread,
        };
        script.until("no script", || script.engine.is_kept());
        script
    }

    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    fn end(self) {
        self.until("it cannot be killed", || {
            let killed = run(
                &self.engine,
                &mut Session::new(3, true),
                &[b"SCRIPT", b"KILL"],
            );
            killed == Value::Simple(b"OK".to_vec()) || !self.is_running()
        });
        self.thread.join().expect("a script");
    }
}

/// A service of one thread, and its store.
struct Busy {
    _files: Files,
    engine: Arc<Engine>,
    server: RlsServer,
}

impl Busy {
    fn new(change: impl FnOnce(&mut RlsConfig)) -> Busy {
        let files = Files::new();
        std::fs::write(files.folder().join("rules.yaml"), RULES).expect("the folder is ours");
        let engine = Engine::new(EngineConfig::default());
        let server = files.serve_on(Handle::new(engine.clone()), |config| {
            config.threads = 1;
            change(config);
        });
        Busy {
            _files: files,
            engine,
            server,
        }
    }

    async fn client(&self) -> Client {
        Client::connect(self.server.grpc_addr().expect("TCP")).await
    }

    /// Asks over HTTP on a thread of its own: status and body.
    fn http(&self, path: &'static str, key: &'static str) -> JoinHandle<(u16, String)> {
        let addr = self.server.http_addr().expect("TCP");
        std::thread::spawn(move || {
            let body = format!(
                r#"{{"domain":"test","descriptors":[{{"entries":[{{"key":"{key}","value":"v"}}]}}]}}"#
            );
            let (status, _, body) = http_exchange(addr, "POST", path, &body);
            (status, body)
        })
    }
}

async fn ask(client: &mut Client, pair: &'static str) -> Result<Code, GrpcCode> {
    let asked = client.ask(request(vec![descriptor(&[pair])]));
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    let answer = answer.unwrap_or_else(|_| panic!("{pair}: no answer"));
    answer
        .map(|answer| answer.overall_code())
        .map_err(|status| status.code())
}

async fn until_it_passes(client: &mut Client, pair: &'static str) {
    let deadline = Instant::now() + PATIENCE;
    while ask(client, pair).await != Ok(Code::Ok) {
        assert!(Instant::now() < deadline, "{pair}: never");
    }
}

async fn joined<T: Send + 'static>(thread: JoinHandle<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    while !thread.is_finished() {
        assert!(Instant::now() < deadline, "no answer");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    thread.join().expect("an answer")
}

#[tokio::test]
async fn decisions_elsewhere_go_on_while_those_that_need_what_is_held_wait() {
    for io in [Io::Auto, Io::Epoll] {
        for pair in ["error=v", "quota=v"] {
            let key = pair.split('=').next().expect("a key");
            let service = Busy::new(|config| config.io = io);
            let mut client = service.client().await;
            assert_eq!(ask(&mut client, pair).await, Ok(Code::Ok));
            let held = counter(&service.engine);
            let script = Script::start(&service.engine, &held);
            // On the same connection and on others.
            let mut waiting = Box::pin({
                let mut client = client.clone();
                async move { ask(&mut client, pair).await }
            });
            assert!((&mut waiting).now_or_never().is_none());
            let over_http = [service.http("/json", key), service.http("/v1/decide", key)];
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert_eq!(ask(&mut client, "open=other").await, Ok(Code::Ok), "{io:?}");
                let told = joined(service.http("/json", "closed")).await;
                assert_eq!(told.0, 200, "{io:?}: {}", told.1);
            }
            assert!((&mut waiting).now_or_never().is_none(), "{io:?}");
            assert!(over_http.iter().all(|thread| !thread.is_finished()));
            assert!(script.is_running());
            script.end();
            assert_eq!(waiting.await, Ok(Code::Ok), "{io:?}");
            for thread in over_http {
                let (status, body) = joined(thread).await;
                assert_eq!(status, 200, "{io:?}: {body}");
            }
            // Each was counted once: 1, 3 that waited, and this one.
            let (status, body) = joined(service.http("/v1/decide", key)).await;
            assert_eq!(status, 200);
            assert!(body.contains(r#""remaining":95"#), "{io:?} {pair}: {body}");
        }
    }
}

#[tokio::test]
async fn who_has_waited_for_long_enough_is_answered_by_the_rule() {
    for (pair, told) in [
        ("error=v", Err(GrpcCode::Unavailable)),
        ("closed=v", Ok(Code::OverLimit)),
        ("open=v", Ok(Code::Ok)),
    ] {
        let key = pair.split('=').next().expect("a key");
        let service = Busy::new(|config| config.shed_after = Duration::from_secs(2));
        let mut client = service.client().await;
        // A machine that does much else may hold up any request for that long.
        until_it_passes(&mut client, pair).await;
        let held = counter(&service.engine);
        let script = Script::start(&service.engine, &held);
        assert_eq!(ask(&mut client, pair).await, told, "{pair}");
        let (status, body) = joined(service.http("/v1/decide", key)).await;
        let expected = match told {
            Ok(Code::Ok) => 200,
            Ok(_) => 429,
            Err(_) => 503,
        };
        assert_eq!(status, expected, "{body}");
        assert!(script.is_running());
        script.end();
        until_it_passes(&mut client, pair).await;
    }
}

/// A connection with TLS is served by a runtime, whose other connections go on too.
#[tokio::test]
async fn a_runtime_waits_for_nobody_either() {
    let files = Files::new();
    std::fs::write(files.folder().join("rules.yaml"), RULES).expect("the folder is ours");
    let engine = Engine::new(EngineConfig::default());
    let server = files.serve_on(Handle::new(engine.clone()), |config| {
        config.threads = 1;
        config.http_tls = Some(files.tls(None));
    });
    let addr = server.http_addr().expect("TCP");
    let ask = async |key: &'static str| {
        let io = files.connect(addr, "server", None).await.expect("TLS");
        crate::kept::ask_http(io, key).await
    };
    assert_eq!(ask("error").await, "HTTP/1.1 200 OK");
    let script = Script::start(&engine, &counter(&engine));
    let mut waiting = Box::pin(ask("error"));
    let early = tokio::time::timeout(Duration::from_millis(300), &mut waiting);
    assert!(early.await.is_err(), "it waits");
    let other = tokio::time::timeout(PATIENCE, async {
        tokio::select! {
            _ = &mut waiting => panic!("it waits"),
            told = ask("open") => told,
        }
    });
    assert_eq!(other.await.expect("it goes on"), "HTTP/1.1 200 OK");
    assert!(script.is_running());
    script.end();
    assert_eq!(waiting.await, "HTTP/1.1 200 OK");
}

/// One after another, whatever is held up: HTTP/1.1 has no other order.
#[test]
fn requests_behind_one_that_waits_are_answered_behind_it() {
    for io in [Io::Auto, Io::Epoll] {
        let service = Busy::new(|config| config.io = io);
        let ask = |key: &str, more: &str| {
            let body = format!(
                r#"{{"domain":"test","descriptors":[{{"entries":[{{"key":"{key}","value":"v"}}]}}]}}"#
            );
            let length = body.len();
            format!(
                "POST /json HTTP/1.1\r\nhost: x\r\n{more}content-length: {length}\r\n\r\n{body}"
            )
        };
        let mut stream =
            TcpStream::connect(service.server.http_addr().expect("TCP")).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let first = ask("error", "");
        stream.write_all(first.as_bytes()).expect("it reads");
        let mut answer = [0; 4096];
        let len = stream.read(&mut answer).expect("an answer");
        assert!(answer[..len].starts_with(b"HTTP/1.1 200"), "{io:?}");
        let script = Script::start(&service.engine, &counter(&service.engine));
        let last = ask("closed", "connection: close\r\n");
        let all = [&*first, &ask("open", ""), &first, &last].concat();
        // The last one comes while the first is waited for, in pieces.
        let (now, later) = all.split_at(all.len() - last.len() - 5);
        stream.write_all(now.as_bytes()).expect("it reads");
        // Another connection shows that the first bytes have been looked at.
        let (status, _) = service.http("/json", "open").join().expect("an answer");
        assert_eq!(status, 200);
        stream.write_all(later.as_bytes()).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("open");
        let brief = Some(Duration::from_millis(50));
        stream.set_read_timeout(brief).expect("a socket");
        assert!(stream.read(&mut answer).is_err(), "{io:?}: answered");
        assert!(script.is_running());
        script.end();
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut answers = String::new();
        stream.read_to_string(&mut answers).expect("answers");
        assert_eq!(
            answers.matches("HTTP/1.1 200 OK").count(),
            4,
            "{io:?}: {answers}"
        );
    }
}
