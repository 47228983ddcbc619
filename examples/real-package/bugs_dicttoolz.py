"""Faults of `toolz/dicttoolz.py`."""

from __future__ import annotations

from bug import Bug

BUGS = (
    Bug(
        "dissoc-missing",
        "train",
        "toolz/dicttoolz.py",
        "        remaining.difference_update(keys)\n",
        "        remaining.symmetric_difference_update(keys)\n",
        """`dissoc` raises KeyError for a key that is not there

Removing a key that a dict does not have used to give back an equal dict. For small dicts it now
raises, while for larger ones it still works:

    >>> dissoc({'x': 1, 'y': 2, 'z': 3}, 'w')
    {'x': 1, 'y': 2, 'z': 3}
    >>> dissoc({'x': 1}, 'y')
    KeyError: 'y'
""",
    ),
    Bug(
        "update-in-default",
        "search",
        "toolz/dicttoolz.py",
        "        inner[k] = func(default)\n",
        "        inner[k] = default\n",
        """`update_in` with a key that is not there yet

    >>> update_in({}, ['hits'], lambda n: n + 1, default=0)
    {'hits': 0}

I read the documentation such that the first hit gives 1. When the key exists it counts correctly.
""",
    ),
    Bug(
        "merge-with-iterable",
        "confirm",
        "toolz/dicttoolz.py",
        "        dicts = dicts[0]\n    factory = _get_factory(merge_with, kwargs)\n",
        "        dicts = (dicts[0],)\n    factory = _get_factory(merge_with, kwargs)\n",
        """`merge_with` fails when all dicts come in one list

    >>> merge_with(sum, [{1: 1, 2: 2}, {1: 10, 2: 20}])
    AttributeError: 'list' object has no attribute 'items'

`merge` accepts both forms, and so did `merge_with`.
""",
    ),
    Bug(
        "merge-first-wins",
        "search",
        "toolz/dicttoolz.py",
        "    for d in dicts:\n        rv.update(d)\n    return rv\n",
        "    for d in dicts:\n        for k in d:\n"
        "            rv.setdefault(k, d[k])\n    return rv\n",
        """`merge` keeps the old value

    >>> merge({'host': 'localhost'}, {'host': 'example.org'})
    {'host': 'localhost'}

Later dicts are there to override earlier ones, so I cannot override a setting any more.
""",
    ),
    Bug(
        "assoc-factory",
        "confirm",
        "toolz/dicttoolz.py",
        "    d2 = factory()\n    d2.update(d)\n    d2[key] = value\n",
        "    d2 = dict(d)\n    d2[key] = value\n",
        """`assoc` gives a plain dict whatever I ask for

    >>> assoc(Settings(debug=False), 'debug', True, factory=Settings)
    {'debug': True}

`Settings` is a subclass of dict. `merge` and `dissoc` give me a `Settings` when I pass it as
`factory`.
""",
    ),
)
