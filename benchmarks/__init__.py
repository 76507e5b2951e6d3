"""knoll beside its peers: the same data, the same threads, one judge, a fresh process for every run.

    case.py      what a case is: data, contestants, judge, targets; and the registry
    worker.py    one timed run in a fresh process:  python -m benchmarks.worker
    memory.py    the peak of memory beyond what is there already
    machine.py   what the figures depend on: CPU, threads, versions
    runner.py    contestants take turns, medians, verdicts
    tables.py    the text table, docs/benchmarks.md and docs/benchmarks.json
    cases/       one file per family; a new file there is found by itself

``python -m benchmarks --help`` lists the options.
"""
