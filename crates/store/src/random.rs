//! The source of random bytes: the operating system, or a seed in tests.

use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

/// A source of random bytes, created by `cli` and passed in.
#[derive(Clone, Debug)]
pub enum Random {
    System,
    /// The same bytes on every run. For tests; never in a running gate.
    Seeded(Arc<Mutex<Seed>>),
}

#[derive(Debug)]
pub struct Seed {
    seed: u64,
    blocks: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("the operating system provides no random bytes: {0}")]
pub struct RandomError(getrandom::Error);

impl Random {
    pub fn seeded(seed: u64) -> Random {
        Random::Seeded(Arc::new(Mutex::new(Seed { seed, blocks: 0 })))
    }

    pub fn fill(&self, out: &mut [u8]) -> Result<(), RandomError> {
        match self {
            Random::System => getrandom::fill(out).map_err(RandomError),
            Random::Seeded(seed) => {
                seed.lock().unwrap_or_else(PoisonError::into_inner).fill(out);
                Ok(())
            }
        }
    }

    /// A short name that no other process will choose, for files and ids.
    pub fn name(&self) -> Result<String, RandomError> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
    }
}

impl Seed {
    fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(32) {
            let mut hash = Sha256::new();
            hash.update(self.seed.to_be_bytes());
            hash.update(self.blocks.to_be_bytes());
            self.blocks += 1;
            for (byte, random) in chunk.iter_mut().zip(hash.finalize()) {
                *byte = random;
            }
        }
    }
}
