//! One row per command: the only place where its name, arity, flags, keys and docs are written.

use crate::{Acl, Args, BeginSearch, CmdError, Cx, FindKeys, Flags, KeySpec, Reply};

/// What runs a command that touches data or needs nothing of the server.
pub type Handler = fn(&mut Cx<'_>, Args<'_>) -> Result<Reply, CmdError>;

/// Who runs a command, and what must be locked for it.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// The shards of the keys that the row's key spec names are locked.
    Keys(Handler),
    /// Walks shards through [`Cx::walk`]; none is locked beforehand.
    Keyspace(Handler),
    /// Needs no key and nothing of the server.
    Local(Handler),
    /// Needs no key; may wait for time to pass.
    Wait(Handler),
    /// Starts, ends or guards a transaction.
    Transaction(TransactionCommand),
    /// Answered by the server.
    Node(NodeCommand),
    /// Answered by the engine's script host.
    Script(ScriptCommand),
    /// Answered by the engine's registry of subscriptions.
    PubSub(PubSubCommand),
    /// Has sub-commands only.
    Container,
}

/// Sub-commands of ACL that the server answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the sub-command of that name")]
pub enum AclCommand {
    DelUser,
    DryRun,
    GenPass,
    GetUser,
    List,
    Load,
    Log,
    Save,
    SetUser,
    Users,
    WhoAmI,
}

/// Sub-commands of CLUSTER, and the commands of clients of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the command of that name")]
pub enum ClusterCommand {
    AddSlots,
    AddSlotsRange,
    Asking,
    BumpEpoch,
    CountFailureReports,
    CountKeysInSlot,
    DelSlots,
    DelSlotsRange,
    Failover,
    FlushSlots,
    Forget,
    GetKeysInSlot,
    Help,
    Info,
    KeySlot,
    Links,
    Meet,
    MyId,
    MyShardId,
    Nodes,
    ReadOnly,
    ReadWrite,
    Replicas,
    Replicate,
    Reset,
    SaveConfig,
    SetConfigEpoch,
    SetSlot,
    Shards,
    SlotStats,
    Slots,
}

/// Sub-commands of HOTKEYS that the server answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the sub-command of that name")]
pub enum HotKeysCommand {
    Get,
    Reset,
    Start,
    Stop,
}

/// Commands whose answer belongs to the server: it matches this enum exhaustively.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the command of that name")]
pub enum NodeCommand {
    Acl(AclCommand),
    Cluster(ClusterCommand),
    Auth,
    Hello,
    Select,
    Quit,
    Reset,
    ClientCapa,
    ClientId,
    ClientGetName,
    ClientSetName,
    ClientSetInfo,
    ClientInfo,
    ClientList,
    ClientKill,
    ClientNoEvict,
    ClientUnblock,
    ClientCaching,
    ClientGetRedir,
    ClientReply,
    ClientPause,
    ClientUnpause,
    ClientNoTouch,
    ClientTracking,
    ClientTrackingInfo,
    Monitor,
    ConfigGet,
    ConfigSet,
    ConfigResetStat,
    ConfigRewrite,
    Debug,
    HotKeys(HotKeysCommand),
    LatencyDoctor,
    LatencyGraph,
    LatencyHistogram,
    LatencyHistory,
    LatencyLatest,
    LatencyReset,
    MemoryDoctor,
    ModuleLoad,
    ModuleUnload,
    MemoryMallocStats,
    MemoryPurge,
    MemoryStats,
    CommandlogGet,
    LogLen,
    LogReset,
    SlowlogGet,
    Info,
    Shutdown,
    Save,
    BgRewriteAof,
    BgSave,
    LastSave,
    Migrate,
    PSync,
    ReplConf,
    ReplicaOf,
    Failover,
    Role,
    Sync,

    Subscribe,
    Unsubscribe,
    PSubscribe,
    PUnsubscribe,
    SSubscribe,
    SUnsubscribe,
}

/// Commands that the registry of subscriptions answers; they need no connection, so scripts and transactions may
/// use them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the command of that name")]
pub enum PubSubCommand {
    Publish,
    SPublish,
    Channels,
    NumSub,
    NumPat,
    ShardChannels,
    ShardNumSub,
}

/// Commands about transactions, which the engine answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the command of that name")]
pub enum TransactionCommand {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

/// Commands that the script host answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the command of that name")]
pub enum ScriptCommand {
    Eval,
    EvalSha,
    EvalRo,
    EvalShaRo,
    ScriptLoad,
    ScriptExists,
    ScriptFlush,
    ScriptDebug,
    ScriptKill,
    Fcall,
    FcallRo,
    Function(FunctionCommand),
}

/// Sub-commands of FUNCTION.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the sub-command of that name")]
pub enum FunctionCommand {
    Delete,
    Dump,
    Flush,
    Kill,
    List,
    Load,
    Restore,
    Stats,
}

/// How many words a command takes, its name included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    /// Exactly so many.
    Exactly(u16),
    /// So many or more.
    AtLeast(u16),
}

impl Arity {
    /// True when a command of `words` words (name included) fits.
    #[inline]
    pub const fn accepts(self, words: usize) -> bool {
        match self {
            Arity::Exactly(n) => words == n as usize,
            Arity::AtLeast(n) => words >= n as usize,
        }
    }

    /// The fewest words that fit.
    pub const fn least(self) -> usize {
        match self {
            Arity::Exactly(n) | Arity::AtLeast(n) => n as usize,
        }
    }

    /// As COMMAND reports it: negative means "at least".
    pub const fn wire(self) -> i64 {
        match self {
            Arity::Exactly(n) => n as i64,
            Arity::AtLeast(n) => -(n as i64),
        }
    }
}

/// Which words of a command are channels. UNSUBSCRIBE and its like need no permission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    /// The first argument (PUBLISH).
    First,
    /// Every argument (SUBSCRIBE).
    Every,
    /// Every argument, each a pattern of channels (PSUBSCRIBE).
    EveryPattern,
}

impl Channels {
    /// The positions of the channels in a call of so many words.
    pub fn positions(self, words: usize) -> std::ops::Range<usize> {
        match self {
            Channels::First => 1..words.min(2),
            Channels::Every | Channels::EveryPattern => 1..words,
        }
    }

    /// True when the words are patterns.
    pub(crate) fn are_patterns(self) -> bool {
        self == Channels::EveryPattern
    }
}

/// The part of the documentation a command belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each variant is the group of that name")]
pub enum Group {
    Generic,
    String,
    Bitmap,
    HyperLogLog,
    List,
    Set,
    Hash,
    SortedSet,
    Geo,
    Stream,
    PubSub,
    Transactions,
    Cluster,
    Connection,
    Server,
    Scripting,
    RateLimit,
}

impl Group {
    /// As COMMAND DOCS prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::HyperLogLog => "hyperloglog",
            Group::List => "list",
            Group::Set => "set",
            Group::Hash => "hash",
            Group::SortedSet => "sorted-set",
            Group::Geo => "geo",
            Group::Stream => "stream",
            Group::PubSub => "pubsub",
            Group::Transactions => "transactions",
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Scripting => "scripting",
            Group::RateLimit => "ratelimit",
        }
    }
}

/// Since when a command should not be used any more, and what replaces it.
#[derive(Clone, Copy, Debug)]
pub struct Deprecation {
    /// The version of Redis.
    pub since: &'static str,
    /// What to use instead.
    pub instead: &'static str,
}

/// Words up to which a command that only takes longer the more it is given is short.
const FEW_WORDS: usize = 32;
/// How the costs of such commands end.
const BY_WORDS: &[&str] = &[" given", " for each member", " in the keys", " asked for"];

/// The declared facts of one command or sub-command.
#[derive(Clone, Debug)]
pub struct Row {
    /// Upper case; a sub-command as `CLIENT|KILL`.
    pub name: &'static str,
    /// Words, the name (and the sub-command's) included.
    pub arity: Arity,
    /// What it does.
    pub flags: Flags,
    /// Where its keys are and what happens to them.
    pub keys: &'static [KeySpec],
    /// ACL categories, the implied ones included.
    pub acl: Acl,
    /// Where its channels are, when it names some that a user must be allowed to use.
    pub channels: Option<Channels>,
    /// Part of the documentation.
    pub group: Group,
    /// What it takes, in the notation of the manuals; empty when it takes nothing.
    pub syntax: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The version of Redis (or of the module) that brought it; of Tollgate for its own commands.
    pub since: &'static str,
    /// Cost in terms of what it touches.
    pub complexity: &'static str,
    /// Hints for clients that route or aggregate.
    pub tips: &'static [&'static str],
    /// Set when it is deprecated.
    pub deprecated: Option<Deprecation>,
    /// Who runs it.
    pub run: Run,
    /// Sub-commands; empty for most.
    pub subs: &'static [Row],
    /// Calls of up to so many words, the name included, take about as long as any other command.
    short_words: usize,
    is_sub: bool,
    has_one_first_key: bool,
}

impl Row {
    /// The word that calls it: `KILL` for `CLIENT|KILL`.
    pub fn word(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    /// The sub-command of that name (any case).
    pub fn sub(&self, word: &[u8]) -> Option<&'static Row> {
        self.subs
            .iter()
            .find(|row| row.word().as_bytes().eq_ignore_ascii_case(word))
    }

    /// How many of the words are the command's own name: 1, or 2 for a sub-command.
    #[inline]
    pub fn name_words(&self) -> usize {
        1 + usize::from(self.is_sub)
    }

    /// Whether a call of so many words, the name included, may take long.
    #[inline]
    pub fn may_be_long_with(&self, words: usize) -> bool {
        words > self.short_words
    }

    /// True for a sub-command.
    #[inline]
    pub(crate) fn is_sub(&self) -> bool {
        self.is_sub
    }

    /// True when it has exactly one key, and that is word 1, and is run on the thread that read it.
    #[inline]
    pub fn has_one_first_key(&self) -> bool {
        self.has_one_first_key
    }

    /// True when it may change data.
    #[inline]
    pub const fn writes(&self) -> bool {
        self.flags.contains(Flags::WRITE)
    }
}

/// The commands of one kind, in one file.
#[derive(Debug)]
pub struct Family {
    /// Its name in the documentation.
    pub name: &'static str,
    /// One sentence on what the commands share.
    pub about: &'static str,
    /// Its commands, sorted by name.
    pub rows: &'static [Row],
}

/// Starts a row; the builder methods below fill in what is not the default.
pub(crate) const fn row(name: &'static str, arity: Arity, flags: Flags, run: Run) -> Row {
    Row {
        name,
        arity,
        flags,
        keys: &[],
        acl: Acl::NONE.implied(flags),
        channels: None,
        group: Group::Generic,
        syntax: "",
        summary: "",
        since: "",
        complexity: "",
        tips: &[],
        deprecated: None,
        run,
        subs: &[],
        short_words: 0,
        is_sub: has_bar(name.as_bytes()),
        has_one_first_key: false,
    }
}

/// The most words that a call is short with.
const fn short_words(syntax: &str, complexity: &str) -> usize {
    if begins_with(syntax, "key [count") {
        // Without a count it is about one element.
        return 2;
    }
    // A logarithm never gets large.
    if begins_with(complexity, "O(1)") || begins_with(complexity, "O(log N) where") {
        return usize::MAX;
    }
    let mut at = 0;
    while at < BY_WORDS.len() {
        if ends_with(complexity, BY_WORDS[at]) {
            return FEW_WORDS;
        }
        at += 1;
    }
    match complexity.as_bytes() {
        b"O(log N)" => usize::MAX,
        _ => 0,
    }
}

const fn begins_with(text: &str, front: &str) -> bool {
    text.len() >= front.len()
        && are_equal(text.as_bytes().split_at(front.len()).0, front.as_bytes())
}

const fn ends_with(text: &str, end: &str) -> bool {
    text.len() >= end.len()
        && are_equal(
            text.as_bytes().split_at(text.len() - end.len()).1,
            end.as_bytes(),
        )
}

const fn are_equal(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([], []) => true,
        ([a, one @ ..], [b, other @ ..]) => *a == *b && are_equal(one, other),
        _ => false,
    }
}

const fn has_bar(name: &[u8]) -> bool {
    match name {
        [] => false,
        [b'|', ..] => true,
        [_, rest @ ..] => has_bar(rest),
    }
}

pub(crate) const fn exactly(words: u16) -> Arity {
    Arity::Exactly(words)
}

pub(crate) const fn at_least(words: u16) -> Arity {
    Arity::AtLeast(words)
}

impl Row {
    pub(crate) const fn keys(mut self, keys: &'static [KeySpec]) -> Row {
        // What may be run elsewhere takes the way on which that is decided.
        self.has_one_first_key = !self.flags.contains(Flags::BULKY)
            && matches!(
                keys,
                [KeySpec {
                    begin: BeginSearch::Index(1),
                    find: FindKeys::Range { last: 0, .. },
                    ..
                }]
            );
        self.keys = keys;
        self
    }

    pub(crate) const fn acl(mut self, group: Group, acl: Acl) -> Row {
        self.group = group;
        self.acl = acl.implied(self.flags);
        self
    }

    /// The command names channels, so that users need permission for them.
    pub(crate) const fn channels(mut self, channels: Channels) -> Row {
        self.channels = Some(channels);
        self
    }

    pub(crate) const fn takes(mut self, syntax: &'static str) -> Row {
        self.syntax = syntax;
        self
    }

    pub(crate) const fn docs(
        mut self,
        summary: &'static str,
        since: &'static str,
        complexity: &'static str,
    ) -> Row {
        self.summary = summary;
        self.since = since;
        self.complexity = complexity;
        self.short_words = short_words(self.syntax, complexity);
        self
    }

    pub(crate) const fn tips(mut self, tips: &'static [&'static str]) -> Row {
        self.tips = tips;
        self
    }

    pub(crate) const fn deprecated(mut self, since: &'static str, instead: &'static str) -> Row {
        self.deprecated = Some(Deprecation { since, instead });
        self
    }

    pub(crate) const fn subs(mut self, subs: &'static [Row]) -> Row {
        self.subs = subs;
        self
    }
}
