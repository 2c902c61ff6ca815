//! The one catalogue of error replies: every text once, as Redis words it.

use std::borrow::Cow;
use std::fmt;

use tollgate_wire::resp::ReplyBuf;

/// Declares [`CmdError`]: each text that quotes nothing beside its variant, so that none is forgotten.
macro_rules! catalogue {
    ($($variant:ident => $text:literal,)*) => {
        /// An error reply. `Display` gives the whole line, code included; [`CmdError::write`]
        /// appends it to a reply buffer.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum CmdError {
            $(#[doc = concat!("`", $text, "`")] $variant,)*
            /// Wrong number of words for the command of that name (any case).
            Arity(&'static str),
            /// An expiry out of range, in the command of that name (lower case).
            InvalidExpire(&'static str),
            /// A whole line with its code: for texts that quote what the client sent.
            Line(Box<[u8]>),
        }

        impl CmdError {
            /// The whole line, code included, without the leading `-`; may hold any byte.
            pub fn to_line(&self) -> Cow<'_, [u8]> {
                match self {
                    $(CmdError::$variant => $text.as_bytes().into(),)*
                    CmdError::Arity(name) => arity(name).into(),
                    CmdError::InvalidExpire(name) => invalid_expire(name).into(),
                    CmdError::Line(line) => (&**line).into(),
                }
            }
        }
    };
}

catalogue! {
    WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
    Syntax => "ERR syntax error",
    NotAnInteger => "ERR value is not an integer or out of range",
    NotAFloat => "ERR value is not a valid float",
    NoSuchKey => "ERR no such key",
    MigrateConnect => "IOERR error or timeout connecting to the client",
    MigrateWrite => "IOERR error or timeout writing to target instance",
    MigrateRead => "IOERR error or timeout reading to target instance",
    Overflow => "ERR increment or decrement would overflow",
    DecrementOverflow => "ERR decrement would overflow",
    NotAScore => "ERR One or more scores can't be converted into double",
    DigestLength => "ERR must be exactly 16 hexadecimal characters",
    ConditionNeedsString => "ERR Key should be of string type if conditions are specified",
    BadCondition => "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE",
    BadKeyCount => "ERR invalid numkeys value",
    BadPairCount => "ERR wrong number of key-value pairs",
    NotPositive => "ERR value is out of range, must be positive",
    NotNatural => "ERR value is out of range, value must between 1 and 9223372036854775807",
    CountOutOfRange =>
        "ERR value is out of range, value must between -9223372036854775807 and \
         9223372036854775807",
    OutOfRange => "ERR value is out of range",
    NoKeyCount => "ERR numkeys should be greater than 0",
    NegativeLimit => "ERR LIMIT can't be negative",
    ByNotFinite => "ERR value is NaN or Infinity",
    HashNotAnInteger => "ERR hash value is not an integer",
    NegativeExpire => "ERR invalid expire time, must be >= 0",
    NoFields => "ERR Mandatory argument FIELDS is missing or not at the right position",
    NumFields => "ERR Parameter `numFields` should be greater than 0",
    NumberOfFields => "ERR Number of fields must be a positive integer",
    FieldCount => "ERR The `numfields` parameter must match the number of arguments",
    BadFieldCount => "ERR invalid number of fields",
    TooFewFields => "ERR wrong number of arguments",
    FieldsWithoutAny => "ERR FIELDS requires at least numfields and one field argument",
    FieldsTwice => "ERR FIELDS keyword specified multiple times",
    FieldsMissing => "ERR missing FIELDS argument",
    UnknownArgument => "ERR unknown argument",
    ManyConditions => "ERR Multiple condition flags specified",
    NoExpireTime => "ERR missing expire time",
    TwoFieldConditions => "ERR Only one of FXX or FNX arguments can be specified",
    TwoExpiriesOrKeep =>
        "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
    TwoExpiriesOrPersist =>
        "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
    HashNotAFloat => "ERR hash value is not a float",
    IdleNotAnInteger => "ERR min-idle-time is not an integer or out of range",
    NegativeIdle => "ERR min-idle-time must be a positive integer",
    IncrementNotAnInteger => "ERR Increment is not an integer or out of range",
    IncrementNotAFloat => "ERR Increment is not a valid float",
    IncrementInfinite => "ERR BYFLOAT increment cannot be Infinity",
    LowerBoundNotAnInteger => "ERR LBOUND is not an integer or out of range",
    LowerBoundNotAFloat => "ERR LBOUND is not a valid float",
    UpperBoundNotAnInteger => "ERR UBOUND is not an integer or out of range",
    UpperBoundNotAFloat => "ERR UBOUND is not a valid float",
    BoundsCrossed => "ERR LBOUND can't be greater than UBOUND",
    EnxWithoutExpiry => "ERR ENX flag requires an expiration",
    ValueInfinite => "ERR value cannot be Infinity",
    AppliedOverflow => "ERR applied increment would overflow",
    AppliedInfinite => "ERR applied increment would be Infinity",
    NotFinite => "ERR increment would produce NaN or Infinity",
    ZAddXxWithNx => "ERR XX and NX options at the same time are not compatible",
    ZAddGtLtNx => "ERR GT, LT, and/or NX options at the same time are not compatible",
    ZAddIncrPairs => "ERR INCR option supports a single increment-element pair",
    ScoreNaN => "ERR resulting score is not a number (NaN)",
    NotAScoreRange => "ERR min or max is not a float",
    NotALexRange => "ERR min or max not valid string range item",
    LimitWithRanks =>
        "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
    ScoresWithLex => "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
    WeightNotAFloat => "ERR weight value is not a float",
    CountNotPositive => "ERR count should be greater than 0",
    NotAUnit => "ERR unsupported unit provided. please use M, KM, FT, MI",
    RadiusNotAFloat => "ERR need numeric radius",
    NegativeRadius => "ERR radius cannot be negative",
    WidthNotAFloat => "ERR need numeric width",
    HeightNotAFloat => "ERR need numeric height",
    VerticesNotAnInteger => "ERR invalid number of vertices",
    TooFewVertices => "ERR GEOSEARCH BYPOLYGON must have at least 3 vertices",
    NegativeBox => "ERR height or width cannot be negative",
    NoSuchPosition => "ERR could not decode requested zset member",
    GeoCountNotPositive => "ERR COUNT must be > 0",
    AnyWithoutCount => "ERR the ANY argument requires COUNT argument",
    OffsetOutOfRange => "ERR offset is out of range",
    BitOffset => "ERR bit offset is not an integer or out of range",
    NotABit => "ERR bit is not an integer or out of range",
    BitNotOneOrZero => "ERR The bit argument must be 1 or 0.",
    BitopNotSources => "ERR BITOP NOT must be called with a single source key.",
    BadOverflow => "ERR Invalid OVERFLOW type specified",
    BadFieldType =>
        "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported \
         but i64 is.",
    BitfieldReadOnly => "ERR BITFIELD_RO only supports the GET subcommand",
    NotASketch => "WRONGTYPE Key is not a valid HyperLogLog string value.",
    CorruptedSketch => "INVALIDOBJ Corrupted HLL object detected",
    NoSuchSketch => "ERR The specified key does not exist",
    SketchNotSparse => "ERR HLL encoding is not sparse",
    LcsNotStrings => "ERR The specified keys must contain string values",
    LcsLenAndIdx => "ERR If you want both the length and indexes, please just use IDX.",
    LcsTooLarge =>
        "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
    IndexOutOfRange => "ERR index out of range",
    CountNegative => "ERR COUNT can't be negative",
    MaxLenNegative => "ERR MAXLEN can't be negative",
    RankZero =>
        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or \
         use negative to start from the end of the list",
    StringTooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    DbOutOfRange => "ERR DB index is out of range",
    SameObject => "ERR source and destination objects are the same",
    InvalidCursor => "ERR invalid cursor",
    NxWithOthers => "ERR NX and XX, GT or LT options at the same time are not compatible",
    GtWithLt => "ERR GT and LT options at the same time are not compatible",
    NotZeroOrOne => "ERR value is out of range, value must between 0 and 1",
    NoAppendOnlyFile =>
        "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
    NotAnInt32 => "ERR value is out of range, value must between -2147483648 and 2147483647",
    InvalidArity => "ERR Invalid number of arguments specified for command",
    NegativeKeyCount => "ERR Number of keys can't be negative",
    TooManyKeys => "ERR Number of keys can't be greater than number of args",
    NoKeysInCommand => "ERR The command has no key arguments",
    InvalidCommand => "ERR Invalid command specified",
    InvalidArguments => "ERR Invalid arguments specified for command",
    LfuNotSelected =>
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
         note that when switching between policies at runtime LRU and LFU data will take some \
         time to adjust.",
    BusyKey => "BUSYKEY Target key name already exists.",
    GroupExists => "BUSYGROUP Consumer Group name already exists",
    BadStreamId => "ERR Invalid stream ID specified as stream command argument",
    BadIntervalStart => "ERR invalid start ID for the interval",
    BadIntervalEnd => "ERR invalid end ID for the interval",
    TimeoutNotAFloat => "ERR timeout is not a float or out of range",
    TimeoutNotAnInteger => "ERR timeout is not an integer or out of range",
    TimeoutNegative => "ERR timeout is negative",
    InvalidFirstDb => "ERR invalid first DB index",
    InvalidSecondDb => "ERR invalid second DB index",
    BadUnblockReason => "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR",
    NestedMulti => "ERR MULTI calls can not be nested",
    WatchInMulti => "ERR WATCH inside MULTI is not allowed",
    ExecWithoutMulti => "ERR EXEC without MULTI",
    DiscardWithoutMulti => "ERR DISCARD without MULTI",
    NotInTransaction => "ERR Command not allowed inside a transaction",
    ExecAborted => "EXECABORT Transaction discarded because of previous errors.",
    TransactionTooLarge => "ERR the transaction holds too many bytes",
    TooManyWatched => "ERR too many watched keys",
    LfuSelected =>
        "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
         switching between policies at runtime LRU and LFU data will take some time to adjust.",
    BadScriptFlushMode => "ERR SCRIPT FLUSH only support SYNC|ASYNC option",
    NoScript => "NOSCRIPT No matching script. Please use EVAL.",
    BusyScript => "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    BusyFunction => "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
    NotBusy => "NOTBUSY No scripts in execution right now.",
    Unkillable =>
        "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
         either wait the script termination or kill the server in a hard way using the SHUTDOWN \
         NOSAVE command.",
    // A client wants to write to a replica.
    ReadOnlyReplica => "READONLY You can't write against a read only replica.",
    ReadOnlyReplicaForScript => "READONLY Can not run script with write flag on readonly replica",
    // A replica without its master is not to answer.
    MasterDownForScript =>
        "MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and 'allow-stale' flag is not set \
         on the script.",
    MasterDown => "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    StaleFromScript => "ERR Can not execute the command on a stale replica",
    // A replica without data of its master cannot pass them on.
    NoMasterLink => "NOMASTERLINK Can't SYNC while not connected with my master",
    NoMasterLinkInFailover => "NOMASTERLINK Can't SYNC while failing over",
    // A replica has nobody to wait for.
    WaitOnReplica => "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica \
         is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
    // The data are being read.
    Loading => "LOADING Redis is loading the dataset in memory",
    // The last snapshot could not be written; the second of a script that says that it writes.
    Unsaved => "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
         Commands that may modify the data set are disabled, because this instance is configured to report errors \
         during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for \
         details about the RDB error.",
    UnsavedScript => "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
         Writable scripts are blocked. Use 'no-writes' flag for read only scripts.",
    NoReplicas => "NOREPLICAS Not enough good replicas to write.",
    OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
    OutOfMemoryForScript =>
        "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'",
    NotAuthenticated => "NOAUTH Authentication required.",
    HelloNotAuthenticated =>
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
         HELLO AUTH <user> <pass> option can be used to authenticate the client and select the \
         RESP protocol version at the same time",
    WrongPassword => "WRONGPASS invalid username-password pair or user is disabled.",
    KeyNotPermitted =>
        "NOPERM this user has no permissions to access one of the keys used as arguments",
    ChannelNotPermitted =>
        "NOPERM this user has no permissions to access one of the channels used as arguments",
    NoCluster => "ERR This instance has cluster support disabled",
    BadSlot => "ERR Invalid or out of range slot",
    CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot",
    ClusterDown => "CLUSTERDOWN The cluster is down",
    ClusterReadsOnly => "CLUSTERDOWN The cluster is down and only accepts read commands",
    SlotNotServed => "CLUSTERDOWN Hash slot not served",
    ScriptClusterDown => "ERR Script attempted to execute a command while the cluster is down",
    ScriptClusterReadsOnly =>
        "ERR Script attempted to execute a write command while the cluster is down and readonly",
    ScriptForeignKey => "ERR Script attempted to access a non local key in a cluster node",
    ScriptCrossSlot => "ERR Script attempted to access keys that do not hash to the same slot",
    ScriptNotOnCluster => "ERR Can not run script on cluster, 'no-cluster' flag is set.",
    NoSelectInCluster => "ERR SELECT is not allowed in cluster mode",
    NoMoveInCluster => "ERR MOVE is not allowed in cluster mode",
    NoSwapInCluster => "ERR SWAPDB is not allowed in cluster mode",
    NoCopyInCluster => "ERR Copying to another database is not allowed in cluster mode",
    NoSortByInCluster => "ERR BY option of SORT denied in Cluster mode.",
    NoSortGetInCluster => "ERR GET option of SORT denied in Cluster mode.",
    NoReplicaOfInCluster => "ERR REPLICAOF not allowed in cluster mode.",
    NoFailoverInCluster =>
        "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
    DebugNotAllowed =>
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
         you can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server.",
    ModuleNotAllowed =>
        "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", \
         you can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server.",
    ModuleNotLoaded =>
        "ERR Error loading the extension. Please check the server logs.",
    NoSuchModule =>
        "ERR Error unloading module: no such module with that name",
    NoPasswordSet =>
        "ERR AUTH <password> called without any password configured for the default user. Are \
         you sure your configuration is correct?",
    NoProto => "NOPROTO unsupported protocol version",
    ProtocolNotAnInteger => "ERR Protocol version is not an integer or out of range",
    BadClientName => "ERR Client names cannot contain spaces, newlines or special characters.",
    NoSuchClient => "ERR No such client",
    BadClientId => "ERR Invalid client ID",
    ClientIdNotPositive => "ERR client-id should be greater than 0",
    RedirectTwice => "ERR A client can only redirect to a single other client",
    NoRedirectTarget => "ERR The client ID you want redirect to does not exist",
    PrefixWithoutBroadcast => "ERR PREFIX option requires BCAST mode to be enabled",
    BroadcastSwitched =>
        "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
         re-enabling it with a different mode.",
    BroadcastWithOptions => "ERR OPTIN and OPTOUT are not compatible with BCAST",
    OptInAndOut => "ERR You can't specify both OPTIN mode and OPTOUT mode",
    OptSwitched =>
        "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
         re-enabling it with a different mode.",
    CachingWithoutOptions =>
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
         OPTOUT mode enabled",
    CachingYesWithoutOptIn =>
        "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
    CachingNoWithoutOptOut =>
        "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
    PauseMode => "ERR CLIENT PAUSE mode must be WRITE or ALL",
    MonitorInTransaction => "ERR MONITOR isn't allowed for DENY BLOCKING client",
    KeysForReplica => "ERR Replica can't interact with the keyspace",
    MaxAgeNotAnInteger => "ERR maxage is not an integer or out of range",
    MaxAgeNotPositive => "ERR maxage should be greater than 0",
    WriteFromReadOnlyScript => "ERR Write commands are not allowed from read-only scripts.",
    NotFromScript => "ERR This Redis command is not allowed from script",
    UnknownFromScript => "ERR Unknown Redis command called from script",
    ArityFromScript => "ERR Wrong number of args calling Redis command from script",
    LimitOutOfRange => "ERR limit is not an integer or out of range",
    WindowOutOfRange => "ERR window is not an integer or out of range",
    CostOutOfRange => "ERR cost is not an integer or out of range",
    BurstOutOfRange => "ERR burst is not an integer or out of range",
    LimiterCountOutOfRange => "ERR count is not an integer or out of range",
    TakenOutOfRange => "ERR the time of taking is not an integer or out of range",
    DurationOutOfRange => "ERR duration is not an integer or out of range",
    BadCalendarUnit => "ERR a calendar window is a DAY, WEEK, MONTH, QUARTER or YEAR",
    UnknownTimeZone => "ERR no such time zone in the IANA database",
    OneLimiterPerKey => "ERR there must be one limiter for each key",
    IdTooLong => "ERR an id has at most 256 bytes",
    NoAdvanceOfLogs => "ERR a sliding log gives no units in advance",
    NoReservationsOnLogs => "ERR a sliding log takes no reservations",
    ZeroRate => "ERR zero rates are not supported",
    BadRateParameters => "ERR invalid rate limit parameters",
    MissingTokens => "ERR Missing TOKENS value",
    GcraPeriod => "ERR period must be > 0 and < 1e12",
    GcraCostOverflow =>
        "ERR GCRA limiting uses microsecond accuracy. Combination of period, tokens_per_period \
         and TOKENS would cause an overflow",
    GcraBurstOverflow =>
        "ERR GCRA limiting uses microsecond accuracy. Combination of period, tokens_per_period \
         and max_burst would cause an overflow",
    OtherAlgorithm => "ERR the key holds a rate limiter of another algorithm",
}

fn arity(name: &str) -> Vec<u8> {
    let name = name.to_ascii_lowercase();
    format!("ERR wrong number of arguments for '{name}' command").into_bytes()
}

fn invalid_expire(name: &str) -> Vec<u8> {
    format!("ERR invalid expire time in '{name}' command").into_bytes()
}

/// How many bytes of an unknown command, and of its arguments together, its error repeats.
const QUOTED: usize = 128;

impl CmdError {
    /// An error of the generic code `ERR`.
    #[cold]
    pub fn err(text: impl AsRef<[u8]>) -> CmdError {
        CmdError::Line([b"ERR ", text.as_ref()].concat().into_boxed_slice())
    }

    /// An error whose text begins with a code of its own.
    #[cold]
    pub fn line(line: impl AsRef<[u8]>) -> CmdError {
        CmdError::Line(line.as_ref().into())
    }

    /// A replica leaves the command to its master, at this host and port.
    #[cold]
    pub fn redirect(to: &str) -> CmdError {
        CmdError::line(format!("REDIRECT {to}"))
    }

    /// Whether it is a [`CmdError::redirect`].
    pub fn is_redirect(&self) -> bool {
        matches!(self, CmdError::Line(line) if line.starts_with(b"REDIRECT "))
    }

    /// The append-only file cannot be written; the system's reason.
    #[cold]
    pub(crate) fn log_failed(reason: &str) -> CmdError {
        CmdError::line(format!("MISCONF Errors writing to the AOF file: {reason}"))
    }

    /// The same, to who wants to run a script that says that it writes.
    #[cold]
    pub fn log_failed_for_script(reason: &str) -> CmdError {
        CmdError::line(format!(
            "MISCONF Redis is configured to persist data to AOF, but it's currently unable to persist to disk. Writable \
             scripts are blocked. Use 'no-writes' flag for read only scripts. AOF error: {reason}"
        ))
    }

    /// No command has that name. `words` is the whole call, name included.
    #[cold]
    pub(crate) fn unknown_command(words: &[&[u8]]) -> CmdError {
        let name = words.first().copied().unwrap_or_default();
        let mut args = Vec::new();
        for word in words.iter().skip(1) {
            if args.len() >= QUOTED {
                break;
            }
            let room = QUOTED - args.len();
            args.push(b'\'');
            args.extend_from_slice(c_text(word, room));
            args.extend_from_slice(b"' ");
        }
        let mut line = b"ERR unknown command '".to_vec();
        line.extend_from_slice(c_text(name, QUOTED));
        line.extend_from_slice(b"', with args beginning with: ");
        line.extend_from_slice(&args);
        CmdError::Line(line.into_boxed_slice())
    }

    /// A RESP2 connection that subscribes may only change its subscriptions.
    #[cold]
    pub fn not_when_subscribed(name: &str) -> CmdError {
        let name = name.to_ascii_lowercase();
        CmdError::err(format!(
            "Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
             context"
        ))
    }

    /// The container command, which was called `container`, has no such sub-command.
    #[cold]
    pub(crate) fn unknown_subcommand(container: &[u8], word: &[u8]) -> CmdError {
        CmdError::err(
            [
                b"unknown subcommand '",
                c_text(word, QUOTED),
                b"'. Try ",
                &container.to_ascii_uppercase(),
                b" HELP.",
            ]
            .concat(),
        )
    }

    /// A sub-command does not take these words, of which the first two name it.
    #[cold]
    pub fn subcommand_syntax(words: &[&[u8]]) -> CmdError {
        let [container, word] = [0, 1].map(|at| words.get(at).copied().unwrap_or_default());
        CmdError::err(
            [
                b"unknown subcommand or wrong number of arguments for '",
                c_text(word, QUOTED),
                b"'. Try ",
                &container.to_ascii_uppercase(),
                b" HELP.",
            ]
            .concat(),
        )
    }

    /// BITOP compares the first source with others in the operation of that name.
    #[cold]
    pub(crate) fn two_sources_needed(operation: &str) -> CmdError {
        CmdError::err(format!(
            "BITOP {operation} must be called with at least two source keys."
        ))
    }

    /// PFDEBUG knows no such subcommand.
    #[cold]
    pub(crate) fn unknown_pfdebug(word: &[u8]) -> CmdError {
        let word = c_text(word, word.len());
        CmdError::err([b"Unknown PFDEBUG subcommand '", word, b"'"].concat())
    }

    /// The command of that name (any case) is given no keys to combine.
    #[cold]
    pub(crate) fn no_input_keys(name: &[u8]) -> CmdError {
        let name = name.to_ascii_lowercase();
        CmdError::err(
            [
                b"at least 1 input key is needed for '",
                &name[..],
                b"' command",
            ]
            .concat(),
        )
    }

    /// No ACL category has that name.
    #[cold]
    pub(crate) fn unknown_category(name: &[u8]) -> CmdError {
        CmdError::err([b"Unknown category '", c_text(name, QUOTED), b"'"].concat())
    }

    /// The command has no such option.
    #[cold]
    pub(crate) fn unknown_argument(word: &[u8]) -> CmdError {
        CmdError::err([b"unknown argument: ", c_text(word, word.len())].concat())
    }

    /// A position (degrees) that cannot be stored.
    #[cold]
    pub(crate) fn invalid_position(longitude: f64, latitude: f64) -> CmdError {
        CmdError::err(format!(
            "invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
        ))
    }

    /// A search whose result is stored shows nothing beside it.
    #[cold]
    pub(crate) fn stores_no_details(what: &str) -> CmdError {
        CmdError::err(format!(
            "{what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
        ))
    }

    /// The command, as the client wrote it, lacks one of two options.
    #[cold]
    pub(crate) fn exactly_one_of(options: &str, name: &[u8]) -> CmdError {
        let head = format!("exactly one of {options} can be specified for ");
        CmdError::err([head.as_bytes(), c_text(name, name.len())].concat())
    }

    /// RL.TAKE knows no such algorithm.
    #[cold]
    pub(crate) fn unknown_algorithm(word: &[u8]) -> CmdError {
        CmdError::err(
            [
                b"unknown algorithm '",
                c_text(word, QUOTED),
                b"', expected FIXED, ALIGNED, SLIDING, LOG, GCRA, TOKENS, LEAKY or CALENDAR",
            ]
            .concat(),
        )
    }

    /// The code: the first word of the line.
    pub fn code(&self) -> String {
        let line = self.to_line();
        let word = line.split(|&b| b == b' ').next().unwrap_or_default();
        String::from_utf8_lossy(word).into_owned()
    }

    /// Appends the error reply.
    #[cold]
    pub fn write(&self, out: &mut ReplyBuf) {
        out.error_bytes(&self.to_line());
    }
}

impl fmt::Display for CmdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_line()))
    }
}

impl std::error::Error for CmdError {}

/// What C's `%.*s` prints: up to `room` bytes, ending at the first NUL.
fn c_text(bytes: &[u8], room: usize) -> &[u8] {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    &bytes[..end.min(room)]
}
