//! One thread with a runtime: it serves what may have to be waited for, a store elsewhere and TLS.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};

use crate::config::{RlsConfig, StartError, TlsConfig};
use crate::http::Port;
use crate::listening::{Arrival, Socket, Speaks};
use crate::log::{LogLevel, LogLine};
use crate::service::Service;
use crate::shed::{Shed, Timed};
use crate::tls::{Refusals, Tls};
use crate::{grpc, http};

/// How long requests under way may take after the service was told to stop.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// TLS of the ports that have it.
#[derive(Clone, Default)]
pub(crate) struct PortsTls {
    pub(crate) grpc: Option<Arc<Tls>>,
    pub(crate) http: Option<Arc<Tls>>,
}

impl PortsTls {
    pub(crate) fn new(config: &RlsConfig) -> Result<Self, StartError> {
        let of = |given: &Option<TlsConfig>, protocol| {
            let tls = given.as_ref().map(|given| Tls::new(given, protocol));
            tls.transpose().map(|tls| tls.map(Arc::new))
        };
        Ok(Self {
            grpc: of(&config.grpc_tls, b"h2")?,
            http: of(&config.http_tls, b"http/1.1")?,
        })
    }

    /// Those there are, by what their ports speak.
    pub(crate) fn named(&self) -> Vec<(&'static str, Arc<Tls>)> {
        let ports = [("grpc", &self.grpc), ("http", &self.http)];
        let named = ports.into_iter();
        named
            .filter_map(|(port, tls)| Some((port, tls.clone()?)))
            .collect()
    }
}

/// What the connections of one thread share.
pub(crate) struct Lane {
    service: Rc<Service>,
    http: Rc<http::Shared>,
    shed: Option<Rc<Shed>>,
    tls: PortsTls,
    log: LogLine,
    refusals: Refusals,
}

impl Lane {
    /// Called on the thread that serves.
    pub(crate) fn new(
        service: Service,
        shed: Option<Rc<Shed>>,
        tls: PortsTls,
        log: LogLine,
    ) -> Rc<Self> {
        if let Some(shed) = &shed {
            // It ends with the thread's runtime.
            drop(tokio::task::spawn_local(shed.clone().tend()));
        }
        let service = Rc::new(service);
        Rc::new(Self {
            http: http::Shared::new(service.clone()),
            service,
            shed,
            tls,
            log,
            refusals: Refusals::default(),
        })
    }

    /// Serves the connections that the thread is given, until told to stop.
    pub(crate) async fn take_arrivals(
        self: Rc<Self>,
        mut arrivals: mpsc::Receiver<Arrival>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let stop = stopped.clone();
        let mut connections = tokio::task::JoinSet::new();
        let service = self.service.clone();
        let mut tended = Box::pin(service.tend());
        loop {
            tokio::select! {
                () = &mut tended => {}
                arrival = arrivals.recv() => {
                    let Some(arrival) = arrival else { break };
                    connections.spawn_local(self.clone().serve_timed(arrival, stop.clone()));
                }
                Some(_) = connections.join_next() => {}
                _ = stopped.wait_for(|stop| *stop) => break,
            }
        }
        let all_ended = async { while connections.join_next().await.is_some() {} };
        // Connections that outlast the grace are dropped with the runtime.
        drop(tokio::time::timeout(SHUTDOWN_GRACE, all_ended).await);
        // What it was writing is written below.
        drop(tended);
        let lost = service.settle().await;
        if lost > 0 {
            let line = format!("{lost} admitted units could not be written to the backend");
            (self.log)(LogLevel::Error, &line);
        }
    }

    /// Serves one connection, whose waits for the thread are known where requests are refused by them.
    async fn serve_timed(self: Rc<Self>, arrival: Arrival, stop: watch::Receiver<bool>) {
        let is_wide = matches!(arrival.speaks, Speaks::Grpc);
        let shed = self.shed.clone();
        let served = self.serve(arrival, stop);
        match shed {
            Some(shed) if is_wide => Timed::wide(served, shed).await,
            Some(shed) => Timed::new(served, shed).await,
            None => served.await,
        }
    }

    async fn serve(self: Rc<Self>, arrival: Arrival, stop: watch::Receiver<bool>) {
        let Arrival {
            socket,
            speaks,
            place,
        } = arrival;
        // A socket that the runtime does not take is closed; its peer comes again.
        match socket {
            Socket::Tcp(stream) => {
                let peer = stream.peer_addr();
                let peer = peer.map_or_else(|_| "a client".to_owned(), |peer| peer.to_string());
                if let Ok(stream) = TcpStream::from_std(stream) {
                    self.agree(stream, &peer, speaks, stop).await;
                }
            }
            Socket::Unix(stream) => {
                if let Ok(stream) = UnixStream::from_std(stream) {
                    self.agree(stream, "a client of the unix socket", speaks, stop)
                        .await;
                }
            }
        }
        drop(place);
    }

    /// Agrees on TLS, where the port has it.
    async fn agree<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: IO,
        peer: &str,
        speaks: Speaks,
        stop: watch::Receiver<bool>,
    ) {
        let tls = match speaks {
            Speaks::Grpc => &self.tls.grpc,
            Speaks::Http(Port::Service) => &self.tls.http,
            Speaks::Http(_) => &None,
        };
        let Some(tls) = tls else {
            return self.speak(stream, speaks, stop).await;
        };
        match tls.accept(stream).await {
            Ok(stream) => self.speak(stream, speaks, stop).await,
            Err(reason) => self.refusals.tell(self.log, peer, &reason),
        }
    }

    async fn speak<IO: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: IO,
        speaks: Speaks,
        stop: watch::Receiver<bool>,
    ) {
        match speaks {
            Speaks::Grpc => grpc::serve(stream, self.service.clone(), stop).await,
            Speaks::Http(port) => http::serve(stream, self.http.clone(), port, stop).await,
        }
    }
}
