//! What a client asks.

use std::borrow::Cow;

use super::KEY_MAX;

/// One request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`: each key is read by itself, in their order, and `END` closes.
    Retrieve(Retrieval<'a>),
    /// Anything else about one key.
    Item(Target<'a>),
    /// A value that is too long was announced, and is passed over: the answer is [`super::TOO_LARGE`], and what the key holds is
    /// removed if `removes`, so that nobody takes it for the new value.
    TooLarge {
        /// Its key.
        key: Cow<'a, [u8]>,
        /// What it holds is to go.
        removes: bool,
        /// The client wants no answer.
        quiet: bool,
    },
    /// A line that is no command, or data that are not what it said: the answer.
    Refused {
        /// The answer; none when the client wants none.
        line: Option<&'static str>,
    },
    /// `flush_all`: all items go, at once or in so many seconds.
    FlushAll {
        /// Seconds from now, or a time as for an item; 0 and negative numbers: at once.
        delay: i32,
        /// The client wants no answer.
        quiet: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`: `OK`, and no effect.
    Verbosity {
        /// The client wants no answer.
        quiet: bool,
    },
    /// `cache_memlimit`: the most memory that data may take.
    MemoryLimit {
        /// In MiB.
        mebibytes: u32,
        /// The client wants no answer.
        quiet: bool,
    },
    /// `stats`.
    Stats(Stats),
    /// `lru_crawler`: items are walked through, or nothing is to be walked through.
    Crawler(Crawler),
    /// `mn`: its answer shows that all before it are answered.
    Noop,
    /// `quit`.
    Quit,
}

/// Which statistics are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stats {
    /// The general ones.
    General,
    /// `settings`.
    Settings,
    /// `items`.
    Items,
    /// `slabs`.
    Slabs,
    /// `sizes`.
    Sizes,
    /// `conns`.
    Connections,
    /// `reset`: counters begin again.
    Reset,
    /// `detail`: what was asked of keys, by their prefixes.
    Detail(Detail),
    /// `cachedump`: some items.
    Dump {
        /// Of this slab class.
        class: u32,
        /// At most so many; 0: as many as one answer holds.
        limit: u32,
    },
}

/// What is asked of the crawler, which walks through items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crawler {
    /// `enable`.
    Enable,
    /// `disable`.
    Disable,
    /// `sleep` and `tocrawl`: `OK`, and no effect.
    Pace,
    /// `crawl`: items that have expired go.
    Crawl(Classes),
    /// `metadump`: a line about each item.
    Metadump(Classes),
    /// `mgdump`: a request for each item.
    Mgdump(Classes),
}

/// The slab classes whose items are walked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classes {
    /// `all`.
    All,
    /// `hash`: all, in the order of the hash table.
    Hash,
    /// Some, by number.
    Some {
        /// One bit for each.
        bits: u64,
    },
    /// None of them is a class.
    Bad,
}

/// What is to be done about the statistics of prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Requests count from now on.
    On,
    /// They no longer do; what was counted stays.
    Off,
    /// It is told.
    Dump,
}

impl Detail {
    /// What a word stands for.
    pub(super) fn of(word: &[u8]) -> Option<Detail> {
        Some(match word {
            b"on" => Detail::On,
            b"off" => Detail::Off,
            b"dump" => Detail::Dump,
            _ => return None,
        })
    }
}

/// The keys of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys<'a>(pub(super) &'a [u8]);

impl<'a> Keys<'a> {
    /// The keys, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.0.split(|&b| b == b' ').filter(|key| !key.is_empty())
    }

    /// Whether every key has a length that is allowed.
    pub(super) fn fit(&self) -> bool {
        self.iter().all(|key| key.len() <= KEY_MAX)
    }
}

/// A request for the values of several keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retrieval<'a> {
    /// The keys.
    pub keys: Keys<'a>,
    /// What is asked of each.
    pub options: Options,
}

/// What is done to an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Operation {
    /// Its value is read, or something about it; also `mg` and `gat`.
    #[default]
    Get,
    /// A value is stored.
    Store,
    /// A number is added or taken away.
    Arithmetic,
    /// It is deleted, or marked as out of date.
    Delete,
    /// It is to expire at another time.
    Touch,
    /// What is known of it is told (`me`).
    Describe,
}

/// One request about one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    /// What is done.
    pub operation: Operation,
    /// The key, decoded.
    pub key: Cow<'a, [u8]>,
    /// The data block, without the line end.
    pub data: &'a [u8],
    /// All else that was said, in numbers.
    pub options: Options,
    /// The flags of a meta command as they came, whose order is that of the answer.
    pub flags: Flags<'a>,
}

/// The flags of a meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags<'a>(pub &'a [u8]);

impl<'a> Flags<'a> {
    /// Letters and what stands behind each.
    pub fn iter(self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let words = self.0.split(|&b| b == b' ');
        words.filter_map(|word| Some((*word.first()?, &word[1..])))
    }
}

/// The form of request and answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Style {
    /// The older commands.
    #[default]
    Text,
    /// As `Text`, with the unique number.
    TextCas,
    /// The meta commands.
    Meta,
}

/// When a value is stored, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Mode {
    /// In any case.
    #[default]
    Set,
    /// Where there is none.
    Add,
    /// Where there is one.
    Replace,
    /// Behind the one that is there.
    Append,
    /// Before the one that is there.
    Prepend,
}

/// The options of a request, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Form of the answer.
    pub style: Style,
    /// How a value is stored.
    pub mode: Mode,
    /// Client flags of a new value.
    pub flags: u32,
    /// Expiry as sent: 0 = never, up to 30 days = seconds from now, above = Unix seconds, negative = over.
    pub exptime: Option<i32>,
    /// What is not there is made, with this expiry.
    pub vivify: Option<i32>,
    /// Who asks is to renew the value if it expires sooner than this.
    pub recache: Option<i32>,
    /// Only if the unique number is this one.
    pub compare: Option<u64>,
    /// The unique number of the new state.
    pub explicit: Option<u64>,
    /// What is added or taken away.
    pub delta: u64,
    /// The number that an item that was not there begins with.
    pub initial: u64,
    /// The number is taken away.
    pub decrement: bool,
    /// Largest item that may come of it, in bytes as memcached counts them.
    pub item_max: u64,
    /// The item is marked as out of date instead of deleted; of a value, if it is older than the one that is there.
    pub invalidate: bool,
    /// The usual answer is not wanted.
    pub quiet: bool,
    /// The key came in base64.
    pub base64: bool,
    /// The request does not count as a use of the item.
    pub no_bump: bool,
    /// The value is wanted.
    pub value: bool,
}

impl Options {
    /// Whether a value of that length may stand at the key.
    pub fn fits(&self, len: usize, key: &[u8], flags: u32) -> bool {
        let most = usize::try_from(self.item_max).unwrap_or(usize::MAX);
        super::line::fits(len, key, flags, most)
    }

    /// Bytes of [`Options::to_bytes`].
    pub const LEN: usize = 8 + 4 * 4 + 5 * 8;

    /// As a word that [`Options::from_bytes`] reads.
    pub fn to_bytes(&self) -> [u8; Options::LEN] {
        let mut out = [0; Options::LEN];
        let bits = [
            self.exptime.is_some(),
            self.vivify.is_some(),
            self.recache.is_some(),
            self.compare.is_some(),
            self.explicit.is_some(),
            self.decrement,
            self.invalidate,
            self.quiet,
            self.base64,
            self.no_bump,
            self.value,
        ];
        let bits = bits
            .iter()
            .enumerate()
            .fold(0u16, |bits, (at, &bit)| bits | u16::from(bit) << at);
        out[0] = self.style as u8;
        out[1] = self.mode as u8;
        out[2..4].copy_from_slice(&bits.to_le_bytes());
        let small = [
            self.flags,
            self.exptime.unwrap_or(0) as u32,
            self.vivify.unwrap_or(0) as u32,
            self.recache.unwrap_or(0) as u32,
        ];
        for (place, number) in out[8..24].chunks_exact_mut(4).zip(small) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let large = [
            self.compare.unwrap_or(0),
            self.explicit.unwrap_or(0),
            self.delta,
            self.initial,
            self.item_max,
        ];
        for (place, number) in out[24..].chunks_exact_mut(8).zip(large) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// What [`Options::to_bytes`] wrote; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Options> {
        let bytes: &[u8; Options::LEN] = bytes.try_into().ok()?;
        let small = |at: usize| {
            let word = bytes[8 + 4 * at..].first_chunk().copied();
            u32::from_le_bytes(word.unwrap_or_default())
        };
        let large = |at: usize| {
            let word = bytes[24 + 8 * at..].first_chunk().copied();
            u64::from_le_bytes(word.unwrap_or_default())
        };
        let bits = u16::from_le_bytes([bytes[2], bytes[3]]);
        let bit = |at: u32| bits >> at & 1 == 1;
        Some(Options {
            style: match bytes[0] {
                0 => Style::Text,
                1 => Style::TextCas,
                2 => Style::Meta,
                _ => return None,
            },
            mode: match bytes[1] {
                0 => Mode::Set,
                1 => Mode::Add,
                2 => Mode::Replace,
                3 => Mode::Append,
                4 => Mode::Prepend,
                _ => return None,
            },
            flags: small(0),
            exptime: bit(0).then(|| small(1) as i32),
            vivify: bit(1).then(|| small(2) as i32),
            recache: bit(2).then(|| small(3) as i32),
            compare: bit(3).then(|| large(0)),
            explicit: bit(4).then(|| large(1)),
            delta: large(2),
            initial: large(3),
            item_max: large(4),
            decrement: bit(5),
            invalidate: bit(6),
            quiet: bit(7),
            base64: bit(8),
            no_bump: bit(9),
            value: bit(10),
        })
    }
}
