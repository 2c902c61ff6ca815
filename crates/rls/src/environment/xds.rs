//! The management server that gives the rules, as variables say.

use std::time::Duration;

use super::{Environment, bad, parse_duration};
use crate::xds::{DEFAULT_MAX_MESSAGE, XdsBackoff, XdsConfig, XdsTls};

/// What the names begin with of the variables that are for a management server alone.
pub(super) const GROUPS: [&str; 2] = ["CONFIG_GRPC_XDS_", "XDS_CLIENT_"];

impl<L: Fn(&str) -> Option<String>> Environment<L> {
    pub(super) fn xds(&self) -> Result<XdsConfig, String> {
        let of = |name| format!("CONFIG_GRPC_XDS_{name}");
        let (url, headers) = (of("SERVER_URL"), of("CLIENT_ADDITIONAL_HEADERS"));
        let metadata = self.value(&of("NODE_METADATA"));
        // What is no pair says nothing, as with envoyproxy/ratelimit.
        let pairs = metadata.split(',').filter_map(|pair| pair.split_once('='));
        let config = XdsConfig {
            server: self.value(&url),
            node_id: self.value(&of("NODE_ID")),
            node_metadata: pairs.map(owned).collect(),
            headers: self.pairs(&headers)?,
            connect_interval: self.span(&of("SERVER_CONNECT_RETRY_INTERVAL"))?,
            backoff: XdsBackoff {
                initial: self.span("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL")?,
                most: self.span("XDS_CLIENT_BACKOFF_MAX_INTERVAL")?,
                factor: self.float("XDS_CLIENT_BACKOFF_RANDOM_FACTOR")?,
                jitter: self.truth("XDS_CLIENT_BACKOFF_JITTER")?,
            },
            max_message: match self.number("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES")? {
                0 => DEFAULT_MAX_MESSAGE,
                bytes => bytes,
            },
            tls: match self.truth(&of("SERVER_USE_TLS"))? {
                true => Some(self.xds_tls()),
                false => None,
            },
        };
        let of_server = |what| format!("{url}: {what}");
        config.check_server().map_err(of_server)?;
        let of_headers = |what| format!("{headers}: {what}");
        config.check_headers().map_err(of_headers)?;
        Ok(config)
    }

    fn xds_tls(&self) -> XdsTls {
        let of = |name| self.path(&format!("CONFIG_GRPC_XDS_{name}"));
        XdsTls {
            // One of them alone is as none, as with envoyproxy/ratelimit.
            own: of("CLIENT_TLS_CERT").zip(of("CLIENT_TLS_KEY")),
            authority: of("SERVER_TLS_CACERT"),
            server_name: self.given("CONFIG_GRPC_XDS_SERVER_TLS_SAN"),
        }
    }

    fn span(&self, name: &str) -> Result<Duration, String> {
        let text = self.value(name);
        parse_duration(&text).ok_or_else(|| bad(name, &text, "no duration"))
    }
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
