//! Command scripts on the protocol driver itself: no socket, no thread, and a clock that the scripts move.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_engine::{Engine, EngineConfig};
use tollgate_net::signal::Signals;
use tollgate_net::{
    Backend, Clock, ConnRef, Driver, Flow, LoopGroupBuilder, Mailboxes, Peer, PeerAddress,
};
use tollgate_testkit::process::temp_dir;
use tollgate_testkit::script::{self, Executor, Received, run_all};
use tollgate_wire::resp::Limits;

use crate::aof::Aof;
use crate::client::{Clients, Delivery, Signal};
use crate::config::{Config, Key, Live};
use crate::conn::{Conn, RespDriver};
use crate::metrics::Metrics;
use crate::shared::Shared;
use crate::snapshot::SnapshotState;
use crate::workers::Workers;

/// Few enough that keys share shards, many enough that commands of several keys lock several.
const SHARDS: usize = 4;

/// Connections seem to come from this port and those behind it.
const FIRST_PORT: u16 = 10_000;

/// Ports before they repeat.
const PORTS: usize = 50_000;

/// The driver and the buffers that a loop would hold for it.
struct InProcess {
    driver: RespDriver,
    links: Vec<Link>,
    now: i64,
    mailboxes: Arc<Mailboxes<Signal>>,
    /// Where snapshots are written; removed at the end.
    folder: PathBuf,
}

impl Drop for InProcess {
    fn drop(&mut self) {
        // Whoever has removed it already has done no harm.
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

struct Link {
    /// `None` once it is closed.
    conn: Option<Conn>,
    /// It waits: nothing of its input is run.
    waiting: bool,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl InProcess {
    fn new() -> io::Result<InProcess> {
        let builder = LoopGroupBuilder::new(1, Backend::Epoll)?;
        let folder = temp_dir()?;
        let mut config = Config::default();
        config
            .set(Key::Dir, &folder.display().to_string())
            .map_err(io::Error::other)?;
        let settings = Live::new(config);
        let log = Arc::new(crate::log::Log::silent());
        let shared = Shared {
            aof: Aof::new(),
            log: Arc::clone(&log),
            cluster: crate::cluster::ClusterNode::default(),
            engine: Engine::new(EngineConfig {
                shards: SHARDS,
                seed: 7,
                ..EngineConfig::default()
            }),
            clients: Clients::new(Delivery {
                mailboxes: Arc::clone(builder.mailboxes()),
                limits: Arc::clone(settings.output_limits()),
                log,
                budget: crate::eviction::Budget::default(),
                to_replicas: AtomicU64::new(0),
            }),
            settings,
            metrics: Metrics::new(1),
            memcached: crate::memcached::Memcached::new(1 << 20, 1),
            snapshot: SnapshotState::new(Clock::now()),
            loading: crate::loading::Loading::default(),
            failover: crate::failover::Failover::default(),
            link: crate::link::Link::default(),
            judging: Mutex::default(),
            ending: crate::ending::Ending::default(),
            oom_score: Default::default(),
            // What may be long runs at once.
            workers: Workers::new(0),
            mailboxes: Arc::clone(builder.mailboxes()),
            signals: Arc::new(Signals::pipe()?),
            listeners: Arc::clone(builder.listeners()),
            tls: Arc::default(),
            threads: 1,
            backend: builder.backend(),
            started: Clock::monotone(),
            run_id: "0".repeat(40),
            active_expire: AtomicBool::new(true),
            housekeeping: AtomicBool::new(true),
            memory_peak: AtomicU64::new(0),
        };
        shared.engine.name_history(&shared.run_id);
        let driver = RespDriver::new(Arc::new(shared), 0, Limits::authenticated());
        Ok(InProcess {
            driver,
            folder,
            links: Vec::new(),
            now: Clock::now(),
            mailboxes: Arc::clone(builder.mailboxes()),
        })
    }

    fn run(&mut self, link: usize) {
        let Link {
            conn: slot,
            waiting,
            input,
            output,
        } = &mut self.links[link];
        while !*waiting {
            let Some(conn) = slot else { return };
            let step = self.driver.data(conn, input, self.now);
            output.extend_from_slice(self.driver.unsent());
            self.driver.sent();
            input.drain(..step.consumed);
            match step.flow {
                Flow::Continue | Flow::Farewell => return,
                Flow::Yield => {}
                Flow::Wait | Flow::Leave | Flow::Hold => *waiting = true,
                Flow::Close | Flow::Drop => {
                    if let Some(conn) = slot.take() {
                        self.driver.closed(conn, self.now);
                    }
                }
            }
        }
    }
}

impl InProcess {
    /// Lets a wait end that ends within the reader's patience.
    fn wait(&mut self, link: usize, patience: Duration) {
        let link = &self.links[link];
        let patience = i64::try_from(patience.as_nanos()).unwrap_or(i64::MAX);
        let due = self.driver.next_timeout().unwrap_or(i64::MAX);
        if link.waiting && link.output.is_empty() && due <= self.now.saturating_add(patience) {
            self.now = self.now.max(due);
            self.end_waits();
        }
    }

    /// Ends the waits whose time has come.
    fn end_waits(&mut self) {
        while let Some(at) = self.driver.take_timeout(self.now) {
            self.with_conn(at, |driver, conn, now| driver.timed_out(conn, now));
        }
    }

    /// Hands over what connections have posted to each other.
    fn deliver(&mut self) {
        self.driver.batch_done(self.now);
        loop {
            let messages = self.mailboxes.take_messages();
            if messages.is_empty() {
                return;
            }
            for (at, message) in messages {
                self.with_conn(at, |driver, conn, now| driver.message(conn, message, now));
            }
        }
    }

    fn with_conn(&mut self, at: ConnRef, f: impl FnOnce(&mut RespDriver, &mut Conn, i64) -> Flow) {
        let number = at.number() as usize;
        let Some(link) = self.links.get_mut(number) else {
            return;
        };
        let Some(conn) = &mut link.conn else { return };
        let flow = f(&mut self.driver, conn, self.now);
        link.output.extend_from_slice(self.driver.unsent());
        self.driver.sent();
        link.waiting = flow.waits();
        if matches!(flow, Flow::Close | Flow::Drop) {
            self.close(number);
        }
        self.run(number);
    }
}

impl Executor for InProcess {
    fn peer(&self) -> script::Peer {
        script::Peer::Tollgate
    }

    fn connect(&mut self) -> io::Result<usize> {
        let address = |port| PeerAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let peer = Peer {
            remote: address(FIRST_PORT + (self.links.len() % PORTS) as u16),
            local: address(6379),
            kind: 0,
            fd: 0,
        };
        let conn = self
            .driver
            .open(
                ConnRef::without_loop(self.links.len() as u32),
                peer,
                self.now,
            )
            .map_err(|refused| io::Error::other(refused.0.escape_ascii().to_string()))?;
        self.links.push(Link {
            conn: Some(conn),
            waiting: false,
            input: Vec::new(),
            output: Vec::new(),
        });
        Ok(self.links.len() - 1)
    }

    fn close(&mut self, link: usize) {
        if let Some(conn) = self.links[link].conn.take() {
            self.driver.closed(conn, self.now);
        }
    }

    fn send(&mut self, link: usize, bytes: &[u8]) -> io::Result<()> {
        self.links[link].input.extend_from_slice(bytes);
        self.run(link);
        self.deliver();
        Ok(())
    }

    fn receive(&mut self, link: usize, patience: Duration) -> io::Result<Received> {
        self.deliver();
        self.wait(link, patience);
        // A connection that another one has killed notices at its next event.
        self.run(link);
        let link = &mut self.links[link];
        Ok(match (link.output.is_empty(), &link.conn) {
            (false, _) => Received::Bytes(std::mem::take(&mut link.output)),
            (true, Some(_)) => Received::Quiet,
            (true, None) => Received::Closed,
        })
    }

    fn advance(&mut self, time: Duration) {
        let nanos = i64::try_from(time.as_nanos()).expect("scripts wait for milliseconds");
        // The driver reads the clock itself now and then, so it may be ahead.
        self.now = self.now.max(Clock::now()) + nanos;
        self.driver.tick(self.now);
        self.end_waits();
    }
}

#[test]
fn every_script_holds_in_process() {
    run_all(&mut InProcess::new().expect("the parts of a server can be made"));
}

/// Sends a command of `link`; what its connection has then been sent. Nothing is handed over to others.
fn call(store: &mut InProcess, link: usize, command: &str) -> String {
    let input = &mut store.links[link].input;
    input.extend_from_slice(command.as_bytes());
    input.extend_from_slice(b"\r\n");
    store.run(link);
    let output = std::mem::take(&mut store.links[link].output);
    String::from_utf8_lossy(&output).replace("\r\n", " ")
}

/// A message that another thread has sent while the connection was at the command that ends what it was sent for.
#[test]
fn what_was_on_its_way_comes_before_the_end_of_what_it_was_sent_for() {
    let message = "*3 $7 message $1 c $1 x ";
    let pattern = "*4 $8 pmessage $1 * $1 c $1 x ";
    for (begin, end, expected) in [
        (
            "SUBSCRIBE c",
            "UNSUBSCRIBE c",
            [message, "*3 $11 unsubscribe $1 c :0 "].concat(),
        ),
        (
            "SUBSCRIBE c",
            "UNSUBSCRIBE",
            [message, "*3 $11 unsubscribe $1 c :0 "].concat(),
        ),
        (
            "PSUBSCRIBE *",
            "PUNSUBSCRIBE *",
            [pattern, "*3 $12 punsubscribe $1 * :0 "].concat(),
        ),
        ("SUBSCRIBE c", "RESET", [message, "+RESET "].concat()),
    ] {
        let mut store = InProcess::new().expect("the parts of a server can be made");
        let listener = store.connect().expect("it is let in");
        let other = store.connect().expect("it is let in");
        call(&mut store, listener, begin);
        assert_eq!(call(&mut store, other, "PUBLISH c x"), ":1 ");
        assert_eq!(call(&mut store, listener, end), expected, "{end}");
    }
}

#[test]
fn what_was_on_its_way_is_in_the_words_of_the_protocol_until_then() {
    let push = ">2 $10 invalidate *1 $1 k ";
    for end in ["RESET", "HELLO 2"] {
        let mut store = InProcess::new().expect("the parts of a server can be made");
        let reader = store.connect().expect("it is let in");
        let other = store.connect().expect("it is let in");
        for command in ["HELLO 3", "CLIENT TRACKING ON", "GET k"] {
            call(&mut store, reader, command);
        }
        call(&mut store, other, "SET k v");
        let output = call(&mut store, reader, end);
        assert!(output.starts_with(push), "{end}: {output}");
    }
}
