//! The environment of a deployment of envoyproxy/ratelimit.

use std::collections::HashSet;
use std::time::Duration;

use crate::support::config;
use tollgate_rls::{
    Backend, ConnectionAge, Effect, Environment, HealthNeeds, RlsConfig, StatsdConfig,
    StatsdProtocol, VARIABLES, XdsBackoff, XdsConfig, XdsTls, parse_duration,
};
use tollgate_testkit::process::temp_dir;

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
            protocol: StatsdProtocol::Tcp,
            dog: false,
            tags: Vec::new(),
            interval: Duration::from_secs(10)
        })
    );
    assert_eq!(config.backend, Backend::Embedded);
    assert!(lines.is_empty(), "{lines:?}");
}

#[test]
fn a_unix_socket_takes_the_place_of_the_port() {
    let (config, lines) = applied(&[("GRPC_UDS", "/run/ratelimit.sock")]).expect("valid");
    let socket = config.grpc_socket.expect("given");
    assert_eq!(socket.to_str(), Some("/run/ratelimit.sock"));
    assert!(
        config.http_socket.is_none() && lines.is_empty(),
        "{lines:?}"
    );
    assert!(
        applied(&[("GRPC_UDS", "")])
            .expect("valid")
            .0
            .grpc_socket
            .is_none()
    );
}

#[test]
fn statsd_is_spoken_to_as_the_peer_does() {
    let of = |given: &[(&str, &str)]| {
        let (config, _) = applied(given).expect("valid");
        config.statsd.map(|statsd| (statsd.protocol, statsd.dog))
    };
    let (tcp, udp) = (StatsdProtocol::Tcp, StatsdProtocol::Udp);
    assert_eq!(of(&[]), Some((tcp, false)));
    assert_eq!(of(&[("STATSD_PROTOCOL", "udp")]), Some((udp, false)));
    // The peer refuses both at once.
    let dog = ("USE_DOG_STATSD", "true");
    assert_eq!(of(&[dog, ("USE_STATSD", "false")]), Some((udp, true)));
    assert_eq!(of(&[dog, ("DISABLE_STATS", "true")]), None);
}

#[test]
fn a_management_server_is_asked_as_the_variables_say() {
    let given = [
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_NODE_ID", "node"),
        ("CONFIG_GRPC_XDS_NODE_METADATA", "a=1,b=2=3,c"),
        ("CONFIG_GRPC_XDS_SERVER_URL", "dns:///gateway:18001"),
        ("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "5s"),
        ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "x-a:1,x-b:2"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/cert"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "/key"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/ca"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "gateway.system"),
        ("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "1s"),
        ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "1m"),
        ("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "1.5"),
        ("XDS_CLIENT_BACKOFF_JITTER", "false"),
        ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "1000000"),
    ];
    let (config, lines) = applied(&given).expect("valid");
    assert!(lines.is_empty(), "{lines:?}");
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let wanted = XdsConfig {
        server: "dns:///gateway:18001".to_owned(),
        node_id: "node".to_owned(),
        node_metadata: vec![pair("a", "1"), pair("b", "2=3")],
        headers: vec![pair("x-a", "1"), pair("x-b", "2")],
        connect_interval: Duration::from_secs(5),
        backoff: XdsBackoff {
            initial: Duration::from_secs(1),
            most: Duration::from_secs(60),
            factor: 1.5,
            jitter: false,
        },
        max_message: 1_000_000,
        tls: Some(XdsTls {
            own: Some(("/cert".into(), "/key".into())),
            authority: Some("/ca".into()),
            server_name: Some("gateway.system".to_owned()),
        }),
    };
    assert_eq!(config.xds, Some(wanted));
    let (config, _) = applied(&[("CONFIG_TYPE", "GRPC_XDS_SOTW")]).expect("valid");
    let xds = config.xds.expect("asked for");
    assert_eq!(
        (&*xds.server, &*xds.node_id),
        ("localhost:18000", "default")
    );
    assert_eq!(xds.max_message, 4 << 20);
    assert!(xds.tls.is_none() && xds.headers.is_empty() && !config.start_without_rules);
    for (name, value) in [
        ("CONFIG_GRPC_XDS_SERVER_URL", "nowhere"),
        ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "a b:c"),
        ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "alone"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "perhaps"),
        ("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "soon"),
        ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "later"),
        ("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "some"),
        ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "-1"),
    ] {
        let error = applied(&[("CONFIG_TYPE", "GRPC_XDS_SOTW"), (name, value)]).expect_err(name);
        assert!(error.starts_with(name), "{error}");
    }
}

/// What Envoy Gateway gives its rate limit container.
#[test]
fn a_deployment_as_envoy_gateway_makes_it_starts() {
    let (config, lines) = applied(&[
        ("RUNTIME_ROOT", "/data"),
        ("RUNTIME_SUBDIRECTORY", "ratelimit"),
        ("RUNTIME_IGNOREDOTFILES", "true"),
        ("RUNTIME_WATCH_ROOT", "false"),
        ("LOG_LEVEL", "info"),
        ("USE_STATSD", "false"),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
        ("CONFIG_GRPC_XDS_SERVER_URL", "envoy-gateway:18001"),
        ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", "/certs/tls.crt"),
        ("GRPC_SERVER_TLS_KEY", "/certs/tls.key"),
        ("GRPC_SERVER_TLS_CA_CERT", "/certs/ca.crt"),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/certs/tls.crt"),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "/certs/tls.key"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/certs/ca.crt"),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "redis:6379"),
        ("USE_PROMETHEUS", "true"),
        ("PROMETHEUS_ADDR", ":19001"),
    ])
    .expect("valid");
    assert!(config.grpc_tls.is_some() && config.start_without_rules && config.statsd.is_none());
    let xds = config.xds.expect("asked for");
    assert_eq!(
        (&*xds.server, &*xds.node_id),
        ("envoy-gateway:18001", "envoy-ratelimit")
    );
    let tls = xds.tls.expect("asked for");
    assert!(tls.own.is_some() && tls.authority.is_some() && tls.server_name.is_none());
    let (addr, path) = config.prometheus.expect("it is on");
    assert_eq!(
        (addr.to_string(), &*path),
        ("0.0.0.0:19001".to_owned(), "/metrics")
    );
    assert_eq!(
        config.backend,
        Backend::Remote("redis://redis:6379".to_owned())
    );
    let ignored = lines
        .iter()
        .map(|line| line.split(' ').next().unwrap_or_default());
    assert_eq!(
        ignored.collect::<Vec<_>>(),
        [
            "RUNTIME_ROOT",
            "RUNTIME_SUBDIRECTORY",
            "RUNTIME_IGNOREDOTFILES",
            "RUNTIME_WATCH_ROOT",
        ]
    );
}

/// The peer's default is Redis: who names one relies on it, often without `BACKEND_TYPE`, and replicas count together there.
#[test]
fn a_redis_that_is_named_counts() {
    let backend = |given: &[(&str, &str)]| applied(given).expect("valid").0.backend;
    let redis = [("REDIS_SOCKET_TYPE", "tcp"), ("REDIS_URL", "h:1")];
    assert_eq!(backend(&redis), Backend::Remote("redis://h:1".to_owned()));
    assert_eq!(backend(&redis[..1]), Backend::Embedded);
    let memcached = [("BACKEND_TYPE", "memcache"), redis[0], redis[1]];
    assert_eq!(backend(&memcached), Backend::Embedded);
    assert_eq!(backend(&[]), Backend::Embedded);
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
    assert!(url(&[("REDIS_TYPE", "RING")]).is_err());
    // A mounted secret, with the end of its line.
    let dir = temp_dir().expect("a temporary folder");
    let path = dir.join("auth");
    let file = path.to_str().expect("text");
    for (text, wanted) in [("u:p\r\n", "redis://u:p@h:1"), ("p", "redis://:p@h:1")] {
        std::fs::write(&path, text).expect("the folder is ours");
        assert_eq!(url(&[("REDIS_AUTH_FILE", file)]), remote(wanted));
    }
    let both = url(&[("REDIS_AUTH_FILE", file), ("REDIS_AUTH", "p")]);
    assert_eq!(
        both.expect_err("one of them"),
        "REDIS_AUTH and REDIS_AUTH_FILE cannot both be set"
    );
    std::fs::write(&path, "\n").expect("the folder is ours");
    let empty = url(&[("REDIS_AUTH_FILE", file)]).expect_err("no password");
    assert!(empty.starts_with("REDIS_AUTH_FILE: ") && empty.ends_with(" is empty"));
    std::fs::remove_dir_all(&dir).expect("the folder is ours");
    assert!(url(&[("REDIS_AUTH_FILE", file)]).is_err());
    for bad in [
        ("REDIS_TIMEOUT", "-1s"),
        ("REDIS_TIMEOUT", "soon"),
        ("REDIS_POOL_SIZE", "-1"),
        ("REDIS_POOL_SIZE", "many"),
    ] {
        assert!(url(&[bad]).is_err(), "{bad:?}");
    }
}

/// `unix` is the default, so that many deployments do not say `tcp` where the peer does not look.
#[test]
fn sentinels_and_clusters_are_reached_by_tcp() {
    let url = |given: &[(&str, &str)]| {
        let (config, _) = applied(given).expect("valid");
        match config.backend {
            Backend::Remote(url) => url,
            Backend::Embedded => panic!("no backend"),
        }
    };
    let redis = ("BACKEND_TYPE", "redis");
    for socket in [("REDIS_SOCKET_TYPE", "unix"), ("REDIS_SOCKET_TYPE", "")] {
        let sentinel = [
            redis,
            socket,
            ("REDIS_TYPE", "sentinel"),
            ("REDIS_URL", "m,a:1"),
        ];
        assert_eq!(url(&sentinel), "redis+sentinel://a:1/m");
        let cluster = [
            redis,
            socket,
            ("REDIS_TYPE", "cluster"),
            ("REDIS_URL", "a:1,b:2"),
        ];
        assert_eq!(url(&cluster), "redis+cluster://a:1,b:2");
    }
}

#[test]
fn users_and_passwords_are_where_the_peer_takes_them_from() {
    let url = |place: &str, more: &[(&str, &str)]| {
        let mut given = vec![("BACKEND_TYPE", "redis"), ("REDIS_URL", place)];
        given.extend(more);
        applied(&given).map(|(config, _)| config.backend)
    };
    let remote = |url: &str| Ok(Backend::Remote(url.to_owned()));
    let (tcp, auth) = (("REDIS_SOCKET_TYPE", "tcp"), ("REDIS_AUTH", "me:s:c"));
    assert_eq!(
        url("/run/r.sock", &[auth]),
        remote("unix:///run/r.sock?user=me&pass=s%3Ac")
    );
    assert_eq!(
        url("/run/r.sock", &[("REDIS_AUTH", "s")]),
        remote("unix:///run/r.sock?pass=s")
    );
    assert_eq!(url("h:1", &[tcp, auth]), remote("redis://me:s%3Ac@h:1"));
    let whole = "redis://u:p%40@h:1/3";
    assert_eq!(url(whole, &[tcp]), remote(whole));
    assert_eq!(url(whole, &[tcp, auth]), remote("redis://me:s%3Ac@h:1/3"));
    let (cluster, sentinel) = (("REDIS_TYPE", "CLUSTER"), ("REDIS_TYPE", "SENTINEL"));
    assert_eq!(
        url("redis://:p@a:1,redis://:p@b:2", &[tcp, cluster]),
        remote("redis+cluster://:p@a:1,b:2")
    );
    assert_eq!(
        url("m,redis://a:1,b:2", &[tcp, sentinel]),
        remote("redis+sentinel://a:1,b:2/m")
    );
    let error = url("m,redis://:p@a:1", &[tcp, sentinel]).expect_err("a password");
    assert!(
        error.contains("REDIS_SENTINEL_AUTH") && !error.contains(":p@"),
        "{error}"
    );
    // Nobody is to believe that it is spoken.
    let error = url("/run/r.sock", &[("REDIS_TLS", "true")]).expect_err("TLS");
    assert!(error.starts_with("REDIS_TLS: "), "{error}");
}

#[test]
fn values_are_written_as_in_go() {
    let (config, _) = applied(&[
        ("PORT", "0x1F90"),
        ("GRPC_PORT", "8_081"),
        ("GRPC_MAX_CONNECTION_AGE", "1h30m"),
        ("NEAR_LIMIT_RATIO", "8e-1"),
        ("LOCAL_CACHE_SIZE_IN_BYTES", "1_000_000"),
        ("BACKEND_TYPE", "redis"),
        ("REDIS_POOL_SIZE", "1_000_000"),
        ("REDIS_TIMEOUT", "24h"),
    ])
    .expect("valid");
    assert_eq!(
        (config.http_addr.port(), config.grpc_addr.port()),
        (8_080, 8_081)
    );
    assert_eq!(config.connection_age.expect("given").age.as_secs(), 5_400);
    assert!((config.near_limit_ratio - 0.8).abs() < 1e-6);
    // What is more than there can be counts as the most.
    assert_eq!(
        config.store.connections,
        1_024_usize.div_ceil(config.threads)
    );
    assert_eq!(config.store.timeout.as_secs(), 60);
    let (config, _) = applied(&[
        ("BACKEND_TYPE", "redis"),
        ("REDIS_POOL_SIZE", "0"),
        ("REDIS_TIMEOUT", "0"),
    ])
    .expect("valid");
    assert_eq!(config.store.timeout.as_secs(), 60);
    assert_eq!(config.store.connections, 1);
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
fn limits_per_second_may_have_a_redis_of_their_own() {
    let main = [
        ("BACKEND_TYPE", "redis"),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_URL", "h:1"),
        ("REDIS_TLS_CACERT", "/ca"),
        ("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "true"),
        ("REDIS_SENTINEL_AUTH", "watch"),
        ("REDIS_PERSECOND_SOCKET_TYPE", "tcp"),
        ("REDIS_PERSECOND_TYPE", "SENTINEL"),
        ("REDIS_PERSECOND_URL", "main,a:1"),
        ("REDIS_PERSECOND_AUTH", "u:p@ss/w"),
        ("REDIS_PERSECOND_TLS", "true"),
        ("REDIS_PERSECOND_SENTINEL_AUTH", "other"),
        ("REDIS_PERSECOND_POOL_SIZE", "7"),
        ("REDIS_PERSECOND_TIMEOUT", "30ms"),
    ];
    let with = |value| {
        let mut given = main.to_vec();
        given.push(("REDIS_PERSECOND", value));
        applied(&given)
    };
    let (config, lines) = with("true").expect("valid");
    assert!(lines.is_empty(), "{lines:?}");
    assert_eq!(config.backend, Backend::Remote("redis://h:1".to_owned()));
    assert_eq!(config.store.sentinel_login.as_deref(), Some("watch"));
    assert!(config.store.tls_any_name);
    let apart = config.per_second.expect("it is on");
    assert_eq!(apart.url, "rediss+sentinel://u:p%40ss%2Fw@a:1/main");
    let store = apart.store;
    assert_eq!(store.sentinel_login.as_deref(), Some("other"));
    assert_eq!(store.timeout.as_millis(), 30);
    assert_eq!(store.connections, 7_usize.div_ceil(config.threads));
    assert!(store.tls_any_name && store.tls_authority.is_some());
    let (config, lines) = with("false").expect("valid");
    assert!(config.per_second.is_none());
    let idle = lines
        .iter()
        .filter(|line| line.ends_with(": REDIS_PERSECOND is not true"));
    assert_eq!(idle.count(), 8, "{lines:?}");
    let mut bad = main.to_vec();
    bad.extend([
        ("REDIS_PERSECOND", "true"),
        ("REDIS_PERSECOND_TIMEOUT", "soon"),
    ]);
    bad.retain(|pair| *pair != ("REDIS_PERSECOND_TIMEOUT", "30ms"));
    let error = applied(&bad).expect_err("no duration");
    assert!(error.starts_with("REDIS_PERSECOND_TIMEOUT: "), "{error}");
}

#[test]
fn bad_values_name_their_variable() {
    for (name, value) in [
        ("PORT", "http"),
        ("GRPC_PORT", "70000"),
        ("GRPC_SERVER_USE_TLS", "yes"),
        ("NEAR_LIMIT_RATIO", "1e40"),
        ("NEAR_LIMIT_RATIO", "half"),
        ("STATS_FLUSH_INTERVAL", "soon"),
        ("EXTRA_TAGS", "a,b"),
        ("EXTRA_TAGS", "a:b:c"),
        ("EXTRA_TAGS", "a:b,"),
        ("STATSD_PROTOCOL", "sctp"),
        ("CONFIG_TYPE", "HTTP"),
        ("BACKEND_TYPE", "sqlite"),
        ("GRPC_MAX_CONNECTION_AGE", "a day"),
        ("GRPC_MAX_CONNECTION_AGE_GRACE", "-1s"),
        ("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "perhaps"),
    ] {
        let error = applied(&[(name, value)]).expect_err(name);
        assert!(error.starts_with(name) && error.contains(value), "{error}");
    }
    let error = applied(&[("GRPC_SERVER_USE_TLS", "true")]).expect_err("no certificate");
    assert!(error.starts_with("GRPC_SERVER_TLS_CERT: "), "{error}");
}

#[test]
fn memcached_is_not_asked_and_the_log_says_so() {
    let (config, lines) = applied(&[("BACKEND_TYPE", "memcache")]).expect("valid");
    assert_eq!(config.backend, Backend::Embedded);
    let [line] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(line.starts_with("BACKEND_TYPE is ignored: memcached cannot decide"));
}

#[test]
fn connections_last_as_long_as_the_peer_has_it() {
    let age = |given: &[(&str, &str)]| applied(given).expect("valid").0.connection_age;
    let of = |age, grace: Option<u64>| {
        Some(ConnectionAge {
            age: Duration::from_secs(age),
            grace: grace.map(Duration::from_secs),
        })
    };
    assert_eq!(age(&[]), of(86_400, Some(3_600)));
    let (five, none) = (("GRPC_MAX_CONNECTION_AGE", "5m"), "0");
    assert_eq!(age(&[five]), of(300, Some(3_600)));
    assert_eq!(
        age(&[five, ("GRPC_MAX_CONNECTION_AGE_GRACE", none)]),
        of(300, None)
    );
    assert_eq!(age(&[("GRPC_MAX_CONNECTION_AGE", none)]), None);
}

#[test]
fn health_looks_at_what_the_peer_looks_at() {
    let health = |given: &[(&str, &str)]| applied(given).expect("valid").0.health;
    let of = |rules, backend| HealthNeeds { rules, backend };
    assert_eq!(health(&[]), of(false, false));
    let rules = ("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true");
    let backend = ("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "true");
    assert_eq!(health(&[rules]), of(true, false));
    assert_eq!(health(&[backend]), of(false, true));
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
        // Without a store elsewhere, and with counters of our own.
        let of_counters = [
            "CACHE_KEY_PREFIX",
            "EXPIRATION_JITTER_MAX_SECONDS",
            "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
        ];
        let ignored = matches!(row.effect, Effect::Ignored(_))
            || row.name.starts_with("REDIS_") && row.name != "REDIS_URL"
            || row.name.starts_with("CONFIG_GRPC_XDS_")
            || row.name.starts_with("XDS_CLIENT_")
            || row.name.starts_with("OTEL_")
            || row.name.starts_with("TRACING_") && row.name != "TRACING_ENABLED"
            || row.name == "LOCAL_CACHE_SIZE_IN_BYTES"
            || of_counters.contains(&row.name);
        assert_eq!(told, ignored, "{}", row.name);
    }
    assert!(names.len() > 100, "{}", names.len());
}

#[test]
fn the_local_cache_has_so_many_bytes() {
    let of = |value: Option<&str>| {
        let environment = Environment::new(|name: &str| {
            let known = name == "LOCAL_CACHE_SIZE_IN_BYTES";
            value.filter(|_| known).map(str::to_owned)
        });
        environment.local_cache_bytes()
    };
    assert_eq!(of(None), Ok(0));
    assert_eq!(of(Some("")), Ok(0));
    assert_eq!(of(Some("1048576")), Ok(1 << 20));
    for bad in ["-1", "1MB", "99999999999999999999"] {
        let error = of(Some(bad)).expect_err(bad);
        assert!(
            error.contains(bad) && error.starts_with("LOCAL_CACHE"),
            "{error}"
        );
    }
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
    // A folder that nothing is read from: a management server gives the rules.
    assert!(of(&[("CONFIG_TYPE", "GRPC_XDS_SOTW")]).is_some());
    assert_eq!(of(&[("CONFIG_TYPE", "FILE")]), None);
}

/// Each folder is below the one before, as the peer joins them.
#[test]
fn folders_of_rules_are_joined() {
    let dir = |given: &[(&str, &str)]| {
        let environment = Environment::new(|name: &str| {
            let found = given.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        environment
            .rules_dir()
            .expect("named")
            .display()
            .to_string()
    };
    let root = ("RUNTIME_ROOT", "/r");
    assert_eq!(dir(&[root, ("RUNTIME_SUBDIRECTORY", "/s")]), "/r/s/config");
    assert_eq!(dir(&[root, ("RUNTIME_APPDIRECTORY", "")]), "/r");
    assert_eq!(dir(&[root, ("RUNTIME_APPDIRECTORY", "/a/b/")]), "/r/a/b");
}

#[test]
fn the_log_has_the_levels_of_the_peer() {
    let of = |name: &'static str, value: &'static str| {
        Environment::new(move |asked: &str| (asked == name).then(|| value.to_owned()))
    };
    let level = |value| of("LOG_LEVEL", value).log_level();
    assert_eq!(level(""), Ok(None));
    for (value, word) in [
        ("trace", "debug"),
        ("Debug", "debug"),
        ("info", "notice"),
        ("WARN", "warning"),
        ("warning", "warning"),
        ("error", "error"),
        ("fatal", "nothing"),
        ("panic", "nothing"),
    ] {
        assert_eq!(level(value), Ok(Some(word)), "{value}");
    }
    let error = level("loud").expect_err("no level");
    assert_eq!(error, "LOG_LEVEL: 'loud' is no level of the log");
    let json = |value| of("LOG_FORMAT", value).log_is_json();
    assert_eq!(
        ["", "text", "json", "JSON", "xml"].map(json),
        [false, false, true, true, false]
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
        (".5s", 500),
        ("+5s", 5_000),
        ("+0", 0),
        ("2000\u{b5}s", 2),
        ("2000\u{3bc}s", 2),
    ] {
        assert_eq!(
            parse_duration(text),
            Some(Duration::from_millis(ms)),
            "{text}"
        );
    }
    for text in [
        "", "10", "s", "-1s", "1 s", "1d", "1e400s", "NaNs", "+", "++5s",
    ] {
        assert_eq!(parse_duration(text), None, "{text}");
    }
}
