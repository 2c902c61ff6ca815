//! `--target NAME=URL`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use crate::load::address::{Address, Endpoint};

/// What a target speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP, as Redis does.
    Resp,
    /// Envoy's rate limit service over gRPC.
    Grpc,
}

/// A running system given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUrl {
    /// Name in tables.
    pub name: String,
    /// As given, without the password.
    pub shown: String,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where it listens and how it is greeted.
    pub endpoint: Endpoint,
}

/// Port of a Redis server that gives none.
const REDIS_PORT: u16 = 6379;
/// Port of a rate limit service that gives none.
const GRPC_PORT: u16 = 8081;

impl TargetUrl {
    /// Reads `NAME=URL` or a bare URL, whose host and port then serve as the name.
    pub fn parse(text: &str) -> Result<TargetUrl, String> {
        let (name, url) = match text.split_once('=') {
            Some((name, url)) if !name.is_empty() && !name.contains("://") => (Some(name), url),
            _ => (None, text),
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!(
                "'{url}' is not a URL: give redis://HOST:PORT, unix:///PATH or grpc://HOST:PORT"
            ));
        };
        match scheme {
            "redis" | "valkey" | "tollgate" => redis(name, scheme, rest),
            "unix" => {
                let endpoint = Endpoint::plain(Address::Unix(PathBuf::from(rest)));
                Ok(TargetUrl {
                    name: name.unwrap_or(rest).into(),
                    shown: url.into(),
                    protocol: Protocol::Resp,
                    endpoint,
                })
            }
            "grpc" => {
                let address = resolve(rest.trim_end_matches('/'), GRPC_PORT)?;
                let endpoint = Endpoint::plain(Address::Tcp(address));
                let name = name.map_or_else(|| address.to_string(), Into::into);
                Ok(TargetUrl {
                    name,
                    shown: format!("grpc://{address}"),
                    protocol: Protocol::Grpc,
                    endpoint,
                })
            }
            "rediss" => {
                Err("rediss:// (TLS) targets are not supported: measure the plain port".into())
            }
            other => Err(format!(
                "'{other}://' is not supported: give redis://, unix:// or grpc://"
            )),
        }
    }
}

fn redis(name: Option<&str>, scheme: &str, rest: &str) -> Result<TargetUrl, String> {
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(login), rest),
        None => (None, rest),
    };
    let (host, db) = match rest.split_once('/') {
        Some((host, "")) => (host, None),
        Some((host, db)) => (
            host,
            Some(
                db.parse::<u32>()
                    .map_err(|_| format!("'{db}' is not a database number"))?,
            ),
        ),
        None => (rest, None),
    };
    let address = resolve(host, REDIS_PORT)?;
    let mut greeting = Vec::new();
    if let Some(login) = login {
        let (user, password) = login.split_once(':').unwrap_or(("", login));
        let mut auth = vec![b"AUTH".to_vec()];
        if !user.is_empty() {
            auth.push(user.into());
        }
        auth.push(password.into());
        greeting.push(auth);
    }
    if let Some(db) = db {
        greeting.push(vec![b"SELECT".to_vec(), db.to_string().into_bytes()]);
    }
    Ok(TargetUrl {
        name: name.map_or_else(|| address.to_string(), Into::into),
        shown: format!("{scheme}://{address}"),
        protocol: Protocol::Resp,
        endpoint: Endpoint {
            address: Address::Tcp(address),
            greeting,
        },
    })
}

fn resolve(host: &str, default_port: u16) -> Result<SocketAddr, String> {
    let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
        port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']'))
    });
    let full = if has_port {
        host.to_owned()
    } else {
        format!("{host}:{default_port}")
    };
    let mut found = full
        .to_socket_addrs()
        .map_err(|error| format!("cannot resolve '{host}': {error}"))?;
    found
        .next()
        .ok_or_else(|| format!("'{host}' has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ports_and_logins_are_read() {
        let target = TargetUrl::parse("mine=redis://bob:s3cret@127.0.0.1:7000/3").unwrap();
        assert_eq!(
            (target.name.as_str(), target.shown.as_str()),
            ("mine", "redis://127.0.0.1:7000")
        );
        let said: Vec<String> = target
            .endpoint
            .greeting
            .iter()
            .map(|c| String::from_utf8_lossy(&c.join(&b' ')).into_owned())
            .collect();
        assert_eq!(said, ["AUTH bob s3cret", "SELECT 3"]);
        let bare = TargetUrl::parse("redis://127.0.0.1").unwrap();
        assert_eq!(bare.name, "127.0.0.1:6379");
        assert!(bare.endpoint.greeting.is_empty() && bare.endpoint.address.is_local());
        assert_eq!(
            TargetUrl::parse("s=grpc://127.0.0.1").unwrap().shown,
            "grpc://127.0.0.1:8081"
        );
        assert_eq!(
            TargetUrl::parse("v6=redis://[::1]:7001").unwrap().shown,
            "redis://[::1]:7001"
        );
        assert!(
            !TargetUrl::parse("redis://192.0.2.1:6379")
                .unwrap()
                .endpoint
                .address
                .is_local()
        );
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        for (text, says) in [
            ("localhost:6379", "not a URL"),
            ("a=rediss://127.0.0.1", "TLS"),
            ("a=http://127.0.0.1", "not supported"),
            ("a=redis://127.0.0.1/x", "database number"),
        ] {
            let error = TargetUrl::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
