//! A line protocol: every line is echoed; some words do more.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate_net::{
    Backend, ConnRef, Driver, Flow, GroupOptions, Listener, LoopGroup, LoopGroupBuilder, Mailboxes,
    Peer, PeerAddress, Refused, SocketOptions, Step,
};
use tollgate_testkit::PATIENCE;

/// Bytes of the answer to `big`.
pub(crate) const BIG: usize = 1 << 20;
/// Replies are handed over to the loop above this size.
const YIELD_AT: usize = 128 * 1024;

/// Counters shared with the test.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) open: AtomicUsize,
    pub(crate) most_output: AtomicUsize,
    pub(crate) ran: AtomicUsize,
    pub(crate) last: std::sync::Mutex<Option<ConnRef>>,
}

pub(crate) struct Lines {
    out: Vec<u8>,
    seen: Arc<Seen>,
    limit: usize,
    most: usize,
    idle_ns: Option<i64>,
}

pub(crate) struct Conn {
    last: i64,
}

impl Driver for Lines {
    type Conn = Conn;
    type Message = Option<&'static str>;

    fn open(&mut self, at: ConnRef, peer: Peer, now: i64) -> Result<Conn, Refused> {
        assert!(peer.fd >= 0);
        if self.seen.open.fetch_add(1, Ordering::SeqCst) >= self.most {
            self.seen.open.fetch_sub(1, Ordering::SeqCst);
            return Err(Refused(b"full\n"));
        }
        *self.seen.last.lock().unwrap() = Some(at);
        Ok(Conn { last: now })
    }

    fn data(&mut self, conn: &mut Conn, input: &[u8], now: i64) -> Step {
        conn.last = now;
        let mut consumed = 0;
        while let Some(end) = input[consumed..].iter().position(|&b| b == b'\n') {
            if self.out.len() > YIELD_AT {
                return Step {
                    consumed,
                    needed: 0,
                    flow: Flow::Yield,
                };
            }
            let line = &input[consumed..=consumed + end];
            consumed += end + 1;
            self.seen.ran.fetch_add(1, Ordering::SeqCst);
            match line {
                b"big\n" => self.out.resize(self.out.len() + BIG, b'x'),
                b"quit\n" => {
                    self.out.extend_from_slice(b"bye\n");
                    return Step {
                        consumed,
                        needed: 0,
                        flow: Flow::Close,
                    };
                }
                b"part\n" => {
                    self.out.extend_from_slice(b"bye\n");
                    return Step {
                        consumed,
                        needed: 0,
                        flow: Flow::Farewell,
                    };
                }
                b"note\n" => {}
                b"leave\n" => {
                    return Step {
                        consumed,
                        needed: 0,
                        flow: Flow::Leave,
                    };
                }
                _ => self.out.extend_from_slice(line),
            }
        }
        Step {
            consumed,
            needed: 1,
            flow: Flow::Continue,
        }
    }

    fn message(&mut self, _conn: &mut Conn, message: Self::Message, _now: i64) -> Flow {
        match message {
            None => Flow::Drop,
            Some(text) => {
                self.out.extend_from_slice(text.as_bytes());
                Flow::Continue
            }
        }
    }

    fn unsent(&self) -> &[u8] {
        &self.out
    }

    fn sent(&mut self) {
        self.out.clear();
    }

    fn buffered(&mut self, _conn: &mut Conn, _input: usize, output: usize) {
        self.seen.most_output.fetch_max(output, Ordering::SeqCst);
    }

    fn closed(&mut self, _conn: Conn, _now: i64) {
        self.seen.open.fetch_sub(1, Ordering::SeqCst);
    }

    fn batch_done(&mut self, _now: i64) {}

    fn tick(&mut self, _now: i64) -> Option<i64> {
        None
    }

    fn sweep_interval(&self) -> Option<i64> {
        self.idle_ns.map(|idle| idle / 2)
    }

    fn stale(&self, conn: &Conn, now: i64) -> bool {
        self.idle_ns.is_some_and(|idle| now - conn.last > idle)
    }

    fn output_limit(&self) -> usize {
        self.limit
    }

    fn tcp_keepalive(&self) -> u64 {
        300
    }
}

pub(crate) struct Setup {
    pub(crate) threads: usize,
    pub(crate) limit: usize,
    pub(crate) most: usize,
    pub(crate) idle_ns: Option<i64>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            threads: 2,
            limit: 1 << 20,
            most: usize::MAX,
            idle_ns: None,
        }
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) mailboxes: Arc<Mailboxes<Option<&'static str>>>,
    group: LoopGroup<Option<&'static str>>,
}

pub(crate) const OPTIONS: SocketOptions = SocketOptions { backlog: 511 };

/// Names the backend that the tests run on; without it they run on what is chosen by default.
pub(crate) const BACKEND_VARIABLE: &str = "TOLLGATE_IO_BACKEND";

fn backend() -> Backend {
    match std::env::var(BACKEND_VARIABLE).as_deref() {
        Ok("epoll") => Backend::Epoll,
        Ok(other) => panic!("{BACKEND_VARIABLE}={other}"),
        Err(_) => Backend::Auto,
    }
}

impl Server {
    pub(crate) fn start(setup: &Setup) -> Server {
        let listener = Listener::tcp(IpAddr::V4(Ipv4Addr::LOCALHOST), 0, OPTIONS).unwrap();
        Server::start_on(setup, vec![listener])
    }

    pub(crate) fn start_on(setup: &Setup, listeners: Vec<Listener>) -> Server {
        let address = match listeners[0].address() {
            PeerAddress::Tcp(address) => *address,
            PeerAddress::Unix(_) => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        };
        let seen = Arc::new(Seen::default());
        let builder = LoopGroupBuilder::new(setup.threads, backend()).unwrap();
        let mailboxes = Arc::clone(builder.mailboxes());
        let drivers = (0..setup.threads)
            .map(|_| Lines {
                out: Vec::new(),
                seen: Arc::clone(&seen),
                limit: setup.limit,
                most: setup.most,
                idle_ns: setup.idle_ns,
            })
            .collect();
        let options = GroupOptions {
            name: "test-io",
            cpus: Vec::new(),
            together: 1,
        };
        let group = builder.start(drivers, listeners, &options).unwrap();
        Server {
            address,
            seen,
            mailboxes,
            group,
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn stop(self, grace_ns: i64) -> io::Result<()> {
        self.group.stop(grace_ns);
        self.group.join()
    }
}
