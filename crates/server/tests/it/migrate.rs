//! MIGRATE between two of our servers, and between ours and redis-server in both directions.

use crate::harness::Local;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use tollgate_testkit::{Client, Server, peers};
use tollgate_wire::resp::Value;

const OK: &[u8] = b"OK";
const PASSWORD: &str = "secret";

/// Source and target, and how the source asks.
struct Pair {
    source: Client,
    target: Client,
    to: SocketAddr,
}

impl Pair {
    fn new(source: SocketAddr, to: SocketAddr) -> Pair {
        let mut target = Client::connect(to).unwrap();
        target.line(&format!("AUTH {PASSWORD}")).unwrap();
        Pair {
            source: Client::connect(source).unwrap(),
            target,
            to,
        }
    }

    /// MIGRATE of a key, or of none (`-`), into a database with options.
    fn migrate(&mut self, key: &str, rest: &str) -> Value {
        let port = self.to.port().to_string();
        let mut words = vec!["MIGRATE", "127.0.0.1", &port];
        words.push(if key == "-" { "" } else { key });
        words.extend(rest.split(' '));
        self.source.call(&words).unwrap()
    }

    #[track_caller]
    fn source_has(&mut self, key: &str, found: bool) {
        let answer = self.source.line(&format!("EXISTS {key}")).unwrap();
        assert_eq!(answer, Value::Int(found.into()), "{key} at the source");
    }

    #[track_caller]
    fn target_says(&mut self, question: &str, expected: &str) {
        let answer = self.target.line(question).unwrap();
        let answer = match &answer {
            Value::Int(number) => number.to_string(),
            other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
        };
        assert_eq!(answer, expected, "{question}");
    }
}

fn ok() -> Value {
    Value::Simple(OK.to_vec())
}

#[track_caller]
fn refused(answer: &Value, start: &str) {
    let Value::Error(line) = answer else {
        panic!("{answer:?} is not an error")
    };
    let line = String::from_utf8_lossy(line);
    assert!(line.starts_with(start), "{line}");
}

fn check(pair: &mut Pair) {
    let timeout = "60000";
    let auth = format!("0 {timeout} AUTH {PASSWORD}");
    // A password is asked for.
    pair.source.line("SET k v").unwrap();
    let answer = pair.migrate("k", &format!("0 {timeout}"));
    refused(&answer, "ERR Target instance replied with error: NOAUTH");
    pair.source_has("k", true);
    let answer = pair.migrate("k", &format!("0 {timeout} AUTH wrong"));
    refused(&answer, "ERR Target instance replied with error: WRONGPASS");
    pair.source_has("k", true);
    // A key moves, with its expiry.
    pair.source.line("PEXPIREAT k 4102444800000").unwrap();
    assert_eq!(pair.migrate("k", &auth), ok());
    pair.source_has("k", false);
    pair.target_says("GET k", "v");
    // The time left is sent, and some milliseconds pass on the way.
    let Value::Int(at) = pair.target.line("PEXPIRETIME k").unwrap() else {
        panic!("a time")
    };
    assert!((4_102_444_700_000..4_102_444_900_000).contains(&at), "{at}");
    assert_eq!(pair.migrate("k", &auth), Value::Simple(b"NOKEY".to_vec()));
    // A key that is there already stays where it is.
    pair.source.line("SET k w").unwrap();
    let answer = pair.migrate("k", &auth);
    refused(&answer, "ERR Target instance replied with error: BUSYKEY");
    pair.source_has("k", true);
    pair.target_says("GET k", "v");
    let answer = pair.migrate("k", &format!("0 {timeout} COPY REPLACE AUTH {PASSWORD}"));
    assert_eq!(answer, ok());
    pair.source_has("k", true);
    pair.target_says("GET k", "w");
    pair.target_says("PTTL k", "-1");
    check_several(pair);
}

/// KEYS, AUTH2, another database, every type.
fn check_several(pair: &mut Pair) {
    let auth = format!("3 60000 AUTH2 default {PASSWORD}");
    for command in [
        "DEL k",
        "SET s 12",
        "RPUSH l a b c",
        "SADD t 1 2 x",
        "HSET h f v",
        "ZADD z 1.5 m",
        "XADD x 1-1 a b",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g bob STREAMS x >",
    ] {
        pair.source.line(command).unwrap();
    }
    let answer = pair.migrate("-", &format!("{auth} KEYS s l none t h z x"));
    assert_eq!(answer, ok());
    assert_eq!(pair.source.line("DBSIZE").ok(), Some(Value::Int(0)));
    pair.target.line("SELECT 3").unwrap();
    for (question, expected) in [
        ("DBSIZE", "6"),
        ("GET s", "12"),
        ("LINDEX l 2", "c"),
        ("LLEN l", "3"),
        ("SISMEMBER t x", "1"),
        ("SCARD t", "3"),
        ("HGET h f", "v"),
        ("ZSCORE z m", "1.5"),
        ("XLEN x", "1"),
        ("XACK x g 1-1", "1"),
    ] {
        pair.target_says(question, expected);
    }
    // Of several keys those that the target takes are gone, the others stay.
    pair.source.line("MSET a 1 s 2 b 3").unwrap();
    let answer = pair.migrate("-", &format!("{auth} KEYS a s b"));
    refused(&answer, "ERR Target instance replied with error: BUSYKEY");
    pair.source_has("a", false);
    pair.source_has("s", true);
    pair.source_has("b", false);
    pair.target_says("GET s", "12");
    pair.target_says("GET b", "3");
    let answer = pair.migrate(
        "-",
        &format!("{} KEYS s", auth.replace("AUTH2", "REPLACE AUTH2")),
    );
    assert_eq!(answer, ok());
    pair.target_says("GET s", "2");
    // A database that the target does not have.
    pair.source.line("SET k v").unwrap();
    let answer = pair.migrate("k", &format!("9999 60000 AUTH {PASSWORD}"));
    refused(
        &answer,
        "ERR Target instance replied with error: ERR DB index",
    );
    pair.source_has("k", true);
}

fn ours(password: bool) -> Local {
    let settings: &[(&str, &str)] = if password {
        &[("requirepass", PASSWORD)]
    } else {
        &[]
    };
    Local::start(settings)
}

#[test]
fn keys_move_between_two_of_ours() {
    let (source, target) = (ours(false), ours(true));
    check(&mut Pair::new(source.addr, target.addr));
}

#[test]
fn keys_move_to_redis() {
    let Some(target) = Server::redis(&["--requirepass", PASSWORD]).unwrap() else {
        return peers::skip("keys_move_to_redis", "redis-server");
    };
    let source = ours(false);
    check(&mut Pair::new(source.addr, target.addr()));
}

#[test]
fn keys_move_from_redis() {
    let Some(source) = Server::redis(&[]).unwrap() else {
        return peers::skip("keys_move_from_redis", "redis-server");
    };
    let target = ours(true);
    check(&mut Pair::new(source.addr(), target.addr));
}

#[test]
fn what_is_no_store_takes_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .write_all(
                b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            )
            .unwrap();
        // Until the other side goes, so that what it wrote is no reason to reset the connection.
        stream.read_to_end(&mut Vec::new()).ok();
    });
    let source = ours(false);
    let mut client = Client::connect(source.addr).unwrap();
    client.line("SET k v").unwrap();
    let port = to.port().to_string();
    let answer = client.call(&["MIGRATE", "127.0.0.1", &port, "k", "0", "60000"]);
    refused(&answer.unwrap(), "IOERR error or timeout reading");
    assert_eq!(client.line("EXISTS k").ok(), Some(Value::Int(1)));
    answering.join().unwrap();
}
