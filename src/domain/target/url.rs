//! Endpoint URLs. One parser serves the check at configuration time and the sending, so the two can never read a URL
//! differently (C28): scheme, authority, port and request-target are cut here by RFC 3986, and only the host's text is
//! handed to the `url` crate.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The longest URL, in bytes.
pub const MAX_URL_BYTES: usize = 2_048;

/// The longest host name and the longest label in it, without a trailing dot (RFC 1035 §2.3.4).
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// In lower case, without the colon.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The port of a URL that names none.
    pub const fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// Who is to be called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name in lower-case ASCII (punycode where it was not), with its trailing dot if the owner wrote one (C22).
    Name(String),
    /// An address, however the owner spelled it: `127.1` and `0x7f000001` are 127.0.0.1 (C27).
    Ip(IpAddr),
}

/// Scheme, host and port: a change of it clears an endpoint's custom headers. A trailing dot makes no difference.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub scheme: Scheme,
    pub host: Host,
    pub port: u16,
}

/// A URL that events can be sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct TargetUrl {
    text: Arc<str>,
    scheme: Scheme,
    host: Host,
    port: u16,
    /// What goes into the request line: the written path and query, byte for byte.
    request_target: Arc<str>,
}

impl TargetUrl {
    /// Checks a URL as an owner writes it. The error is a sentence for the owner that repeats nothing of the URL, which
    /// may hold a token (C89).
    ///
    /// Path and query go out byte for byte (C78), so only what may stand in an HTTP request line is accepted (RFC 3986
    /// §3.3, §3.4): the rest must be percent-encoded by whoever knows what it means. A fragment is kept in the text and
    /// never sent.
    pub fn parse(text: &str, https_only: bool) -> Result<TargetUrl, String> {
        if text.len() > MAX_URL_BYTES {
            return Err(format!("The URL is at most {MAX_URL_BYTES} bytes long."));
        }
        if text.chars().any(|one| one.is_control() || one.is_whitespace() || one == '\\') {
            return Err("The URL must not contain spaces, line breaks, control characters or backslashes.".into());
        }
        let (scheme, rest) = split_scheme(text)?;
        if https_only && scheme != Scheme::Https {
            return Err("Only https URLs are accepted here.".into());
        }
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(authority_end);
        if authority.contains('@') {
            return Err("The URL must not contain a user name or password; use a custom header for credentials.".into());
        }
        let (host, port) = split_port(authority)?;
        let target = rest.split('#').next().unwrap_or_default();
        check_request_target(target)?;
        Ok(TargetUrl {
            host: parse_host(host)?,
            port: port.unwrap_or(scheme.default_port()),
            // RFC 9112 §3.2.1: an empty path is sent as "/".
            request_target: match target.starts_with('/') {
                true => target.into(),
                false => format!("/{target}").into(),
            },
            text: text.into(),
            scheme,
        })
    }

    /// As the owner wrote it: what is stored and shown.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// 1 to 65535; the scheme's default if the URL names none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path and query as written, `/` for an empty path; without the fragment.
    pub fn request_target(&self) -> &str {
        &self.request_target
    }

    /// The value of `Host` (RFC 9110 §7.2): brackets round IPv6, the port unless it is the scheme's default (C16, C17).
    pub fn host_header(&self) -> String {
        let host = match &self.host {
            Host::Name(name) => name.clone(),
            Host::Ip(IpAddr::V4(ip)) => ip.to_string(),
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
        };
        match self.port == self.scheme.default_port() {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }

    /// What a certificate must be for: the name without a trailing dot, or the address without brackets. Only a name
    /// goes into SNI (RFC 6066 §3, C22); rustls tells the two apart by itself.
    pub fn tls_name(&self) -> String {
        match &self.host {
            Host::Name(name) => name.strip_suffix('.').unwrap_or(name).to_owned(),
            Host::Ip(ip) => ip.to_string(),
        }
    }

    pub fn origin(&self) -> Origin {
        let host = match &self.host {
            Host::Name(_) => Host::Name(self.tls_name()),
            ip => ip.clone(),
        };
        Origin { scheme: self.scheme, host, port: self.port }
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.text)
    }
}

/// Without path and query, where tokens are (C89).
impl fmt::Debug for TargetUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}/…", self.scheme.as_str(), self.host_header())
    }
}

impl serde::Serialize for TargetUrl {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

fn split_scheme(text: &str) -> Result<(Scheme, &str), String> {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok((Scheme::Http, rest)),
        "https" => Ok((Scheme::Https, rest)),
        _ => Err("The URL must begin with http:// or https://.".into()),
    }
}

/// Cuts the port off an authority without userinfo.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), String> {
    // The colons of an IPv6 address stand within brackets.
    let host_end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    let Some(colon) = authority[host_end..].find(':') else {
        return Ok((authority, None));
    };
    let (host, port) = authority.split_at(host_end + colon);
    let digits = &port[1..];
    let port = match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().ok().filter(|port| *port > 0),
        false => None,
    };
    match port {
        Some(port) => Ok((host, Some(port))),
        None => Err("The URL's port must be a number from 1 to 65535.".into()),
    }
}

fn parse_host(text: &str) -> Result<Host, String> {
    if text.is_empty() {
        return Err("The URL must name a host.".into());
    }
    // The `url` crate would decode it; nobody means it, and some clients do not.
    if text.contains('%') {
        return Err("The URL's host must not be percent-encoded.".into());
    }
    match ::url::Host::parse(text) {
        Ok(::url::Host::Ipv4(ip)) => Ok(Host::Ip(ip.into())),
        Ok(::url::Host::Ipv6(ip)) => Ok(Host::Ip(ip.into())),
        Ok(::url::Host::Domain(name)) if is_name(&name) => Ok(Host::Name(name)),
        _ => Err("The URL's host is neither a valid name nor a valid address.".into()),
    }
}

/// Labels of letters, digits, `-` and `_`, not too long, not empty; one dot may follow.
fn is_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    name.len() <= MAX_NAME_BYTES
        && (name.split('.')).all(|label| (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(legal))
}

/// Path and query of RFC 3986: unreserved and sub-delims, `: @ / ?`, and `%` with two hex digits.
fn check_request_target(target: &str) -> Result<(), String> {
    let mut bytes = target.bytes();
    while let Some(byte) = bytes.next() {
        let legal = match byte {
            b'%' => (0..2).all(|_| bytes.next().is_some_and(|digit| digit.is_ascii_hexdigit())),
            byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte),
        };
        if !legal {
            return Err(
                "The URL's path and query may hold letters, digits, -._~!$&'()*+,;=:@/? and percent-encoded bytes \
                such as %20; write everything else percent-encoded."
                    .into(),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
