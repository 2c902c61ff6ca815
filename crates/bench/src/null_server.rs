//! A RESP responder that does nothing: what remains of a measurement when the target costs nothing.
//!
//! It answers every request with the same reply, on one thread with one poller: the ceiling of the generator and
//! the floor of its latencies on this machine.
//!
//! On a processor of its own it looks again for a moment before it falls asleep. A server that is always at its limit
//! never sleeps; one that costs nothing would sleep after every request, and the generator would pay for waking it: on a
//! virtual machine several times what the request itself costs.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use tollgate_wire::resp::{Limits, Progress, RequestParser};

use crate::os::poller::Poller;
use crate::os::{cpu, interrupt};

/// The reply to everything: an allowed decision in the shape of `RL.TAKE`.
const REPLY: &[u8] = b"*5\r\n:1\r\n:100\r\n:99\r\n:0\r\n:1000\r\n";
/// Token of the listener; connections count from 0.
const LISTENER: usize = usize::MAX - 1;
/// Connections it takes.
const CONNECTIONS_MAX: usize = 4096;
/// Longest wait, so that an interrupt is noticed.
const WAIT_NS: u64 = 50_000_000;
/// How long it looks again after the last request. Far below the gaps at which the floor of the latency is measured, so
/// that there it sleeps as other servers do.
const AWAKE: Duration = Duration::from_micros(50);
/// Bytes taken per read.
const READ_SIZE: usize = 64 * 1024;
/// Largest request kept while incomplete.
const REQUEST_MAX: usize = 1024 * 1024;

struct Peer {
    stream: TcpStream,
    parser: RequestParser,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// A null responder on a thread of this process. Ends with the process, or when its stop flag is set.
pub(crate) struct NullServer {
    address: SocketAddr,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Starts on a free loopback port, on processor `core` if one is given.
    pub(crate) fn start(core: Option<usize>) -> io::Result<NullServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("null-server".into())
            .spawn(move || {
                if let Some(core) = core {
                    // Not pinned is worse, not wrong: the ceiling comes out lower.
                    drop(cpu::pin(core));
                }
                // An error here ends the thread; the generator then sees its connections close and reports that.
                drop(serve(listener, core.is_some(), &|| {
                    seen.load(std::sync::atomic::Ordering::Relaxed)
                }));
            })?;
        Ok(NullServer {
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread reports nothing; a panic in it has already been printed.
            drop(thread.join());
        }
    }
}

/// Serves `listener` until an interrupt arrives, on processor `core` if one is given.
pub(crate) fn serve_until_interrupted(
    listener: TcpListener,
    core: Option<usize>,
) -> io::Result<()> {
    if let Some(core) = core {
        cpu::pin(core)?;
    }
    serve(listener, core.is_some(), &interrupt::asked)
}

fn serve(listener: TcpListener, core_of_its_own: bool, stop: &dyn Fn() -> bool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut listener = mio::net::TcpListener::from_std(listener);
    let mut poller = Poller::new()?;
    poller.add(&mut listener, LISTENER)?;
    let mut peers: Vec<Option<Peer>> = Vec::new();
    let mut scratch = vec![0; READ_SIZE];
    let mut idle_since: Option<Instant> = None;
    while !stop() {
        let awake = core_of_its_own && idle_since.is_none_or(|since| since.elapsed() < AWAKE);
        let ready = poller.wait(if awake { 0 } else { WAIT_NS })?.to_vec();
        idle_since = if ready.is_empty() {
            idle_since.or_else(|| Some(Instant::now()))
        } else {
            None
        };
        for event in ready {
            if event.token == LISTENER {
                accept(&mut listener, &poller, &mut peers)?;
            } else if let Some(slot) = peers.get_mut(event.token)
                && let Some(peer) = slot
                && !peer.turn(&mut scratch, event.hangup)
            {
                *slot = None;
            }
        }
    }
    Ok(())
}

fn accept(
    listener: &mut mio::net::TcpListener,
    poller: &Poller,
    peers: &mut Vec<Option<Peer>>,
) -> io::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let free = peers
            .iter()
            .position(Option::is_none)
            .unwrap_or(peers.len());
        if free >= CONNECTIONS_MAX {
            continue;
        }
        stream.set_nodelay(true)?;
        poller.add(&mut stream, free)?;
        let peer = Peer {
            stream,
            parser: RequestParser::new(),
            input: Vec::new(),
            output: Vec::new(),
        };
        if free == peers.len() {
            peers.push(Some(peer));
        } else {
            peers[free] = Some(peer);
        }
    }
}

impl Peer {
    /// Reads, answers and writes once. False when the connection is over.
    fn turn(&mut self, scratch: &mut [u8], hangup: bool) -> bool {
        loop {
            match self.stream.read(scratch) {
                Ok(0) => return false,
                Ok(count) => {
                    self.input.extend_from_slice(&scratch[..count]);
                    if self.input.len() > REQUEST_MAX || !self.answer() {
                        return false;
                    }
                    if count < scratch.len() && !hangup {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.flush()
    }

    fn answer(&mut self) -> bool {
        let limits = Limits::authenticated();
        let mut from = 0;
        loop {
            match self.parser.parse(&self.input[from..], &limits) {
                Ok(Progress::Ready { consumed }) => {
                    from += consumed;
                    self.output.extend_from_slice(REPLY);
                }
                Ok(Progress::Incomplete { .. }) => break,
                Err(_) => return false,
            }
        }
        self.input.drain(..from);
        true
    }

    fn flush(&mut self) -> bool {
        let mut from = 0;
        while from < self.output.len() {
            match self.stream.write(&self.output[from..]) {
                Ok(0) => return false,
                Ok(count) => from += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.output.drain(..from);
        true
    }
}
