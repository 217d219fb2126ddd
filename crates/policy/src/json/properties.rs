//! The reader against slow, obvious readers, over generated and mutated texts.
