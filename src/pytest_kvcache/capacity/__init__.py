"""How much cache buys how much reuse? Answered from rows of block ids, without any endpoint. Pure."""
