//! The limits of the reader, and how strict it is about keys and numbers.

/// Which keys one object may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// No two keys are equal, or equal after [`fold`](super::fold); no key holds a control character.
    OneMeaning,
    /// No two keys are equal after decoding.
    Unique,
    /// Unchecked; [`Value::get`](super::Value::get) then answers with the first of two.
    Any,
}

/// Which numbers are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Only numbers that readers into `f64` and `i64` leave as they are. Of two texts with one value
    /// (`1.10` and `1.1`, `-0` and `0`) both pass; `9007199254740993`, `1e400` and
    /// `100.00000000000000000001` do not, nor whole numbers outside `i64` written without exponent.
    RoundTrip,
    /// Every number of RFC 8259.
    AnyValid,
}

/// The limits of one kind of document. Depth counts nested arrays and objects; nodes are values and keys.
#[derive(Debug, Clone)]
pub struct Bounds {
    pub bytes_max: usize,
    pub depth_max: usize,
    pub nodes_max: usize,
    /// Length of one string or key, each escape counted as the text it stands for.
    pub string_bytes_max: usize,
    pub number_bytes_max: usize,
    pub numbers: Numbers,
    pub keys: Keys,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

impl Bounds {
    /// Messages from agents: small and with one meaning.
    pub const MESSAGE: Bounds = Bounds {
        bytes_max: 4 * MIB,
        depth_max: 64,
        nodes_max: 200_000,
        string_bytes_max: MIB,
        number_bytes_max: 64,
        numbers: Numbers::RoundTrip,
        keys: Keys::OneMeaning,
    };

    /// Responses of servers: any valid JSON. Keys are unchecked; the gateway checks those of the envelope.
    pub const ANSWER: Bounds = Bounds {
        bytes_max: 32 * MIB,
        depth_max: 256,
        nodes_max: 2_000_000,
        string_bytes_max: 32 * MIB,
        number_bytes_max: 32 * MIB,
        numbers: Numbers::AnyValid,
        keys: Keys::Any,
    };

    /// Policies, written by people.
    pub const POLICY: Bounds = Bounds {
        bytes_max: MIB,
        depth_max: 64,
        nodes_max: 200_000,
        string_bytes_max: 64 * KIB,
        number_bytes_max: 64,
        numbers: Numbers::RoundTrip,
        keys: Keys::OneMeaning,
    };
}
