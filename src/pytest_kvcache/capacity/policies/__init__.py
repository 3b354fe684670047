"""Who is evicted? One file for each answer."""
