//! An answer of the API: the text that came, and what it says.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::Failure;
use crate::domain::excerpt::escape_for_terminal;

/// How much is shown of an answer that is none of the API's, in bytes.
const SHOWN_BYTES: usize = 200;

/// The members of an object, each as it was written.
pub type Row = BTreeMap<String, Box<RawValue>>;

/// A success.
#[derive(Debug)]
pub struct Answer {
    /// As it came; empty if there is nothing to say (204).
    pub text: String,
    pub value: Value,
}

impl Answer {
    /// Reads what `api` answered to a request, which had a key or not.
    ///
    /// # Errors
    /// Anything but success, told in the API's words; or something that no Posthaste server says.
    pub fn read(api: &str, has_key: bool, status: u16, body: &[u8]) -> Result<Answer, Failure> {
        let text = String::from_utf8_lossy(body).into_owned();
        let value = serde_json::from_slice(body).ok().filter(Value::is_object);
        match (status, value) {
            (200..=299, Some(value)) => Ok(Answer { text, value }),
            (204, None) => Ok(Answer { text: String::new(), value: Value::Null }),
            (401, Some(problem)) if !has_key && problem["code"].is_string() => {
                Err("401 unauthorized: give the API key with --api-key, or in POSTHASTE_API_KEY".into())
            }
            (300.., Some(problem)) if problem["code"].is_string() => Err(refusal(status, &problem).into()),
            _ => Err(stranger(api, status, body).into()),
        }
    }

    /// The objects in the list of this name; none if there is no such list.
    pub fn rows(&self, list: &str) -> Result<Vec<Row>, Failure> {
        let mut answer = self.row()?;
        Ok(answer.remove(list).map(|list| serde_json::from_str(list.get())).transpose()?.unwrap_or_default())
    }

    /// The answer itself as a row.
    pub fn row(&self) -> Result<Row, Failure> {
        Ok(serde_json::from_str(&self.text)?)
    }
}

/// What a problem answer says: its sentence, or all faults if there are several.
fn refusal(status: u16, problem: &Value) -> String {
    let word = |value: &Value| escape_for_terminal(value.as_str().unwrap_or_default().as_bytes());
    let faults = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let told = match faults {
        [] | [_] => format!(" {}", word(&problem["detail"])),
        faults => {
            let line = |fault: &Value| format!("\n           {}: {}", word(&fault["field"]), word(&fault["message"]));
            faults.iter().map(line).collect()
        }
    };
    format!("{status} {}:{told}", word(&problem["code"]))
}

fn stranger(api: &str, status: u16, body: &[u8]) -> String {
    let shown = match body {
        [] => "it is empty".into(),
        body => {
            let beginning = escape_for_terminal(&body[..body.len().min(SHOWN_BYTES)]);
            format!("it {} `{beginning}`", if body.len() > SHOWN_BYTES { "begins" } else { "says" })
        }
    };
    format!("{api} answers {status}, but this is no answer of a Posthaste server: {shown}. Is --url right?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(has_key: bool, status: u16, body: &str) -> String {
        Answer::read("http://r.test", has_key, status, body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn problems_are_told_in_the_apis_words() {
        let one = r#"{"code":"not_found","detail":"There is no such \u001b[2J.","errors":[]}"#;
        assert_eq!(fault(true, 404, one), "404 not_found: There is no such \\u{1b}[2J.");
        let two = r#"{"code":"validation","detail":"2 faults","errors":[{"field":"a","message":"No."},{"field":"b","message":"Nor this."}]}"#;
        assert_eq!(fault(true, 400, two), "400 validation:\n           a: No.\n           b: Nor this.");
        let key = r#"{"code":"unauthorized","detail":"Send the key as X-API-Key."}"#;
        assert!(fault(false, 401, key).contains("--api-key") && fault(false, 401, key).contains("POSTHASTE_API_KEY"));
        assert_eq!(fault(true, 401, key), "401 unauthorized: Send the key as X-API-Key.");
    }

    #[test]
    fn a_stranger_is_not_taken_for_the_api() {
        let says = "but this is no answer of a Posthaste server: it";
        for (status, body, shown) in [
            (503, "", "is empty"),
            (503, "<b>\u{1b}[2J", r"says `<b>\u{1b}[2J`"),
            (502, r#"{"message":"no"}"#, r#"says `{"message":"no"}`"#),
            (401, "login", "says `login`"),
            (200, "<html>", "says `<html>`"),
            (200, "[]", "says `[]`"),
            (200, "", "is empty"),
        ] {
            let told = fault(false, status, body);
            assert!(told.starts_with(&format!("http://r.test answers {status}, {says} {shown}.")), "{told}");
        }
        let told = fault(true, 500, &"x".repeat(5_000));
        assert!(told.contains(&format!("it begins `{}`.", "x".repeat(SHOWN_BYTES))), "{told}");
    }

    #[test]
    fn rows_are_what_was_written() {
        let answer = Answer::read("", true, 200, br#"{"data":[{"b":{"z":1.0,"a":2}}]}"#).unwrap();
        assert_eq!(answer.rows("data").unwrap()[0]["b"].get(), r#"{"z":1.0,"a":2}"#);
        assert!(answer.rows("deliveries").unwrap().is_empty());
        let nothing = Answer::read("", true, 204, b"").unwrap();
        assert_eq!((nothing.text.as_str(), nothing.value), ("", Value::Null));
    }
}
