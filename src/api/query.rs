//! Query strings: every parameter is known, comes once and is what it should be, or the answer is a 400 that names each
//! one that is not.

use actix_web::HttpRequest;

use super::cursor::{self, List};
use super::limits;
use super::problem::Problem;
use crate::domain::event_type::EventType;
use crate::domain::field_error::{FieldErrors, shortened};
use crate::domain::ids::TenantNo;
use crate::domain::time::Timestamp;
use crate::store::list::{From, Page};

/// The parameters of a request. A reader that finds a fault notes it; [`finish`](Self::finish) tells them all.
#[derive(Debug)]
pub struct Query {
    values: Vec<(String, String)>,
    errors: FieldErrors,
}

impl Query {
    /// Reads the query string of a request that may have these parameters.
    pub fn of(request: &HttpRequest, known: &[&str]) -> Query {
        Query::parse(request.query_string(), known)
    }

    /// For routes without parameters.
    pub fn none(request: &HttpRequest) -> Result<(), Problem> {
        Query::of(request, &[]).finish()
    }

    fn parse(text: &str, known: &[&str]) -> Query {
        let mut query = Query { values: Vec::new(), errors: FieldErrors::default() };
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            if !known.contains(&&*name) {
                let message = match known {
                    [] => "This path takes no query parameters.".into(),
                    _ => format!("This parameter is not known; known are {}.", known.join(", ")),
                };
                query.errors.push(shortened(&name), message);
            } else if query.get(&name).is_some() {
                query.errors.push(name, "This parameter is given more than once.");
            } else {
                query.values.push((name.into_owned(), value.into_owned()));
            }
        }
        query
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Tells every fault that was found.
    pub fn finish(self) -> Result<(), Problem> {
        self.errors.finish(Some(())).map_err(Problem::invalid)
    }

    /// A value through `read`, whose error is a sentence.
    pub fn read<T, E: Into<String>>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        match self.get(name).map(read)? {
            Ok(value) => Some(value),
            Err(message) => {
                self.errors.push(name, message);
                None
            }
        }
    }

    /// Any text that could be an id; whether there is such a thing is not asked here.
    pub fn id(&mut self, name: &str) -> Option<String> {
        self.read(name, |text| match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(text.to_owned()),
            false => Err("This must be an id."),
        })
    }

    pub fn event_type(&mut self, name: &str) -> Option<EventType> {
        self.read(name, EventType::parse)
    }

    /// A word of a closed list.
    pub fn word<T: Copy>(&mut self, name: &str, all: &[T], as_str: fn(T) -> &'static str) -> Option<T> {
        self.read(name, |text| {
            let words = || all.iter().map(|&word| as_str(word)).collect::<Vec<_>>().join(", ");
            let found = all.iter().copied().find(|&word| as_str(word) == text);
            found.ok_or_else(|| format!("'{}' is not one of {}.", shortened(text), words()))
        })
    }

    pub fn flag(&mut self, name: &str) -> Option<bool> {
        self.word(name, &[true, false], |yes| if yes { "true" } else { "false" })
    }

    /// A whole number in digits only.
    pub fn number(&mut self, name: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        self.read(name, |text| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|number| digits && range.contains(number));
            number.ok_or_else(|| format!("A whole number from {} to {} is needed.", range.start(), range.end()))
        })
    }

    /// An instant, RFC 3339 with any offset. A `+` that was not percent-encoded arrives as a space where the offset's
    /// sign should be; what it meant is beyond doubt, so it is read as such (C75).
    pub fn instant(&mut self, name: &str) -> Option<Timestamp> {
        self.read(name, |text| {
            let sign = text.len().checked_sub("+00:00".len()).filter(|&at| text.as_bytes()[at] == b' ');
            let parsed = match sign {
                Some(at) => Timestamp::parse(&format!("{}+{}", &text[..at], &text[at + 1..])),
                None => Timestamp::parse(text),
            };
            parsed.ok_or("A time as in RFC 3339 is needed, such as 2026-09-03T12:04:01Z.")
        })
    }

    /// The pair `created_after` and `created_before`, both exclusive.
    pub fn created(&mut self) -> (Option<Timestamp>, Option<Timestamp>) {
        let (after, before) = (self.instant("created_after"), self.instant("created_before"));
        if let (Some(after), Some(before)) = (after, before)
            && before <= after
        {
            self.errors.push("created_before", "This must be later than created_after.");
        }
        (after, before)
    }

    /// Which page `limit`, `cursor` and `updated_after` ask for. A cursor says by itself in which order it goes on, so
    /// with one `updated_after` may stay in the query or go.
    pub fn page(&mut self, tenant: TenantNo, list: List) -> Page {
        let limit = self.number("limit", limits::PAGE).unwrap_or(limits::DEFAULT_PAGE);
        let changed = self.instant("updated_after");
        let cursor = self.read("cursor", |text| {
            let place = cursor::decode(list, text).ok_or("This is not a cursor of this list.")?;
            match (place, changed) {
                (From::Newest { .. }, Some(_)) => Err("This cursor is of the list without updated_after."),
                _ => Ok(place),
            }
        });
        // All that changed at that very instant is before it: numbers are smaller than this one.
        let changed = changed.map(|after| From::Changed { after, no: i64::MAX });
        Page { tenant, from: cursor.or(changed).unwrap_or(From::Newest { before: None }), limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KNOWN: [&str; 6] = ["limit", "cursor", "updated_after", "unread", "created_after", "created_before"];

    fn page(text: &str) -> Result<Page, Vec<String>> {
        let mut query = Query::parse(text, &KNOWN);
        let page = query.page(TenantNo(1), List::Events);
        query.flag("unread");
        query.created();
        let faults = |problem: Problem| problem.errors().iter().map(|error| error.field.clone()).collect();
        query.finish().map(|()| page).map_err(faults)
    }

    #[test]
    fn c75_bad_values_are_named() {
        let check = |text: &str, faults: &[&str]| assert_eq!(page(text).err().unwrap_or_default(), faults, "{text}");
        check("", &[]);
        check("limit=1&unread=true", &[]);
        check("limit=250", &[]);
        for bad in ["0", "-1", "+5", "251", "1000000000", "99999999999999999999", "abc", "", "1.5", "٥"] {
            check(&format!("limit={bad}"), &["limit"]);
        }
        check("limit=5&limit=5", &["limit"]);
        check("lim=5&x=1", &["lim", "x"]);
        check("unread=1", &["unread"]);
        check("cursor=", &["cursor"]);
        check("cursor=x&updated_after=soon&limit=x", &["limit", "updated_after", "cursor"]);
        check("created_after=2026-01-02T00:00:00Z&created_before=2026-01-01T00:00:00Z", &["created_before"]);
        check("created_after=2026-01-02T00:00:00Z&created_before=2026-01-02T00:00:00Z", &["created_before"]);
        check("created_after=2026-01-02T00:00:00Z&created_before=2026-01-02T00:00:00.000001Z", &[]);
    }

    #[test]
    fn c75_a_plus_may_be_left_unescaped() {
        let check = |text: &str, wanted: Option<&str>| {
            let from = page(&format!("updated_after={text}")).map(|page| page.from);
            let wanted = wanted.and_then(Timestamp::parse).map(|after| From::Changed { after, no: i64::MAX });
            assert_eq!(from.ok(), wanted, "{text}");
        };
        check("2026-03-29T02:30:00+02:00", Some("2026-03-29T00:30:00Z"));
        check("2026-03-29T02:30:00%2B02:00", Some("2026-03-29T00:30:00Z"));
        check("2026-03-29T02:30:00-02:00", Some("2026-03-29T04:30:00Z"));
        check("2026-03-29T00:30:00.5Z", Some("2026-03-29T00:30:00.5Z"));
        check("2026-03-29T02:30:00", None);
        check("2026-03-29", None);
        check("1774744200", None);
        check("", None);
        check("é:00:00", None);
    }

    #[test]
    fn a_cursor_goes_on_in_its_own_order() {
        let newest = cursor::encode(List::Events, From::Newest { before: Some(7) });
        let place = From::Changed { after: Timestamp::from_micros(5), no: 7 };
        let changed = cursor::encode(List::Events, place);
        assert_eq!(page(&format!("cursor={newest}")).unwrap().from, From::Newest { before: Some(7) });
        assert_eq!(page(&format!("cursor={changed}")).unwrap().from, place);
        let both = "&updated_after=2026-01-01T00:00:00Z";
        assert_eq!(page(&format!("cursor={changed}{both}")).unwrap().from, place);
        assert_eq!(page(&format!("cursor={newest}{both}")).unwrap_err(), ["cursor"]);
        let other = cursor::encode(List::Dlq, place);
        assert_eq!(page(&format!("cursor={other}")).unwrap_err(), ["cursor"]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}|(limit|cursor|updated_after)=[-+ %0-9a-zA-Z:]{0,40}") {
            let _ = page(&text);
        }
    }
}
