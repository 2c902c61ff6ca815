//! Finds the master that Sentinels name.
//!
//! The client library can do that too, but not where names in certificates are not verified, nor with certificates of our own
//! for the first look at the master.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, Value};

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
    let mut asked = connect(sentinel, config).await?;
    let place: Option<(String, u16)> = redis::cmd("SENTINEL")
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(name)
        .query_async(&mut asked)
        .await?;
    let Some((host, port)) = place else {
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

async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    client
        .get_multiplexed_async_connection_with_config(config)
        .await
}
