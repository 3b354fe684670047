"""Did it get worse? What is compared, under which circumstances, by which statistic, and what follows.

``metrics`` and ``asked`` say what a marker or an option wants, ``values`` and ``context`` take it from measurements,
``ranks`` and ``shift`` are the statistics, ``comparing`` makes one comparison, ``judging`` all of a test, ``joining``
joins them to the verdict on the test. ``wording`` is the only place that writes sentences. ``baseline`` and ``history``
are the files, ``documents`` and ``compare`` two of them side by side.
"""
