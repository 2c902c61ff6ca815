//! The environment of a deployment of envoyproxy/ratelimit.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use tollgate_rls::{
    Backend, Effect, Environment, RlsConfig, StatsdConfig, VARIABLES, parse_duration,
};
use tollgate_testkit::repo_root;

use crate::support::config;

fn applied(given: &[(&str, &str)]) -> Result<(RlsConfig, Vec<String>), String> {
    let mut config = config("/rules".into(), Backend::Embedded);
    let environment = Environment::new(|name: &str| {
        let found = given.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    });
    let lines = environment.apply(&mut config, false)?;
    Ok((config, lines))
}

#[test]
fn the_defaults_are_those_of_the_peer() {
    let (config, lines) = applied(&[]).expect("valid");
    assert_eq!(config.http_addr.to_string(), "0.0.0.0:8080");
    assert_eq!(config.grpc_addr.to_string(), "0.0.0.0:8081");
    assert_eq!(
        config.debug_addr.map(|addr| addr.to_string()),
        Some("0.0.0.0:6070".to_owned())
    );
    assert!(config.grpc_tls.is_none() && config.prometheus.is_none());
    assert_eq!(
        config.statsd,
        Some(StatsdConfig {
            addr: "localhost:8125".to_owned(),
            dog: false,
            tags: Vec::new(),
            interval: Duration::from_secs(10)
        })
    );
    assert_eq!(config.backend, Backend::Embedded);
    assert!(lines.is_empty(), "{lines:?}");
}

/// What Envoy Gateway gives its rate limit container, with rules in files.
#[test]
fn a_deployment_as_envoy_gateway_makes_it_starts() {
    let (config, lines) = applied(&[
        ("LOG_LEVEL", "info"),
        ("USE_STATSD", "false"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", "/certs/tls.crt"),
        ("GRPC_SERVER_TLS_KEY", "/certs/tls.key"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "redis:6379"),
        ("USE_PROMETHEUS", "true"),
        ("PROMETHEUS_ADDR", ":19001"),
    ])
    .expect("valid");
    assert!(config.grpc_tls.is_some() && config.start_without_rules && config.statsd.is_none());
    let (addr, path) = config.prometheus.expect("it is on");
    assert_eq!(
        (addr.to_string(), &*path),
        ("0.0.0.0:19001".to_owned(), "/metrics")
    );
    assert_eq!(config.backend, Backend::Embedded);
    assert_eq!(
        lines,
        [
            "LOG_LEVEL is ignored: the log has a line for each change, and no levels",
            "REDIS_SOCKET_TYPE is ignored: the store of this process counts; BACKEND_TYPE=redis counts there",
            "REDIS_URL is ignored: the store of this process counts; BACKEND_TYPE=redis counts there",
        ]
    );
}

#[test]
fn redis_counts_when_it_is_asked_for() {
    let url = |more: &[(&str, &str)]| {
        let mut given = vec![
            ("BACKEND_TYPE", "redis"),
            ("REDIS_SOCKET_TYPE", "tcp"),
            ("REDIS_URL", "h:1"),
        ];
        given.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        given.extend(more);
        applied(&given).map(|(config, _)| config.backend)
    };
    let remote = |url: &str| Ok(Backend::Remote(url.to_owned()));
    assert_eq!(url(&[]), remote("redis://h:1"));
    assert_eq!(url(&[("REDIS_AUTH", "p")]), remote("redis://:p@h:1"));
    assert_eq!(
        url(&[("REDIS_AUTH", "u:p"), ("REDIS_TLS", "true")]),
        remote("rediss://u:p@h:1")
    );
    assert_eq!(
        url(&[("REDIS_SOCKET_TYPE", "unix"), ("REDIS_URL", "/run/r.sock")]),
        remote("unix:///run/r.sock")
    );
    assert_eq!(
        url(&[("REDIS_TYPE", "CLUSTER"), ("REDIS_URL", "a:1,b:2")]),
        remote("redis+cluster://a:1,b:2")
    );
    let sentinel = ("REDIS_TYPE", "SENTINEL");
    assert_eq!(
        url(&[sentinel, ("REDIS_URL", "main,a:1,b:2"), ("REDIS_AUTH", "p")]),
        remote("redis+sentinel://:p@a:1,b:2/main")
    );
    assert!(url(&[sentinel]).is_err());
    assert!(
        url(&[
            sentinel,
            ("REDIS_SOCKET_TYPE", "unix"),
            ("REDIS_URL", "m,a:1")
        ])
        .is_err()
    );
    assert!(url(&[("REDIS_TYPE", "RING")]).is_err());
    for bad in [
        ("REDIS_TIMEOUT", "0"),
        ("REDIS_TIMEOUT", "soon"),
        ("REDIS_POOL_SIZE", "0"),
        ("REDIS_POOL_SIZE", "many"),
    ] {
        assert!(url(&[bad]).is_err(), "{bad:?}");
    }
}

#[test]
fn how_the_store_is_connected_to() {
    let given = [
        ("RUNTIME_ROOT", "/r"),
        ("BACKEND_TYPE", "redis"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "h:1"),
        ("REDIS_TIMEOUT", "20ms"),
        ("REDIS_POOL_SIZE", "5"),
        ("REDIS_TLS_CACERT", "/ca"),
        ("REDIS_TLS_CLIENT_CERT", "/cert"),
        ("REDIS_TLS_CLIENT_KEY", "/key"),
    ];
    let (config, lines) = applied(&given).expect("valid");
    let store = config.store;
    assert_eq!(store.timeout.as_millis(), 20);
    assert_eq!(store.connections, 5_usize.div_ceil(config.threads));
    let files = [store.tls_authority, store.tls_certificate, store.tls_key];
    let files = files.map(|file| file.expect("given").display().to_string());
    assert_eq!(files, ["/ca", "/cert", "/key"]);
    assert!(lines.is_empty(), "{lines:?}");
    assert!(!config.merge_domains);
    let (config, _) =
        applied(&[("RUNTIME_ROOT", "/r"), ("MERGE_DOMAIN_CONFIG", "true")]).expect("valid");
    assert!(config.merge_domains);
}

#[test]
fn bad_values_name_their_variable() {
    for (name, value) in [
        ("PORT", "http"),
        ("GRPC_PORT", "70000"),
        ("GRPC_SERVER_USE_TLS", "yes"),
        ("NEAR_LIMIT_RATIO", "2"),
        ("NEAR_LIMIT_RATIO", "NaN"),
        ("STATS_FLUSH_INTERVAL", "soon"),
        ("EXTRA_TAGS", "a,b"),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("BACKEND_TYPE", "memcache"),
    ] {
        let error = applied(&[(name, value)]).expect_err(name);
        assert!(error.starts_with(name) && error.contains(value), "{error}");
    }
    let error = applied(&[("GRPC_SERVER_USE_TLS", "true")]).expect_err("no certificate");
    assert!(error.starts_with("GRPC_SERVER_TLS_CERT: "), "{error}");
}

#[test]
fn every_variable_is_accepted_and_what_is_ignored_is_told() {
    let mut names = HashSet::new();
    for row in VARIABLES.iter().flat_map(|(_, rows)| *rows) {
        assert!(names.insert(row.name), "{} is there twice", row.name);
        if row.name == "GRPC_SERVER_USE_TLS"
            || row.default.is_empty() && matches!(row.effect, Effect::Used(_))
        {
            continue;
        }
        let value = if row.default.is_empty() {
            "x"
        } else {
            row.default
        };
        let mut given = vec![(row.name, value)];
        if row.name == "BACKEND_TYPE" {
            given.push(("REDIS_SOCKET_TYPE", "tcp"));
        }
        let (_, lines) = applied(&given).unwrap_or_else(|error| panic!("{error}"));
        let told = lines
            .iter()
            .any(|line| line.starts_with(&format!("{} is ignored: ", row.name)));
        let ignored = matches!(row.effect, Effect::Ignored(_)) || row.name.starts_with("REDIS_");
        assert_eq!(told, ignored, "{}", row.name);
    }
    assert!(names.len() > 100, "{}", names.len());
}

#[test]
fn rules_are_where_the_peer_looks_for_them() {
    let of = |given: &[(&str, &str)]| {
        let environment = Environment::new(|name: &str| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        environment.rules_dir().map(|dir| dir.display().to_string())
    };
    assert_eq!(of(&[]), None);
    assert_eq!(
        of(&[
            ("RUNTIME_ROOT", "/data"),
            ("RUNTIME_SUBDIRECTORY", "ratelimit")
        ]),
        Some("/data/ratelimit/config".to_owned())
    );
    assert_eq!(
        of(&[("RUNTIME_SUBDIRECTORY", "a"), ("RUNTIME_APPDIRECTORY", "b")]),
        Some("/srv/runtime_data/current/a/b".to_owned())
    );
}

#[test]
fn durations_are_those_of_go() {
    for (text, ms) in [
        ("0", 0),
        ("20ms", 20),
        ("10s", 10_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1_500),
    ] {
        assert_eq!(
            parse_duration(text),
            Some(Duration::from_millis(ms)),
            "{text}"
        );
    }
    for text in ["", "10", "s", "-1s", "1 s", "1d", "1e400s", "NaNs"] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
}

/// `docs/envoy-ratelimit.md` is made of the table.
#[test]
fn the_page_is_that_of_the_table() {
    let mut page = String::from(
        "# Environment variables of envoyproxy/ratelimit\n\n\
         Made by `TOLLGATE_REGENERATE=1 cargo test -p tollgate-rls environment`; do not edit.\n\n\
         Where `RUNTIME_ROOT` or `RUNTIME_SUBDIRECTORY` says where the rules are and `--rules` does not, `tollgate serve` starts as\n\
         envoyproxy/ratelimit does: on its ports, with these variables. A variable that is given and does nothing is named in\n\
         one line of the log. With `--rules` the settings of [settings.md](settings.md) count instead, and of these variables\n\
         only those that say so.\n",
    );
    for (group, rows) in VARIABLES {
        write!(
            page,
            "\n## {group}\n\n| variable | default | here |\n|---|---|---|\n"
        )
        .expect("a String");
        for row in *rows {
            let default = match row.default {
                "" => String::new(),
                text => format!("`{text}`"),
            };
            let effect = match row.effect {
                Effect::Used(what) => what.to_owned(),
                Effect::Ignored(why) => format!("ignored: {why}"),
            };
            writeln!(page, "| `{}` | {default} | {effect} |", row.name).expect("a String");
        }
    }
    let path = repo_root().join("docs/envoy-ratelimit.md");
    if std::env::var_os("TOLLGATE_REGENERATE").is_some() {
        std::fs::write(&path, &page).expect("the repository is writable");
    }
    let there = std::fs::read_to_string(&path).expect("the page is there");
    assert!(
        there == page,
        "docs/envoy-ratelimit.md is out of date: TOLLGATE_REGENERATE=1 cargo test -p tollgate-rls environment"
    );
}
