"""Service levels: what is asked of latency and throughput, what came out, how sure that is, and the verdict.

``asked`` reads the limits of a marker, ``samples`` takes what they are about from measurements, ``intervals`` says how
sure a figure is, ``judging`` compares, ``speedup`` does so for a cold and a warm run, ``verdict`` joins all of it with
the hit rate. ``wording`` is the only place that writes sentences.
"""
