//! Finds the master that Sentinels name, and hears when it is another.
//!
//! The client library can do that too, but not where names in certificates are not verified, nor with certificates of our own
//! for the first look at the master.

use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, Value};

/// What Sentinels publish when the master is another.
const SWITCHED: &str = "+switch-master";
/// A Sentinel that has said nothing for this long is asked again: it may be cut off.
const LISTENS: Duration = Duration::from_secs(10);

/// A host and a port.
pub(super) type At = (String, u16);

/// A client of the master of that name. Sentinels are asked in their order until one names a master that says it is one.
///
/// `client_of` makes a client of a host and a port. No step takes longer than `timeout`.
pub(super) async fn master(
    sentinels: &[Client],
    name: &str,
    timeout: Duration,
    client_of: impl Fn(&str, u16) -> RedisResult<Client>,
) -> RedisResult<Client> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(Some(timeout));
    let mut last = None;
    for sentinel in sentinels {
        match named_by(sentinel, name, &config, &client_of).await {
            Ok(client) => return Ok(client),
            Err(error) => last = Some(error),
        }
    }
    let none = || RedisError::from((ErrorKind::EmptySentinelList, "there is no Sentinel"));
    Err(last.unwrap_or_else(none))
}

async fn named_by(
    sentinel: &Client,
    name: &str,
    config: &AsyncConnectionConfig,
    client_of: &impl Fn(&str, u16) -> RedisResult<Client>,
) -> RedisResult<Client> {
    let Some((host, port)) = ask(sentinel, name, config).await? else {
        let kind = ErrorKind::MasterNameNotFoundBySentinel;
        return Err(RedisError::from((
            kind,
            "the Sentinel knows no master of that name",
        )));
    };
    let client = client_of(&host, port)?;
    // A Sentinel may be behind the times: the server itself must say that it is the master.
    let mut server = connect(&client, config).await?;
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
        return Ok(client);
    }
    Err(RedisError::from((
        ErrorKind::MasterNameNotFoundBySentinel,
        "the server that the Sentinel names is no master",
    )))
}

/// Where a Sentinel says that the master is.
async fn ask(
    sentinel: &Client,
    name: &str,
    config: &AsyncConnectionConfig,
) -> RedisResult<Option<At>> {
    let mut asked = connect(sentinel, config).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    question.query_async(&mut asked).await
}

/// Listens for a while to the first Sentinel that answers; true once it says that the master is elsewhere than at `at`.
///
/// An old master that is well goes on counting for many seconds after another was promoted (`SENTINEL FAILOVER`), and what it
/// counts then is lost: its connections tell nothing of that.
pub(super) async fn moved(
    sentinels: &[Client],
    name: &str,
    timeout: Duration,
    at: &At,
) -> RedisResult<bool> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(Some(timeout));
    let mut last = None;
    for sentinel in sentinels {
        match moved_by(sentinel, name, timeout, &config, at).await {
            Ok(moved) => return Ok(moved),
            Err(error) => last = Some(error),
        }
    }
    last.map_or(Ok(false), Err)
}

async fn moved_by(
    sentinel: &Client,
    name: &str,
    timeout: Duration,
    config: &AsyncConnectionConfig,
    at: &At,
) -> RedisResult<bool> {
    let subscribed = tokio::time::timeout(timeout, async {
        let mut heard = sentinel.get_async_pubsub().await?;
        heard.subscribe(SWITCHED).await?;
        RedisResult::Ok(heard)
    });
    let no_answer = || RedisError::from((ErrorKind::Io, "no answer in time"));
    let subscribed = subscribed.await.unwrap_or_else(|_| Err(no_answer()));
    // Asked afterwards, so that nothing is missed between; and of a Sentinel that lets nobody listen, too.
    if ask(sentinel, name, config)
        .await?
        .is_some_and(|said| said != *at)
    {
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
        Err(no_answer())
    };
    let heard = tokio::time::timeout(LISTENS, about_it).await;
    heard.unwrap_or(Ok(false))
}

async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    client
        .get_multiplexed_async_connection_with_config(config)
        .await
}
