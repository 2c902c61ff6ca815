//! What `deploy/` holds: files that their programs accept, and metrics that exist.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use saphyr_parser::{Event, Parser};
use serde_json::Value;
use tollgate_testkit::process::{free_port, temp_dir, tollgate_binary};
use tollgate_testkit::{peers, repo_root};

use crate::envoy::{Envoy, get};
use crate::replica::Replica;
use crate::support::http_exchange;
use crate::tls::Files;

/// The load that a machine holds, as the bench's report records it; there is no such series before.
const CAPACITY: &str = "tollgate:capacity_sustained:rps";

fn folder() -> PathBuf {
    repo_root().join("deploy")
}

fn read(path: &str) -> String {
    fs::read_to_string(folder().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files, by their paths.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

/// The scalars of a YAML file, in their order.
fn scalars(name: &str, text: &str) -> Vec<String> {
    Parser::new_from_str(text)
        .filter_map(|event| match event {
            Ok((Event::Scalar(text, ..), _)) => Some(text.into_owned()),
            Ok(_) => None,
            Err(error) => panic!("{name}: {error}"),
        })
        .collect()
}

#[test]
fn every_file_is_what_its_name_says() {
    let mut yaml = 0;
    for path in files(&folder()) {
        let name = path.display().to_string();
        let text = fs::read_to_string(&path).expect("text");
        match path.extension().and_then(|end| end.to_str()) {
            Some("yml" | "yaml") => {
                assert!(!scalars(&name, &text).is_empty(), "{name} says nothing");
                yaml += 1;
            }
            Some("json") => {
                let parsed: Result<Value, _> = serde_json::from_str(&text);
                assert!(parsed.is_ok(), "{name}: {parsed:?}");
            }
            _ => {}
        }
    }
    assert!(yaml >= 8, "{yaml} YAML files");
}

#[test]
fn compose_mounts_files_that_are_there() {
    let mut mounts = 0;
    for scalar in scalars("docker-compose.yml", &read("docker-compose.yml")) {
        if let Some((path, _)) = scalar
            .strip_prefix("./")
            .and_then(|rest| rest.split_once(':'))
        {
            assert!(folder().join(path).exists(), "{path}");
            mounts += 1;
        }
        // A tag that moves is another program tomorrow.
        assert!(!scalar.ends_with(":latest"), "{scalar}");
    }
    assert!(mounts >= 6, "{mounts} mounts");
    assert!(folder().join("Dockerfile").is_file());
}

/// The commands of the containers, on ports, folders and rules of ours.
#[test]
fn compose_starts_what_tollgate_takes() {
    let text = scalars("docker-compose.yml", &read("docker-compose.yml"));
    let words = text.iter().enumerate().skip(1);
    let commands = words.filter(|(at, word)| *word == "serve" && text[at - 1] == "command");
    let mut started = 0;
    for (at, _) in commands {
        let dir = temp_dir().expect("a temporary folder");
        let folder = dir.display().to_string();
        let port = free_port().expect("a free port").to_string();
        let mut flags = vec!["--port".to_owned(), port];
        let mut words = text[at + 1..].iter();
        while let Some(name) = words.next().filter(|word| word.starts_with("--")) {
            let value = words.next().expect("each flag has a value");
            match &**name {
                "--bind" => assert_eq!(value, "0.0.0.0", "it is asked from other containers"),
                "--rules" => assert_eq!(value, "/etc/tollgate/rules"),
                "--dir" => flags.extend([name.clone(), folder.clone()]),
                // The store's name is known in the network of the containers alone.
                "--backend" => {
                    assert_eq!(value, "redis://store:6379");
                    flags.extend([name.clone(), "redis://127.0.0.1:1".to_owned()]);
                }
                _ => flags.extend([name.clone(), value.clone()]),
            }
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        drop(Replica::start(&self::folder().join("rules"), &flags));
        fs::remove_dir_all(&dir).expect("the folder is ours");
        started += 1;
    }
    assert_eq!(started, 2);
}

/// Words of PromQL that name no metric.
const WORDS: [&str; 14] = [
    "by", "without", "on", "ignoring", "or", "and", "unless", "sum", "min", "max", "avg", "count",
    "offset", "bool",
];

/// The metrics that an expression reads.
fn metrics_of(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let skip_to = |end: char| rest[1..].find(end).map_or("", |at| &rest[at + 2..]);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        match first {
            '{' => rest = skip_to('}'),
            '[' => rest = skip_to(']'),
            '"' => rest = skip_to('"'),
            _ if is_part(first) => {
                let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
                rest = rest[word.len()..].trim_start();
                let is_call = rest.starts_with('(');
                if is_call && WORDS[..4].contains(&word) {
                    // Names of labels.
                    rest = rest.split_once(')').map_or("", |(_, rest)| rest);
                } else if !is_call && !WORDS.contains(&word) && !first.is_ascii_digit() {
                    found.insert(word.to_owned());
                }
            }
            _ => rest = &rest[first.len_utf8()..],
        }
    }
    found
}

#[test]
fn metrics_are_found_in_expressions() {
    let of = |text: &str| metrics_of(text).into_iter().collect::<Vec<_>>().join(" ");
    let text = "1e3 * histogram_quantile(0.99, sum by (le) (rate(a_bucket{b=\"c d\"}[1m]))) / scalar(min(x:y:z))";
    assert_eq!(of(text), "a_bucket x:y:z");
    assert_eq!(
        of("100 * a / (b > 0) or on (c) d{e=~\"f.*\"} >= 4096"),
        "a b d"
    );
}

/// All that dashboards and rules read.
fn wanted() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let alerts = scalars("alerts.yml", &read("prometheus/alerts.yml"));
    for pair in alerts.windows(2).filter(|pair| pair[0] == "expr") {
        all.extend(metrics_of(&pair[1]));
    }
    let queries = queries();
    for query in &queries {
        all.extend(metrics_of(query));
    }
    let count = queries.len();
    assert!(count > 20 && all.len() > 20, "{count} {all:?}");
    all
}

/// What the panels of the dashboard ask for.
fn queries() -> Vec<String> {
    let dashboard = read("grafana/dashboards/tollgate.json");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets
        .map(|target| target["expr"].as_str().expect("an expression").to_owned())
        .collect()
}

/// The series of a text for Prometheus.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(str::to_owned)
        .collect()
}

fn metrics_at(addr: SocketAddr, path: &str) -> BTreeSet<String> {
    let (status, _, text) = http_exchange(addr, "GET", path, "");
    assert_eq!(status, 200, "{text}");
    series(&text)
}

const ASKED: &str =
    r#"{"domain":"example","descriptors":[{"entries":[{"key":"user","value":"x"}]}]}"#;

/// The settings of the systemd unit, the rules of the example, and every metric that is watched.
#[test]
fn what_is_watched_exists() {
    let dir = temp_dir().expect("a temporary folder");
    // What systemd makes of the unit's StateDirectory is not there.
    let settings = read("systemd/tollgate.conf");
    assert!(settings.contains("\ndir /var/lib/tollgate\n"));
    let settings = settings.replace("/var/lib/tollgate", &dir.display().to_string());
    let config = dir.join("tollgate.conf");
    fs::write(&config, settings).expect("the folder is ours");
    let config = config.display().to_string();
    let port = free_port().expect("a free port").to_string();
    // What is told of certificates is there with TLS alone.
    let files = Files::new();
    let [certificate, key] = ["cert", "key"].map(|kind| files.path("server", kind));
    let tls = [certificate, key].map(|path| path.display().to_string());
    let flags = [
        "--config",
        &config,
        "--port",
        &port,
        "--grpc-tls-cert-file",
        &tls[0],
        "--grpc-tls-key-file",
        &tls[1],
    ];
    let service = Replica::start(&folder().join("rules"), &flags);
    for _ in 0..3 {
        let (status, _, reply) = http_exchange(service.http, "POST", "/json", ASKED);
        assert_eq!(status, 200, "{reply}");
        assert!(reply.contains("per-user"), "the rule is met: {reply}");
    }
    let there = metrics_at(service.http, "/metrics");
    let source = repo_root().join("crates/bench/src/report/advice/prometheus.rs");
    let source = fs::read_to_string(source).expect("the bench's report is there");
    for metric in wanted() {
        if metric.starts_with("envoy_") {
            continue;
        }
        let recorded = metric == CAPACITY && source.contains(CAPACITY);
        assert!(there.contains(&metric) || recorded, "{metric} is nowhere");
    }
    fs::remove_dir_all(&dir).expect("the folder is ours");
}

/// Envoy runs the file on ports of ours, with rules that let one request pass and none after it.
#[test]
fn envoy_runs_its_file_and_has_the_metrics_that_are_watched() {
    let test = "envoy_runs_its_file_and_has_the_metrics_that_are_watched";
    let Some(program) = peers::find_or_skip(test, "envoy") else {
        return;
    };
    let valid = Command::new(&program)
        .args(["--mode", "validate", "--config-path"])
        .arg(folder().join("envoy/envoy.yaml"))
        .stdin(Stdio::null())
        .output()
        .expect("Envoy starts");
    assert!(
        valid.status.success(),
        "{}",
        String::from_utf8_lossy(&valid.stderr)
    );

    let rules = temp_dir().expect("a temporary folder");
    let one = "domain: example\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]\n";
    fs::write(rules.join("rules.yaml"), one).expect("the folder is ours");
    let replicas = [(); 2].map(|()| {
        let port = free_port().expect("a free port").to_string();
        Replica::start(&rules, &["--port", &port])
    });
    let [limited, decisions, admin, application] =
        [(); 4].map(|()| free_port().expect("a free port"));
    let mut text = read("envoy/envoy.yaml");
    for (from, to) in [
        ("0.0.0.0, port_value: 10000".to_owned(), limited),
        ("0.0.0.0, port_value: 9091".to_owned(), decisions),
        ("0.0.0.0, port_value: 9901".to_owned(), admin),
        ("127.0.0.1, port_value: 8000".to_owned(), application),
        (
            "tollgate-1, port_value: 8081".to_owned(),
            replicas[0].grpc.port(),
        ),
        (
            "tollgate-2, port_value: 8081".to_owned(),
            replicas[1].grpc.port(),
        ),
    ] {
        assert!(text.contains(&from), "{from}");
        text = text.replace(&from, &format!("127.0.0.1, port_value: {to}"));
    }
    // A busy machine may be slower than production allows.
    assert!(text.contains("timeout: 0.02s"));
    let text = text.replace("timeout: 0.02s", "timeout: 30s");
    let envoy = Envoy::run(program, &text, limited);
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, admin));
    let ask = || envoy.get("x-user: 42\r\n").0;
    // Each replica has a store of its own here, and lets one pass.
    let mut statuses = vec![ask()];
    while *statuses.last().expect("the first one") != 429 {
        assert!(statuses.len() < 100, "{statuses:?}");
        statuses.push(ask());
    }
    assert_eq!(statuses[0], 200);
    assert_eq!(get(admin, "/ready", "").0, 200);
    drop(replicas);
    // Nobody decides any more, and requests pass.
    assert_eq!(ask(), 200);
    let there = metrics_at(admin, "/stats/prometheus");
    for metric in wanted().iter().filter(|name| name.starts_with("envoy_")) {
        assert!(there.contains(metric), "{metric} is nowhere");
    }
    fs::remove_dir_all(&rules).expect("the folder is ours");
}

/// Runs a checker in a folder of `deploy/`.
fn accepts(program: &Path, folder: &Path, args: &[&str]) {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{args:?}: {text}");
}

#[test]
fn prometheus_accepts_its_files_and_the_alerts_fire_as_they_should() {
    let test = "prometheus_accepts_its_files_and_the_alerts_fire_as_they_should";
    let Some(promtool) = peers::find_or_skip(test, "promtool") else {
        return;
    };
    let folder = folder().join("prometheus");
    accepts(&promtool, &folder, &["check", "config", "prometheus.yml"]);
    accepts(&promtool, &folder, &["check", "rules", "alerts.yml"]);
    accepts(&promtool, &folder, &["test", "rules", "alerts.test.yml"]);
}

/// Each query of the dashboard as the rule of a file, because Prometheus' own parser reads those.
#[test]
fn prometheus_accepts_the_queries_of_the_dashboard() {
    let test = "prometheus_accepts_the_queries_of_the_dashboard";
    let Some(promtool) = peers::find_or_skip(test, "promtool") else {
        return;
    };
    let rules: Vec<Value> = queries()
        .iter()
        .enumerate()
        .map(|(at, query)| {
            // Grafana puts a time in its place.
            let query = query
                .replace("$__rate_interval", "1m")
                .replace("$__range", "1h");
            serde_json::json!({ "record": format!("query_{at}"), "expr": query })
        })
        .collect();
    let file = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let dir = temp_dir().expect("a temporary folder");
    // JSON is YAML, too.
    fs::write(dir.join("queries.yml"), file.to_string()).expect("the folder is ours");
    accepts(&promtool, &dir, &["check", "rules", "queries.yml"]);
    fs::remove_dir_all(&dir).expect("the folder is ours");
}

#[test]
fn systemd_accepts_the_unit() {
    let Some(analyze) = peers::find_or_skip("systemd_accepts_the_unit", "systemd-analyze") else {
        return;
    };
    let dir = temp_dir().expect("a temporary folder");
    let program = tollgate_binary().expect("tollgate is built");
    let unit = read("systemd/tollgate.service");
    assert!(unit.contains("ExecStart=/usr/local/bin/tollgate "));
    let unit = unit.replace("/usr/local/bin/tollgate", &program.display().to_string());
    let path = dir.join("tollgate.service");
    fs::write(&path, unit).expect("the folder is ours");
    accepts(
        &analyze,
        &dir,
        &["verify", "--man=no", &path.display().to_string()],
    );
    fs::remove_dir_all(&dir).expect("the folder is ours");
}
