//! Many clients at once, of every algorithm and protocol, and what they got.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tollgate_wire::rls::rate_limit_response::Code;

use crate::replica::Replica;
use crate::resp::Resp;
use crate::support::{Client, Service, descriptor, request};

pub(crate) const CLIENTS: usize = 100;
/// Of each algorithm. Periods are a year, so that nothing comes back during a test.
pub(crate) const LIMIT: usize = 60;
/// Requests for each algorithm before something happens: fewer than the limit.
pub(crate) const BEFORE: usize = 20;
/// Most requests of a client that asks until something has happened.
const MOST: usize = 5_000;

/// Keys of the rules, each named after its algorithm.
pub(crate) const KEYS: [&str; 10] = [
    "fixed-window",
    "fixed-window-epoch",
    "gcra",
    "sliding-window",
    "token-bucket",
    "leaky-bucket",
    "sliding-log",
    "calendar",
    "concurrency",
    "several",
];

/// How many of the requests for each key passed.
pub(crate) type Passed = [usize; KEYS.len()];

pub(crate) fn rules() -> String {
    let mut text = "domain: test\ndescriptors:\n".to_owned();
    for key in KEYS {
        let limit = match key {
            "concurrency" => format!("concurrency: {LIMIT}, lease: 10h"),
            "calendar" => format!("period: 1y, zone: UTC, requests_per_unit: {LIMIT}"),
            "several" => format!(
                "limits: [{{name: a, period: 365d, requests_per_unit: {LIMIT}, algorithm: gcra}}, \
                 {{name: b, concurrency: {}, lease: 10h}}]",
                LIMIT + 1
            ),
            algorithm => {
                format!("period: 365d, requests_per_unit: {LIMIT}, algorithm: {algorithm}")
            }
        };
        text.push_str(&format!("  - {{key: {key}, rate_limit: {{{limit}}}}}\n"));
    }
    text
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    Grpc,
    Http,
    /// The store's own commands, where the place has a store.
    Resp,
}

/// Where a service listens.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) resp: Option<SocketAddr>,
}

impl Place {
    pub(crate) fn of(service: &Service) -> Self {
        let server = service.server();
        Self {
            grpc: server.grpc_addr().expect("TCP"),
            http: server.http_addr().expect("TCP"),
            resp: None,
        }
    }

    pub(crate) fn of_process(replica: &Replica) -> Self {
        Self {
            grpc: replica.grpc,
            http: replica.http,
            resp: None,
        }
    }

    /// The same with the store that counts, which has commands of its own.
    pub(crate) fn with_store(self, store: SocketAddr) -> Self {
        Self {
            resp: Some(store),
            ..self
        }
    }

    /// All that can be spoken there.
    fn protocols(&self) -> &'static [Protocol] {
        match self.resp {
            Some(_) => ALL,
            None => BOTH,
        }
    }
}

/// A connection of one client.
pub(crate) enum Link {
    Grpc(Box<Client>),
    Http(TcpStream),
    Resp(Resp),
}

impl Link {
    async fn connect(place: Place, protocol: Protocol) -> Self {
        match protocol {
            Protocol::Grpc => Self::Grpc(Box::new(Client::connect(place.grpc).await)),
            Protocol::Http => Self::Http(TcpStream::connect(place.http).await.expect("it listens")),
            Protocol::Resp => Self::Resp(Resp::connect(place.resp.expect("there is a store"))),
        }
    }

    /// The same where nobody may listen.
    pub(crate) async fn try_connect(place: Place, protocol: Protocol) -> Option<Self> {
        Some(match protocol {
            Protocol::Grpc => Self::Grpc(Box::new(
                Client::try_connect(format!("http://{}", place.grpc)).await?,
            )),
            Protocol::Http => Self::Http(TcpStream::connect(place.http).await.ok()?),
            Protocol::Resp => return None,
        })
    }

    /// Whether one request passes; an error is no answer.
    pub(crate) async fn ask(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match self {
            Self::Grpc(client) => {
                let asked = request(vec![descriptor(&[&format!("{key}={value}")])]);
                let response = client.ask(asked).await;
                let response = response.map_err(|status| status.to_string())?;
                Ok(response.overall_code() == Code::Ok)
            }
            Self::Http(stream) => {
                let status = post(stream, key, value).await;
                match status.map_err(|error| error.to_string())? {
                    200 => Ok(true),
                    429 => Ok(false),
                    other => Err(format!("status {other}")),
                }
            }
            Self::Resp(resp) => resp.ask(key, value).await,
        }
    }
}

/// One exchange with `/v1/decide` on a connection that lives on.
pub(crate) async fn post(stream: &mut TcpStream, key: &str, value: &str) -> std::io::Result<u16> {
    let body = format!(
        r#"{{"domain":"test","descriptors":[{{"entries":[{{"key":"{key}","value":"{value}"}}]}}]}}"#
    );
    let head = format!(
        "POST /v1/decide HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await?;
    let mut seen = Vec::new();
    loop {
        if stream.read_buf(&mut seen).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&seen).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let length = field("content-length: ").and_then(|text| text.parse().ok());
        if body.len() >= length.expect("its length is told") {
            let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
            return Ok(status.expect("a status line"));
        }
    }
}

/// When a client has asked enough.
#[derive(Clone)]
pub(crate) enum Until {
    /// After so many requests for each key.
    Rounds(usize),
    /// Once this is set; each key has been asked for then, however soon that was.
    Set(Arc<AtomicBool>),
}

/// What clients have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) passed: Passed,
    /// Requests without an answer.
    pub(crate) lost: Passed,
}

/// A client, from its first key on. It gives up with the first request that is not answered.
async fn one_client(
    place: Place,
    protocol: Protocol,
    number: usize,
    value: String,
    until: Until,
    start: Arc<Barrier>,
) -> Seen {
    let mut link = Link::connect(place, protocol).await;
    let mut seen = Seen::default();
    start.wait().await;
    for turn in 0..MOST {
        let enough = match &until {
            Until::Rounds(rounds) => turn == rounds * KEYS.len(),
            Until::Set(flag) => turn >= KEYS.len() && flag.load(Ordering::SeqCst),
        };
        if enough {
            break;
        }
        let key = (number + turn) % KEYS.len();
        match link.ask(KEYS[key], &value).await {
            Ok(passed) => seen.passed[key] += usize::from(passed),
            Err(_) => {
                seen.lost[key] += 1;
                break;
            }
        }
    }
    seen
}

/// What `clients` of some protocols (in turn) get together.
pub(crate) async fn storm(
    place: Place,
    protocols: &[Protocol],
    clients: usize,
    value: &str,
    until: Until,
) -> Seen {
    let start = Arc::new(Barrier::new(clients));
    let asking: Vec<_> = (0..clients)
        .map(|number| {
            let protocol = protocols[number % protocols.len()];
            let (value, until, start) = (value.to_owned(), until.clone(), start.clone());
            tokio::spawn(one_client(place, protocol, number, value, until, start))
        })
        .collect();
    let mut all = Seen::default();
    for client in asking {
        let seen = client.await.expect("no panic");
        for key in 0..KEYS.len() {
            all.passed[key] += seen.passed[key];
            all.lost[key] += seen.lost[key];
        }
    }
    all
}

pub(crate) const BOTH: &[Protocol] = &[Protocol::Grpc, Protocol::Http];
pub(crate) const ALL: &[Protocol] = &[Protocol::Grpc, Protocol::Http, Protocol::Resp];

/// As [`storm`] of all that can be spoken, for so many requests of each client for each key, all of which are answered.
pub(crate) async fn passed(place: Place, clients: usize, rounds: usize) -> Passed {
    let until = Until::Rounds(rounds);
    let seen = storm(place, place.protocols(), clients, "v", until).await;
    assert_eq!(seen.lost, [0; KEYS.len()], "every request is answered");
    seen.passed
}

/// Takes a part of each limit.
pub(crate) async fn take_some(place: Place) {
    assert_eq!(passed(place, BEFORE, 1).await, [BEFORE; KEYS.len()]);
}

/// A hundred clients get what [`take_some`] left, and nothing more.
pub(crate) async fn take_the_rest(place: Place) {
    assert_eq!(
        passed(place, CLIENTS, 1).await,
        [LIMIT - BEFORE; KEYS.len()]
    );
}
