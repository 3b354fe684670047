"""Reports of real users, each with its input and the outcome that is right for it."""
