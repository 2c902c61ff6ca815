//! Rate limit services of the paired comparison: Tollgate's own, throttlecrab, and whatever runs at a URL.

use std::net::TcpStream;

use super::child::{Folder, ServerProcess, free_port, loopback};
use super::further::Further;
use super::program::on_path;
use super::service::{DOMAIN, HttpOptions, Service, WINDOW_S, entry};
use super::url::{Protocol, TargetUrl};
use crate::load::address::{Address, CONNECT_TIMEOUT, Endpoint};
use crate::load::grpc::Calls;
use crate::load::http::{HttpAsk, RATE_LIMIT_BODY, rate_limit_body};
use crate::load::workload::{Ask, Rule, Workload};
use crate::os::{listener, proc};
use crate::record::{TargetKind, TargetRecord};

/// The program of throttlecrab, from crates.io.
const THROTTLECRAB: &str = "throttlecrab-server";
/// Its HTTP path.
const THROTTLE_PATH: &str = "/throttle";
/// What is posted there.
const THROTTLE_BODY: &str = r#"{"key":"{key}","max_burst":{limit},"count_per_period":{limit},"period":{window},"quantity":1}"#;

/// Names of services that are started here.
pub(crate) const NAMES: [&str; 4] = [
    "tollgate-grpc",
    "tollgate-http",
    "throttlecrab-grpc",
    "throttlecrab-http",
];

/// What is asked of a peer.
#[derive(Clone, Debug)]
pub(crate) enum Asking {
    /// Calls over gRPC.
    Grpc(Calls),
    /// Requests over HTTP.
    Http(Workload),
}

/// A service to be compared.
#[derive(Debug)]
pub(crate) struct Peer {
    /// How it appears in the report.
    pub record: TargetRecord,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its processes, when it runs on this machine.
    pub pids: Vec<u32>,
    /// True for HTTP, false for gRPC.
    pub is_http: bool,
    started: Option<Started>,
    http: Option<HttpAsk>,
}

#[derive(Debug)]
enum Started {
    Tollgate(Box<Service>),
    Other(Box<ServerProcess>),
}

/// Whether `name` is a service that is started here, or the URL of one.
#[must_use]
pub(crate) fn is_service(name: &str) -> bool {
    let url = || name.split_once('=').map_or(name, |(_, url)| url);
    NAMES.contains(&name) || ["grpc://", "http://"].iter().any(|s| url().starts_with(s))
}

impl Peer {
    /// A service by name, started here on processor `core` with what it is given `further`, or by URL. Does not ask whose
    /// machine the URL names.
    pub(crate) fn open(
        name: &str,
        threads: u32,
        core: Option<usize>,
        further: &Further,
    ) -> Result<Peer, String> {
        match name {
            "tollgate-grpc" => Service::start(threads, core, further).map(Peer::of_ours),
            "tollgate-http" => {
                let options = HttpOptions::default();
                Service::start_http(threads, core, &options, further).map(Peer::of_ours)
            }
            "throttlecrab-grpc" => Peer::throttlecrab(false, core, further),
            "throttlecrab-http" => Peer::throttlecrab(true, core, further),
            url => Peer::attach(&TargetUrl::parse(url)?),
        }
    }

    fn of_ours(service: Service) -> Peer {
        let http = match service.ask(rule(1)) {
            Some(Ask::Http(ask, _)) => Some(*ask),
            _ => None,
        };
        Peer {
            record: service.record.clone(),
            endpoint: service.endpoint.clone(),
            pids: service.pids.clone(),
            is_http: http.is_some(),
            started: Some(Started::Tollgate(Box::new(service))),
            http,
        }
    }

    fn throttlecrab(is_http: bool, core: Option<usize>, further: &Further) -> Result<Peer, String> {
        let exe = on_path(THROTTLECRAB).ok_or_else(|| {
            format!("{THROTTLECRAB} is not on PATH (cargo install {THROTTLECRAB})")
        })?;
        let folder = Folder::new("throttlecrab")
            .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
        let port = free_port().map_err(|error| format!("no free port: {error}"))?;
        let transport = if is_http { "http" } else { "grpc" };
        let arguments = [
            format!("--{transport}"),
            format!("--{transport}-host"),
            "127.0.0.1".into(),
            format!("--{transport}-port"),
            port.to_string(),
            "--log-level".into(),
            "error".into(),
        ];
        let mut process =
            ServerProcess::start("throttlecrab", &exe, &arguments, further, core, folder)?;
        let endpoint = loopback(port);
        let Address::Tcp(address) = endpoint.address.clone() else {
            return Err("loopback is TCP".into());
        };
        let took =
            process.wait_ready(|| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())?;
        let http = match is_http {
            true => Some(throttle(&address.to_string())?),
            false => None,
        };
        let record = TargetRecord {
            name: format!("throttlecrab-{transport}"),
            kind: TargetKind::Service,
            url: format!("{transport}://{address}"),
            server_name: "throttlecrab".into(),
            // It takes no number of threads: its runtime has one for each processor that it may use.
            threads: core.map(|_| 1),
            ..process.record(took)
        };
        Ok(Peer {
            record,
            endpoint,
            pids: vec![process.pid()],
            is_http,
            started: Some(Started::Other(Box::new(process))),
            http,
        })
    }

    fn attach(url: &TargetUrl) -> Result<Peer, String> {
        let is_http = match url.protocol {
            Protocol::Http => true,
            Protocol::Grpc => false,
            _ => {
                return Err(format!(
                    "{} is not a service: give grpc:// or http:// URLs on both sides",
                    url.shown
                ));
            }
        };
        let local = url.endpoint.address.is_local();
        let pids = url.processes();
        let http = match (is_http, url.path.as_str()) {
            (false, _) => None,
            (true, THROTTLE_PATH) => Some(throttle(&url.authority)?),
            (true, path) => Some(HttpOptions::default().ask(&url.authority, path)?),
        };
        let record = TargetRecord {
            name: url.name.clone(),
            kind: TargetKind::Service,
            url: url.shown.clone(),
            server_name: listener::name_of_all(&pids),
            co_located: local,
            idle_rss_bytes: proc::rss_bytes_of_all(&pids),
            ..TargetRecord::default()
        };
        Ok(Peer {
            record,
            endpoint: url.endpoint.clone(),
            pids,
            is_http,
            started: None,
            http,
        })
    }

    /// Whether it is throttlecrab, by the name of its process.
    #[must_use]
    pub(crate) fn is_throttlecrab(&self) -> bool {
        self.record.server_name.starts_with("throttlecrab")
    }

    /// Requests for `keys` keys under a limit, which is one of [`super::service::limits`].
    #[must_use]
    pub(crate) fn asking(&self, limit: u64, prefix: &str, keys: u32) -> Asking {
        self.asking_several(limit, prefix, keys, 1)
    }

    /// The same with several descriptors in each request, where the service takes any; their keys are counted once.
    #[must_use]
    pub(crate) fn asking_several(
        &self,
        limit: u64,
        prefix: &str,
        keys: u32,
        descriptors: u32,
    ) -> Asking {
        let rule = rule(limit);
        if let Some(http) = &self.http {
            let mut http = http.clone();
            if http.body == RATE_LIMIT_BODY {
                http.body = rate_limit_body(descriptors);
            }
            let ask = Ask::Http(Box::new(http), rule);
            return Asking::Http(Workload::render(&ask, prefix, keys));
        }
        let authority = self.endpoint.address.to_string();
        Asking::Grpc(match self.is_throttlecrab() {
            true => Calls::throttlecrab(rule, prefix, keys, authority),
            false => Calls::of_several(
                DOMAIN,
                &entry(limit),
                prefix,
                (keys, descriptors),
                authority,
            ),
        })
    }

    /// What is asked, for tables.
    #[must_use]
    pub(crate) fn title(&self) -> String {
        match &self.http {
            Some(http) => http.title.clone(),
            None if self.is_throttlecrab() => "gRPC Throttle".into(),
            None => "gRPC ShouldRateLimit".into(),
        }
    }

    /// How the process ended, if it was started here and has ended.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        match self.started.as_mut()? {
            Started::Tollgate(service) => service.obituary(),
            Started::Other(process) => process.obituary(),
        }
    }
}

fn rule(limit: u64) -> Rule {
    Rule {
        limit,
        window_s: WINDOW_S,
    }
}

/// What throttlecrab is asked over HTTP.
fn throttle(authority: &str) -> Result<HttpAsk, String> {
    let options = HttpOptions {
        body: Some(THROTTLE_BODY.into()),
        ..HttpOptions::default()
    };
    options.ask(authority, THROTTLE_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_told_from_stores() {
        for name in [
            "tollgate-grpc",
            "grpc://127.0.0.1:1",
            "x=http://127.0.0.1/throttle",
        ] {
            assert!(is_service(name), "{name}");
        }
        for name in [
            "tollgate",
            "redis-server",
            "redis://127.0.0.1",
            "grpc",
            "folder/grpc",
        ] {
            assert!(!is_service(name), "{name}");
        }
    }

    #[test]
    fn throttlecrab_is_asked_in_its_own_words() {
        let mut bytes = Vec::new();
        throttle("127.0.0.1:8080")
            .unwrap()
            .write(&mut bytes, "k1", rule(50));
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("POST /throttle HTTP/1.1\r\n"), "{text}");
        assert!(
            text.ends_with(
                r#"{"key":"k1","max_burst":50,"count_per_period":50,"period":86400,"quantity":1}"#
            ),
            "{text}"
        );
    }

    #[test]
    fn a_store_is_not_a_service() {
        let error = Peer::open("redis://127.0.0.1:1", 1, None, &Further::default()).unwrap_err();
        assert!(error.contains("not a service"), "{error}");
    }
}
