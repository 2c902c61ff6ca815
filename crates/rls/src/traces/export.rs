//! The thread that sends spans.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tollgate_wire::trace::{
    EXPORT, ExportRequest, ExportResponse, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans,
    Span,
};
use tonic::client::Grpc;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use super::http::HttpCollector;
use super::queue::Queue;
use super::{TraceConfig, TraceProtocol};
use crate::log::{LogLevel, LogLine};
use crate::xds::{XdsTls, metadata, reason_of, with_tls};

/// What we call ourselves.
pub(super) const AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
/// Waits before spans are sent again, each twice the one before, and the time after which they are given up.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for what is left at the end of the service.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why spans were not taken.
pub(super) struct Refused {
    pub(super) reason: String,
    /// They may be later.
    pub(super) again: bool,
    /// Not before.
    pub(super) wait: Option<Duration>,
}

impl Refused {
    /// What may be otherwise the next time.
    pub(super) fn passing(error: &dyn Error) -> Self {
        Self {
            reason: reason_of(error),
            again: true,
            wait: None,
        }
    }
}

/// Spans were taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// All but so many, and why those were not.
    but: Option<(usize, String)>,
}

impl Taken {
    pub(super) fn of(answer: ExportResponse) -> Self {
        let but = answer.partial_success.filter(|but| but.rejected_spans > 0);
        Self {
            but: but.map(|but| {
                let count = usize::try_from(but.rejected_spans).unwrap_or(usize::MAX);
                (count, but.error_message)
            }),
        }
    }
}

enum Collector {
    Http(Box<HttpCollector>),
    Grpc(Box<GrpcCollector>),
}

/// A collector over gRPC.
struct GrpcCollector {
    endpoint: Endpoint,
    headers: MetadataMap,
    gzip: bool,
    /// Once there is a runtime for it; it connects by itself, and again.
    client: Option<Grpc<Channel>>,
}

/// Sends spans to a collector.
pub(crate) struct Exporter {
    config: TraceConfig,
    resource: Resource,
    collector: Collector,
    queue: Arc<Queue>,
    log: LogLine,
    /// The last attempt succeeded.
    reachable: bool,
}

impl Exporter {
    /// Reads the files of TLS. Nothing is sent yet, and the collector need not be there.
    pub(crate) fn new(
        config: TraceConfig,
        queue: Arc<Queue>,
        log: LogLine,
    ) -> Result<Self, String> {
        let attributes = config.resource.iter();
        let attributes = attributes.map(|(name, value)| KeyValue::new(name, &**value));
        Ok(Self {
            resource: Resource {
                attributes: attributes.collect(),
            },
            collector: match config.protocol {
                TraceProtocol::Http => Collector::Http(Box::new(HttpCollector::new(&config)?)),
                TraceProtocol::Grpc => Collector::Grpc(Box::new(GrpcCollector {
                    endpoint: endpoint(&config)?,
                    headers: metadata(&config.headers)?,
                    gzip: config.gzip,
                    client: None,
                })),
            },
            config,
            queue,
            log,
            reachable: true,
        })
    }

    /// Sends what is queued until told to stop, and then what is left.
    pub(crate) async fn run(mut self, stopped: watch::Receiver<bool>) {
        let mut stop = stopped.clone();
        tokio::select! {
            () = self.send_all(stopped) => {}
            // What cannot be sent by then is lost with the process.
            () = async {
                drop(stop.wait_for(|stop| *stop).await);
                sleep(FAREWELL).await;
            } => {}
        }
    }

    async fn send_all(&mut self, mut stopped: watch::Receiver<bool>) {
        let queue = self.queue.clone();
        loop {
            let stops = tokio::select! {
                () = sleep(self.config.interval) => false,
                () = queue.due() => false,
                _ = stopped.wait_for(|stop| *stop) => true,
            };
            loop {
                let spans = queue.take();
                if spans.is_empty() {
                    break;
                }
                self.send(spans, &mut stopped).await;
                // Fewer than a request holds wait for others.
                if !stops && !queue.is_due() {
                    break;
                }
            }
            if stops {
                return;
            }
        }
    }

    /// Sends spans until they are taken, or not worth it any more.
    async fn send(&mut self, spans: Vec<Span>, stopped: &mut watch::Receiver<bool>) {
        let (count, began) = (spans.len(), Instant::now());
        let request = self.request(spans);
        let mut wait = FIRST_WAIT;
        loop {
            let refused = match self.attempt(&request).await {
                Ok(taken) => return self.took(taken, count),
                Err(refused) => refused,
            };
            self.tell(&refused.reason);
            let next = refused.wait.unwrap_or(wait).min(LONGEST_WAIT);
            let is_worth_it = refused.again && began.elapsed() + next <= PATIENCE;
            let stops = async {
                tokio::select! {
                    () = sleep(next) => false,
                    _ = stopped.wait_for(|stop| *stop) => true,
                }
            };
            if !is_worth_it || stops.await {
                return self.queue.count_failed(count);
            }
            wait = wait.saturating_mul(2);
        }
    }

    fn took(&mut self, taken: Taken, count: usize) {
        let (refused, why) = taken.but.unwrap_or_default();
        let refused = refused.min(count);
        self.queue.count_sent(count - refused);
        self.queue.count_failed(refused);
        match refused {
            0 => self.reachable = true,
            _ => self.tell(&format!("{refused} spans were refused: {why}")),
        }
    }

    async fn attempt(&mut self, request: &ExportRequest) -> Result<Taken, Refused> {
        let collector = &mut self.collector;
        let sending = async {
            match collector {
                Collector::Http(collector) => collector.send(request).await,
                Collector::Grpc(collector) => collector.send(request).await,
            }
        };
        timeout(self.config.timeout, sending)
            .await
            .unwrap_or_else(|_| {
                Err(Refused {
                    reason: "no answer in time".to_owned(),
                    again: true,
                    wait: None,
                })
            })
    }

    /// Said once, not with every request.
    fn tell(&mut self, reason: &str) {
        if std::mem::replace(&mut self.reachable, false) {
            let line = format!("traces to {}: {reason}", self.config.endpoint);
            (self.log)(LogLevel::Warning, &line);
        }
    }

    fn request(&self, spans: Vec<Span>) -> ExportRequest {
        ExportRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(Scope {
                        name: "tollgate".to_owned(),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                    }),
                    spans,
                }],
            }],
        }
    }
}

impl GrpcCollector {
    /// Sends spans once.
    async fn send(&mut self, spans: &ExportRequest) -> Result<Taken, Refused> {
        let (endpoint, gzip) = (&self.endpoint, self.gzip);
        let made = || {
            let client = Grpc::new(endpoint.connect_lazy());
            match gzip {
                true => client.send_compressed(CompressionEncoding::Gzip),
                false => client,
            }
        };
        let client = self.client.get_or_insert_with(made);
        client
            .ready()
            .await
            .map_err(|error| Refused::passing(&error))?;
        let mut request = Request::new(spans.clone());
        *request.metadata_mut() = self.headers.clone();
        let codec = ProstCodec::<ExportRequest, ExportResponse>::default();
        let path = PathAndQuery::from_static(EXPORT);
        let answer = client.unary(request, path, codec).await;
        answer
            .map(|response| Taken::of(response.into_inner()))
            .map_err(|status| Refused {
                again: may_pass_later(status.code()),
                reason: format!("{}: {}", status.code(), status.message()),
                wait: None,
            })
    }
}

/// The codes after which OpenTelemetry's protocol has spans sent again, and what the channel says of a connection that fails.
fn may_pass_later(code: Code) -> bool {
    matches!(
        code,
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss
            | Code::Unknown
    )
}

fn endpoint(config: &TraceConfig) -> Result<Endpoint, String> {
    let endpoint = Endpoint::from_shared(config.endpoint.clone());
    let endpoint = endpoint.map_err(|error| reason_of(&error))?;
    let endpoint = endpoint
        .user_agent(AGENT)
        .map_err(|error| reason_of(&error))?
        .connect_timeout(config.timeout);
    if !config.endpoint.starts_with("https://") {
        return Ok(endpoint);
    }
    let tls = XdsTls {
        own: config.tls_own.clone(),
        authority: config.tls_authority.clone(),
        server_name: None,
    };
    with_tls(endpoint, &tls)
}
