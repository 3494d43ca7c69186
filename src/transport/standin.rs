//! Stand-in for `domain::target` and `domain::excerpt` until they arrive.
use bytes::Bytes;
use ipnet::IpNet;
use std::net::IpAddr;

pub const EXCERPT_BYTES: usize = 1024;
pub fn clean(raw: &[u8]) -> Bytes {
    Bytes::copy_from_slice(raw)
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}
#[derive(Clone, Debug)]
pub enum Host {
    Name(String),
    Ip(IpAddr),
}
#[derive(Clone, Debug)]
pub struct TargetUrl(url::Url, Host);
impl TargetUrl {
    pub fn parse(text: &str, _https_only: bool) -> Result<TargetUrl, String> {
        let url = url::Url::parse(text).map_err(|e| e.to_string())?;
        let host = match url.host() {
            Some(url::Host::Ipv4(ip)) => Host::Ip(ip.into()),
            Some(url::Host::Ipv6(ip)) => Host::Ip(ip.into()),
            Some(url::Host::Domain(name)) => Host::Name(name.to_owned()),
            None => Host::Name(String::new()),
        };
        Ok(TargetUrl(url, host))
    }
    pub fn scheme(&self) -> Scheme {
        if self.0.scheme() == "https" {
            Scheme::Https
        } else {
            Scheme::Http
        }
    }
    pub fn host(&self) -> &Host {
        &self.1
    }
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(0)
    }
    pub fn request_target(&self) -> &str {
        let text = &self.0[url::Position::BeforePath..url::Position::AfterQuery];
        if text.is_empty() { "/" } else { text }
    }
    pub fn host_header(&self) -> String {
        self.0[url::Position::BeforeHost..url::Position::AfterPort].to_owned()
    }
    pub fn tls_name(&self) -> String {
        match self.host() {
            Host::Name(name) => name.trim_end_matches('.').to_owned(),
            Host::Ip(ip) => ip.to_string(),
        }
    }
}
#[derive(Clone, Debug, Default)]
pub struct AddressPolicy {
    allow: Vec<IpNet>,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Blocked,
}
impl Verdict {
    pub fn is_allowed(self) -> bool {
        self == Verdict::Allowed
    }
}
impl AddressPolicy {
    pub fn new(allow: impl IntoIterator<Item = IpNet>) -> AddressPolicy {
        AddressPolicy {
            allow: allow.into_iter().collect(),
        }
    }
    pub fn judge(&self, ip: IpAddr) -> Verdict {
        let ip = ip.to_canonical();
        let private = match ip {
            IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified(),
            IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local(),
        };
        if private && !self.allow.iter().any(|net| net.contains(&ip)) {
            Verdict::Blocked
        } else {
            Verdict::Allowed
        }
    }
}
