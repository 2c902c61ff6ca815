//! Finds the master that Sentinels name, and hears when it is another.
//!
//! The client library can do that too, but not over TLS as it is spoken here (`peer`).

use std::time::Duration;

use futures_util::StreamExt;
use redis::{ErrorKind, RedisError, RedisResult, Value};

use super::peer::{At, Peer, within};

/// What Sentinels publish when the master is another.
const SWITCHED: &str = "+switch-master";
/// A Sentinel that has said nothing for this long is asked again: it may be cut off.
const LISTENS: Duration = Duration::from_secs(10);

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
    let mut server = peer.connect(timeout, timeout).await?;
    let role: Value = redis::cmd("ROLE").query_async(&mut server).await?;
    let is_master = match &role {
        Value::Array(items) => match items.first() {
            Some(Value::BulkString(word)) => word == b"master",
            Some(Value::SimpleString(word)) => word == "master",
            _ => false,
        },
        _ => false,
    };
    if is_master {
        return Ok(peer);
    }
    Err(RedisError::from((
        ErrorKind::MasterNameNotFoundBySentinel,
        "the server that the Sentinel names is no master",
    )))
}

/// Where a Sentinel says that the master is.
async fn ask(sentinel: &Peer, name: &str, timeout: Duration) -> RedisResult<Option<At>> {
    let mut asked = sentinel.connect(timeout, timeout).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    question.query_async(&mut asked).await
}

/// Listens for a while to the first Sentinel that answers; true once it says that the master is elsewhere than at `at`.
///
/// An old master that is well goes on counting for many seconds after another was promoted (`SENTINEL FAILOVER`), and what it
/// counts then is lost: its connections tell nothing of that.
pub(super) async fn moved(
    sentinels: &[Peer],
    name: &str,
    timeout: Duration,
    at: &At,
) -> RedisResult<bool> {
    let mut last = None;
    for sentinel in sentinels {
        match moved_by(sentinel, name, timeout, at).await {
            Ok(moved) => return Ok(moved),
            Err(error) => last = Some(error),
        }
    }
    last.map_or(Ok(false), Err)
}

async fn moved_by(sentinel: &Peer, name: &str, timeout: Duration, at: &At) -> RedisResult<bool> {
    let subscribed = within(timeout, async {
        let mut heard = sentinel.listen(timeout).await?;
        heard.subscribe(SWITCHED).await?;
        Ok(heard)
    });
    let subscribed = subscribed.await;
    // Asked afterwards, so that nothing is missed between; and of a Sentinel that lets nobody listen, too.
    let said = ask(sentinel, name, timeout).await?;
    if said.is_some_and(|said| said != *at) {
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
        Err(RedisError::from((ErrorKind::Io, "the connection is lost")))
    };
    let heard = tokio::time::timeout(LISTENS, about_it).await;
    heard.unwrap_or(Ok(false))
}
