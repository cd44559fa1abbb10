//! HTTP/2 of a connection without its socket.

use super::*;

#[test]
fn a_response_is_a_message_or_wrong() {
    let mut message = Vec::new();
    let mut of = |status, is_dns, body: &[u8]| match judged(0x0102, (status, is_dns), body, &mut message)
    {
        Arrived::Message(message) => Ok(message.to_vec()),
        Arrived::Wrong { key, cause } => Err((key, cause)),
    };
    assert_eq!(of(200, true, &[0, 0, 0x80, 7]), Ok(vec![1, 2, 0x80, 7]));
    assert_eq!(of(206, true, &[0, 0]), Ok(vec![1, 2]));
    assert_eq!(of(304, true, &[0, 0]), Err((0x0102, Cause::Status(304))));
    assert_eq!(of(200, false, &[0, 0]), Err((0x0102, Cause::ContentType)));
    assert_eq!(of(200, true, &[1, 2, 3]), Err((0x0102, Cause::Id)));
    assert_eq!(of(200, true, &[0]), Err((0x0102, Cause::Short)));
}
