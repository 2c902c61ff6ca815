//! The driver around another one.

use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};

use rustls::ServerConnection;

use super::settings::TlsAcceptor;
use crate::driver::{ConnRef, Driver, Flow, Peer, Refused, Step};

/// Deciphered bytes taken from a connection at a time.
const CHUNK: usize = 16 * 1024;

/// A connection of the inner driver, and its TLS side if it came by the TLS port.
#[derive(Debug)]
pub struct TlsConn<C> {
    inner: C,
    tls: Option<Box<Tls>>,
}

#[derive(Debug)]
struct Tls {
    session: ServerConnection,
    /// Deciphered bytes that the inner driver has not consumed.
    plain: Vec<u8>,
    /// Bytes of `plain` that the inner driver was told of.
    told: usize,
    /// Bytes of input and output that the loop holds.
    outside: (usize, usize),
    /// The inner driver waits, so that `plain` is kept from it.
    waiting: bool,
    /// The peer sends no more; what it has sent is yet to be answered.
    ended: bool,
}

/// Serves connections of the TLS port by TLS, others as they come.
#[derive(Debug)]
pub struct TlsDriver<D> {
    inner: D,
    /// The kind of listeners whose connections speak TLS.
    kind: u8,
    acceptor: Arc<OnceLock<TlsAcceptor>>,
    /// What is to be sent is in `cipher`, not in the inner driver's buffer.
    enciphered: bool,
    cipher: Vec<u8>,
}

impl<D: Driver> TlsDriver<D> {
    /// Connections of listeners of this kind speak TLS; without certificates they are closed at once.
    pub fn new(inner: D, kind: u8, acceptor: Arc<OnceLock<TlsAcceptor>>) -> TlsDriver<D> {
        TlsDriver {
            inner,
            kind,
            acceptor,
            enciphered: false,
            cipher: Vec::new(),
        }
    }

    fn begin(&self, peer: &Peer) -> Result<Option<Box<Tls>>, Refused> {
        if peer.kind != self.kind {
            return Ok(None);
        }
        let acceptor = self.acceptor.get().ok_or(Refused(b""))?;
        let mut session = acceptor.begin().map_err(|_| Refused(b""))?;
        // Replies are handed on at once, so their size is the inner driver's to bound.
        session.set_buffer_limit(None);
        Ok(Some(Box::new(Tls {
            session,
            plain: Vec::new(),
            told: 0,
            outside: (0, 0),
            waiting: false,
            ended: false,
        })))
    }

    /// Deciphers all of `input` and runs what it holds.
    fn receive(&mut self, conn: &mut D::Conn, tls: &mut Tls, mut input: &[u8], now: i64) -> Flow {
        while !input.is_empty() && !tls.ended {
            // Reading from a slice cannot fail; what is refused is that the plain bytes have not been taken.
            let read = tls.session.read_tls(&mut input).unwrap_or(0);
            let state = tls.session.process_new_packets();
            let Ok(state) = state else {
                // The alert that says why is in the session's output. Nothing after it is read.
                self.encipher(tls);
                return Flow::Close;
            };
            tls.ended = state.peer_has_closed();
            take_plain(&mut tls.session, &mut tls.plain);
            if read == 0 {
                break;
            }
        }
        let flow = self.run(conn, tls, now);
        self.conclude(tls, flow)
    }

    /// The end of a peer that sends no more, once all that it has sent is answered. One that waits for a key is gone.
    fn conclude(&mut self, tls: &mut Tls, flow: Flow) -> Flow {
        if !tls.ended || matches!(flow, Flow::Yield | Flow::Hold | Flow::Close | Flow::Drop) {
            return flow;
        }
        self.end(tls);
        Flow::Close
    }

    /// Hands deciphered bytes to the inner driver, and enciphers what it answers.
    fn run(&mut self, conn: &mut D::Conn, tls: &mut Tls, now: i64) -> Flow {
        let mut flow = Flow::Continue;
        if !tls.plain.is_empty() {
            let step = self.inner.data(conn, &tls.plain, now);
            tls.plain.drain(..step.consumed);
            flow = step.flow;
            if tls.plain.is_empty() {
                tls.plain = Vec::new();
            }
        }
        if tls.plain.len() != tls.told {
            self.tell(conn, tls);
        }
        self.finish(tls, flow)
    }

    /// Says how many bytes are held: the loop knows nothing of those that are deciphered.
    fn tell(&mut self, conn: &mut D::Conn, tls: &mut Tls) {
        tls.told = tls.plain.len();
        let (input, output) = tls.outside;
        self.inner.buffered(conn, input + tls.told, output);
    }

    /// What follows a call of the inner driver.
    fn finish(&mut self, tls: &mut Tls, flow: Flow) -> Flow {
        tls.waiting = flow.waits();
        self.encipher(tls);
        if matches!(flow, Flow::Farewell | Flow::Close) {
            self.end(tls);
        }
        flow
    }

    /// After a message or the end of a wait: what has come meanwhile is run, if the wait is over.
    fn go_on(&mut self, conn: &mut D::Conn, tls: &mut Tls, flow: Flow, now: i64) -> Flow {
        let waited = tls.waiting;
        let mut flow = self.finish(tls, flow);
        if waited && flow == Flow::Continue {
            flow = self.run(conn, tls, now);
        }
        self.conclude(tls, flow)
    }

    fn encipher(&mut self, tls: &mut Tls) {
        let plain = self.inner.unsent();
        if !plain.is_empty() {
            // Writing to memory without a limit cannot fail.
            tls.session.writer().write_all(plain).ok();
            self.inner.sent();
        }
        while tls.session.wants_write() {
            if tls.session.write_tls(&mut self.cipher).is_err() {
                break;
            }
        }
        // What is empty is never taken out: replies of other connections would wait behind it, and go to this one.
        self.enciphered = !self.cipher.is_empty();
    }

    /// Says that nothing follows.
    fn end(&mut self, tls: &mut Tls) {
        tls.session.send_close_notify();
        self.encipher(tls);
    }
}

/// Appends all that is deciphered.
fn take_plain(session: &mut ServerConnection, plain: &mut Vec<u8>) {
    loop {
        let start = plain.len();
        plain.resize(start + CHUNK, 0);
        // An error says that there is nothing more, or that the peer has ended without saying so.
        let read = session.reader().read(&mut plain[start..]).unwrap_or(0);
        plain.truncate(start + read);
        if read == 0 {
            return;
        }
    }
}

impl<D: Driver> Driver for TlsDriver<D> {
    type Conn = TlsConn<D::Conn>;
    type Message = D::Message;

    fn open(&mut self, at: ConnRef, peer: Peer, now: i64) -> Result<Self::Conn, Refused> {
        let tls = self.begin(&peer)?;
        let hidden = tls.is_some();
        let inner = self.inner.open(at, peer, now);
        // A refusal in plain text would mean nothing to a client that speaks TLS.
        let inner = inner.map_err(|refused| if hidden { Refused(b"") } else { refused })?;
        Ok(TlsConn { inner, tls })
    }

    #[inline]
    fn data(&mut self, conn: &mut Self::Conn, input: &[u8], now: i64) -> Step {
        match &mut conn.tls {
            None => self.inner.data(&mut conn.inner, input, now),
            Some(tls) => Step {
                flow: self.receive(&mut conn.inner, tls, input, now),
                consumed: input.len(),
                needed: 0,
            },
        }
    }

    #[inline]
    fn message(&mut self, conn: &mut Self::Conn, message: Self::Message, now: i64) -> Flow {
        let flow = self.inner.message(&mut conn.inner, message, now);
        match &mut conn.tls {
            None => flow,
            Some(tls) => self.go_on(&mut conn.inner, tls, flow, now),
        }
    }

    fn next_timeout(&self) -> Option<i64> {
        self.inner.next_timeout()
    }

    fn take_timeout(&mut self, now: i64) -> Option<ConnRef> {
        self.inner.take_timeout(now)
    }

    fn timed_out(&mut self, conn: &mut Self::Conn, now: i64) -> Flow {
        let flow = self.inner.timed_out(&mut conn.inner, now);
        match &mut conn.tls {
            None => flow,
            Some(tls) => self.go_on(&mut conn.inner, tls, flow, now),
        }
    }

    #[inline]
    fn unsent(&self) -> &[u8] {
        match self.enciphered {
            true => &self.cipher,
            false => self.inner.unsent(),
        }
    }

    #[inline]
    fn sent(&mut self) {
        if self.enciphered {
            self.enciphered = false;
            self.cipher.clear();
            self.cipher.shrink_to(4 * CHUNK);
        } else {
            self.inner.sent();
        }
    }

    fn take_unsent(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.enciphered) {
            true => std::mem::take(&mut self.cipher),
            false => self.inner.take_unsent(),
        }
    }

    fn buffered(&mut self, conn: &mut Self::Conn, input: usize, output: usize) {
        match &mut conn.tls {
            None => self.inner.buffered(&mut conn.inner, input, output),
            Some(tls) => {
                tls.outside = (input, output);
                self.tell(&mut conn.inner, tls);
            }
        }
    }

    fn closed(&mut self, conn: Self::Conn, now: i64) {
        self.enciphered = false;
        self.cipher.clear();
        self.inner.closed(conn.inner, now);
    }

    fn batch_done(&mut self, now: i64) {
        self.inner.batch_done(now);
    }

    fn tick(&mut self, now: i64) -> Option<i64> {
        self.inner.tick(now)
    }

    fn shrink(&mut self) {
        self.cipher.shrink_to_fit();
        self.inner.shrink();
    }

    fn sweep_interval(&self) -> Option<i64> {
        self.inner.sweep_interval()
    }

    fn stale(&self, conn: &Self::Conn, now: i64) -> bool {
        self.inner.stale(&conn.inner, now)
    }

    fn output_limit(&self) -> usize {
        self.inner.output_limit()
    }

    fn tcp_keepalive(&self) -> u64 {
        self.inner.tcp_keepalive()
    }
}
