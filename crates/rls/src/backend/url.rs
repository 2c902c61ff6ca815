//! Where a store is, and how to reach the one that counts.

use redis::sentinel::{Sentinel, SentinelNodeConnectionInfo};
use redis::{Client, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult};

use crate::config::StartError;

/// Port of a Sentinel that none is given for.
const SENTINEL_PORT: u16 = 26_379;
/// Most Sentinels of one URL.
const MAX_SENTINELS: usize = 64;
const SENTINEL: &str = "redis+sentinel://";

/// How a store is reached.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// At one place.
    Direct(Client),
    /// Wherever the Sentinels say its master is, who are asked anew for every connection.
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        master: String,
        node: SentinelNodeConnectionInfo,
    },
}

impl Address {
    /// The store to connect to now.
    pub(crate) async fn client(&self) -> RedisResult<Client> {
        match self {
            Self::Direct(client) => Ok(client.clone()),
            Self::Sentinel {
                sentinels,
                master,
                node,
            } => {
                let mut sentinel = Sentinel::build(sentinels.clone())?;
                sentinel.async_master_for(master, Some(node)).await
            }
        }
    }
}

/// Checks a URL without connecting.
pub(crate) fn parse_url(url: &str) -> Result<Address, StartError> {
    let bad = |reason: String| StartError::BackendUrl {
        url: without_password(url),
        reason,
    };
    if let Some(rest) = url.strip_prefix(SENTINEL) {
        return sentinel(rest).map_err(bad);
    }
    let known = ["redis://", "unix://", "redis+unix://"]
        .iter()
        .any(|scheme| url.starts_with(scheme));
    if !known {
        return Err(bad(
            "a backend is given as redis://host:port, unix:///path or redis+sentinel://host:port,host:port/master".to_owned(),
        ));
    }
    let client = Client::open(url).map_err(|error| bad(error.to_string()))?;
    Ok(Address::Direct(client))
}

/// `[[user]:password@]host[:port][,host[:port]...]/master[/db]`; user, password and database are the store's.
fn sentinel(rest: &str) -> Result<Address, String> {
    let (login, places) = match rest.rsplit_once('@') {
        Some((login, places)) => (Some(login), places),
        None => (None, rest),
    };
    let (hosts, path) = places.split_once('/').unwrap_or((places, ""));
    let (master, db) = path.split_once('/').unwrap_or((path, "0"));
    if master.is_empty() {
        return Err("the URL names no master: redis+sentinel://host:port/master".to_owned());
    }
    let db = db.parse::<u32>();
    let db = db.map_err(|_| "the database is not a number".to_owned())?;
    let mut settings = RedisConnectionInfo::default().set_db(i64::from(db));
    if let Some(login) = login {
        // Read by the library itself, which knows how it is encoded.
        let info = format!("redis://{login}@host").into_connection_info();
        let info = info.map_err(|_| "user and password cannot be read".to_owned())?;
        let given = info.redis_settings();
        if let Some(user) = given.username() {
            settings = settings.set_username(user);
        }
        if let Some(password) = given.password() {
            settings = settings.set_password(password);
        }
    }
    let mut sentinels = Vec::new();
    for host in hosts.split(',').take(MAX_SENTINELS + 1) {
        let has_port = match host.rfind(']') {
            Some(end) => host[end..].contains(':'),
            None => host.contains(':'),
        };
        let url = match has_port {
            true => format!("redis://{host}"),
            false => format!("redis://{host}:{SENTINEL_PORT}"),
        };
        let info = url.into_connection_info();
        sentinels.push(info.map_err(|error| format!("Sentinel '{host}': {error}"))?);
    }
    if sentinels.len() > MAX_SENTINELS {
        return Err(format!("more than {MAX_SENTINELS} Sentinels"));
    }
    Ok(Address::Sentinel {
        sentinels,
        master: master.to_owned(),
        node: SentinelNodeConnectionInfo::default().set_redis_connection_info(settings),
    })
}

/// The URL as it may be shown.
fn without_password(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}://...{}", &url[..scheme], &url[at..])
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_and_shown_without_their_password() {
        for good in [
            "redis://127.0.0.1",
            "redis://:secret@localhost:7000/3",
            "unix:///run/redis.sock",
            "redis+sentinel://a:1,b,[::1]:3/main/2",
            "redis+sentinel://user:secret@a/main",
        ] {
            parse_url(good).expect(good);
        }
        for bad in [
            "localhost:6379",
            "http://x",
            "redis://",
            "redis://h:port",
            "redis://h/db",
            "redis+sentinel://h",
            "redis+sentinel:///main",
            "redis+sentinel://h:port/main",
            "redis+sentinel://h/main/db",
            "redis+sentinel://h,/main",
            "",
        ] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
        for bad in ["redis://user:secret@h:port", "redis+sentinel://u:secret@h"] {
            let error = parse_url(bad).expect_err("not valid").to_string();
            assert!(error.contains("://...@h"), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn sentinels_and_their_master_are_read() {
        let address = parse_url("redis+sentinel://me:pw@a:1,b/main/2").expect("valid");
        let Address::Sentinel {
            sentinels, master, ..
        } = address
        else {
            panic!("{address:?}")
        };
        let places: Vec<String> = sentinels
            .iter()
            .map(|info| info.addr().to_string())
            .collect();
        assert_eq!(
            (places, &*master),
            (vec!["a:1".into(), "b:26379".into()], "main")
        );
    }
}
