//! `tollgate serve`: the store and the rate limit service in one process.

use crate::allocator;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tollgate_limiter::Timestamp;
use tollgate_net::Backend as IoLoops;
use tollgate_net::process::SmallPages;
use tollgate_net::signal::Signals;
use tollgate_net::{Clock, PeerAddress};
use tollgate_rls::{
    Backend, DEFAULT_NEAR_LIMIT_RATIO, Environment, EnvoyCounters, HeaderForm, HealthNeeds,
    LogLevel, Modes, PerSecondStore, RlsConfig, RlsServer, RuleFiles, StatsdConfig, StatsdProtocol,
    StoreConfig, TlsConfig,
};
use tollgate_server::config::{Config, FileError, Key, TABLE, banner};
use tollgate_server::{Daemon, Level, Log, LogForm, REDIS_VERSION, Server};

/// The flags are the settings.
pub(crate) fn command() -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("File of `name value` lines to read the settings from, such as a redis.conf; - reads standard input");
    let file = Arg::new("file")
        .value_name("FILE")
        .conflicts_with("config")
        .help("The same as --config FILE, in the form that redis-server takes");
    let user = Arg::new("user")
        .long("user")
        .value_name("NAME RULES")
        .action(ArgAction::Append)
        .help("ACL user and its rules, as in a `user` line of the file; repeatable");
    let version = Arg::new("version")
        .short('v')
        .long("version")
        .action(ArgAction::SetTrue)
        .help("Print the version in the format of redis-server, with the Redis version first");
    let settings = TABLE.iter().map(|setting| {
        let default = if setting.default.is_empty() {
            String::new()
        } else {
            format!(" [default: {}]", setting.default)
        };
        let arg = Arg::new(setting.name)
            .long(setting.name)
            .value_name(setting.kind.placeholder())
            .allow_hyphen_values(true)
            .hide(!setting.used || setting.hidden)
            .help(format!("{}{default}", setting.doc));
        match setting.alias {
            Some(alias) => arg.alias(alias),
            None => arg,
        }
    });
    Command::new("serve")
        .about("Run the store, and with --rules the rate limit service")
        .after_help("Every flag can also be a line of the configuration file or an environment variable, such as TOLLGATE_PORT for --port. Settings of Redis that have no effect here are accepted as well and not listed above; docs/settings.md names them.")
        .arg(config)
        .arg(file)
        .arg(user)
        .arg(version)
        .args(settings)
}

/// Where lines of the service go, which it hands to a plain function.
static LOG: OnceLock<Arc<Log>> = OnceLock::new();

/// What programs that start redis-server for themselves ask first; they look for `v=`.
fn print_version() -> Result<(), String> {
    let tollgate = env!("CARGO_PKG_VERSION");
    let bits = usize::BITS;
    let line = format!("Tollgate server v={REDIS_VERSION} tollgate={tollgate} bits={bits}");
    writeln!(std::io::stdout(), "{line}").map_err(|error| format!("cannot print: {error}"))
}

/// Runs until SIGTERM, SIGINT or SHUTDOWN.
pub(crate) fn run(matches: &ArgMatches, small_pages: SmallPages) -> Result<(), String> {
    if matches.get_flag("version") {
        return print_version();
    }
    let mut config = read_config(matches)?;
    leave_port_to_redis(&mut config)?;
    tollgate_server::give_back_with(allocator::give_back);
    // A process with threads cannot go to the background.
    tollgate_server::go_to_background(&config)
        .map_err(|error| format!("cannot run in the background: {error}"))?;
    if config.get(Key::SetProcTitle) == "yes" {
        let program = std::env::args_os().next().unwrap_or_default();
        tollgate_server::claim_title(&program.to_string_lossy());
    }
    let log = Arc::new(start_log(&mut config)?);
    LOG.get_or_init(|| Arc::clone(&log));
    tollgate_server::tell_crashes(config.get(Key::CrashLogEnabled) == "yes");
    tollgate_server::report_crashes(&log).map_err(|error| format!("crash-log-enabled: {error}"))?;
    let small_pages = if config.get(Key::DisableThp) == "yes" {
        small_pages.keep();
        None
    } else {
        Some(small_pages)
    };
    let ended = serve(config, &log, small_pages);
    match &ended {
        Ok(()) => log.warning(format_args!("Tollgate is now ready to exit, bye bye...")),
        Err(reason) if !log.is_on_stderr() => log.warning(format_args!("{reason}")),
        // The program says it there when it ends.
        Err(_) => {}
    }
    log.flush();
    ended
}

fn serve(config: Config, log: &Arc<Log>, small_pages: Option<SmallPages>) -> Result<(), String> {
    let signals =
        Signals::install().map_err(|error| format!("cannot take over signals: {error}"))?;
    let service = service_config(&config)?;
    if let Some(service) = service
        .as_ref()
        .filter(|service| service.backend != Backend::Embedded)
    {
        if let Some(line) = idle_settings(&config) {
            log.warning(format_args!("{line}"));
        }
        let daemon = Daemon::begin(&config, log);
        return run_service_alone(service.clone(), &signals, &daemon, small_pages);
    }
    let settings = config.clone();
    let server =
        Server::start(config, signals, Arc::clone(log)).map_err(|error| error.to_string())?;
    let mut ready = describe(&server);
    let service = match service {
        None => None,
        Some(config) => match start_service(config, Some(&server), &mut ready) {
            Ok(service) => Some(service),
            Err(reason) => {
                server
                    .shutdown()
                    .map_err(|error| format!("{reason} ({error})"))?;
                return Err(reason);
            }
        },
    };
    let daemon = Daemon::begin(&settings, log);
    daemon.is_ready(server.status());
    announce(&ready, Some(&server));
    drop(small_pages);
    server
        .wait()
        .map_err(|error| format!("waiting for signals failed: {error}"))?;
    daemon.is_ending();
    if let Some(service) = service {
        service.shutdown();
        service.wait();
    }
    server
        .shutdown()
        .map_err(|error| format!("the server did not end cleanly: {error}"))
}

/// Settings of the store that who gives them may wait in vain for.
const OF_THE_STORE: [Key; 10] = [
    Key::Port,
    Key::UnixSocket,
    Key::TlsPort,
    Key::MemcachedPort,
    Key::Requirepass,
    Key::Save,
    Key::AppendOnly,
    Key::MaxMemory,
    Key::ReplicaOf,
    Key::ClusterEnabled,
];

/// What is told where a store is asked for beside a backend, with which there is none.
fn idle_settings(config: &Config) -> Option<String> {
    let idle = OF_THE_STORE.into_iter().filter(|key| {
        // Which is not asked for either.
        let is_none = *key == Key::Port && config.get(*key) == "0";
        config.given(*key) && !is_none
    });
    let names: Vec<&str> = idle.map(|key| key.setting().name).collect();
    let names = (!names.is_empty()).then(|| names.join(", "));
    names.map(|names| {
        format!("with a backend there is no store in this process, and no effect of: {names}")
    })
}

/// Who starts the service with the variables of envoyproxy/ratelimit may well have Redis beside it: the store of this process
/// takes that port only where it is asked for.
fn leave_port_to_redis(config: &mut Config) -> Result<(), String> {
    let is_drop_in = rules_dir(config, &process_environment())?.is_some_and(|(_, drop_in)| drop_in);
    match is_drop_in && !config.given(Key::Port) {
        true => config.set(Key::Port, "0"),
        false => Ok(()),
    }
}

/// The log, with the lines that the variables of envoyproxy/ratelimit ask for where they count.
fn start_log(config: &mut Config) -> Result<Log, String> {
    let environment = process_environment();
    if !rules_dir(config, &environment)?.is_some_and(|(_, drop_in)| drop_in) {
        return Log::start(config);
    }
    let least = environment.log_level()?;
    match least {
        None => {}
        Some("error") => config.set(Key::Loglevel, "warning")?,
        Some(word) => config.set(Key::Loglevel, word)?,
    }
    let form = match environment.log_is_json() {
        true => LogForm::Json,
        false => LogForm::Text,
    };
    let log = Log::start_in(config, form)?;
    if least == Some("error") {
        log.set_errors_only();
    }
    Ok(log)
}

fn process_environment() -> Environment<impl Fn(&str) -> Option<String>> {
    Environment::new(|name: &str| std::env::var(name).ok())
}

/// A line of the service.
fn tell(level: LogLevel, text: &str) {
    let level = match level {
        LogLevel::Info => Level::Notice,
        LogLevel::Warning => Level::Warning,
        LogLevel::Error => Level::Error,
    };
    if let Some(log) = LOG.get() {
        log.line(level, format_args!("{text}"));
    }
}

/// Defaults, then the file, the environment, the flags.
fn read_config(matches: &ArgMatches) -> Result<Config, String> {
    let mut config = Config::default();
    let file = ["config", "file"]
        .into_iter()
        .find_map(|id| matches.get_one::<String>(id));
    if let Some(file) = file {
        let read = match file.as_str() {
            "-" => config.read_from("standard input", std::io::stdin().lock()),
            path => config.read_file(&PathBuf::from(path)),
        };
        read.map_err(|error| told(&error))?;
    }
    config
        .read_environment(|name| std::env::var(name).ok())
        .map_err(|error| error.to_string())?;
    for setting in TABLE {
        if let Some(text) = matches.get_one::<String>(setting.name) {
            config.set(setting.key, text).map_err(|reason| {
                let name = setting.name;
                print_banner(&banner(None, &format!("{name} \"{text}\""), &reason));
                format!("--{name}: {reason}")
            })?;
        }
    }
    for user in matches.get_many::<String>("user").into_iter().flatten() {
        let line = format!("user {user}");
        let read = config.read_from("the command line", line.as_bytes());
        read.map_err(|error| told(&error))?;
    }
    Ok(config)
}

/// What is wrong with a file, after it was told as redis-server does.
fn told(error: &FileError) -> String {
    print_banner(&error.banner());
    error.to_string()
}

fn print_banner(banner: &str) {
    // Without standard error the exit code has to do.
    drop(std::io::stderr().write_all(banner.as_bytes()));
}

/// What counts for the service.
fn backend(config: &Config) -> Backend {
    match config.get(Key::Backend) {
        "" => Backend::Embedded,
        url => Backend::Remote(url.to_owned()),
    }
}

/// The folder of the rules, and whether the variables of envoyproxy/ratelimit name it; `None` without rules.
fn rules_dir(
    config: &Config,
    environment: &Environment<impl Fn(&str) -> Option<String>>,
) -> Result<Option<(PathBuf, bool)>, String> {
    let named = match config.get(Key::Rules) {
        "" => environment.rules_dir().map(|dir| (dir, true)),
        dir => Some((PathBuf::from(dir), false)),
    };
    let named = named.filter(|(dir, _)| !dir.as_os_str().is_empty());
    if named.is_none() && backend(config) != Backend::Embedded {
        return Err("--backend: the service needs --rules DIR as well".to_owned());
    }
    Ok(named)
}

/// The address of `--bind` that the service listens on: the first that has to be there, if one has to.
fn first_address(config: &Config) -> Result<IpAddr, String> {
    let first = config.bind().find(|address| !address.may_be_absent);
    first
        .or_else(|| config.bind().next())
        .map(|address| address.ip)
        .ok_or_else(|| "--bind: no address".to_owned())
}

/// What the service needs; `None` without rules.
fn service_config(config: &Config) -> Result<Option<RlsConfig>, String> {
    let environment = process_environment();
    let Some((rules, drop_in)) = rules_dir(config, &environment)? else {
        return Ok(None);
    };
    let ip = first_address(config)?;
    let address = |key| SocketAddr::new(ip, config.number(key) as u16);
    let mut modes = Modes::from_environment(|name| std::env::var(name).ok())?;
    let headers = HeaderForm::parse(config.get(Key::Headers));
    if headers.is_some() {
        modes.headers.clone_from(&headers);
    }
    let debug = (config.number(Key::DebugPort) > 0).then(|| address(Key::DebugPort));
    let mut service = RlsConfig {
        grpc_addr: address(Key::GrpcPort),
        grpc_socket: path(config, Key::GrpcUnixSocket),
        http_addr: address(Key::HttpPort),
        http_socket: path(config, Key::HttpUnixSocket),
        rules_dir: rules,
        rule_files: RuleFiles::Yaml,
        xds: None,
        backend: backend(config),
        store: store_config(config),
        per_second: per_second(config),
        envoy_counters: envoy_counters(config)?,
        local_cache_bytes: environment.local_cache_bytes()?,
        modes,
        http_headers: headers.unwrap_or(HeaderForm::Draft11),
        grpc_tls: tls_config(
            config,
            [
                Key::GrpcTlsCertFile,
                Key::GrpcTlsKeyFile,
                Key::GrpcTlsCaCertFile,
            ],
        )?,
        http_tls: tls_config(
            config,
            [
                Key::HttpTlsCertFile,
                Key::HttpTlsKeyFile,
                Key::HttpTlsCaCertFile,
            ],
        )?,
        health: HealthNeeds::default(),
        connection_age: None,
        merge_domains: false,
        start_without_rules: false,
        near_limit_ratio: DEFAULT_NEAR_LIMIT_RATIO,
        debug_addr: debug,
        prometheus: None,
        statsd: statsd_config(config),
        traces: environment.traces()?,
        shed_after: Duration::from_millis(config.number(Key::ShedAfter)),
        monotonic: tollgate_net::Clock::instant,
        log: tell,
        threads: threads(config),
        io: service_loops(config),
    };
    if drop_in {
        let backend_given = service.backend != Backend::Embedded;
        for line in environment.apply(&mut service, backend_given)? {
            tell(LogLevel::Warning, &line);
        }
    }
    Ok(Some(service))
}

/// Threads that serve connections.
fn threads(config: &Config) -> usize {
    match config.number(Key::Threads) as usize {
        0 => tollgate_net::threads::available_cpus(),
        threads => threads,
    }
}

/// What the service's loops run on. To refuse in time what is too late they have to hear of all connections in every turn,
/// which on io_uring is a system call more: of 50 connections each decision took a tenth more processor time, and twice the load
/// on 800 connections left less goodput.
fn service_loops(config: &Config) -> IoLoops {
    match tollgate_server::wanted_backend(config) {
        IoLoops::Auto => IoLoops::Epoll,
        asked => asked,
    }
}

/// The path that a setting gives, if it gives one.
fn path(config: &Config, key: Key) -> Option<PathBuf> {
    Some(config.get(key))
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// How a store elsewhere is connected to.
fn store_config(config: &Config) -> StoreConfig {
    StoreConfig {
        timeout: Duration::from_millis(config.number(Key::BackendTimeout)),
        connections: config.number(Key::BackendConnections) as usize,
        tls_authority: path(config, Key::BackendTlsCaCertFile),
        tls_certificate: path(config, Key::BackendTlsCertFile),
        tls_key: path(config, Key::BackendTlsKeyFile),
        tls_any_name: config.get(Key::BackendTlsAnyName) == "yes",
        sentinel_login: Some(config.get(Key::BackendSentinelAuth))
            .filter(|login| !login.is_empty())
            .map(str::to_owned),
        wait_replicas: config.number(Key::BackendWaitReplicas),
    }
}

/// The store of limits per second, connected to as the other is.
fn per_second(config: &Config) -> Option<PerSecondStore> {
    let url = config.get(Key::PerSecondBackend);
    (!url.is_empty()).then(|| PerSecondStore {
        url: url.to_owned(),
        store: store_config(config),
    })
}

/// The counters of envoyproxy/ratelimit, where those are asked for.
fn envoy_counters(config: &Config) -> Result<Option<EnvoyCounters>, String> {
    match config.get(Key::CounterKeys) {
        "envoy" => EnvoyCounters::from_environment(|name| std::env::var(name).ok()).map(Some),
        _ => Ok(None),
    }
}

/// Time between two sendings to statsd.
const STATSD_INTERVAL: Duration = Duration::from_secs(10);

fn statsd_config(config: &Config) -> Option<StatsdConfig> {
    let addr = config.get(Key::Statsd);
    (!addr.is_empty()).then(|| StatsdConfig {
        addr: addr.to_owned(),
        protocol: StatsdProtocol::Udp,
        dog: false,
        tags: Vec::new(),
        interval: STATSD_INTERVAL,
    })
}

/// TLS of one port, from the settings of its certificate, key and authority of clients.
fn tls_config(config: &Config, keys: [Key; 3]) -> Result<Option<TlsConfig>, String> {
    let [certificate, key, authorities] = keys.map(|key| config.get(key));
    if certificate.is_empty() && key.is_empty() && authorities.is_empty() {
        return Ok(None);
    }
    if certificate.is_empty() || key.is_empty() {
        let [certificate, key, _] = keys.map(|key| key.setting().name);
        return Err(format!("--{certificate} and --{key} go together"));
    }
    let authorities = (!authorities.is_empty()).then(|| PathBuf::from(authorities));
    let tls = TlsConfig::new(certificate.into(), key.into(), authorities);
    Ok(Some(tls))
}

/// With a store elsewhere there is none here.
fn run_service_alone(
    config: RlsConfig,
    signals: &Signals,
    daemon: &Daemon,
    small_pages: Option<SmallPages>,
) -> Result<(), String> {
    let mut ready = Vec::new();
    let service = start_service(config, None, &mut ready)?;
    daemon.is_ready("Ready to accept connections");
    announce(&ready, None);
    drop(small_pages);
    signals
        .wait()
        .map_err(|error| format!("waiting for signals failed: {error}"))?;
    daemon.is_ending();
    service.shutdown();
    service.wait();
    Ok(())
}

fn start_service(
    config: RlsConfig,
    server: Option<&Server>,
    ready: &mut Vec<String>,
) -> Result<RlsServer, String> {
    let handle = server.map(Server::engine_handle);
    let clock = || Timestamp::from_nanos(Clock::now());
    let service = RlsServer::start(config, handle, clock).map_err(|error| error.to_string())?;
    ready.extend(service.ports());
    Ok(service)
}

fn describe(server: &Server) -> Vec<String> {
    let addresses: Vec<String> = server
        .addresses()
        .iter()
        .map(|address| match address {
            PeerAddress::Tcp(address) => address.to_string(),
            PeerAddress::Unix(path) => path.to_string(),
        })
        .collect();
    let threads = server.threads();
    let noun = if threads == 1 { "thread" } else { "threads" };
    vec![format!("redis {} ({threads} {noun})", addresses.join(" "))]
}

/// The line that says what listens where; then what redis-server says when it is ready.
fn announce(ready: &[String], server: Option<&Server>) {
    let mut text = format!(
        "tollgate {} ready: {}\n",
        env!("CARGO_PKG_VERSION"),
        ready.join(", ")
    );
    if let Some(server) = server {
        text += &server.announcement();
    }
    let mut out = std::io::stdout();
    // Whoever started the server may have closed its output; the server runs on.
    drop(out.write_all(text.as_bytes()));
    drop(out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_not_there_is_told_of() {
        let mut config = Config::default();
        assert_eq!(idle_settings(&config), None);
        config.set(Key::Port, "0").unwrap();
        config.set(Key::Threads, "2").unwrap();
        assert_eq!(idle_settings(&config), None);
        config.set(Key::Port, "6380").unwrap();
        config.set(Key::AppendOnly, "yes").unwrap();
        let told = idle_settings(&config).unwrap();
        assert!(told.ends_with("no effect of: port, appendonly"), "{told}");
    }
}
