//! The table of settings.

use super::kind::Kind;
use super::own::OWN;
use super::redis::SETTINGS;
use std::fmt::Write;
use tollgate_commands::Policy;

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
    ConnectionsTogether,
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
    BackendWaitReplicas,
    BackendTlsCaCertFile,
    BackendTlsCertFile,
    BackendTlsKeyFile,
    BackendTlsAnyName,
    BackendSentinelAuth,
    PerSecondBackend,
    CounterKeys,
    GrpcPort,
    GrpcUnixSocket,
    HttpPort,
    HttpUnixSocket,
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
    CommandlogRequestLargerThan,
    CommandlogLargeRequestMaxLen,
    CommandlogReplyLargerThan,
    CommandlogLargeReplyMaxLen,
    LimiterLeases,
    LimiterTop,
    MemcachedPort,
    MemcachedUnixSocket,
    MemcachedMaxItemSize,
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
    StreamIdmpDuration,
    StreamIdmpMaxsize,
    ReplBacklogSize,
    ClusterLinkSendbufLimit,
    HashMaxListpackEntries,
    SetMaxListpackEntries,
    SetMaxListpackValue,
    LocaleCollate,
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
pub(super) const POLICIES: &[&str] = {
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

/// Largest bound on what a client sends, bytes.
pub(super) const LARGEST: u64 = tollgate_wire::resp::BULK_MAX as u64;

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
    pub(crate) fn normalise(&self, text: &str) -> Result<String, String> {
        self.kind.normalise(text)
    }

    /// As [`Setting::normalise`], for a value that may leave parts of the `old` one as they are.
    pub(crate) fn normalise_over(&self, old: &str, text: &str) -> Result<String, String> {
        match self.kind {
            Kind::OutputLimits => self.kind.normalise_over(old, text),
            _ => self.normalise(text),
        }
    }

    /// Its name, and its alias if it has one.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }

    /// Which of its names a client has used, in whatever case.
    pub(crate) fn known_as(&self, used: &[u8]) -> &'static [u8] {
        let named = |name: &&str| name.as_bytes().eq_ignore_ascii_case(used);
        self.names().find(named).unwrap_or(self.name).as_bytes()
    }
}

pub(super) const fn row(
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

pub(super) const fn number(min: u64, max: u64) -> Kind {
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

/// The setting of that name or alias, in any case.
pub fn find(name: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| {
        setting
            .names()
            .any(|known| known.eq_ignore_ascii_case(name))
    })
}

/// Letters in a line of settings without effect.
const UNUSED_WIDTH: usize = 120;

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
    text.push_str(
        "\n## Without effect\n\nAccepted, checked and returned, so that configurations and tools written for Redis work; they \
         have no effect here:\n",
    );
    let mut line = String::new();
    for setting in TABLE.iter().filter(|setting| !setting.used) {
        let name = format!(" `{}`,", setting.name);
        if line.len() + name.len() > UNUSED_WIDTH {
            text.push_str(&line);
            line.clear();
        }
        line.push_str(
            if line.is_empty() {
                name.replacen(' ', "\n", 1)
            } else {
                name
            }
            .as_str(),
        );
    }
    text.push_str(line.trim_end_matches(','));
    text.push_str(".\n");
    text
}

#[cfg(test)]
mod tests {
    use super::super::kind::absolute;
    use super::*;

    #[test]
    fn rows_stand_where_their_keys_say_and_hold_valid_defaults() {
        for (i, setting) in TABLE.iter().enumerate() {
            assert_eq!(setting.key as usize, i, "{}", setting.name);
            let kept = match setting.kind {
                Kind::Directory => absolute(setting.default),
                _ => setting.default.to_owned(),
            };
            assert_eq!(
                setting.normalise(setting.default),
                Ok(kept),
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
