//! The table of settings.

use super::kind::Kind;
use super::redis::SETTINGS;
use std::fmt::Write;
use tollgate_commands::{IncrexForm, Policy};

/// Names a setting in code; its number is the row in [`TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[allow(
    missing_docs,
    reason = "each variant is the setting of that name in the table"
)]
pub enum Key {
    Bind,
    Port,
    UnixSocket,
    UnixSocketPerm,
    TcpBacklog,
    TcpKeepalive,
    Timeout,
    MaxClients,
    Threads,
    IoBackend,
    Shards,
    Requirepass,
    ProtoMaxBulkLen,
    ClientQueryBufferLimit,
    ClientOutputLimit,
    ClientOutputBufferLimit,
    TrackingTableMaxKeys,
    Hz,
    Dir,
    DbFilename,
    Rules,
    Backend,
    BackendTimeout,
    BackendConnections,
    BackendTlsCaCertFile,
    BackendTlsCertFile,
    BackendTlsKeyFile,
    GrpcPort,
    HttpPort,
    Headers,
    GrpcTlsCertFile,
    GrpcTlsKeyFile,
    GrpcTlsCaCertFile,
    HttpTlsCertFile,
    HttpTlsKeyFile,
    HttpTlsCaCertFile,
    DebugPort,
    ShedAfter,
    Statsd,
    AclFile,
    Databases,
    Save,
    AppendOnly,
    MaxMemory,
    MaxMemoryPolicy,
    ClusterEnabled,
    BusyReplyThreshold,
    ScriptTimeLimit,
    IncrexForm,
    LimiterLeases,
    LimiterTop,
    Rdbchecksum,
    Daemonize,
    IoThreadsDoReads,
    AlwaysShowLogo,
    ProtectedMode,
    Rdbcompression,
    RdbDelSyncFiles,
    Activerehashing,
    StopWritesOnBgsaveError,
    SetProcTitle,
    DynamicHz,
    LazyfreeLazyEviction,
    LazyfreeLazyExpire,
    LazyfreeLazyServerDel,
    LazyfreeLazyUserDel,
    LazyfreeLazyUserFlush,
    ReplDisableTcpNodelay,
    ReplDisklessSync,
    AofRewriteIncrementalFsync,
    NoAppendfsyncOnRewrite,
    ClusterRequireFullCoverage,
    RdbSaveIncrementalFsync,
    AofLoadTruncated,
    AofUseRdbPreamble,
    AofTimestampEnabled,
    ClusterReplicaNoFailover,
    ReplicaLazyFlush,
    ReplicaServeStaleData,
    ReplicaReadOnly,
    ReplicaIgnoreMaxmemory,
    JemallocBgThread,
    Activedefrag,
    SyslogEnabled,
    ClusterAllowReadsWhenDown,
    ClusterAllowPubsubshardWhenDown,
    CrashLogEnabled,
    CrashMemcheckEnabled,
    UseExitOnPanic,
    DisableThp,
    ClusterAllowReplicaMigration,
    ReplicaAnnounced,
    LatencyTracking,
    AofDisableAutoGc,
    ReplicaIgnoreDiskWriteErrors,
    Pidfile,
    ReplicaAnnounceIp,
    Masteruser,
    ClusterAnnounceIp,
    ClusterConfigFile,
    ClusterAnnounceHostname,
    SyslogIdent,
    Appendfilename,
    Appenddirname,
    ServerCpulist,
    BioCpulist,
    AofRewriteCpulist,
    BgsaveCpulist,
    IgnoreWarnings,
    ProcTitleTemplate,
    BindSourceAddr,
    Logfile,
    Masterauth,
    Supervised,
    SyslogFacility,
    ReplDisklessLoad,
    Loglevel,
    Appendfsync,
    OomScoreAdj,
    AclPubsubDefault,
    SanitizeDumpPayload,
    EnableProtectedConfigs,
    EnableDebugCommand,
    EnableModuleCommand,
    ClusterPreferredEndpointType,
    PropagationErrorBehavior,
    ShutdownOnSigint,
    ShutdownOnSigterm,
    AutoAofRewritePercentage,
    ClusterReplicaValidityFactor,
    ListMaxListpackSize,
    ClusterMigrationBarrier,
    ActiveDefragCycleMin,
    ActiveDefragCycleMax,
    ActiveDefragThresholdLower,
    ActiveDefragThresholdUpper,
    LfuLogFactor,
    LfuDecayTime,
    ReplicaPriority,
    ReplDisklessSyncDelay,
    MaxmemorySamples,
    MaxmemoryEvictionTenacity,
    ReplicaAnnouncePort,
    ClusterPort,
    ClusterAnnounceBusPort,
    ClusterAnnouncePort,
    ClusterAnnounceTlsPort,
    ReplTimeout,
    ReplPingReplicaPeriod,
    ListCompressDepth,
    RdbKeySaveDelay,
    KeyLoadDelay,
    ActiveExpireEffort,
    MinReplicasToWrite,
    MinReplicasMaxLag,
    WatchdogPeriod,
    ShutdownTimeout,
    ReplDisklessSyncMaxReplicas,
    SocketMarkId,
    ActiveDefragMaxScanFields,
    SlowlogMaxLen,
    AcllogMaxLen,
    ClusterNodeTimeout,
    SlowlogLogSlowerThan,
    LatencyMonitorThreshold,
    StreamNodeMaxEntries,
    ReplBacklogSize,
    ClusterLinkSendbufLimit,
    HashMaxListpackEntries,
    SetMaxIntsetEntries,
    ZsetMaxListpackEntries,
    ActiveDefragIgnoreBytes,
    HashMaxListpackValue,
    StreamNodeMaxBytes,
    ZsetMaxListpackValue,
    HllSparseMaxBytes,
    MaxmemoryClients,
    ReplBacklogTtl,
    AutoAofRewriteMinSize,
    LoadingProcessEventsIntervalBytes,
    TlsPort,
    TlsSessionCacheSize,
    TlsSessionCacheTimeout,
    TlsCluster,
    TlsReplication,
    TlsAuthClients,
    TlsPreferServerCiphers,
    TlsSessionCaching,
    TlsCertFile,
    TlsKeyFile,
    TlsKeyFilePass,
    TlsClientCertFile,
    TlsClientKeyFile,
    TlsClientKeyFilePass,
    TlsDhParamsFile,
    TlsCaCertFile,
    TlsCaCertDir,
    TlsProtocols,
    TlsCiphers,
    TlsCiphersuites,
    OomScoreAdjValues,
    NotifyKeyspaceEvents,
    LatencyTrackingInfoPercentiles,
    ReplicaOf,
}

/// The names of the policies, in Redis' order.
const POLICIES: &[&str] = {
    const NAMES: [&str; Policy::ALL.len()] = {
        let mut names = [""; Policy::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Policy::ALL[at].1;
            at += 1;
        }
        names
    };
    &NAMES
};

impl Key {
    /// Its row.
    pub fn setting(self) -> &'static Setting {
        &TABLE[self as usize]
    }
}

/// Largest bound on what a client sends, bytes: values count their bytes in 32 bits, and need some for themselves.
const LARGEST: u64 = (1 << 32) - (1 << 20);

/// When a setting may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// By CONFIG SET.
    Live,
    /// At the start only.
    Start,
    /// At the start only; CONFIG SET may name the value that it has.
    Restart,
    /// At the start only, because a client that may set it could write to any file.
    Protected,
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// In code.
    pub key: Key,
    /// In the file, as flag, and in CONFIG GET.
    pub name: &'static str,
    /// Another name for the same, which old configurations use.
    pub alias: Option<&'static str>,
    /// What it takes.
    pub kind: Kind,
    /// As CONFIG GET prints it.
    pub default: &'static str,
    /// When it may change.
    pub change: Change,
    /// Shown by CONFIG GET only when it is asked for by its whole name.
    pub hidden: bool,
    /// False when it is only accepted, for configurations of Redis.
    pub used: bool,
    /// One sentence, with the unit.
    pub doc: &'static str,
}

impl Setting {
    /// The text that CONFIG GET prints for `text`, or why it is refused.
    pub fn normalise(&self, text: &str) -> Result<String, String> {
        if self.kind == Kind::Fixed && text != self.default {
            return Err(format!("only '{}' is supported", self.default));
        }
        self.kind.normalise(text)
    }

    /// As [`Setting::normalise`], for a value that may leave parts of the `old` one as they are.
    pub fn normalise_over(&self, old: &str, text: &str) -> Result<String, String> {
        match self.kind {
            Kind::OutputLimits => self.kind.normalise_over(old, text),
            _ => self.normalise(text),
        }
    }

    /// Its name, and its alias if it has one.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }
}

const fn row(
    key: Key,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    change: Change,
    doc: &'static str,
) -> Setting {
    Setting {
        key,
        name,
        alias: None,
        kind,
        default,
        change,
        hidden: false,
        used: true,
        doc,
    }
}

const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}

/// All settings, in the order of [`Key`].
pub static TABLE: &[Setting] = &JOINED;

static JOINED: [Setting; OWN.len() + SETTINGS.len()] = {
    let mut joined = [OWN[0]; OWN.len() + SETTINGS.len()];
    let mut at = 0;
    while at < joined.len() {
        joined[at] = match at < OWN.len() {
            true => OWN[at],
            false => SETTINGS[at - OWN.len()],
        };
        at += 1;
    }
    joined
};

/// Settings with parts of this program of their own.
const OWN: &[Setting] = &[
    row(
        Key::Bind,
        "bind",
        Kind::Addresses,
        "127.0.0.1",
        Change::Restart,
        "Addresses to listen on, separated by spaces.",
    ),
    row(
        Key::Port,
        "port",
        number(0, 65_535),
        "6379",
        Change::Restart,
        "TCP port; 0 takes a free one.",
    ),
    row(
        Key::UnixSocket,
        "unixsocket",
        Kind::Text,
        "",
        Change::Start,
        "Path of a unix socket to listen on as well; empty for none.",
    ),
    row(
        Key::UnixSocketPerm,
        "unixsocketperm",
        Kind::Mode,
        "0",
        Change::Start,
        "File mode of the unix socket; 0 leaves it to the umask.",
    ),
    row(
        Key::TcpBacklog,
        "tcp-backlog",
        number(1, 65_535),
        "511",
        Change::Start,
        "Connections the kernel queues until they are accepted.",
    ),
    row(
        Key::TcpKeepalive,
        "tcp-keepalive",
        number(0, 2_147_483_647),
        "300",
        Change::Live,
        "Seconds of silence after which new TCP connections are probed; 0 for never.",
    ),
    row(
        Key::Timeout,
        "timeout",
        number(0, 2_147_483_647),
        "0",
        Change::Live,
        "Seconds of silence after which a client is disconnected; 0 for never.",
    ),
    row(
        Key::MaxClients,
        "maxclients",
        number(1, 4_294_967_295),
        "10000",
        Change::Live,
        "Most clients at a time.",
    ),
    Setting {
        alias: Some("io-threads"),
        ..row(
            Key::Threads,
            "threads",
            number(0, 1024),
            "0",
            Change::Restart,
            "Threads that serve clients; 0 for one per CPU.",
        )
    },
    row(
        Key::IoBackend,
        "io-backend",
        Kind::Choice(&["auto", "epoll", "io_uring"]),
        "auto",
        Change::Restart,
        "What the threads wait for clients with; `auto` takes io_uring where the system allows it, and epoll (kqueue on the BSDs and macOS) elsewhere.",
    ),
    row(
        Key::Shards,
        "shards",
        Kind::PowerOfTwo { max: 65_536 },
        "1024",
        Change::Restart,
        "Parts of the keyspace that are locked by themselves.",
    ),
    row(
        Key::Requirepass,
        "requirepass",
        Kind::Text,
        "",
        Change::Live,
        "Password of the default user; empty for none.",
    ),
    row(
        Key::ProtoMaxBulkLen,
        "proto-max-bulk-len",
        Kind::Bytes {
            min: 1 << 20,
            max: LARGEST,
        },
        "536870912",
        Change::Live,
        "Longest argument and longest string value, in bytes.",
    ),
    row(
        Key::ClientQueryBufferLimit,
        "client-query-buffer-limit",
        Kind::Bytes {
            min: 1 << 20,
            max: LARGEST,
        },
        "1073741824",
        Change::Restart,
        "Longest whole command, in bytes.",
    ),
    row(
        Key::ClientOutputLimit,
        "client-output-limit",
        Kind::Bytes {
            min: 64 << 10,
            max: 1 << 40,
        },
        "67108864",
        Change::Live,
        "Unsent replies of one client above which its commands wait, in bytes.",
    ),
    row(
        Key::ClientOutputBufferLimit,
        "client-output-buffer-limit",
        Kind::OutputLimits,
        super::output_limits::DEFAULT,
        Change::Live,
        "Unread output above which a client is disconnected: for each class `normal`, `replica` and `pubsub` a hard limit, and a soft one with the seconds it may last; 0 for none.",
    ),
    row(
        Key::TrackingTableMaxKeys,
        "tracking-table-max-keys",
        number(0, u64::MAX),
        "1000000",
        Change::Live,
        "Keys remembered for clients that track them; above it keys are invalidated early. 0 for any number.",
    ),
    row(
        Key::Hz,
        "hz",
        number(0, 2_147_483_647),
        "10",
        Change::Live,
        "Rounds of the active expiry per second, while keys have an expiry.",
    ),
    row(
        Key::Dir,
        "dir",
        Kind::Directory,
        ".",
        Change::Protected,
        "Directory of the snapshot. When this or `dbfilename` is set, the snapshot is loaded at the start.",
    ),
    row(
        Key::DbFilename,
        "dbfilename",
        Kind::FileName,
        "dump.rdb",
        Change::Protected,
        "File name of the snapshot, which SHUTDOWN SAVE writes.",
    ),
    row(
        Key::Rules,
        "rules",
        Kind::Text,
        "",
        Change::Restart,
        "Directory of rate limit rules; with it the rate limit service runs as well.",
    ),
    row(
        Key::Backend,
        "backend",
        Kind::Text,
        "",
        Change::Restart,
        "redis:// URL of the store that the service decides on; empty for this process' own.",
    ),
    row(
        Key::BackendTimeout,
        "backend-timeout",
        number(1, 60_000),
        "500",
        Change::Restart,
        "Milliseconds that a decision of the backend may take.",
    ),
    row(
        Key::BackendConnections,
        "backend-connections",
        number(1, 1_024),
        "1",
        Change::Restart,
        "Connections of each thread to the backend.",
    ),
    row(
        Key::BackendTlsCaCertFile,
        "backend-tls-ca-cert-file",
        Kind::Text,
        "",
        Change::Restart,
        "PEM file of the authority that a rediss:// backend's certificate is from; empty for the system's.",
    ),
    row(
        Key::BackendTlsCertFile,
        "backend-tls-cert-file",
        Kind::Text,
        "",
        Change::Restart,
        "PEM file of the certificate that a rediss:// backend is shown.",
    ),
    row(
        Key::BackendTlsKeyFile,
        "backend-tls-key-file",
        Kind::Text,
        "",
        Change::Restart,
        "PEM file of that certificate's key.",
    ),
    row(
        Key::GrpcPort,
        "grpc-port",
        number(0, 65_535),
        "8081",
        Change::Restart,
        "TCP port of the service for Envoy's protocol; 0 takes a free one.",
    ),
    row(
        Key::HttpPort,
        "http-port",
        number(0, 65_535),
        "8080",
        Change::Restart,
        "TCP port of the service for HTTP with JSON; 0 takes a free one.",
    ),
    row(
        Key::Headers,
        "headers",
        Kind::Choice(&["auto", "draft-11", "draft-06", "x-ratelimit", "none"]),
        "auto",
        Change::Restart,
        "Headers that tell clients of the service what is left; `auto` is draft-11 on `/v1`, and for Envoy what `LIMIT_RESPONSE_HEADERS_ENABLED` says.",
    ),
    row(
        Key::GrpcTlsCertFile,
        "grpc-tls-cert-file",
        Kind::Text,
        "",
        Change::Restart,
        "Certificate of the service's gRPC port, PEM; with it the port speaks TLS. Changes are taken up within seconds.",
    ),
    row(
        Key::GrpcTlsKeyFile,
        "grpc-tls-key-file",
        Kind::Text,
        "",
        Change::Restart,
        "Private key of `grpc-tls-cert-file`, PEM.",
    ),
    row(
        Key::GrpcTlsCaCertFile,
        "grpc-tls-ca-cert-file",
        Kind::Text,
        "",
        Change::Restart,
        "Authority of clients' certificates, PEM; with it clients of the gRPC port must show one.",
    ),
    row(
        Key::HttpTlsCertFile,
        "http-tls-cert-file",
        Kind::Text,
        "",
        Change::Restart,
        "Certificate of the service's HTTP port, PEM; with it the port speaks TLS. Changes are taken up within seconds.",
    ),
    row(
        Key::HttpTlsKeyFile,
        "http-tls-key-file",
        Kind::Text,
        "",
        Change::Restart,
        "Private key of `http-tls-cert-file`, PEM.",
    ),
    row(
        Key::HttpTlsCaCertFile,
        "http-tls-ca-cert-file",
        Kind::Text,
        "",
        Change::Restart,
        "Authority of clients' certificates, PEM; with it clients of the HTTP port must show one.",
    ),
    row(
        Key::DebugPort,
        "debug-port",
        number(0, 65_535),
        "0",
        Change::Restart,
        "TCP port of the service for `/rlconfig` and `/stats`; 0 for none.",
    ),
    row(
        Key::ShedAfter,
        "shed-after",
        number(0, 60_000),
        "20",
        Change::Restart,
        "Milliseconds that a request to the service may wait; one that waited longer is refused at once, and with a backend elsewhere no more requests are sent there than it answers within half of that. 0 refuses none.",
    ),
    row(
        Key::Statsd,
        "statsd",
        Kind::Text,
        "",
        Change::Restart,
        "host:port of a statsd server that the service sends its counters to every 10 seconds; empty for none.",
    ),
    row(
        Key::AclFile,
        "aclfile",
        Kind::Text,
        "",
        Change::Start,
        "File of users that ACL LOAD reads and ACL SAVE writes.",
    ),
    row(
        Key::Databases,
        "databases",
        Kind::Fixed,
        "16",
        Change::Start,
        "Number of databases.",
    ),
    row(
        Key::Save,
        "save",
        Kind::SavePoints,
        "",
        Change::Live,
        "When a snapshot is written in the background: after so many seconds if there were so many changes. With such points the snapshot is also loaded at the start and written at the end.",
    ),
    row(
        Key::AppendOnly,
        "appendonly",
        Kind::Flag,
        "no",
        Change::Live,
        "Whether the data outlive a restart: the snapshot is loaded at the start and written at the end. There is no append-only file.",
    ),
    row(
        Key::MaxMemory,
        "maxmemory",
        Kind::Bytes {
            min: 0,
            max: i64::MAX as u64,
        },
        "0",
        Change::Live,
        "Most bytes that the data may take; 0 = no limit. Above it keys go by `maxmemory-policy`.",
    ),
    row(
        Key::MaxMemoryPolicy,
        "maxmemory-policy",
        Kind::Choice(POLICIES),
        "noeviction",
        Change::Live,
        "Which keys go when memory is short. State of rate limiters that is still valid never goes.",
    ),
    row(
        Key::ClusterEnabled,
        "cluster-enabled",
        Kind::Fixed,
        "no",
        Change::Start,
        "The server is not part of a cluster.",
    ),
    Setting {
        alias: Some("lua-time-limit"),
        ..row(
            Key::BusyReplyThreshold,
            "busy-reply-threshold",
            number(0, i64::MAX as u64 / 1_000_000),
            "5000",
            Change::Live,
            "Milliseconds after which a script that still runs makes the server answer BUSY; 0 for never.",
        )
    },
    row(
        Key::ScriptTimeLimit,
        "script-time-limit",
        number(0, i64::MAX as u64 / 1_000_000),
        "60000",
        Change::Live,
        "Milliseconds after which a script is ended, whatever it has changed; 0 for never.",
    ),
    row(
        Key::IncrexForm,
        "increx-form",
        Kind::Choice(IncrexForm::ALL),
        "redis",
        Change::Live,
        "Whose INCREX is spoken: that of Redis 8.8, or that of Valkey 9.2, which also takes NX and XX.",
    ),
    row(
        Key::LimiterLeases,
        "limiter-leases",
        Kind::Flag,
        "yes",
        Change::Live,
        "Whether threads of the service may take units of hot limits in advance. They then admit fewer at times, and never more.",
    ),
    row(
        Key::LimiterTop,
        "limiter-top",
        Kind::Flag,
        "yes",
        Change::Live,
        "Whether the decisions of limiters are counted for RL.TOP. What was counted before stays.",
    ),
];

/// The setting of that name or alias, in any case.
pub fn find(name: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| {
        setting
            .names()
            .any(|known| known.eq_ignore_ascii_case(name))
    })
}

/// How the line of `docs/differences.md` begins that names the settings without a use.
pub const UNUSED_HEAD: &str = "| settings without a use here |";

/// The line of `docs/differences.md` with the settings that are accepted and change nothing.
pub fn render_unused() -> String {
    let unused: Vec<String> = TABLE
        .iter()
        .filter(|setting| !setting.used)
        .map(|setting| format!("`{}`", setting.name))
        .collect();
    format!(
        "{UNUSED_HEAD} as named | accepted, checked and returned; they change nothing: {} | configurations and tools \
         written for Redis work |",
        unused.join(", ")
    )
}

/// `docs/settings.md`.
pub fn render_docs() -> String {
    let mut text = String::from(
        "# Settings of `tollgate serve`\n\n\
         Each is a flag (`--port 7000`), an environment variable (`TOLLGATE_PORT=7000`), and a line of the file that \
         `--config` names (`port 7000`). A flag wins over the environment, the environment over the file. \
         `CONFIG SET` changes those marked *live*. Written from the table in `crates/server/src/config/table.rs`.\n\n\
         | setting | values | default | changes | |\n|---|---|---|---|---|\n",
    );
    for setting in TABLE.iter().filter(|setting| setting.used) {
        let name = match setting.alias {
            Some(alias) => format!("`{}`, `{alias}`", setting.name),
            None => format!("`{}`", setting.name),
        };
        let default = if setting.default.is_empty() {
            String::new()
        } else {
            format!("`{}`", setting.default)
        };
        let change = if setting.change == Change::Live {
            "live"
        } else {
            "at start"
        };
        writeln!(
            text,
            "| {name} | {} | {default} | {change} | {} |",
            setting.kind.describe(),
            setting.doc
        )
        .expect("writing to a String cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_where_their_keys_say_and_hold_valid_defaults() {
        for (i, setting) in TABLE.iter().enumerate() {
            assert_eq!(setting.key as usize, i, "{}", setting.name);
            assert_eq!(
                setting.normalise(setting.default).as_deref(),
                Ok(setting.default),
                "{}",
                setting.name
            );
            assert!(setting.doc.ends_with('.'), "{}", setting.name);
            assert_eq!(
                setting
                    .names()
                    .filter(|name| find(name).is_some_and(|found| found.key == setting.key))
                    .count(),
                setting.names().count(),
                "names are unique"
            );
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(
            find("MaxClients").map(|setting| setting.key),
            Some(Key::MaxClients)
        );
        assert_eq!(
            find("io-threads").map(|setting| setting.key),
            Some(Key::Threads)
        );
        assert!(find("nosuch").is_none());
    }
}
