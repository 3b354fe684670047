"""What should happen: a paged prefix cache, the prediction made with it, and an HTTP engine built on it."""
