//! Finds the master that Sentinels name, and hears when it is another.
//!
//! The client library can do that too, but not over TLS as it is spoken here (`peer`).

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use redis::aio::PubSub;
use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::peer::{At, Peer, within};

/// What Sentinels publish when the master is another.
const SWITCHED: &str = "+switch-master";
/// What the one that leads a failover publishes when it has told a replica to be the master. Only when it has seen that the replica
/// is one, about a second later, it says where the master is.
const PROMOTES: &str = "+failover-state-wait-promotion";
/// A Sentinel that has said nothing for this long is asked again: it may be cut off.
const LISTENS: Duration = Duration::from_secs(10);
/// How long a replica that is told to be the master may take to be one, and how often it is asked at first and later.
const PROMOTED_WITHIN: Duration = Duration::from_secs(5);
const PROMOTED_SOON: Duration = Duration::from_millis(1);
const PROMOTED_EVERY: Duration = Duration::from_millis(8);

/// The master of that name. Sentinels are asked in their order until one names a master that says it is one.
///
/// `peer_at` says how to connect to where a Sentinel says. No step takes longer than `timeout`.
pub(super) async fn master(
    sentinels: &[Peer],
    name: &str,
    timeout: Duration,
    peer_at: impl Fn(At) -> RedisResult<Peer>,
) -> RedisResult<Peer> {
    let mut last = None;
    for sentinel in sentinels {
        match named_by(sentinel, name, timeout, &peer_at).await {
            Ok(master) => return Ok(master),
            Err(error) => last = Some(error),
        }
    }
    let none = || RedisError::from((ErrorKind::EmptySentinelList, "there is no Sentinel"));
    Err(last.unwrap_or_else(none))
}

async fn named_by(
    sentinel: &Peer,
    name: &str,
    timeout: Duration,
    peer_at: &impl Fn(At) -> RedisResult<Peer>,
) -> RedisResult<Peer> {
    let Some(at) = ask(sentinel, name, timeout).await? else {
        let kind = ErrorKind::MasterNameNotFoundBySentinel;
        return Err(RedisError::from((
            kind,
            "the Sentinel knows no master of that name",
        )));
    };
    let peer = peer_at(at)?;
    // A Sentinel may be behind the times: the server itself must say that it is the master.
    if is_master(&peer, timeout).await? {
        return Ok(peer);
    }
    Err(RedisError::from((
        ErrorKind::MasterNameNotFoundBySentinel,
        "the server that the Sentinel names is not a master",
    )))
}

/// Whether a server says that it is a master.
async fn is_master(peer: &Peer, timeout: Duration) -> RedisResult<bool> {
    let mut server = peer.connect(timeout, timeout).await?;
    let role: Value = redis::cmd("ROLE").query_async(&mut server).await?;
    Ok(match &role {
        Value::Array(items) => match items.first() {
            Some(Value::BulkString(word)) => word == b"master",
            Some(Value::SimpleString(word)) => word == "master",
            _ => false,
        },
        _ => false,
    })
}

/// Where a Sentinel says that the master is.
async fn ask(sentinel: &Peer, name: &str, timeout: Duration) -> RedisResult<Option<At>> {
    let mut asked = sentinel.connect(timeout, timeout).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    question.query_async(&mut asked).await
}

/// Listens for a while to the first Sentinel that answers; true once it says that the master is elsewhere than at `at`, and not
/// only that it is still at `left`.
///
/// An old master that is well goes on counting for many seconds after another was promoted (`SENTINEL FAILOVER`), and what it
/// counts then is lost: its connections tell nothing of that.
pub(super) async fn moved(
    sentinels: &[Peer],
    name: &str,
    timeout: Duration,
    at: &At,
    left: Option<&At>,
) -> RedisResult<bool> {
    let mut last = None;
    for sentinel in sentinels {
        match moved_by(sentinel, name, timeout, at, left).await {
            Ok(moved) => return Ok(moved),
            Err(error) => last = Some(error),
        }
    }
    last.map_or(Ok(false), Err)
}

/// The replica that has just been told to take the master's place, when a Sentinel says so and it has done so; until then for ever.
/// Only the one that leads the failover says it, so all are listened to. `begins` is told as it is said.
pub(super) async fn promoted(
    sentinels: &[Peer],
    name: &str,
    timeout: Duration,
    peer_at: impl Fn(At) -> RedisResult<Peer>,
    begins: impl Fn(),
) -> Peer {
    let (peer_at, begins) = (&peer_at, &begins);
    let each = sentinels.iter().map(|sentinel| {
        Box::pin(async move {
            match promoted_by(sentinel, name, timeout, peer_at, begins).await {
                Ok(peer) => peer,
                // It says nothing, and others may.
                Err(_) => std::future::pending().await,
            }
        })
    });
    match sentinels.is_empty() {
        true => std::future::pending().await,
        false => futures_util::future::select_all(each).await.0,
    }
}

async fn promoted_by(
    sentinel: &Peer,
    name: &str,
    timeout: Duration,
    peer_at: &impl Fn(At) -> RedisResult<Peer>,
    begins: &impl Fn(),
) -> RedisResult<Peer> {
    let mut heard = subscribed(sentinel, PROMOTES, timeout).await?;
    let mut heard = heard.on_message();
    while let Some(message) = heard.next().await {
        let text: String = message.get_payload()?;
        let Some(at) = replica_of(&text, name) else {
            continue;
        };
        begins();
        let peer = peer_at(at)?;
        let by = Instant::now() + PROMOTED_WITHIN;
        let mut pause = PROMOTED_SOON;
        while Instant::now() < by {
            // Its clients are disconnected as it becomes the master, so that it is connected to each time.
            if is_master(&peer, timeout).await.unwrap_or(false) {
                return Ok(peer);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PROMOTED_EVERY);
        }
    }
    Err(lost())
}

/// The replica in a message about one, `slave NAME HOST PORT @ MASTER HOST PORT`, if its master has this name.
fn replica_of(text: &str, name: &str) -> Option<At> {
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        ["slave", _, host, port, "@", master, ..] if master == name => {
            Some((host.to_owned(), port.parse().ok()?))
        }
        _ => None,
    }
}

fn lost() -> RedisError {
    RedisError::from((ErrorKind::Io, "the connection is lost"))
}

async fn subscribed(sentinel: &Peer, channel: &str, timeout: Duration) -> RedisResult<PubSub> {
    within(timeout, async {
        let mut heard = sentinel.listen(timeout).await?;
        heard.subscribe(channel).await?;
        Ok(heard)
    })
    .await
}

async fn moved_by(
    sentinel: &Peer,
    name: &str,
    timeout: Duration,
    at: &At,
    left: Option<&At>,
) -> RedisResult<bool> {
    let subscribed = subscribed(sentinel, SWITCHED, timeout).await;
    // Asked afterwards, so that nothing is missed between; and of a Sentinel that lets nobody listen, too.
    let said = ask(sentinel, name, timeout).await?;
    if said.is_some_and(|said| said != *at && Some(&said) != left) {
        return Ok(true);
    }
    let mut heard = subscribed?;
    let mut heard = heard.on_message();
    let about_it = async {
        while let Some(message) = heard.next().await {
            let text: String = message.get_payload()?;
            if text.split(' ').next() == Some(name) {
                return Ok(true);
            }
        }
        Err(lost())
    };
    let heard = tokio::time::timeout(LISTENS, about_it).await;
    heard.unwrap_or(Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_read_from_what_a_sentinel_publishes() {
        let text = "slave 10.0.0.2:6380 10.0.0.2 6380 @ main 10.0.0.1 6379";
        assert_eq!(
            replica_of(text, "main"),
            Some(("10.0.0.2".to_owned(), 6_380))
        );
        for (other, name) in [
            (text, "other"),
            ("master main 10.0.0.1 6379", "main"),
            ("slave a b c @ main d 1", "main"),
            ("", ""),
        ] {
            assert_eq!(replica_of(other, name), None, "{other}");
        }
    }
}
