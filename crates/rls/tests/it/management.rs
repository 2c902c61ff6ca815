//! A management server that gives rules and remembers what it is told of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tollgate_testkit::process::free_port;
use tollgate_testkit::{PATIENCE, eventually};
use tollgate_wire::xds::{
    Any, DiscoveryRequest, DiscoveryResponse, RATE_LIMIT_CONFIG, RateLimitConfig,
    STREAM_AGGREGATED_RESOURCES,
};

/// What a client said, and on which stream.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) stream: usize,
    pub(crate) headers: HeaderMap,
    pub(crate) authority: String,
    pub(crate) request: DiscoveryRequest,
}

impl Heard {
    /// The version that the client has, the response that it answers, and why it refuses that.
    pub(crate) fn said(&self) -> (String, String, Option<String>) {
        let refused = self.request.error_detail.clone();
        (
            self.request.version_info.clone(),
            self.request.response_nonce.clone(),
            refused.map(|status| status.message),
        )
    }

    pub(crate) fn node(&self) -> &str {
        self.request.node.as_ref().map_or("", |node| &node.id)
    }
}

/// What all streams are given.
#[derive(Clone, Default)]
struct Given {
    /// Counts what was given; 0 before anything was.
    number: usize,
    version: String,
    resources: Vec<Any>,
    /// Streams that were opened before are ended.
    cut: usize,
    /// What is refused is given again at once.
    insists: bool,
}

type Heards = Arc<Mutex<Vec<Heard>>>;

/// Runs until it is dropped. Nonces are the stream's number and that of what was given, as `0/1`.
pub(crate) struct Management {
    addr: SocketAddr,
    given: watch::Sender<Given>,
    heard: Heards,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Management {
    pub(crate) fn start() -> Self {
        // Tests end one and start another at its address: nobody else is to get the port meanwhile.
        let port = free_port().expect("a free port");
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), None)
    }

    /// On a port that may have been another's, with TLS or without.
    pub(crate) fn start_at(addr: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let mut listener = None;
        // A process that another test is just starting has a copy of the socket of before for a moment.
        eventually("the port is free", || {
            listener = std::net::TcpListener::bind(addr).ok();
            listener.is_some()
        });
        let listener = listener.expect("it was bound");
        listener.set_nonblocking(true).expect("a socket");
        let addr = listener.local_addr().expect("bound");
        Self::run(addr, async move |connections| {
            let listener = TcpListener::from_std(listener).expect("a socket");
            while let Ok((stream, _)) = listener.accept().await {
                let (connections, tls) = (connections.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => connections.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                connections.serve(stream).await;
                            }
                        }
                    }
                });
            }
        })
    }

    /// On a unix socket.
    pub(crate) fn start_on_socket(path: &Path) -> Self {
        let listener = std::os::unix::net::UnixListener::bind(path).expect("a free path");
        listener.set_nonblocking(true).expect("a socket");
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::run(nowhere, async move |connections| {
            let listener = UnixListener::from_std(listener).expect("a socket");
            while let Ok((stream, _)) = listener.accept().await {
                let connections = connections.clone();
                tokio::spawn(async move { connections.serve(stream).await });
            }
        })
    }

    fn run<F>(addr: SocketAddr, accept: F) -> Self
    where
        F: AsyncFnOnce(Connections) + Send + 'static,
    {
        let (given, heard) = (watch::Sender::new(Given::default()), Heards::default());
        let (stop, mut stopped) = watch::channel(false);
        let connections = Connections {
            given: given.clone(),
            heard: heard.clone(),
            streams: Arc::default(),
        };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(connections) => {}
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
            });
        });
        Self {
            addr,
            given,
            heard,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn give(&self, version: &str, configs: &[RateLimitConfig]) {
        let resource = |config: &RateLimitConfig| Any {
            type_url: RATE_LIMIT_CONFIG.to_owned(),
            value: config.encode_to_vec(),
        };
        self.give_any(version, configs.iter().map(resource).collect());
    }

    pub(crate) fn give_any(&self, version: &str, resources: Vec<Any>) {
        self.given.send_modify(|given| {
            given.number += 1;
            version.clone_into(&mut given.version);
            given.resources = resources;
        });
    }

    /// Gives what is refused again at once from now on, as go-control-plane does.
    pub(crate) fn insist(&self) {
        self.given.send_modify(|given| given.insists = true);
    }

    /// Ends the streams that are open.
    pub(crate) fn cut(&self) {
        self.given.send_modify(|given| given.cut += 1);
    }

    /// What was said so far.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().expect("no stream panics").clone()
    }

    /// Waits until something of this kind has been said: the first of them.
    pub(crate) fn wait_for(&self, what: &str, is_it: impl Fn(&Heard) -> bool) -> Heard {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(heard) = self.heard().into_iter().find(&is_it) {
                return heard;
            }
            assert!(Instant::now() < deadline, "no {what}: {:?}", self.heard());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The answer to a response.
    pub(crate) fn answer(&self, nonce: &str) -> (String, String, Option<String>) {
        self.wait_for(nonce, |heard| heard.request.response_nonce == nonce)
            .said()
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// What all connections share.
#[derive(Clone)]
struct Connections {
    given: watch::Sender<Given>,
    heard: Heards,
    streams: Arc<Mutex<usize>>,
}

impl Connections {
    async fn serve<IO: AsyncRead + AsyncWrite + Unpin>(&self, io: IO) {
        let Ok(mut connection) = h2::server::handshake(io).await else {
            return;
        };
        while let Some(Ok((request, respond))) = connection.accept().await {
            assert_eq!(request.uri().path(), STREAM_AGGREGATED_RESOURCES);
            let connections = self.clone();
            // A client may go at any time.
            tokio::spawn(async move { connections.stream(request, respond).await.ok() });
        }
    }

    async fn stream(
        &self,
        request: Request<h2::RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Result<(), h2::Error> {
        let number = {
            let mut streams = self.streams.lock().expect("no stream panics");
            *streams += 1;
            *streams - 1
        };
        let (head, mut body) = request.into_parts();
        let answer = Response::builder().header("content-type", "application/grpc");
        let mut replies = respond.send_response(answer.body(()).expect("valid"), false)?;
        let mut given = self.given.subscribe();
        let cut = given.borrow().cut;
        let (mut buffer, mut sent) = (BytesMut::new(), None);
        loop {
            tokio::select! {
                data = body.data() => {
                    let Some(data) = data.transpose()? else { break };
                    body.flow_control().release_capacity(data.len())?;
                    buffer.extend_from_slice(&data);
                    while let Some(request) = take_request(&mut buffer) {
                        if sent.is_none() {
                            // A client that has it already is given nothing.
                            let now = given.borrow();
                            let has = request.version_info == now.version;
                            sent = Some(if has { now.number } else { 0 });
                        } else if request.error_detail.is_some() && given.borrow().insists {
                            sent = Some(0);
                        }
                        self.heard.lock().expect("no stream panics").push(Heard {
                            stream: number,
                            headers: head.headers.clone(),
                            authority: head.uri.authority().map(ToString::to_string).unwrap_or_default(),
                            request,
                        });
                    }
                }
                changed = given.changed() => if changed.is_err() { break },
            }
            let now = given.borrow_and_update().clone();
            if now.cut > cut {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", "14".parse().expect("valid"));
                trailers.insert("grpc-message", "gone%20for%20now".parse().expect("valid"));
                return replies.send_trailers(trailers);
            }
            if sent.is_some_and(|sent| sent < now.number) {
                sent = Some(now.number);
                send(&mut replies, number, now)?;
            }
        }
        Ok(())
    }
}

fn send(replies: &mut SendStream<Bytes>, stream: usize, given: Given) -> Result<(), h2::Error> {
    let response = DiscoveryResponse {
        version_info: given.version,
        resources: given.resources,
        type_url: RATE_LIMIT_CONFIG.to_owned(),
        nonce: format!("{stream}/{}", given.number),
    };
    let message = response.encode_to_vec();
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    replies.send_data(framed.into(), false)
}

fn take_request(buffer: &mut BytesMut) -> Option<DiscoveryRequest> {
    let len = u32::from_be_bytes(buffer.get(1..5)?.try_into().ok()?) as usize;
    if buffer.len() < 5 + len {
        return None;
    }
    buffer.advance(5);
    let message = buffer.split_to(len);
    Some(DiscoveryRequest::decode(message).expect("a request"))
}
