use proptest::prelude::*;

use super::*;

/// The example that the Standard Webhooks libraries are tested with.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const TIME: i64 = 1_614_265_330;
const BODY: &[u8] = br#"{"test": 2432232314}"#;
const STANDARD_SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
const HEX: &str = "2e37df5d4a028c51a7f3133d64ae1e300d2c2c900f1b1d49d4369ad2530f8964";

/// 64 bytes, 0 to 63.
const OTHER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";

fn secret(text: &str) -> SigningSecret {
    SigningSecret::parse(text).unwrap()
}

fn standard(signature: &str) -> Result<(), VerifyError> {
    verify_standard(ID, &TIME.to_string(), signature, BODY, &[&secret(SECRET)], TIME + 5, DEFAULT_TOLERANCE)
}

fn timestamped(signature: &str) -> Result<(), VerifyError> {
    verify_timestamped(signature, BODY, &[&secret(SECRET)], TIME + 5, DEFAULT_TOLERANCE)
}

#[test]
fn the_published_example_computes() {
    assert_eq!(sign_standard(ID, TIME, BODY, &[&secret(SECRET)]), STANDARD_SIGNATURE);
    assert_eq!(standard(STANDARD_SIGNATURE), Ok(()));
}

/// Computed with Python's `hmac`, from the raw UTF-8 bytes. C20: an empty body is signed too. C35: nothing is
/// normalised.
#[test]
fn agrees_with_an_independent_implementation() {
    let check = |text: &str, id: &str, time: i64, body: &str, base64: &str, hex: &str| {
        let secret = secret(text);
        assert_eq!(sign_standard(id, time, body.as_bytes(), &[&secret]), format!("v1,{base64}"));
        assert_eq!(sign_timestamped(time, body.as_bytes(), &[&secret]), format!("t={time},v1={hex}"));
    };
    let body = std::str::from_utf8(BODY).unwrap();
    check(SECRET, ID, TIME, body, &STANDARD_SIGNATURE[3..], HEX);
    check(
        OTHER,
        "evt_1",
        1_788_445_441,
        "{\"s\":\"😀 é e\u{301} \u{2028}\"}",
        "et7aM5qqHzO6DT0jSVE8dgj59rnBkOc2M8XcsrNz9Mo=",
        "c49dfade433efcab4f4aeb7dfe1386bb4528b7dd00d9a29b7094aa69a89f6987",
    );
    check(
        OTHER,
        "evt_1",
        1_788_445_441,
        "",
        "hsvkNDdqjmIoncJnw7UGm+gcse+rYTYckrt6DyPjkCM=",
        "a7a95c31eeb5fb8f7360cc014c266f961e9cc5d17a074038a2ccb05d86154bdf",
    );
}

#[test]
fn s23_every_valid_secret_signs_newest_first() {
    let (new, old) = (secret(OTHER), secret(SECRET));
    let both = sign_standard(ID, TIME, BODY, &[&new, &old]);
    assert!(both.ends_with(&format!(" {STANDARD_SIGNATURE}")), "{both}");
    assert_eq!(standard(&both), Ok(()));
    let both = sign_timestamped(TIME, BODY, &[&new, &old]);
    assert!(both.starts_with("t=1614265330,v1=") && both.ends_with(&format!(",v1={HEX}")), "{both}");
    assert_eq!(timestamped(&both), Ok(()));
}

/// C39: what is not a whole signature of this version is none.
#[test]
fn rejects_what_is_no_whole_signature() {
    use VerifyError::*;
    let check = |signature: &str, error: VerifyError| assert_eq!(standard(signature), Err(error), "{signature:?}");
    check("", NoSignature);
    check("   ", NoSignature);
    check("v2,x", NoSignature);
    check("v1", NoSignature);
    check(&STANDARD_SIGNATURE[3..], NoSignature);
    check(&STANDARD_SIGNATURE.replace("v1,", "v2,"), NoSignature);
    check(&STANDARD_SIGNATURE.replace("v1,", "V1,"), NoSignature);
    check("v1,", Mismatch);
    for end in 4..STANDARD_SIGNATURE.len() {
        check(&STANDARD_SIGNATURE[..end], Mismatch);
    }
    check(&format!("{STANDARD_SIGNATURE}="), Mismatch);
    check(&format!("{STANDARD_SIGNATURE}\n"), Mismatch);
    check(&format!("{STANDARD_SIGNATURE},v1,x"), Mismatch);
    check("v1,é😀", Mismatch);
    check("é v1,\0", Mismatch);
    // Even with the right one at the end, and without reading it all.
    check(&("v1,x ".repeat(10_000) + STANDARD_SIGNATURE), TooManySignatures);
    assert_eq!(standard(&("v1,x ".repeat(MAX_SIGNATURES - 1) + STANDARD_SIGNATURE)), Ok(()));
    assert_eq!(standard(&format!("v1a,x  v1,  {STANDARD_SIGNATURE} v2,y")), Ok(()));
}

/// C39.
#[test]
fn rejects_what_is_no_whole_timestamped_signature() {
    use VerifyError::*;
    const FORM: VerifyError = Malformed("t=<seconds>,v1=<hex>[,v1=<hex>]");
    let check = |signature: &str, error: VerifyError| assert_eq!(timestamped(signature), Err(error), "{signature:?}");
    check("", FORM);
    check("é", FORM);
    check(&format!("v1={HEX}"), FORM);
    check(&format!("t={TIME},t={TIME},v1={HEX}"), FORM);
    check(&format!("t={TIME},v1={HEX},"), FORM);
    check(&format!("t={TIME}"), NoSignature);
    check(&format!("t={TIME},v2={HEX}"), NoSignature);
    check(&format!("t={TIME},v1="), Mismatch);
    check(&format!("t={TIME},v1={}", &HEX[..63]), Mismatch);
    check(&format!("t={TIME},v1={}", HEX.to_uppercase()), Mismatch);
    check(&format!("t=0{TIME},v1={HEX}"), Mismatch);
    check(&format!("t={},v1={HEX}", TIME + 1), Mismatch);
    check(&format!("t=+{TIME},v1={HEX}"), Timestamp);
    check(&format!("t= {TIME},v1={HEX}"), Timestamp);
    check(&format!("t={TIME}{},v1={HEX}", ",v1=x".repeat(10_000)), TooManySignatures);
    assert_eq!(timestamped(&format!("v0=x,v1=y,t={TIME},v1={HEX}")), Ok(()));
}

#[test]
fn rejects_another_id_body_secret_or_timestamp() {
    let check = |id: &str, time: &str, body: &[u8], text: &str, error: VerifyError| {
        let result = verify_standard(id, time, STANDARD_SIGNATURE, body, &[&secret(text)], TIME, DEFAULT_TOLERANCE);
        assert_eq!(result, Err(error), "{id} {time}");
    };
    let time = TIME.to_string();
    check("msg_other", &time, BODY, SECRET, VerifyError::Mismatch);
    check(ID, "1614265331", BODY, SECRET, VerifyError::Mismatch);
    check(ID, &time, br#"{"test":2432232314}"#, SECRET, VerifyError::Mismatch);
    check(ID, &time, BODY, OTHER, VerifyError::Mismatch);
    // C40: the dots of the signed text cannot be moved.
    check(&format!("{ID}.{TIME}"), &time, BODY, SECRET, VerifyError::Id);
    check("", &time, BODY, SECRET, VerifyError::Id);
    check("é", &time, BODY, SECRET, VerifyError::Id);
    for bad in ["", "soon", "-5", "1.5", "99999999999999999999", "１"] {
        check(ID, bad, BODY, SECRET, VerifyError::Timestamp);
    }
    let no_secret = verify_standard(ID, &time, STANDARD_SIGNATURE, BODY, &[], TIME, DEFAULT_TOLERANCE);
    assert_eq!(no_secret, Err(VerifyError::Mismatch));
}

/// C38 as the receiver sees it.
#[test]
fn rejects_a_timestamp_outside_the_tolerance() {
    let check = |now: i64, result: Result<(), VerifyError>| {
        let secret = secret(SECRET);
        let standard =
            verify_standard(ID, &TIME.to_string(), STANDARD_SIGNATURE, BODY, &[&secret], now, DEFAULT_TOLERANCE);
        assert_eq!(standard, result);
        let header = format!("t={TIME},v1={HEX}");
        assert_eq!(verify_timestamped(&header, BODY, &[&secret], now, DEFAULT_TOLERANCE), result);
    };
    let old = |by| Err(VerifyError::TooOld { by, tolerance: 300 });
    let new = |by| Err(VerifyError::TooNew { by, tolerance: 300 });
    check(TIME + 300, Ok(()));
    check(TIME - 300, Ok(()));
    check(TIME + 301, old(301));
    check(TIME - 301, new(301));
    check(i64::MAX, old(i64::MAX.abs_diff(TIME)));
    check(i64::MIN, new(i64::MIN.abs_diff(TIME)));
}

proptest! {
    #[test]
    fn what_is_signed_verifies(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        id in "[A-Za-z0-9_-]{1,64}",
        time in 0..i64::MAX,
        valid in 1..=5_u8,
        used in 0..5_u8,
    ) {
        let secrets: Vec<_> = (0..valid).map(|number| SigningSecret::generate([number; 32])).collect();
        let secrets: Vec<_> = secrets.iter().collect();
        let one = [secrets[usize::from(used % valid)]];
        let header = sign_standard(&id, time, &body, &secrets);
        prop_assert_eq!(verify_standard(&id, &time.to_string(), &header, &body, &one, time, Span::ZERO), Ok(()));
        let header = sign_timestamped(time, &body, &secrets);
        prop_assert_eq!(verify_timestamped(&header, &body, &one, time, Span::ZERO), Ok(()));
    }

    #[test]
    fn nothing_made_up_verifies_or_panics(
        id: String,
        time in "[0-9]{0,20}|.*",
        header in "(v1[,=]|t=|[ ,]|[a-z0-9+/=]{0,9}|é)*",
    ) {
        prop_assert!(verify_standard(&id, &time, &header, BODY, &[&secret(SECRET)], TIME, Span::MAX).is_err());
        prop_assert!(verify_timestamped(&header, BODY, &[&secret(SECRET)], TIME, Span::MAX).is_err());
    }
}
