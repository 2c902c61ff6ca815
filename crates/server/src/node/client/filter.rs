//! Which clients CLIENT LIST shows and CLIENT KILL closes: the filters of Redis 7.0, those of Valkey 9.0 and their
//! opposites (`NOT-…`).

use tollgate_commands::CmdError;
use tollgate_containers::number;
use tollgate_net::PeerAddress;

use super::super::NodeRunner;
use super::{class_of, listed_class};
use crate::client::Client;
use crate::config::Key;
use crate::outbox::Class;

/// What a client is to be.
enum Test<'a> {
    Id(Vec<u64>),
    /// `None` is the link to the master.
    Type(Option<Class>),
    Addr(&'a [u8]),
    Laddr(&'a [u8]),
    Ip(&'a [u8]),
    User(&'a [u8]),
    Name(&'a [u8]),
    LibName(&'a [u8]),
    LibVer(&'a [u8]),
    /// It has all these letters.
    Flags(&'a [u8]),
    /// It has said that it can do all this.
    Capa(&'a [u8]),
    Db(u8),
    /// Seconds it has been connected at least.
    MaxAge(i64),
    /// Seconds it has been silent at least.
    Idle(i64),
}

/// Letters of CLIENT LIST that may be asked for, also those that no client of this server has.
const LETTERS: &[u8] = b"OSMPxbtRBdcuAUreTIN";

/// Letters of what clients may say that they can do.
const CAPABILITIES: &[u8] = b"r";

/// The opposite of a filter.
const NOT: &[u8] = b"NOT-";

/// All that is asked of clients.
#[derive(Default)]
pub(super) struct Filter<'a> {
    /// Each with whether it is to hold; the last one of its kind counts.
    tests: Vec<(bool, Test<'a>)>,
    skip_me: bool,
}

impl<'a> Filter<'a> {
    /// By address, as the old form of CLIENT KILL has it.
    pub(super) fn of_address(address: &'a [u8]) -> Filter<'a> {
        Filter {
            tests: vec![(true, Test::Addr(address))],
            skip_me: false,
        }
    }

    /// Reads filters and their values. `skip_me`: unless told otherwise, the client that asks is not meant.
    pub(super) fn parse(
        runner: &NodeRunner<'_>,
        words: &[&'a [u8]],
        skip_me: bool,
    ) -> Result<Filter<'a>, CmdError> {
        let mut filter = Filter {
            tests: Vec::new(),
            skip_me,
        };
        let mut words = words;
        while let [option, value, after @ ..] = words {
            words = after;
            if option.eq_ignore_ascii_case(b"SKIPME") {
                filter.skip_me = yes_or_no(value)?;
                continue;
            }
            let (holds, name) = split_not(option);
            let mut test = test_of(runner, holds, name, value)?;
            if let Test::Id(ids) = &mut test {
                while let [id, after @ ..] = words
                    && number::parse_i64(id).is_some()
                {
                    ids.push(client_id(id)?);
                    words = after;
                }
            }
            let kind = std::mem::discriminant(&test);
            filter
                .tests
                .retain(|(other, old)| *other != holds || std::mem::discriminant(old) != kind);
            filter.tests.push((holds, test));
        }
        match words {
            [] => Ok(filter),
            _ => Err(CmdError::Syntax),
        }
    }

    pub(super) fn selects(&self, client: &Client, me: u64, now: i64) -> bool {
        !(self.skip_me && client.id == me)
            && self
                .tests
                .iter()
                .all(|(holds, test)| test.passes(client, now) == *holds)
    }
}

/// Whether a word is one of the filters.
pub(super) fn is_filter(word: &[u8]) -> bool {
    const NAMES: [&[u8]; 15] = [
        b"ID",
        b"TYPE",
        b"ADDR",
        b"LADDR",
        b"IP",
        b"USER",
        b"NAME",
        b"LIB-NAME",
        b"LIB-VER",
        b"FLAGS",
        b"CAPA",
        b"DB",
        b"MAXAGE",
        b"IDLE",
        b"SKIPME",
    ];
    let (_, name) = split_not(word);
    NAMES.iter().any(|it| name.eq_ignore_ascii_case(it))
}

/// Whether a filter is to hold, and its name.
fn split_not(option: &[u8]) -> (bool, &[u8]) {
    match option.split_at_checked(NOT.len()) {
        Some((not, name)) if not.eq_ignore_ascii_case(NOT) => (false, name),
        _ => (true, option),
    }
}

fn yes_or_no(word: &[u8]) -> Result<bool, CmdError> {
    match word {
        word if word.eq_ignore_ascii_case(b"YES") => Ok(true),
        word if word.eq_ignore_ascii_case(b"NO") => Ok(false),
        _ => Err(CmdError::Syntax),
    }
}

fn client_id(word: &[u8]) -> Result<u64, CmdError> {
    let id = number::parse_i64(word).filter(|&id| id > 0);
    id.map(|id| id as u64).ok_or(CmdError::ClientIdNotPositive)
}

/// Seconds of an age or a silence, by its name.
fn seconds(name: &str, word: &[u8]) -> Result<i64, CmdError> {
    let seconds = number::parse_i64(word)
        .ok_or_else(|| CmdError::err(format!("{name} is not an integer or out of range")))?;
    match seconds {
        1.. => Ok(seconds),
        _ => Err(CmdError::err(format!("{name} should be greater than 0"))),
    }
}

/// The test that a filter names. Filters with a limit have no opposite.
fn test_of<'a>(
    runner: &NodeRunner<'_>,
    holds: bool,
    name: &[u8],
    value: &'a [u8],
) -> Result<Test<'a>, CmdError> {
    Ok(match name.to_ascii_uppercase().as_slice() {
        // What came with Valkey tells a word from a number that is none of an ID.
        b"ID" if !holds && number::parse_i64(value).is_none() => return Err(CmdError::Syntax),
        b"ID" => Test::Id(vec![client_id(value)?]),
        b"TYPE" => Test::Type(class_of(value)?),
        b"ADDR" => Test::Addr(value),
        b"LADDR" => Test::Laddr(value),
        b"IP" => Test::Ip(value),
        b"USER" => {
            if runner.shared.engine.access().user(value).is_none() {
                return Err(CmdError::err([b"No such user '", value, b"'"].concat()));
            }
            Test::User(value)
        }
        b"NAME" => Test::Name(value),
        b"LIB-NAME" => Test::LibName(value),
        b"LIB-VER" => Test::LibVer(value),
        b"FLAGS" => Test::Flags(letters("flags", LETTERS, holds, value)?),
        b"CAPA" => Test::Capa(letters("capa", CAPABILITIES, holds, value)?),
        b"DB" => database(runner, holds, value)?,
        b"MAXAGE" if holds => Test::MaxAge(seconds("maxage", value)?),
        b"IDLE" if holds => Test::Idle(seconds("idle", value)?),
        _ => return Err(CmdError::Syntax),
    })
}

/// The value, if it consists of these letters.
fn letters<'a>(
    name: &str,
    letters: &[u8],
    holds: bool,
    value: &'a [u8],
) -> Result<&'a [u8], CmdError> {
    if value.iter().all(|letter| letters.contains(letter)) {
        return Ok(value);
    }
    let of = match holds {
        true => "provided".to_owned(),
        false => format!("NOT-{}", name.to_ascii_uppercase()),
    };
    let text = format!("Unknown {name} found in the {of} filter: ");
    Err(CmdError::err([text.as_bytes(), value].concat()))
}

fn database<'a>(runner: &NodeRunner<'_>, holds: bool, value: &[u8]) -> Result<Test<'a>, CmdError> {
    let name = if holds { "DB" } else { "NOT-DB" };
    let number = number::parse_i64(value)
        .and_then(|number| i32::try_from(number).ok())
        .ok_or_else(|| CmdError::err(format!("{name} is not an integer or out of range")))?;
    let settings = &runner.shared.settings;
    let last = settings.with_values(|values| values.number(Key::Databases)) - 1;
    u8::try_from(number)
        .ok()
        .filter(|&number| i64::from(number) <= last)
        .map(Test::Db)
        .ok_or_else(|| CmdError::err(format!("{name} number should be between 0 and {last}")))
}

impl Test<'_> {
    fn passes(&self, client: &Client, now: i64) -> bool {
        match self {
            Test::Id(ids) => ids.contains(&client.id),
            Test::Type(class) => *class == listed_class(client),
            Test::Addr(address) => client.peer.remote.to_string().as_bytes() == *address,
            Test::Laddr(address) => client.peer.local.to_string().as_bytes() == *address,
            Test::Ip(ip) => match &client.peer.remote {
                PeerAddress::Tcp(address) => address.ip().to_string().as_bytes() == *ip,
                PeerAddress::Unix(_) => false,
            },
            Test::User(user) => *client.user_name() == **user,
            // A client without a name is not one whose name is empty.
            Test::Name(name) => !name.is_empty() && *client.texts().name == **name,
            Test::LibName(name) => !name.is_empty() && *client.texts().lib_name == **name,
            Test::LibVer(version) => {
                !version.is_empty() && *client.texts().lib_version == **version
            }
            Test::Flags(letters) => {
                let has = client.letters();
                letters.iter().all(|letter| has.as_bytes().contains(letter))
            }
            Test::Capa(letters) => {
                let has = client.capabilities().as_bytes();
                letters.iter().all(|letter| has.contains(letter))
            }
            Test::Db(db) => client.db() == *db,
            Test::MaxAge(secs) => client.age(now) >= *secs,
            Test::Idle(secs) => client.idle(now) >= *secs,
        }
    }
}
