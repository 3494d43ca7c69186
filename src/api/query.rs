//! Query strings: every parameter known and given once, values parsed with their names in the error.

use std::collections::BTreeMap;

use actix_web::HttpRequest;

use super::cursor::{self, List};
use super::problem::Problem;
use crate::domain::ids::TenantNo;
use crate::domain::time::Timestamp;
use crate::store::list::{From, Page};

/// Rows on a page.
pub const DEFAULT_LIMIT: i64 = 50;
pub const MAX_LIMIT: i64 = 250;

/// The parameters of one request.
#[derive(Debug)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Parses the query string; unknown and repeated parameters are refused by name.
    pub fn parse(request: &HttpRequest, known: &[&str]) -> Result<Query, Problem> {
        Self::parse_text(request.query_string(), known)
    }

    fn parse_text(text: &str, known: &[&str]) -> Result<Query, Problem> {
        let mut parameters = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            if !known.contains(&name.as_ref()) {
                let message = match known {
                    [] => "this path takes no query parameters".to_owned(),
                    _ => format!("is not known here; known are {}", known.join(", ")),
                };
                return Err(Problem::field(name, message));
            }
            if parameters.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(Problem::field(name, "was given twice"));
            }
        }
        Ok(Query(parameters))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A value through `parse`, whose failure means that it is not `what`.
    pub fn parsed<T>(&self, name: &str, what: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
        let wrong = |text: &str| {
            Problem::field(name, format!("`{}` is not {what}", crate::domain::field_error::shortened(text)))
        };
        self.text(name).map(|text| parse(text).ok_or_else(|| wrong(text))).transpose()
    }

    /// An instant. A `+` that was not percent-encoded arrives as a space; it is read as what it was meant to be (C75).
    pub fn instant(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let parse = |text: &str| Timestamp::parse(&text.trim_end().replace(' ', "+"));
        self.parsed(name, "a time such as 2026-09-03T12:04:01Z", parse)
    }

    /// `true` or `false`.
    pub fn flag(&self, name: &str) -> Result<bool, Problem> {
        let parse = |text: &str| match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        Ok(self.parsed(name, "true or false", parse)?.unwrap_or(false))
    }

    /// The page that `limit`, `cursor` and `updated_after` ask for.
    pub fn page(&self, tenant: TenantNo, list: List) -> Result<Page, Problem> {
        let parse = |text: &str| text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
        let what = format!("a number from 1 to {MAX_LIMIT}");
        let limit = self.parsed("limit", &what, parse)?.unwrap_or(DEFAULT_LIMIT);
        let cursor = self.parsed("cursor", "a cursor of this list", |text| cursor::decode(list, text))?;
        let changed = self.instant("updated_after")?.map(|after| From::Changed { after, no: i64::MAX });
        let from = match (cursor, changed) {
            (Some(From::Newest { .. }), Some(_)) => {
                return Err(Problem::field("cursor", "is of the list without updated_after"));
            }
            (Some(from), _) => from,
            (None, Some(from)) => from,
            (None, None) => From::Newest { before: None },
        };
        Ok(Page { tenant, from, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Result<Page, String> {
        let query =
            Query::parse_text(text, &["limit", "cursor", "updated_after"]).map_err(|error| error.to_string())?;
        query.page(TenantNo(1), List::Deliveries).map_err(|error| error.to_string())
    }

    #[test]
    fn c75_bad_limits_unknown_and_repeated_parameters_are_named() {
        assert_eq!(page("").unwrap().limit, DEFAULT_LIMIT);
        assert_eq!(page("limit=250").unwrap().limit, 250);
        for (bad, name) in [
            ("limit=0", "limit"),
            ("limit=-1", "limit"),
            ("limit=1000000000", "limit"),
            ("limit=abc", "limit"),
            ("limit=5&limit=5", "limit"),
            ("lim=5", "lim"),
            ("cursor=x", "cursor"),
            ("updated_after=soon", "updated_after"),
        ] {
            assert!(page(bad).unwrap_err().contains(name), "{bad}");
        }
    }

    #[test]
    fn c75_a_plus_in_a_time_may_be_unescaped() {
        let From::Changed { after, .. } = page("updated_after=2026-03-29T02:30:00+02:00").unwrap().from else {
            panic!()
        };
        assert_eq!(after.to_string(), "2026-03-29T00:30:00.000000Z");
    }
}
