"""What did reuse save? Tokens, seconds of prefill, and money where prices are known."""
