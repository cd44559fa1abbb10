//! Signatures by ECDSA on P-256 (FIPS 186-5, section 6.4) that are the same on every machine. Libraries draw a random number
//! for each signature; here the number follows from the key and the digest. aws-lc computes the points.
//!
//! The keys follow from a seed that everybody may know, so nothing here has to keep them secret.

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::digest::{Context, SHA256};

/// A number of 256 bits, its lowest 64 first.
type Number = [u64; 4];

/// The order of the curve's base point (SEC 2, section 2.4.2).
const ORDER: Number =
    [0xf3b9_cac2_fc63_2551, 0xbce6_faad_a717_9e84, 0xffff_ffff_ffff_ffff, 0xffff_ffff_0000_0000];
/// -1 / order modulo 2^64.
const ORDER_INVERSE: u64 = 0xccd1_c8aa_ee00_bc4f;
/// 2^512 modulo the order.
const SQUARE: Number =
    [0x8324_4c95_be79_eea2, 0x4699_799c_49bd_6fa6, 0x2845_b239_2b6b_ec59, 0x66e1_2d94_f3d9_5620];
const ONE: Number = [1, 0, 0, 0];

/// A private key for these parts of a text: the first number from 1 to the order that their hashes give.
pub(crate) fn private_key(parts: &[&[u8]]) -> [u8; 32] {
    let hashes = (0_u8..).map(|attempt| hash(parts, attempt));
    hashes.into_iter().find(is_in_range).unwrap_or([1; 32])
}

/// The public key: the two coordinates of its point. `None` if the private key is out of its range.
pub(crate) fn public_key(private: &[u8; 32]) -> Option<[u8; 64]> {
    let point = PrivateKey::from_private_key(&ECDH_P256, private).ok()?.compute_public_key().ok()?;
    point.as_ref().get(1..)?.try_into().ok()
}

/// The signature of a digest: *r* and *s*. `None` if the private key is out of its range.
pub(crate) fn sign(private: &[u8; 32], digest: &[u8; 32]) -> Option<[u8; 64]> {
    let secret = number(private);
    let mut attempt = 0_u8;
    loop {
        let nonce = hash(&[private, digest], attempt);
        attempt = attempt.checked_add(1)?;
        if !is_in_range(&nonce) {
            continue;
        }
        let point = public_key(&nonce)?;
        let r = reduced(number(point.first_chunk()?));
        let with_key = add(reduced(number(digest)), times(r, secret));
        let s = times(inverse(number(&nonce)), with_key);
        if r == [0; 4] || s == [0; 4] {
            continue;
        }
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&bytes(r));
        signature[32..].copy_from_slice(&bytes(s));
        return Some(signature);
    }
}

fn hash(parts: &[&[u8]], attempt: u8) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    context.update(&[attempt]);
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn number(bytes: &[u8; 32]) -> Number {
    let mut number = [0; 4];
    for (limb, bytes) in number.iter_mut().rev().zip(bytes.as_chunks().0) {
        *limb = u64::from_be_bytes(*bytes);
    }
    number
}

fn bytes(number: Number) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (limb, bytes) in number.iter().rev().zip(bytes.as_chunks_mut().0) {
        *bytes = limb.to_be_bytes();
    }
    bytes
}

fn is_in_range(bytes: &[u8; 32]) -> bool {
    let number = number(bytes);
    number != [0; 4] && subtract(number, ORDER).1
}

/// The difference modulo 2^256, and whether it is below 0.
fn subtract(one: Number, other: Number) -> (Number, bool) {
    let mut result = [0; 4];
    let mut is_below = false;
    for place in 0..4 {
        let (difference, first) = one[place].overflowing_sub(other[place]);
        let (difference, second) = difference.overflowing_sub(u64::from(is_below));
        (result[place], is_below) = (difference, first || second);
    }
    (result, is_below)
}

/// A number below 2^256 modulo the order, which is above 2^255.
fn reduced(number: Number) -> Number {
    let (less, is_below) = subtract(number, ORDER);
    if is_below { number } else { less }
}

/// The sum of two numbers below the order, modulo the order.
fn add(one: Number, other: Number) -> Number {
    let (complement, _) = subtract(ORDER, other);
    let (difference, is_below) = subtract(one, complement);
    if !is_below {
        return difference;
    }
    subtract(difference, [ORDER[0].wrapping_neg(), !ORDER[1], !ORDER[2], !ORDER[3]]).0
}

/// The product divided by 2^256, modulo the order (Montgomery 1985).
fn montgomery(one: Number, other: Number) -> Number {
    let split = |wide: u128| (wide as u64, (wide >> 64) as u64);
    let mut sum = [0_u64; 5];
    for limb in other {
        let mut carry = 0;
        for place in 0..4 {
            let wide = u128::from(sum[place]) + u128::from(one[place]) * u128::from(limb) + u128::from(carry);
            (sum[place], carry) = split(wide);
        }
        let (top, over) = split(u128::from(sum[4]) + u128::from(carry));
        let factor = sum[0].wrapping_mul(ORDER_INVERSE);
        let (_, mut carry) = split(u128::from(sum[0]) + u128::from(factor) * u128::from(ORDER[0]));
        for place in 1..4 {
            let wide =
                u128::from(sum[place]) + u128::from(factor) * u128::from(ORDER[place]) + u128::from(carry);
            (sum[place - 1], carry) = split(wide);
        }
        let (low, high) = split(u128::from(top) + u128::from(carry));
        (sum[3], sum[4]) = (low, over + high);
    }
    let low = [sum[0], sum[1], sum[2], sum[3]];
    let (less, is_below) = subtract(low, ORDER);
    if sum[4] == 0 && is_below { low } else { less }
}

fn times(one: Number, other: Number) -> Number {
    montgomery(montgomery(one, SQUARE), other)
}

/// 1 / number, as the power by order - 2.
fn inverse(number: Number) -> Number {
    let (exponent, _) = subtract(ORDER, [2, 0, 0, 0]);
    let base = montgomery(number, SQUARE);
    let mut power = montgomery(ONE, SQUARE);
    for bit in (0..256).rev() {
        power = montgomery(power, power);
        if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
            power = montgomery(power, base);
        }
    }
    montgomery(power, ONE)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::digest;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn another_implementation_accepts_the_signatures() {
        for round in 0_u32..50 {
            let private = private_key(&[&round.to_be_bytes()]);
            let message = format!("message {round}");
            let hashed: [u8; 32] = digest(&SHA256, message.as_bytes()).as_ref().try_into().unwrap();
            let signature = sign(&private, &hashed).unwrap();
            assert_eq!(Some(signature), sign(&private, &hashed), "they are always the same");
            let public = [&[4][..], &public_key(&private).unwrap()].concat();
            let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public);
            public.verify(message.as_bytes(), &signature).unwrap();
            assert!(public.verify(b"another message", &signature).is_err());
        }
    }

    #[test]
    fn numbers_are_computed_modulo_the_order() {
        let (greatest, _) = subtract(ORDER, ONE);
        assert_eq!(times(greatest, greatest), ONE, "-1 * -1");
        assert_eq!(add(greatest, ONE), [0; 4]);
        assert_eq!(add(greatest, greatest), subtract(greatest, ONE).0);
        assert_eq!(times(inverse([7, 0, 0, 0]), [7, 0, 0, 0]), ONE);
        assert_eq!(reduced(ORDER), [0; 4]);
    }
}
