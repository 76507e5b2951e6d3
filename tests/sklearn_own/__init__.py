"""scikit-learn's own tests, run with knoll's class instead of scikit-learn's.

    registry.py   which class is put where, and which of scikit-learn's test modules speak of it
    plugin.py     the pytest plugin that puts the class in place and watches what each test does
    private.py    which tests lean on scikit-learn's inside, found in their source
    run.py        start pytest with the plugin, sort the outcomes, compare with expected/<Class>.toml

``python -m tests.sklearn_own KMeans`` shows the whole story of one class. Only tests that construct the class
count. Those that also use private names of scikit-learn are listed apart: they test how it is built, not what
it does.
"""
