//! Grant tokens: `tg_`, 43 random letters and digits (256 bits), and a checksum of 6, which
//! distinguishes a mistyped token from an unknown one. Only the SHA-256 of a token is stored.

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::hex;
use crate::random::{Random, RandomError};
use crate::secret::{SHOWN, Secret};

pub const TOKEN_PREFIX: &str = "tg_";
pub const TOKEN_RANDOM_CHARS: usize = 43;
pub const TOKEN_CHECK_CHARS: usize = 6;
/// The whole token, in ASCII.
pub const TOKEN_BYTES: usize = TOKEN_PREFIX.len() + TOKEN_RANDOM_CHARS + TOKEN_CHECK_CHARS;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A token in clear: shown to the owner once, or presented by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(Secret);

/// Why a text is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    #[error("this is not a tollgate token\nhint: a token is `tg_` and {} letters and digits", TOKEN_RANDOM_CHARS + TOKEN_CHECK_CHARS)]
    NotAToken,
    #[error("this token has a typing mistake\nhint: copy it again from where it was shown")]
    Mistyped,
}

/// SHA-256 of a token. The token has 256 random bits, so a slow hash would not add protection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenHash([u8; 32]);

impl Token {
    /// A fresh token.
    pub fn generate(random: &Random) -> Result<Token, RandomError> {
        let mut text = Zeroizing::new(String::with_capacity(TOKEN_BYTES));
        text.push_str(TOKEN_PREFIX);
        push_random(&mut text, TOKEN_RANDOM_CHARS, random)?;
        let check = check_chars(&text);
        text.extend(check.map(char::from));
        Ok(Token(Secret::new(text.as_str())))
    }

    /// Parses a presented token; does not check whether it belongs to a grant.
    pub fn parse(text: &str) -> Result<Token, TokenFault> {
        Token::check(text).map(|()| Token(Secret::new(text)))
    }

    /// The hash of a presented token, without keeping the token.
    pub fn hash_of(text: &str) -> Result<TokenHash, TokenFault> {
        Token::check(text).map(|()| TokenHash::of(text))
    }

    fn check(text: &str) -> Result<(), TokenFault> {
        let is_ours = text.len() == TOKEN_BYTES
            && text.strip_prefix(TOKEN_PREFIX).is_some_and(|rest| rest.bytes().all(in_alphabet));
        let (body, check) = text
            .split_at_checked(TOKEN_BYTES - TOKEN_CHECK_CHARS)
            .filter(|_| is_ours)
            .ok_or(TokenFault::NotAToken)?;
        if check_chars(body).ct_eq(check.as_bytes()).into() {
            Ok(())
        } else {
            Err(TokenFault::Mistyped)
        }
    }

    /// The token itself, to be shown once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.expose())
    }
}

impl TokenHash {
    fn of(token: &str) -> TokenHash {
        TokenHash(Sha256::digest(token.as_bytes()).into())
    }

    /// From 64 hexadecimal digits, as in `tollgate.toml`.
    pub fn from_hex(text: &str) -> Option<TokenHash> {
        hex::decode(text).map(TokenHash)
    }

    pub fn to_hex(self) -> String {
        hex::encode(&self.0)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<TokenHash> {
        bytes.try_into().ok().map(TokenHash)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Constant-time comparison.
    pub(crate) fn same(&self, other: &TokenHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({}…)", hex::encode(self.0.get(..4).unwrap_or_default()))
    }
}

/// Whether a text contains a token, also between other letters and digits.
pub fn has_token(text: &str) -> bool {
    text.match_indices(TOKEN_PREFIX).any(|(at, _)| {
        let token = text.get(at..at + TOKEN_BYTES);
        token.is_some_and(|token| Token::check(token).is_ok())
    })
}

/// `text` with everything that looks like a token redacted; for log lines that quote input.
pub fn redact_tokens(text: &str) -> Cow<'_, str> {
    /// A truncated token still reveals most of the real one.
    const CHARS_MIN: usize = 16;
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(TOKEN_PREFIX) {
        let (before, found) = rest.split_at(at);
        let body = found.get(TOKEN_PREFIX.len()..).unwrap_or_default();
        // Two tokens without a space between them are one word.
        let chars = body.bytes().take_while(|c| in_alphabet(*c) || *c == b'_').count();
        let (taken, after) = found.split_at(TOKEN_PREFIX.len() + chars);
        out.push_str(before);
        out.push_str(if chars < CHARS_MIN { taken } else { SHOWN });
        rest = after;
    }
    if out.is_empty() {
        return Cow::Borrowed(text);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Uniformly random letters and digits: bytes beyond the last whole round of 62 are discarded
/// instead of folded.
pub(super) fn push_random(
    text: &mut String,
    chars: usize,
    random: &Random,
) -> Result<(), RandomError> {
    const ROUND: u8 = 248;
    let wanted = text.len() + chars;
    let mut bytes = Zeroizing::new([0; 64]);
    while text.len() < wanted {
        random.fill(bytes.as_mut())?;
        let fair = bytes.iter().filter(|byte| **byte < ROUND);
        let letters = fair.filter_map(|byte| ALPHABET.get(usize::from(byte % 62)));
        text.extend(letters.take(wanted - text.len()).map(|letter| char::from(*letter)));
    }
    Ok(())
}

fn in_alphabet(c: u8) -> bool {
    c.is_ascii_alphanumeric()
}

/// A checksum of six letters and digits, from the hash of what precedes it.
fn check_chars(body: &str) -> [u8; TOKEN_CHECK_CHARS] {
    let digest =
        Sha256::new().chain_update(b"tollgate token check\0").chain_update(body).finalize();
    let mut number =
        digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    [(); TOKEN_CHECK_CHARS].map(|()| {
        let digit = usize::try_from(number % 62).unwrap_or_default();
        number /= 62;
        ALPHABET.get(digit).copied().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{TOKEN_BYTES, Token, TokenFault, has_token, redact_tokens};
    use crate::random::Random;

    #[test]
    fn tokens_are_long_different_and_read_back() {
        let random = Random::seeded(7);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let token = Token::generate(&random).unwrap();
            assert_eq!(token.expose().len(), TOKEN_BYTES);
            assert_eq!(Token::parse(token.expose()).unwrap().hash(), token.hash());
            assert!(seen.insert(token.expose().to_owned()));
            assert_eq!(format!("{token:?}"), "Token([secret])");
        }
    }

    #[test]
    fn every_changed_letter_is_a_typing_mistake() {
        let token = Token::generate(&Random::seeded(1)).unwrap();
        for at in 3..TOKEN_BYTES {
            let mut bytes = token.expose().as_bytes().to_vec();
            let letter = bytes.get_mut(at).unwrap();
            *letter = if *letter == b'x' { b'y' } else { b'x' };
            let wrong = String::from_utf8(bytes).unwrap();
            assert_eq!(Token::parse(&wrong), Err(TokenFault::Mistyped), "at {at}");
        }
    }

    #[test]
    fn text_that_is_not_a_token_is_recognized() {
        let good = Token::generate(&Random::seeded(1)).unwrap();
        let good = good.expose();
        let table = [
            String::new(),
            "tg_".into(),
            "hunter2".into(),
            good.to_uppercase(),
            good.replace("tg_", "tg-"),
            good.get(..TOKEN_BYTES - 1).unwrap().into(),
            format!("{good}a"),
            format!(" {}", good.get(1..).unwrap()),
            format!("tg_{}ä", good.get(5..).unwrap()),
        ];
        for text in table {
            assert_eq!(Token::parse(&text), Err(TokenFault::NotAToken), "{text}");
        }
    }

    #[test]
    fn a_token_is_found_wherever_it_stands() {
        let token = Token::generate(&Random::seeded(1)).unwrap();
        let token = token.expose();
        for text in [
            token.to_owned(),
            format!("a{token}b"),
            format!("https://x/?key={token}&y=1"),
            format!("tg_tg_{token}"),
            format!("ä{token}ä"),
        ] {
            assert!(has_token(&text), "{text}");
        }
        let wrong = token.replace("tg_", "tg-");
        for text in ["", "tg_", "tg_short", token.get(..51).unwrap(), wrong.as_str()] {
            assert!(!has_token(text), "{text}");
        }
    }

    #[test]
    fn text_like_a_token_is_blanked() {
        let token = Token::generate(&Random::seeded(1)).unwrap();
        let token = token.expose();
        let cut = token.get(..30).unwrap();
        let table = [
            ("nothing".to_owned(), "nothing"),
            (format!("got {token}!"), "got [secret]!"),
            (format!("{token} {token}"), "[secret] [secret]"),
            (format!("{token}{token}"), "[secret]"),
            (format!("cut: {cut}"), "cut: [secret]"),
            ("a tg_short word".to_owned(), "a tg_short word"),
            (format!("tg_ tg_ä {token}"), "tg_ tg_ä [secret]"),
        ];
        for (text, wanted) in table {
            assert_eq!(redact_tokens(&text), wanted);
        }
    }
}
