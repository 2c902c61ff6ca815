//! A rate limit service under test: Tollgate's own, started with rules made for the bench, or one that runs.

use std::net::TcpStream;
use std::time::Duration;

use super::Way;
use super::child::{Folder, ServerProcess, free_port, loopback};
use super::fleet::Arm;
use super::further::Further;
use super::program::Program;
use super::url::TargetUrl;
use crate::load::address::{Address, CONNECT_TIMEOUT, Endpoint};
use crate::load::grpc::Calls;
use crate::load::http::{HttpAsk, RATE_LIMIT_BODY};
use crate::load::workload::{Ask, Rule};
use crate::os::{listener, proc};
use crate::record::{TargetKind, TargetRecord};

/// Domain of the rules that the service is asked for.
pub(crate) const DOMAIN: &str = "bench";
/// Window of all rules, in seconds: a day, so that no boundary falls into a step.
pub(crate) const WINDOW_S: u64 = 86_400;
/// Largest limit among the rules.
const LIMIT_MAX: u64 = 50_000_000;

/// A service ready to be measured.
#[derive(Debug)]
pub struct Service {
    /// How it appears in the report.
    pub record: TargetRecord,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its processes, when it runs on this machine.
    pub pids: Vec<u32>,
    /// Its strategy for hot keys, and what it shares with others; `None` for a service by itself.
    pub arm: Option<Arm>,
    process: Option<ServerProcess>,
    /// What is asked over HTTP; `None` for gRPC.
    http: Option<HttpAsk>,
}

/// Ports of a service: its store, gRPC, HTTP.
pub(super) type Ports = [u16; 3];

/// Ports that were free a moment ago.
pub(super) fn free_ports() -> Result<Ports, String> {
    let mut ports = [0; 3];
    for port in &mut ports {
        *port = free_port().map_err(|error| format!("no free port: {error}"))?;
    }
    Ok(ports)
}

/// A service that was just started.
pub(super) struct Spawned {
    pub(super) process: ServerProcess,
    pub(super) grpc: Endpoint,
    http: Endpoint,
    /// From its start to the first connection.
    pub(super) took: Duration,
}

/// Starts this program as a service called `name` with `rules` on `ports`, on its own store or on that of `backend`.
pub(super) fn spawn(
    name: &str,
    rules: &str,
    ports: Ports,
    threads: u32,
    core: Option<usize>,
    backend: Option<&str>,
    further: &Further,
) -> Result<Spawned, String> {
    let exe = Program::Tollgate
        .locate()
        .ok_or("cannot find this program's own file")?;
    let folder =
        Folder::new(name).map_err(|error| format!("cannot create a temporary folder: {error}"))?;
    let directory = folder.path().join("rules");
    std::fs::create_dir_all(&directory)
        .and_then(|()| std::fs::write(directory.join("bench.yaml"), rules))
        .map_err(|error| format!("cannot write {}: {error}", directory.display()))?;
    let [store, grpc, http] = ports;
    let mut arguments = Program::Tollgate.arguments(store, threads, folder.path());
    arguments.extend(
        [
            "--rules",
            &directory.display().to_string(),
            "--grpc-port",
            &grpc.to_string(),
            "--http-port",
            &http.to_string(),
        ]
        .map(String::from),
    );
    arguments.extend(
        backend
            .iter()
            .flat_map(|url| ["--backend".into(), (*url).to_owned()]),
    );
    let mut process =
        ServerProcess::start("tollgate service", &exe, &arguments, further, core, folder)?;
    let (grpc, http) = (loopback(grpc), loopback(http));
    let took = process.wait_ready(|| listens(&grpc) && listens(&http))?;
    Ok(Spawned {
        process,
        grpc,
        http,
        took,
    })
}

fn listens(endpoint: &Endpoint) -> bool {
    match &endpoint.address {
        Address::Tcp(address) => TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok(),
        Address::Unix(_) => false,
    }
}

/// What the command line says about requests over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpOptions {
    /// Method; POST with a body and GET without one by default.
    pub method: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Body with `{key}`, `{limit}` and `{window}`; the one of [`RATE_LIMIT_BODY`] by default for `/json`.
    pub body: Option<String>,
}

impl HttpOptions {
    /// What is asked at `authority` and `path`.
    pub(crate) fn ask(&self, authority: &str, path: &str) -> Result<HttpAsk, String> {
        let own = path == "/json" && self.method.is_none() && self.body.is_none();
        let body = self.body.as_deref().or(own.then_some(RATE_LIMIT_BODY));
        let mut headers = self.headers.clone();
        let typed = headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if body.is_some_and(|body| body.trim_start().starts_with('{')) && !typed {
            headers.push(("content-type".into(), "application/json".into()));
        }
        HttpAsk::new(authority, path, self.method.as_deref(), &headers, body)
    }
}

/// Limits for which a rule exists: 1, 2, 5, 10, 20, 50, ...
pub(crate) fn limits() -> impl Iterator<Item = u64> {
    let decades = std::iter::successors(Some(1_u64), |decade| decade.checked_mul(10));
    decades
        .flat_map(|decade| [decade, 2 * decade, 5 * decade])
        .take_while(|limit| *limit <= LIMIT_MAX)
}

/// The rules file that a service under test needs: one descriptor key per limit, any value.
#[must_use]
pub fn rules_yaml() -> String {
    let mut text = format!("domain: {DOMAIN}\ndescriptors:\n");
    for limit in limits() {
        text.push_str(&format!(
            "  - key: {}\n    rate_limit:\n      unit: day\n      requests_per_unit: {limit}\n",
            entry(limit)
        ));
    }
    text
}

/// Key of the descriptor that has a limit.
pub(super) fn entry(limit: u64) -> String {
    format!("limit_{limit}")
}

impl Service {
    /// Starts this program as a service on its own store, asked over gRPC.
    pub(crate) fn start(
        threads: u32,
        core: Option<usize>,
        further: &Further,
    ) -> Result<Service, String> {
        Service::start_as("tollgate-grpc", threads, core, None, &rules_yaml(), further)
    }

    /// The same called `name` with rules of its own, as an arm of a comparison of strategies.
    pub(crate) fn start_arm(
        name: &str,
        rules: &str,
        threads: u32,
        core: Option<usize>,
        arm: Arm,
        further: &Further,
    ) -> Result<Service, String> {
        let mut service = Service::start_as(name, threads, core, None, rules, further)?;
        service.arm = Some(arm);
        Ok(service)
    }

    /// An arm that runs on the services of a fleet.
    #[must_use]
    pub(crate) fn of_fleet(
        record: TargetRecord,
        endpoint: Endpoint,
        pids: Vec<u32>,
        arm: Arm,
    ) -> Service {
        Service {
            record,
            endpoint,
            pids,
            arm: Some(arm),
            process: None,
            http: None,
        }
    }

    /// Starts this program as a service on its own store, asked over HTTP.
    pub(crate) fn start_http(
        threads: u32,
        core: Option<usize>,
        options: &HttpOptions,
        further: &Further,
    ) -> Result<Service, String> {
        Service::start_as(
            "tollgate-http",
            threads,
            core,
            Some(options),
            &rules_yaml(),
            further,
        )
    }

    fn start_as(
        name: &str,
        threads: u32,
        core: Option<usize>,
        over_http: Option<&HttpOptions>,
        rules: &str,
        further: &Further,
    ) -> Result<Service, String> {
        let Spawned {
            process,
            grpc,
            http,
            took,
        } = spawn(name, rules, free_ports()?, threads, core, None, further)?;
        let endpoint = if over_http.is_some() { http } else { grpc };
        let address = endpoint.address.to_string();
        let ask = over_http
            .map(|options| options.ask(&address, "/json"))
            .transpose()?;
        let record = TargetRecord {
            name: name.into(),
            kind: TargetKind::Service,
            url: match &ask {
                Some(ask) => format!("http://{address}{}", ask.target),
                None => format!("grpc://{address}"),
            },
            server_name: "tollgate".into(),
            server_version: env!("CARGO_PKG_VERSION").into(),
            threads: Some(threads),
            ..process.record(took)
        };
        Ok(Service {
            record,
            endpoint,
            pids: vec![process.pid()],
            arm: None,
            process: Some(process),
            http: ask,
        })
    }

    /// Takes a service that runs already with the rules of [`rules_yaml`].
    ///
    /// # Errors
    /// If nothing listens there.
    pub fn attach(url: &TargetUrl) -> Result<Service, String> {
        Service::attached(url, None)
    }

    /// Takes an HTTP server that runs already.
    pub(crate) fn attach_http(url: &TargetUrl, options: &HttpOptions) -> Result<Service, String> {
        let ask = options.ask(&url.authority, &url.path)?;
        Service::attached(url, Some(ask))
    }

    fn attached(url: &TargetUrl, http: Option<HttpAsk>) -> Result<Service, String> {
        // So that a wrong address is one sentence, and not a ladder without rows for every scenario.
        url.endpoint.reach()?;
        let pids = url.processes();
        let record = TargetRecord {
            name: url.name.clone(),
            kind: TargetKind::Service,
            url: url.shown.clone(),
            server_name: listener::name_of_all(&pids),
            co_located: url.endpoint.address.is_local(),
            idle_rss_bytes: proc::rss_bytes_of_all(&pids),
            ..TargetRecord::default()
        };
        Ok(Service {
            record,
            endpoint: url.endpoint.clone(),
            pids,
            arm: None,
            process: None,
            http,
        })
    }

    /// The ways in which it is asked.
    #[must_use]
    pub(crate) fn ways(&self) -> Vec<Way> {
        vec![if self.http.is_some() {
            Way::Http
        } else {
            Way::Grpc
        }]
    }

    /// What is asked over HTTP under `rule`; `None` for gRPC.
    #[must_use]
    pub(crate) fn ask(&self, rule: Rule) -> Option<Ask> {
        let http = self.http.clone()?;
        Some(Ask::Http(Box::new(http), rule))
    }

    /// The calls for `keys` keys under `rule`, whose limit is one of [`limits`].
    #[must_use]
    pub(crate) fn calls(&self, rule: Rule, prefix: &str, keys: u32) -> Calls {
        let authority = self.endpoint.address.to_string();
        let entry = match &self.arm {
            Some(arm) => arm.strategy.entry(rule.limit),
            None => entry(rule.limit),
        };
        Calls::new(DOMAIN, &entry, prefix, keys, authority)
    }

    /// Starts it anew in place of the process that was started here, or of those of its fleet. `None` if it was not.
    pub(crate) fn restart(&mut self) -> Option<Result<(), String>> {
        if let Some(fleet) = self.arm.as_ref().and_then(|arm| arm.fleet.as_ref()) {
            return Some(fleet.restart());
        }
        let process = self.process.as_mut()?;
        let endpoint = &self.endpoint;
        let done = process.restart(|| listens(endpoint));
        self.pids = vec![process.pid()];
        Some(done)
    }

    /// How the process ended, if it was started here and has ended.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        let own = self.process.as_mut().and_then(ServerProcess::obituary);
        own.or_else(|| self.arm.as_ref().and_then(Arm::obituary))
    }
}
