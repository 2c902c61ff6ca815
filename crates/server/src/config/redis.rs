//! Settings of Redis that this program has no part of its own for, and those of its operation.
//!
//! A name without a sentence is accepted, checked and returned so that configurations and tools written for Redis work;
//! it has no effect here, and `docs/settings.md` lists it.

use super::kind::Kind;
use super::table::{Change, Key, Setting};

/// Key, name, older name, values, default, when it may change, whether patterns pass it over, and its sentence.
macro_rules! settings {
    ($($key:ident, $name:literal, $alias:expr, $kind:expr, $default:literal, $change:ident, $hidden:literal, $doc:expr;)*) => {
        /// The settings, in the order of [`Key`].
        pub(super) const SETTINGS: &[Setting] = &[$(
            Setting {
                key: Key::$key,
                name: $name,
                alias: $alias,
                kind: { use Kind::*; $kind },
                default: $default,
                change: Change::$change,
                hidden: $hidden,
                doc: match $doc { Some(doc) => doc, None => UNUSED },
                used: $doc.is_some(),
            },
        )*];
    };
}

/// The sentence of settings without a use.
const UNUSED: &str = "Accepted for compatibility with Redis; has no effect.";

settings! {
    Rdbchecksum, "rdbchecksum", None, Flag, "yes", Start, false, Some("Whether RDB files end in a checksum, and whether it is verified when they are loaded.");
    Daemonize, "daemonize", None, Flag, "no", Start, false, Some("Whether the server runs in the background, without a terminal, and the command that started it returns. Errors after that are only in the log.");
    IoThreadsDoReads, "io-threads-do-reads", None, Flag, "no", Start, false, None::<&str>;
    AlwaysShowLogo, "always-show-logo", None, Flag, "no", Start, false, Some("Whether one line of the log states version, mode, port and process ID at startup.");
    ProtectedMode, "protected-mode", None, Flag, "yes", Live, false, Some("Whether only clients on this machine may connect as long as the default user has no password.");
    Rdbcompression, "rdbcompression", None, Flag, "yes", Live, false, Some("Whether strings are compressed in RDB files and payloads of `DUMP`.");
    RdbDelSyncFiles, "rdb-del-sync-files", None, Flag, "no", Live, false, None::<&str>;
    Activerehashing, "activerehashing", None, Flag, "yes", Live, false, None::<&str>;
    StopWritesOnBgsaveError, "stop-writes-on-bgsave-error", None, Flag, "yes", Live, false, Some("Whether writes are refused when there are save points and the last background snapshot failed.");
    SetProcTitle, "set-proc-title", None, Flag, "yes", Start, false, Some("Whether the server sets its title in process lists.");
    DynamicHz, "dynamic-hz", None, Flag, "yes", Live, false, None::<&str>;
    LazyfreeLazyEviction, "lazyfree-lazy-eviction", None, Flag, "no", Live, false, None::<&str>;
    LazyfreeLazyExpire, "lazyfree-lazy-expire", None, Flag, "no", Live, false, None::<&str>;
    LazyfreeLazyServerDel, "lazyfree-lazy-server-del", None, Flag, "no", Live, false, None::<&str>;
    LazyfreeLazyUserDel, "lazyfree-lazy-user-del", None, Flag, "no", Live, false, None::<&str>;
    LazyfreeLazyUserFlush, "lazyfree-lazy-user-flush", None, Flag, "no", Live, false, None::<&str>;
    ReplDisableTcpNodelay, "repl-disable-tcp-nodelay", None, Flag, "no", Live, false, None::<&str>;
    ReplDisklessSync, "repl-diskless-sync", None, Flag, "yes", Live, false, Some("Whether `repl-diskless-sync-delay` applies. The data for replicas is written to an unnamed temporary file in any case.");
    AofRewriteIncrementalFsync, "aof-rewrite-incremental-fsync", None, Flag, "yes", Live, false, Some("Whether a new base of the append-only file is synced to disk every 4 MiB.");
    NoAppendfsyncOnRewrite, "no-appendfsync-on-rewrite", None, Flag, "no", Live, false, Some("Whether fsync of the append-only file is skipped while it is being rewritten or a snapshot is being written.");
    ClusterRequireFullCoverage, "cluster-require-full-coverage", None, Flag, "yes", Live, false, Some("Whether a node refuses to serve any slot unless all slots are served.");
    RdbSaveIncrementalFsync, "rdb-save-incremental-fsync", None, Flag, "yes", Live, false, Some("Whether a snapshot is synced to disk every 4 MiB.");
    AofLoadTruncated, "aof-load-truncated", None, Flag, "yes", Live, false, Some("Whether an append-only file that ends in the middle of a command or transaction is truncated there at startup; otherwise the server does not start.");
    AofUseRdbPreamble, "aof-use-rdb-preamble", None, Flag, "yes", Live, false, Some("Whether the base of the append-only file is in RDB format; otherwise it consists of commands.");
    AofTimestampEnabled, "aof-timestamp-enabled", None, Flag, "no", Live, false, Some("Whether timestamps are written between the commands of the append-only file.");
    ClusterReplicaNoFailover, "cluster-replica-no-failover", Some("cluster-slave-no-failover"), Flag, "no", Live, false, None::<&str>;
    ReplicaLazyFlush, "replica-lazy-flush", Some("slave-lazy-flush"), Flag, "no", Live, false, None::<&str>;
    ReplicaServeStaleData, "replica-serve-stale-data", Some("slave-serve-stale-data"), Flag, "yes", Live, false, Some("Whether a replica answers from the data it has while it is not connected to its master.");
    ReplicaReadOnly, "replica-read-only", Some("slave-read-only"), Flag, "yes", Live, false, Some("Whether a replica refuses writes of clients.");
    ReplicaIgnoreMaxmemory, "replica-ignore-maxmemory", Some("slave-ignore-maxmemory"), Flag, "yes", Live, false, Some("Whether a replica leaves eviction to its master.");
    JemallocBgThread, "jemalloc-bg-thread", None, Flag, "yes", Live, false, None::<&str>;
    Activedefrag, "activedefrag", None, Flag, "no", Live, false, None::<&str>;
    SyslogEnabled, "syslog-enabled", None, Flag, "no", Start, false, Some("Whether log lines also go to syslog, as far as it accepts them.");
    ClusterAllowReadsWhenDown, "cluster-allow-reads-when-down", None, Flag, "no", Live, false, Some("Whether a node answers reads while the cluster is down.");
    ClusterAllowPubsubshardWhenDown, "cluster-allow-pubsubshard-when-down", None, Flag, "yes", Live, false, Some("Whether sharded Pub/Sub works while the cluster is down.");
    CrashLogEnabled, "crash-log-enabled", None, Flag, "yes", Live, false, Some("Whether a crash, from a bug of the server or a signal such as SIGSEGV, is reported in the log: where it happened, and what was being run.");
    CrashMemcheckEnabled, "crash-memcheck-enabled", None, Flag, "yes", Live, false, None::<&str>;
    UseExitOnPanic, "use-exit-on-panic", None, Flag, "no", Live, true, None::<&str>;
    DisableThp, "disable-thp", None, Flag, "no", Start, false, Some("Whether transparent huge pages are disabled. Huge pages, which the allocator asks for otherwise, make most commands a few percent faster, but up to two megabytes more are cleared and taken each time where a store grows.");
    ClusterAllowReplicaMigration, "cluster-allow-replica-migration", None, Flag, "yes", Live, false, None::<&str>;
    ReplicaAnnounced, "replica-announced", None, Flag, "yes", Live, false, Some("Whether Sentinel shows this replica to its clients, as INFO tells it.");
    LatencyTracking, "latency-tracking", None, Flag, "yes", Live, false, Some("Whether the duration of every command is recorded for INFO latencystats and LATENCY HISTOGRAM.");
    AofDisableAutoGc, "aof-disable-auto-gc", None, Flag, "no", Live, false, Some("Whether obsolete files of the append-only file are kept.");
    ReplicaIgnoreDiskWriteErrors, "replica-ignore-disk-write-errors", None, Flag, "no", Live, false, None::<&str>;
    Pidfile, "pidfile", None, Text, "", Start, false, Some("File for the process ID, relative to `dir`, written at startup and removed at shutdown; empty for none, or for `/var/run/redis.pid` with `daemonize`.");
    ReplicaAnnounceIp, "replica-announce-ip", Some("slave-announce-ip"), Text, "", Live, false, Some("Address that a replica announces to its master; empty for the one it connects from.");
    Masteruser, "masteruser", None, Text, "", Live, false, Some("User as which a replica authenticates with its master; empty for the default user.");
    ClusterAnnounceIp, "cluster-announce-ip", None, Text, "", Live, false, Some("Address that a node announces to clients; empty for the one they connected to.");
    ClusterConfigFile, "cluster-config-file", None, Text, "nodes.conf", Start, false, Some("File in `dir` in which a node keeps its name and its slots.");
    ClusterAnnounceHostname, "cluster-announce-hostname", None, HostName, "", Live, false, Some("Host name that a node announces to clients.");
    SyslogIdent, "syslog-ident", None, Text, "redis", Start, false, Some("Name of the program in syslog.");
    Appendfilename, "appendfilename", None, FileName, "appendonly.aof", Start, false, Some("Common prefix of the file names of the append-only file.");
    Appenddirname, "appenddirname", None, FileName, "appendonlydir", Start, false, Some("The folder of the append-only file, in `dir`.");
    ServerCpulist, "server_cpulist", None, Text, "", Start, false, None::<&str>;
    BioCpulist, "bio_cpulist", None, Text, "", Start, false, None::<&str>;
    AofRewriteCpulist, "aof_rewrite_cpulist", None, Text, "", Start, false, None::<&str>;
    BgsaveCpulist, "bgsave_cpulist", None, Text, "", Start, false, None::<&str>;
    IgnoreWarnings, "ignore-warnings", None, Text, "", Live, false, None::<&str>;
    ProcTitleTemplate, "proc-title-template", None, Title, "{title} {listen-addr} {server-mode}", Live, false, Some("Title of the process in process lists.");
    BindSourceAddr, "bind-source-addr", None, Text, "", Live, false, Some("Local address from which a replica connects to its master; empty for any.");
    Logfile, "logfile", None, Text, "", Start, false, Some("Log file, relative to `dir`; empty for standard error. It is opened for each burst of lines, so it can be rotated at any time. Lines that cannot be written are lost, and the next line that can be written says how many.");
    Masterauth, "masterauth", None, Text, "", Live, false, Some("Password with which a replica authenticates with its master; empty for none.");
    Supervised, "supervised", None, Choice(&["upstart", "systemd", "auto", "no"]), "no", Start, false, Some("Which supervisor is told when the server is ready: systemd through `NOTIFY_SOCKET`, upstart through SIGSTOP, or whichever of them started it.");
    SyslogFacility, "syslog-facility", None, Choice(&["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"]), "local0", Start, false, Some("Facility in syslog.");
    ReplDisklessLoad, "repl-diskless-load", None, Choice(&["disabled", "on-empty-db", "swapdb"]), "disabled", Live, false, None::<&str>;
    Loglevel, "loglevel", None, LogLevel, "notice", Live, false, Some("The lowest level that is logged.");
    Appendfsync, "appendfsync", None, Choice(&["everysec", "always", "no"]), "everysec", Live, false, Some("When the append-only file is synced to disk: before a reply is sent, once a second, or when the operating system does so.");
    OomScoreAdj, "oom-score-adj", None, Choice(&["no", "yes", "relative", "absolute"]), "no", Live, false, Some("Whether `oom-score-adj-values` are applied: added to the initial score (`yes`, `relative`), or as they are (`absolute`).");
    AclPubsubDefault, "acl-pubsub-default", None, Choice(&["allchannels", "resetchannels"]), "resetchannels", Live, false, Some("Whether new users and users that are reset may use every channel, or none until their rules allow it.");
    SanitizeDumpPayload, "sanitize-dump-payload", None, Choice(&["no", "yes", "clients"]), "no", Live, false, None::<&str>;
    EnableProtectedConfigs, "enable-protected-configs", None, Choice(&["no", "yes", "local"]), "no", Start, false, Some("Whether CONFIG SET may change protected settings: never, always, or for clients on this machine.");
    EnableDebugCommand, "enable-debug-command", None, Choice(&["no", "yes", "local"]), "no", Start, false, Some("Whether DEBUG is allowed: never, always, or for clients on this machine.");
    EnableModuleCommand, "enable-module-command", None, Choice(&["no", "yes", "local"]), "no", Start, false, Some("What MODULE LOAD answers: that it is not allowed, or that there is no such module.");
    ClusterPreferredEndpointType, "cluster-preferred-endpoint-type", None, Choice(&["ip", "hostname", "unknown-endpoint"]), "ip", Live, false, Some("What clients are told to reach a node by.");
    PropagationErrorBehavior, "propagation-error-behavior", None, Choice(&["ignore", "panic", "panic-on-replicas"]), "ignore", Live, false, None::<&str>;
    ShutdownOnSigint, "shutdown-on-sigint", None, Choices(&["default", "save", "nosave", "now", "force"]), "default", Live, false, Some("How SIGINT shuts the server down: with or without a snapshot (by default with one if there are save points), without waiting for replicas (`now`), and even if the snapshot fails (`force`).");
    ShutdownOnSigterm, "shutdown-on-sigterm", None, Choices(&["default", "save", "nosave", "now", "force"]), "default", Live, false, Some("The same for SIGTERM.");
    AutoAofRewritePercentage, "auto-aof-rewrite-percentage", None, Number { min: 0, max: 2147483647 }, "100", Live, false, Some("Growth of the append-only file, in percent of its size after the last rewrite, at which it is rewritten; 0 for never.");
    ClusterReplicaValidityFactor, "cluster-replica-validity-factor", Some("cluster-slave-validity-factor"), Number { min: 0, max: 2147483647 }, "10", Live, false, None::<&str>;
    ListMaxListpackSize, "list-max-listpack-size", Some("list-max-ziplist-size"), Integer { min: -2147483648, max: 2147483647 }, "-2", Live, false, Some("Most elements of a list node when positive; its size from 4 KiB (-1) to 64 KiB (-5) when negative.");
    ClusterMigrationBarrier, "cluster-migration-barrier", None, Number { min: 0, max: 2147483647 }, "1", Live, false, None::<&str>;
    ActiveDefragCycleMin, "active-defrag-cycle-min", None, Number { min: 1, max: 99 }, "1", Live, false, None::<&str>;
    ActiveDefragCycleMax, "active-defrag-cycle-max", None, Number { min: 1, max: 99 }, "25", Live, false, None::<&str>;
    ActiveDefragThresholdLower, "active-defrag-threshold-lower", None, Number { min: 0, max: 1000 }, "10", Live, false, None::<&str>;
    ActiveDefragThresholdUpper, "active-defrag-threshold-upper", None, Number { min: 0, max: 1000 }, "100", Live, false, None::<&str>;
    LfuLogFactor, "lfu-log-factor", None, Number { min: 0, max: 2147483647 }, "10", Live, false, Some("How much harder each increment of an LFU counter is the higher the counter already is.");
    LfuDecayTime, "lfu-decay-time", None, Number { min: 0, max: 2147483647 }, "1", Live, false, Some("Minutes without access after which an LFU counter falls by one; 0 for never.");
    ReplicaPriority, "replica-priority", Some("slave-priority"), Number { min: 0, max: 2147483647 }, "100", Live, false, Some("Priority that INFO reports to Sentinel: replicas with a lower number are promoted first, those with 0 never.");
    ReplDisklessSyncDelay, "repl-diskless-sync-delay", None, Number { min: 0, max: 2147483647 }, "0", Live, false, Some("Seconds for which a full synchronization is delayed so that further replicas can share its data. Replicas that arrive while the data is being written share it too.");
    MaxmemorySamples, "maxmemory-samples", None, Number { min: 1, max: 2147483647 }, "5", Live, false, Some("Entries that are sampled before one is evicted.");
    MaxmemoryEvictionTenacity, "maxmemory-eviction-tenacity", None, Number { min: 0, max: 100 }, "10", Live, false, Some("How long one command may spend evicting while memory is short: 50 microseconds for each unit up to 10, 15 % more for each unit above, and at 100 until memory fits. Some entries are evicted in any case.");
    ReplicaAnnouncePort, "replica-announce-port", Some("slave-announce-port"), Number { min: 0, max: 65535 }, "0", Live, false, Some("Port that a replica announces to its master; 0 for `port`.");
    ClusterPort, "cluster-port", None, Number { min: 0, max: 65535 }, "0", Start, false, Some("Port of the cluster bus that a node announces; there is no bus.");
    ClusterAnnounceBusPort, "cluster-announce-bus-port", None, Number { min: 0, max: 65535 }, "0", Live, false, Some("Port of the cluster bus that a node announces; 0 for `cluster-port`.");
    ClusterAnnouncePort, "cluster-announce-port", None, Number { min: 0, max: 65535 }, "0", Live, false, Some("Port that a node announces to clients; 0 for `port`.");
    ClusterAnnounceTlsPort, "cluster-announce-tls-port", None, Number { min: 0, max: 65535 }, "0", Live, false, Some("TLS port that a node announces to clients; 0 for `tls-port`.");
    ReplTimeout, "repl-timeout", None, Number { min: 1, max: 2147483647 }, "60", Live, false, Some("Seconds of silence after which a replica, or the master, is disconnected.");
    ReplPingReplicaPeriod, "repl-ping-replica-period", Some("repl-ping-slave-period"), Number { min: 1, max: 2147483647 }, "10", Live, false, Some("Seconds between the PINGs that a master sends to its replicas.");
    ListCompressDepth, "list-compress-depth", None, Number { min: 0, max: 2147483647 }, "0", Live, false, Some("Nodes at each end of a list that stay uncompressed; 0 for no compression.");
    RdbKeySaveDelay, "rdb-key-save-delay", None, Integer { min: -2147483648, max: 2147483647 }, "0", Live, true, Some("Microseconds that a snapshot waits for each key, for tests; a negative number is keys per microsecond.");
    KeyLoadDelay, "key-load-delay", None, Integer { min: -2147483648, max: 2147483647 }, "0", Live, true, Some("Microseconds that loading a snapshot waits for each key, for tests; a negative number is keys per microsecond.");
    ActiveExpireEffort, "active-expire-effort", None, Number { min: 1, max: 10 }, "1", Live, false, None::<&str>;
    MinReplicasToWrite, "min-replicas-to-write", Some("min-slaves-to-write"), Number { min: 0, max: 2147483647 }, "0", Live, false, Some("Number of replicas without which writes are refused and the service on this store cannot decide.");
    MinReplicasMaxLag, "min-replicas-max-lag", Some("min-slaves-max-lag"), Number { min: 0, max: 2147483647 }, "10", Live, false, Some("Seconds of silence after which a replica no longer counts for `min-replicas-to-write`.");
    WatchdogPeriod, "watchdog-period", None, Number { min: 0, max: 2147483647 }, "0", Live, true, None::<&str>;
    ShutdownTimeout, "shutdown-timeout", None, Number { min: 0, max: 2147483647 }, "10", Live, false, Some("Seconds for which shutdown waits until the replicas have received everything; 0 for none.");
    ReplDisklessSyncMaxReplicas, "repl-diskless-sync-max-replicas", None, Number { min: 0, max: 2147483647 }, "0", Live, false, Some("Waiting replicas at which `repl-diskless-sync-delay` is cut short; 0 for no limit.");
    SocketMarkId, "socket-mark-id", None, Number { min: 0, max: 4294967295 }, "0", Start, false, None::<&str>;
    ActiveDefragMaxScanFields, "active-defrag-max-scan-fields", None, Number { min: 1, max: i64::MAX as u64 }, "1000", Live, false, None::<&str>;
    SlowlogMaxLen, "slowlog-max-len", Some("commandlog-slow-execution-max-len"), Number { min: 0, max: i64::MAX as u64 }, "128", Live, false, Some("Commands kept in the slow log.");
    AcllogMaxLen, "acllog-max-len", None, Number { min: 0, max: i64::MAX as u64 }, "128", Live, false, Some("Refusals kept in ACL LOG.");
    ClusterNodeTimeout, "cluster-node-timeout", None, Number { min: 0, max: i64::MAX as u64 }, "15000", Live, false, None::<&str>;
    SlowlogLogSlowerThan, "slowlog-log-slower-than", Some("commandlog-execution-slower-than"), Integer { min: -1, max: i64::MAX }, "10000", Live, false, Some("Microseconds above which a command is logged in the slow log; 0 for every command, -1 for none.");
    LatencyMonitorThreshold, "latency-monitor-threshold", None, Number { min: 0, max: i64::MAX as u64 }, "0", Live, false, Some("Milliseconds above which an event is recorded for LATENCY; 0 for none.");
    StreamNodeMaxEntries, "stream-node-max-entries", None, Number { min: 0, max: i64::MAX as u64 }, "100", Live, false, Some("Most entries in a node of a stream; 0 for no limit.");
    StreamIdmpDuration, "stream-idmp-duration", None, Number { min: 1, max: 86400 }, "100", Live, false, Some("Seconds for which a new stream remembers the IDs that producers give their messages (`XADD … IDMP`).");
    StreamIdmpMaxsize, "stream-idmp-maxsize", None, Number { min: 1, max: 10000 }, "100", Live, false, Some("Most IDs of a producer that a new stream remembers.");
    ReplBacklogSize, "repl-backlog-size", None, Bytes { min: 1, max: i64::MAX as u64 }, "1048576", Live, false, Some("Bytes of the newest changes that are kept for replicas that reconnect.");
    ClusterLinkSendbufLimit, "cluster-link-sendbuf-limit", None, Bytes { min: 0, max: u64::MAX }, "0", Live, false, None::<&str>;
    HashMaxListpackEntries, "hash-max-listpack-entries", Some("hash-max-ziplist-entries"), Number { min: 0, max: i64::MAX as u64 }, "512", Live, false, Some("Most fields of a compact hash.");
    SetMaxListpackEntries, "set-max-listpack-entries", None, Number { min: 0, max: i64::MAX as u64 }, "128", Live, true, None::<&str>;
    SetMaxListpackValue, "set-max-listpack-value", None, Bytes { min: 0, max: i64::MAX as u64 }, "64", Live, true, None::<&str>;
    LocaleCollate, "locale-collate", None, Text, "", Live, true, None::<&str>;
    SetMaxIntsetEntries, "set-max-intset-entries", None, Number { min: 0, max: i64::MAX as u64 }, "512", Live, false, Some("Most members of a set kept as sorted integers.");
    ZsetMaxListpackEntries, "zset-max-listpack-entries", Some("zset-max-ziplist-entries"), Number { min: 0, max: i64::MAX as u64 }, "128", Live, false, Some("Most members of a compact sorted set.");
    ActiveDefragIgnoreBytes, "active-defrag-ignore-bytes", None, Bytes { min: 1, max: i64::MAX as u64 }, "104857600", Live, false, None::<&str>;
    HashMaxListpackValue, "hash-max-listpack-value", Some("hash-max-ziplist-value"), Bytes { min: 0, max: i64::MAX as u64 }, "64", Live, false, Some("Longest field or value of a compact hash, in bytes.");
    StreamNodeMaxBytes, "stream-node-max-bytes", None, Bytes { min: 0, max: i64::MAX as u64 }, "4096", Live, false, Some("Largest node of a stream, in bytes; 0 for no limit.");
    ZsetMaxListpackValue, "zset-max-listpack-value", Some("zset-max-ziplist-value"), Bytes { min: 0, max: i64::MAX as u64 }, "64", Live, false, Some("Longest member of a compact sorted set, in bytes.");
    HllSparseMaxBytes, "hll-sparse-max-bytes", None, Bytes { min: 0, max: i64::MAX as u64 }, "3000", Live, false, Some("Largest sparse HyperLogLog, in bytes.");
    MaxmemoryClients, "maxmemory-clients", None, BytesOrPercent, "0", Live, false, Some("Most bytes that all clients together may use; above it, those that use most are disconnected. 0 for no limit.");
    ReplBacklogTtl, "repl-backlog-ttl", None, Number { min: 0, max: i64::MAX as u64 }, "3600", Live, false, Some("Seconds for which the backlog is kept without any replica; 0 for ever.");
    AutoAofRewriteMinSize, "auto-aof-rewrite-min-size", None, Bytes { min: 0, max: i64::MAX as u64 }, "67108864", Live, false, Some("Size of the append-only file, in bytes, below which it is not rewritten automatically.");
    LoadingProcessEventsIntervalBytes, "loading-process-events-interval-bytes", None, Number { min: 1024, max: 2147483647 }, "2097152", Live, true, None::<&str>;
    TlsPort, "tls-port", None, Number { min: 0, max: 65535 }, "0", Live, false, Some("TCP port for TLS; 0 for none.");
    TlsSessionCacheSize, "tls-session-cache-size", None, Number { min: 0, max: 2147483647 }, "20480", Live, false, None::<&str>;
    TlsSessionCacheTimeout, "tls-session-cache-timeout", None, Number { min: 0, max: 2147483647 }, "300", Live, false, None::<&str>;
    TlsCluster, "tls-cluster", None, Flag, "no", Live, false, None::<&str>;
    TlsReplication, "tls-replication", None, Flag, "no", Live, false, Some("Whether a replica and MIGRATE use TLS to other servers, whose certificates are verified against `tls-ca-cert-file` and `tls-ca-cert-dir`.");
    TlsAuthClients, "tls-auth-clients", None, Choice(&["no", "yes", "optional"]), "yes", Live, false, Some("Whether clients must present a certificate (`yes`), may (`optional`), or are not asked for one (`no`).");
    TlsPreferServerCiphers, "tls-prefer-server-ciphers", None, Flag, "no", Live, false, None::<&str>;
    TlsSessionCaching, "tls-session-caching", None, Flag, "yes", Live, false, None::<&str>;
    TlsCertFile, "tls-cert-file", None, Text, "", Live, false, Some("PEM file of the server's certificate and its intermediate certificates.");
    TlsKeyFile, "tls-key-file", None, Text, "", Live, false, Some("PEM file of the private key of the certificate.");
    TlsKeyFilePass, "tls-key-file-pass", None, Text, "", Live, false, None::<&str>;
    TlsClientCertFile, "tls-client-cert-file", None, Text, "", Live, false, Some("PEM file of the certificate presented to other servers; empty for `tls-cert-file`.");
    TlsClientKeyFile, "tls-client-key-file", None, Text, "", Live, false, Some("PEM file of the private key of that certificate.");
    TlsClientKeyFilePass, "tls-client-key-file-pass", None, Text, "", Live, false, None::<&str>;
    TlsDhParamsFile, "tls-dh-params-file", None, Text, "", Live, false, None::<&str>;
    TlsCaCertFile, "tls-ca-cert-file", None, Text, "", Live, false, Some("PEM file of the CAs whose client certificates are accepted.");
    TlsCaCertDir, "tls-ca-cert-dir", None, Text, "", Live, false, Some("Directory of PEM files of CAs whose client certificates are accepted.");
    TlsProtocols, "tls-protocols", None, Text, "", Live, false, Some("TLS versions that are allowed, separated by spaces; empty for all that are safe.");
    TlsCiphers, "tls-ciphers", None, Text, "", Live, false, None::<&str>;
    TlsCiphersuites, "tls-ciphersuites", None, Text, "", Live, false, None::<&str>;
    OomScoreAdjValues, "oom-score-adj-values", None, OomScores, "0 200 800", Live, false, Some("OOM killer scores: as a master, as a replica, and for forked processes, of which there are none.");
    NotifyKeyspaceEvents, "notify-keyspace-events", None, EventClasses, "", Live, false, Some("Classes of keyspace events that are published, as letters; empty for none.");
    LatencyTrackingInfoPercentiles, "latency-tracking-info-percentiles", None, Percentiles, "50 99 99.9", Live, false, Some("Percentiles that INFO latencystats shows.");
    ReplicaOf, "replicaof", Some("slaveof"), Master, "", Start, false, Some("Host and port of the master that this server follows; empty for none.");
}
