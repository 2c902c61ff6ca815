//! Rules from a management server: a client of the aggregated discovery service of xDS in its state-of-the-world form, as
//! envoyproxy/ratelimit is with `CONFIG_TYPE=GRPC_XDS_SOTW`.
//!
//! Each response holds all rules. Those that are valid are in force before they are acknowledged; others are refused with the
//! reason, and the rules before stay, as they do while no server can be reached.

mod backoff;
mod channel;
mod resources;

use std::time::Duration;

use futures_util::stream;
use http::uri::PathAndQuery;
use tokio::sync::{mpsc, watch};
use tollgate_policy::LoadOptions;
use tollgate_wire::rls::value::Kind;
use tollgate_wire::rls::{Struct, Value};
use tollgate_wire::xds::{
    Any, DiscoveryRequest, DiscoveryResponse, Node, RATE_LIMIT_CONFIG, STREAM_AGGREGATED_RESOURCES,
    Status,
};
use tonic::client::Grpc;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use crate::config::StartError;
use crate::in_force::InForce;
use crate::log::LogLevel;
use backoff::Waits;
pub use backoff::XdsBackoff;
pub use channel::XdsTls;
pub(crate) use channel::{metadata, reason_of, with_tls};

/// Time before rules are refused that were refused already: servers send them again at once.
const INSISTENCE: Duration = Duration::from_secs(1);

/// Longest response where none is given, as gRPC has it.
pub(crate) const DEFAULT_MAX_MESSAGE: usize = 4 << 20;

/// A management server that gives the rules.
#[derive(Clone, Debug, PartialEq)]
pub struct XdsConfig {
    /// Where it is, as gRPC writes it: `host:port`, or `unix:path`.
    pub server: String,
    /// What this service is called there.
    pub node_id: String,
    /// What else it is told of this service, by name.
    pub node_metadata: Vec<(String, String)>,
    /// Headers of the stream.
    pub headers: Vec<(String, String)>,
    /// Time between two attempts to connect, half of it more or less.
    pub connect_interval: Duration,
    /// Time between the failure of a stream and the next.
    pub backoff: XdsBackoff,
    /// Longest response, in bytes.
    pub max_message: usize,
    /// TLS, if it is spoken.
    pub tls: Option<XdsTls>,
}

impl XdsConfig {
    /// What is wrong with the server's place, if anything is.
    pub(crate) fn check_server(&self) -> Result<(), String> {
        channel::place(&self.server).map(drop)
    }

    /// What is wrong with the headers, if anything is.
    pub(crate) fn check_headers(&self) -> Result<(), String> {
        channel::metadata(&self.headers).map(drop)
    }
}

/// The client of a management server.
pub(crate) struct XdsClient {
    config: XdsConfig,
    headers: MetadataMap,
}

impl XdsClient {
    /// Nothing is sent yet. The server need not be there; files of TLS must be, and are read again for each connection.
    pub(crate) fn new(config: &XdsConfig) -> Result<Self, StartError> {
        channel::endpoint(config).map_err(StartError::Xds)?;
        Ok(Self {
            headers: channel::metadata(&config.headers).map_err(StartError::Xds)?,
            config: config.clone(),
        })
    }

    /// Takes up what the server gives until the service stops.
    pub(crate) async fn follow(
        self,
        rules: InForce,
        options: LoadOptions,
        mut stopped: watch::Receiver<bool>,
    ) {
        let following = Following {
            conversation: Conversation::new(&self.config),
            rules,
            options,
            waits: Waits::new(self.config.backoff),
            refused: None,
            told: String::new(),
        };
        tokio::select! {
            never = self.stay_connected(following) => match never {},
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    }

    async fn stay_connected(&self, mut following: Following) -> std::convert::Infallible {
        loop {
            let channel = self.connect(&mut following).await;
            let failure = self.converse(channel, &mut following).await;
            following.tell_trouble(&self.config.server, &failure);
            tokio::time::sleep(following.waits.next()).await;
        }
    }

    /// Tries until there is a connection.
    async fn connect(&self, following: &mut Following) -> Channel {
        loop {
            let connected = match channel::endpoint(&self.config) {
                Ok(endpoint) => endpoint
                    .connect()
                    .await
                    .map_err(|error| channel::reason_of(&error)),
                Err(reason) => Err(reason),
            };
            match connected {
                Ok(channel) => return channel,
                Err(reason) => following.tell_trouble(&self.config.server, &reason),
            }
            tokio::time::sleep(backoff::about(self.config.connect_interval)).await;
        }
    }

    /// Takes up responses until the stream fails; why it did.
    async fn converse(&self, channel: Channel, following: &mut Following) -> String {
        let (requests, mut queue) = mpsc::channel(1);
        let first = following.conversation.begin();
        if requests.send(first).await.is_err() {
            return "the stream takes no requests".to_owned();
        }
        let mut request = Request::new(stream::poll_fn(move |cx| queue.poll_recv(cx)));
        *request.metadata_mut() = self.headers.clone();
        let mut client = Grpc::new(channel).max_decoding_message_size(self.config.max_message);
        if let Err(error) = client.ready().await {
            return channel::reason_of(&error);
        }
        let path = PathAndQuery::from_static(STREAM_AGGREGATED_RESOURCES);
        let codec = ProstCodec::<DiscoveryRequest, DiscoveryResponse>::default();
        let mut responses = match client.streaming(request, path, codec).await {
            Ok(response) => response.into_inner(),
            Err(status) => return words_of(&status),
        };
        loop {
            let response = match responses.message().await {
                Ok(Some(response)) => response,
                Ok(None) => return "the stream has ended".to_owned(),
                Err(status) => return words_of(&status),
            };
            if following.has_refused(&response) {
                tokio::time::sleep(INSISTENCE).await;
            }
            let answer = following.take(response, &self.config.server);
            if requests.send(answer).await.is_err() {
                return "the stream takes no answers".to_owned();
            }
        }
    }
}

/// What outlives a stream.
struct Following {
    conversation: Conversation,
    rules: InForce,
    options: LoadOptions,
    waits: Waits,
    /// What was refused last, and why.
    refused: Option<(Vec<Any>, String)>,
    /// The trouble that was told of last, of which no more is said while it lasts; empty without any.
    told: String,
}

impl Following {
    /// Whether it holds what was refused before.
    fn has_refused(&self, response: &DiscoveryResponse) -> bool {
        let refused = self.refused.as_ref();
        refused.is_some_and(|(resources, _)| *resources == response.resources)
    }

    /// Takes up the rules of a response, or keeps those there are; the answer. What was refused before is refused without another
    /// word in the log.
    fn take(&mut self, response: DiscoveryResponse, server: &str) -> DiscoveryRequest {
        self.waits.begin_again();
        if !self.told.is_empty() {
            self.told.clear();
            let line = format!("{server} gives rules again");
            self.rules.tell(LogLevel::Info, &line);
        }
        let seen = self.refused.take();
        self.refused = match seen.filter(|(resources, _)| *resources == response.resources) {
            Some(again) => Some(again),
            None => match resources::rules_of(&response.resources, self.options) {
                Ok(rules) => {
                    self.rules.take(rules);
                    None
                }
                Err(reason) => {
                    self.rules.keep(&reason);
                    Some((response.resources, reason))
                }
            },
        };
        let why = self.refused.as_ref().map(|(_, reason)| reason.clone());
        self.conversation
            .answer(response.version_info, response.nonce, why)
    }

    fn tell_trouble(&mut self, server: &str, reason: &str) {
        if self.told != reason {
            reason.clone_into(&mut self.told);
            let line = format!("no rules from {server} for now: {reason}");
            self.rules.tell(LogLevel::Error, &line);
        }
    }
}

/// What the client says of itself and of what it was sent.
struct Conversation {
    node: Node,
    /// Of the response that was taken last, on whatever stream.
    version: String,
}

impl Conversation {
    fn new(config: &XdsConfig) -> Self {
        let fields = config.node_metadata.iter().map(|(name, value)| {
            let kind = Some(Kind::StringValue(value.clone()));
            (name.clone(), Value { kind })
        });
        Self {
            node: Node {
                id: config.node_id.clone(),
                metadata: Some(Struct {
                    fields: fields.collect(),
                }),
            },
            version: String::new(),
        }
    }

    /// The first request of a stream.
    fn begin(&self) -> DiscoveryRequest {
        DiscoveryRequest {
            version_info: self.version.clone(),
            node: Some(self.node.clone()),
            type_url: RATE_LIMIT_CONFIG.to_owned(),
            ..DiscoveryRequest::default()
        }
    }

    /// What becomes of a response, and why if it is refused.
    fn answer(
        &mut self,
        version: String,
        response_nonce: String,
        refused: Option<String>,
    ) -> DiscoveryRequest {
        if refused.is_none() {
            self.version = version;
        }
        DiscoveryRequest {
            response_nonce,
            error_detail: refused.map(|message| Status { code: 0, message }),
            ..self.begin()
        }
    }
}

/// What a server that ended a stream said.
fn words_of(status: &tonic::Status) -> String {
    match (status.code(), status.message()) {
        (Code::Ok, "") => "the stream has ended".to_owned(),
        (code, "") => format!("{code:?}"),
        (code, message) => format!("{code:?}: {message}"),
    }
}
