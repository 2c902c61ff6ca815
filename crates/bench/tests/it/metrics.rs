//! The Prometheus rules and the dashboard that the bench writes name what Tollgate's service really exposes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_bench::record::TargetKind;
use tollgate_bench::report::files::{Format, Rendering, RunDirectory};
use tollgate_bench::target::service::rules_yaml;
use tollgate_testkit::PATIENCE;
use tollgate_testkit::process::{Server, temp_dir, tollgate_binary};
use tollgate_wire::resp::Value;

use crate::stored::synthetic_run;

/// A service on free ports; it and its folder end with their owner.
struct Service {
    process: Child,
    folder: PathBuf,
    http: SocketAddr,
}

impl Service {
    fn start() -> Service {
        let folder = temp_dir().unwrap();
        let rules = folder.join("rules");
        fs::create_dir(&rules).unwrap();
        fs::write(rules.join("bench.yaml"), rules_yaml()).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let mut process = Command::new(tollgate_binary().unwrap())
            .args(["serve", "--bind", "127.0.0.1", "--port", "0"])
            .args(["--grpc-port", "0", "--http-port", "0", "--rules"])
            .arg(&rules)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        let http = loop {
            let said = fs::read_to_string(folder.join("log")).unwrap_or_default();
            if let Some(http) = announced(&said, "http") {
                break http;
            }
            let ended = process.try_wait().unwrap().is_some();
            assert!(!ended && Instant::now() < deadline, "not ready:\n{said}");
            std::thread::sleep(Duration::from_millis(5));
        };
        Service {
            process,
            folder,
            http,
        }
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// The address after a word on the line that says what listens where.
fn announced(log: &str, what: &str) -> Option<SocketAddr> {
    let (_, ready) = log.split_once(" ready: ")?;
    let (line, _) = ready.split_once('\n')?;
    line.split(", ")
        .find_map(|part| part.strip_prefix(what)?.trim().parse().ok())
}

/// What redis_exporter makes of a server's answers: the metric, and the field or section of INFO that it comes from.
const OF_INFO: [(&str, &str); 13] = [
    ("redis_commands_total", "cmdstat_set:calls="),
    ("redis_commands_failed_calls_total", "failed_calls="),
    ("redis_commands_rejected_calls_total", "rejected_calls="),
    (
        "redis_latency_percentiles_usec",
        "latency_percentiles_usec_set:",
    ),
    (
        "redis_commands_processed_total",
        "total_commands_processed:",
    ),
    ("redis_cpu_sys_seconds_total", "used_cpu_sys:"),
    ("redis_cpu_user_seconds_total", "used_cpu_user:"),
    ("redis_memory_used_bytes", "used_memory:"),
    ("redis_memory_max_bytes", "maxmemory:"),
    ("redis_connected_clients", "connected_clients:"),
    ("redis_config_maxclients", "maxclients:"),
    ("redis_up", "redis_version:"),
    ("redis_exporter", ""),
];

/// Names with one of these beginnings in the rules and the dashboard of a run on a target of this kind and URL.
fn named(folder: &Path, kind: TargetKind, url: &str, beginnings: &[&str]) -> BTreeSet<String> {
    let mut record = synthetic_run();
    record.targets[0].kind = kind;
    record.targets[0].url = url.into();
    RunDirectory::existing(folder)
        .write_formats(
            &record,
            &[Format::Prometheus, Format::Grafana],
            &Rendering::default(),
        )
        .unwrap();
    let texts = ["prometheus-rules.yml", "grafana-dashboard.json"]
        .map(|name| fs::read_to_string(folder.join(name)).unwrap());
    texts
        .iter()
        .flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')))
        .filter(|word| beginnings.iter().any(|begin| word.starts_with(begin)))
        .map(Into::into)
        .collect()
}

#[test]
fn rules_and_dashboard_name_metrics_that_the_service_has() {
    let service = Service::start();
    let exposed = service.metrics();
    let families: BTreeSet<&str> = exposed
        .lines()
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    for url in ["grpc://127.0.0.1:1", "http://127.0.0.1:1/json"] {
        let names = named(
            &service.folder,
            TargetKind::Service,
            url,
            &["ratelimit_", "tollgate_"],
        );
        assert!(
            names.contains("ratelimit_service_total_requests"),
            "{names:?}"
        );
        for name in &names {
            assert!(
                families.contains(name.as_str()),
                "{name} is not in {exposed}"
            );
        }
        let timed = names.contains("ratelimit_service_response_time_seconds_bucket");
        assert_eq!(timed, url.starts_with("grpc"), "only gRPC is timed");
    }
}

#[test]
fn rules_and_dashboard_of_a_store_name_metrics_that_its_answers_give() {
    let server = Server::tollgate(&[]).unwrap();
    let folder = temp_dir().unwrap();
    let names = named(
        &folder,
        TargetKind::Store,
        "redis://127.0.0.1:1",
        &["redis_"],
    );
    fs::remove_dir_all(&folder).unwrap();
    let mut client = server.connect().unwrap();
    client.line("SET key value").unwrap();
    let Value::Bulk(info) = client.line("INFO everything").unwrap() else {
        panic!("INFO answers with text");
    };
    let info = String::from_utf8(info).unwrap();
    assert!(names.contains("redis_memory_used_bytes"), "{names:?}");
    for name in &names {
        let of = OF_INFO.iter().find(|(metric, _)| metric == name);
        let (_, field) = of.unwrap_or_else(|| panic!("{name} is no metric of redis_exporter"));
        assert!(info.contains(field), "{name}: no {field} in {info}");
    }
}
