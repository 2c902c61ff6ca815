//! Where spans of calls are sent to, as variables say: those of envoyproxy/ratelimit, and those that every exporter of
//! OpenTelemetry reads.

use std::path::PathBuf;
use std::time::Duration;

use super::go::integer;
use super::{Environment, bad};
use crate::backend::Draws;
use crate::traces::{TraceConfig, TraceProtocol};

/// What all others depend on.
pub(super) const ENABLED: &str = "TRACING_ENABLED";
const PROTOCOL: &str = "TRACING_EXPORTER_PROTOCOL";
/// What the names begin with of the variables that only count then.
pub(super) const GROUPS: [&str; 2] = ["TRACING_", "OTEL_"];

/// Most spans that may wait, and most milliseconds of a wait.
const MAX_QUEUE: i64 = 1 << 20;
const MAX_MS: i64 = 3_600_000;

impl<L: Fn(&str) -> Option<String>> Environment<L> {
    /// Where spans are sent to, if they are.
    ///
    /// # Errors
    /// A value is not valid; the text names the variable.
    pub fn traces(&self) -> Result<Option<TraceConfig>, String> {
        if !self.truth(ENABLED)? {
            return Ok(None);
        }
        let protocol = match &*self.value(PROTOCOL) {
            "" | "http" => TraceProtocol::Http,
            "grpc" => TraceProtocol::Grpc,
            other => return Err(bad(PROTOCOL, other, "neither http nor grpc")),
        };
        let path = |what: &str| self.exporter(what).map(|(_, path)| PathBuf::from(path));
        let queue = self.bounded("OTEL_BSP_MAX_QUEUE_SIZE", MAX_QUEUE)?;
        let batch = self.bounded("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", MAX_QUEUE)?;
        let interval = self.bounded("OTEL_BSP_SCHEDULE_DELAY", MAX_MS)?;
        Ok(Some(TraceConfig {
            protocol,
            endpoint: self.endpoint(protocol)?,
            headers: self.texts("HEADERS")?,
            // Whatever else it says is none, as with the libraries of Go.
            gzip: self
                .exporter("COMPRESSION")
                .is_some_and(|(_, text)| text == "gzip"),
            timeout: self.exporter_timeout()?,
            tls_authority: path("CERTIFICATE"),
            // One of them alone is as none, as with the libraries of Go.
            tls_own: path("CLIENT_CERTIFICATE").zip(path("CLIENT_KEY")),
            resource: self.resource()?,
            sampling: self.float("TRACING_SAMPLING_RATE")?,
            queue: queue as usize,
            batch: batch.min(queue) as usize,
            interval: Duration::from_millis(interval as u64),
        }))
    }

    /// What is said of the exporter of traces, or of all exporters; the variable and its value.
    fn exporter(&self, what: &str) -> Option<(String, String)> {
        ["OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"]
            .iter()
            .find_map(|group| {
                let name = format!("{group}{what}");
                self.given(&name).map(|value| (name, value))
            })
    }

    /// A number from 1.
    fn bounded(&self, name: &str, most: i64) -> Result<i64, String> {
        let text = self.value(name);
        let number = integer(&text).filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| bad(name, &text, &format!("no number from 1 to {most}")))
    }

    fn exporter_timeout(&self) -> Result<Duration, String> {
        const DEFAULT: Duration = Duration::from_secs(10);
        let Some((name, text)) = self.exporter("TIMEOUT") else {
            return Ok(DEFAULT);
        };
        let ms = integer(&text).filter(|ms| (1..=MAX_MS).contains(ms));
        let ms = ms.ok_or_else(|| bad(&name, &text, "no number of milliseconds"))?;
        Ok(Duration::from_millis(ms as u64))
    }

    fn endpoint(&self, protocol: TraceProtocol) -> Result<String, String> {
        let given = self.exporter("ENDPOINT");
        let Some((name, text)) = given else {
            return Ok(match protocol {
                TraceProtocol::Http => "http://localhost:4318/v1/traces".to_owned(),
                TraceProtocol::Grpc => "http://localhost:4317".to_owned(),
            });
        };
        let url = match protocol {
            // Only there may an address stand alone.
            TraceProtocol::Grpc if !text.contains("://") => {
                let insecure = self.exporter("INSECURE");
                let insecure = insecure.is_some_and(|(_, text)| text.eq_ignore_ascii_case("true"));
                format!("{}://{text}", if insecure { "http" } else { "https" })
            }
            // What is said of all exporters has the paths of each behind it.
            TraceProtocol::Http if !name.contains("_TRACES_") => {
                let path = tollgate_wire::trace::HTTP_PATH;
                format!("{}/{path}", text.trim_end_matches('/'))
            }
            _ => text.clone(),
        };
        let uri: Option<http::Uri> = url.parse().ok();
        let is_url = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri
                    .authority()
                    .is_some_and(|authority| !authority.host().is_empty())
        });
        is_url
            .then_some(url)
            .ok_or_else(|| bad(&name, &text, "no http:// or https:// URL"))
    }

    /// `name=value,…` of the exporter, values as URLs have them.
    fn texts(&self, what: &str) -> Result<Vec<(String, String)>, String> {
        let Some((name, text)) = self.exporter(what) else {
            return Ok(Vec::new());
        };
        pairs(&text).ok_or_else(|| bad(&name, &text, "no list of name=value"))
    }

    /// What spans come from.
    fn resource(&self) -> Result<Vec<(String, String)>, String> {
        const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let text = self.value(NAME);
        let mut resource = pairs(&text).ok_or_else(|| bad(NAME, &text, "no list of name=value"))?;
        let own = [
            ("service.name", self.value("TRACING_SERVICE_NAME")),
            ("service.namespace", self.value("TRACING_SERVICE_NAMESPACE")),
            (
                "service.instance.id",
                self.given("TRACING_SERVICE_INSTANCE_ID")
                    .unwrap_or_else(random_uuid),
            ),
        ];
        for (name, value) in own {
            if !value.is_empty() {
                resource.retain(|(known, _)| known != name);
                resource.push((name.to_owned(), value));
            }
        }
        Ok(resource)
    }
}

/// One of version 4.
fn random_uuid() -> String {
    let draws = Draws::new();
    let (high, low) = (draws.any(), draws.any());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

/// `name=value,…`, values as URLs have them; `None` where a part is no pair.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=')?;
            let name = name.trim();
            let value = decoded(value.trim())?;
            (!name.is_empty()).then(|| (name.to_owned(), value))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}
