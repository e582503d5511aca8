//! XML: a push tokenizer for what comes in, and writing for what goes out.
