//! `--target NAME=URL`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use crate::load::address::{Address, Endpoint};
use crate::os::listener;

/// What a target speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP, as Redis does.
    Resp,
    /// Envoy's rate limit service over gRPC.
    Grpc,
    /// HTTP/1.1.
    Http,
    /// memcached's text protocol.
    Memcache,
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
    /// Path and query of an HTTP target; empty for others.
    pub path: String,
    /// Host and port as they were written, for the Host header of HTTP.
    pub authority: String,
}

/// Port of a Redis server that gives none.
const REDIS_PORT: u16 = 6379;
/// Port of a rate limit service that gives none.
const GRPC_PORT: u16 = 8081;
/// Port of an HTTP server that gives none.
const HTTP_PORT: u16 = 80;
/// Port of a memcached server that gives none.
const MEMCACHE_PORT: u16 = 11_211;
/// Path of an HTTP target that gives none: Tollgate's and envoyproxy/ratelimit's own.
const HTTP_PATH: &str = "/json";

impl TargetUrl {
    /// Reads `NAME=URL` or a bare URL, whose host and port then serve as the name.
    pub fn parse(text: &str) -> Result<TargetUrl, String> {
        let (name, url) = match text.split_once('=') {
            Some((name, url)) if !name.is_empty() && !name.contains("://") => (Some(name), url),
            _ => (None, text),
        };
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!("'{url}' is not a URL: give {SCHEMES}"));
        };
        match scheme {
            "redis" | "valkey" | "tollgate" => redis(name, scheme, rest),
            "unix" => unix(name, rest),
            "grpc" => plain(name, scheme, rest, GRPC_PORT, Protocol::Grpc),
            "memcache" | "memcached" => {
                plain(name, scheme, rest, MEMCACHE_PORT, Protocol::Memcache)
            }
            "http" => http(name, rest),
            "https" => {
                Err("https:// (TLS) targets are not supported: measure the plain port".into())
            }
            "rediss" => {
                Err("rediss:// (TLS) targets are not supported: measure the plain port".into())
            }
            other => Err(format!("'{other}://' is not supported: give {SCHEMES}")),
        }
    }

    /// The processes of this machine that listen there; empty where they cannot be seen.
    #[must_use]
    pub(crate) fn processes(&self) -> Vec<u32> {
        match &self.endpoint.address {
            Address::Tcp(address) if self.endpoint.address.is_local() => {
                listener::pids_of_port(address.port())
            }
            _ => Vec::new(),
        }
    }
}

/// What may be given.
const SCHEMES: &str = "redis://HOST:PORT, unix:///PATH, grpc://HOST:PORT, http://HOST:PORT/PATH or memcache://HOST:PORT";

/// A socket by its path, which begins with a slash; a login may stand before it.
fn unix(name: Option<&str>, rest: &str) -> Result<TargetUrl, String> {
    let (login, path) = match rest.find("@/") {
        Some(at) if !rest.starts_with('/') => (Some(&rest[..at]), &rest[at + 1..]),
        _ => (None, rest),
    };
    Ok(TargetUrl {
        name: name.unwrap_or(path).into(),
        shown: format!("unix://{path}"),
        protocol: Protocol::Resp,
        endpoint: Endpoint {
            greeting: login.map(auth).transpose()?.into_iter().collect(),
            ..Endpoint::plain(Address::Unix(PathBuf::from(path)))
        },
        path: String::new(),
        authority: String::new(),
    })
}

/// `AUTH` with the login of a URL, `USER:PASSWORD`, `:PASSWORD` or `PASSWORD`, in which `%40` stands for `@`.
fn auth(login: &str) -> Result<Vec<Vec<u8>>, String> {
    let (user, password) = login.split_once(':').unwrap_or(("", login));
    let mut command = vec![b"AUTH".to_vec()];
    if !user.is_empty() {
        command.push(decoded(user)?);
    }
    command.push(decoded(password)?);
    Ok(command)
}

/// A part of a URL with its percent-encoded bytes as they are (RFC 3986, section 2.1).
fn decoded(text: &str) -> Result<Vec<u8>, String> {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part
            .get(..2)
            .filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        // Without the text: it is a password.
        let byte = byte.ok_or(
            "in the login of a URL % stands before two hexadecimal digits: write %25 for % itself",
        )?;
        out.push(byte);
        out.extend_from_slice(&part.as_bytes()[2..]);
    }
    Ok(out)
}

/// A host and a port, and nothing else.
fn plain(
    name: Option<&str>,
    scheme: &str,
    rest: &str,
    port: u16,
    protocol: Protocol,
) -> Result<TargetUrl, String> {
    let host = rest.trim_end_matches('/');
    let address = resolve(host, port)?;
    Ok(TargetUrl {
        name: name.map_or_else(|| address.to_string(), Into::into),
        shown: format!("{scheme}://{address}"),
        protocol,
        endpoint: Endpoint::plain(Address::Tcp(address)),
        path: String::new(),
        authority: host.into(),
    })
}

fn http(name: Option<&str>, rest: &str) -> Result<TargetUrl, String> {
    let (host, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if host.contains('@') {
        return Err(
            "a login in an http:// URL is not sent: give --http-header 'Authorization: …'".into(),
        );
    }
    let mut target = plain(name, "http", host, HTTP_PORT, Protocol::Http)?;
    target.path = match path {
        "" | "/" => HTTP_PATH.into(),
        path if path.starts_with('?') => format!("/{path}"),
        path => path.into(),
    };
    target.shown.push_str(&target.path);
    Ok(target)
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
    let mut greeting: Vec<Vec<Vec<u8>>> = login.map(auth).transpose()?.into_iter().collect();
    if let Some(db) = db {
        greeting.push(vec![b"SELECT".to_vec(), db.to_string().into_bytes()]);
    }
    Ok(TargetUrl {
        name: name.map_or_else(|| address.to_string(), Into::into),
        shown: format!("{scheme}://{address}"),
        protocol: Protocol::Resp,
        endpoint: Endpoint {
            greeting,
            ..Endpoint::plain(Address::Tcp(address))
        },
        path: String::new(),
        authority: String::new(),
    })
}

fn resolve(host: &str, default_port: u16) -> Result<SocketAddr, String> {
    if host.is_empty() || host.starts_with(':') {
        return Err(format!("the URL names no host: give {SCHEMES}"));
    }
    // What follows the only colon is meant as a port; an IPv6 address has more of them.
    if let Some((name, port)) = host.rsplit_once(':')
        && !name.contains(':')
        && port.parse::<u16>().is_err()
    {
        return Err(format!("'{host}': '{port}' is not a port: give 1 to 65535"));
    }
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
        let web = TargetUrl::parse("w=http://127.0.0.1:3001/light?user={key}").unwrap();
        assert_eq!(
            (web.path.as_str(), web.authority.as_str(), web.protocol),
            ("/light?user={key}", "127.0.0.1:3001", Protocol::Http)
        );
        assert_eq!(TargetUrl::parse("http://127.0.0.1").unwrap().path, "/json");
        assert_eq!(
            TargetUrl::parse("memcache://127.0.0.1").unwrap().shown,
            "memcache://127.0.0.1:11211"
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
    fn logins_may_be_percent_encoded_and_stand_before_a_socket_too() {
        let said = |text: &str| {
            let target = TargetUrl::parse(text).unwrap();
            let greeting = target.endpoint.greeting.iter();
            let words = greeting.map(|words| String::from_utf8(words.join(&b' ')).unwrap());
            (target.shown, words.collect::<Vec<_>>().join("; "))
        };
        let of = |shown: &str, greeting: &str| (shown.to_owned(), greeting.to_owned());
        assert_eq!(
            said("a=redis://b%6Fb:p%40s%2fs%25@127.0.0.1:7000"),
            of("redis://127.0.0.1:7000", "AUTH bob p@s/s%")
        );
        assert_eq!(
            said("a=unix://:s3cret@/run/r.sock"),
            of("unix:///run/r.sock", "AUTH s3cret")
        );
        assert_eq!(
            said("a=unix:///run/x@/r.sock"),
            of("unix:///run/x@/r.sock", "")
        );
        for text in [
            "a=redis://:s3%cret%zz@127.0.0.1",
            "a=redis://:s3cret%4@127.0.0.1",
        ] {
            let error = TargetUrl::parse(text).unwrap_err();
            assert!(error.contains("%25") && !error.contains("s3"), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        for (text, says) in [
            ("localhost:6379", "not a URL"),
            ("a=rediss://127.0.0.1", "TLS"),
            ("a=https://127.0.0.1", "TLS"),
            ("a=http://u:p@127.0.0.1/", "--http-header"),
            ("a=ftp://127.0.0.1", "not supported"),
            ("a=redis://", "names no host"),
            ("grpc://:8081", "names no host"),
            ("a=redis://127.0.0.1/x", "database number"),
            ("a=redis://127.0.0.1:99999", "not a port"),
            ("a=http://localhost:port/x", "not a port"),
        ] {
            let error = TargetUrl::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
