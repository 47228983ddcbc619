"""Faults to plant in toolz 1.0.0, each with the report that a user might have filed.

A fault is one small edit of the kind that slips through a review. A report says what goes wrong,
never where or why. Which tests fail because of it is measured by `make_tasks.py`, not written down
here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """One fault, and how a user meets it."""

    name: str
    split: str
    file: str
    sound: str  # stands exactly once in the file
    faulty: str
    issue: str


BUGS = (
    Bug(
        "unique-key",
        "train",
        "toolz/itertoolz.py",
        "            if val not in seen:\n                seen_add(val)\n",
        "            if val not in seen:\n                seen_add(item)\n",
        """`unique` keeps duplicates when I give it a key

I expected one word per length:

    >>> list(unique(['cat', 'mouse', 'dog', 'hen'], key=len))
    ['cat', 'mouse', 'dog', 'hen']

`unique(seq)` without a key is fine.
""",
    ),
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
        "partition-all-tail",
        "train",
        "toolz/itertoolz.py",
        "            yield prev[:len(seq) % n]\n",
        "            yield prev[:len(seq) // n]\n",
        """The last chunk of `partition_all` is wrong

    >>> list(partition_all(4, [1, 2, 3, 4, 5, 6, 7]))
    [(1, 2, 3, 4), (5,)]

6 and 7 are lost, and for other lengths the chunk has too much in it. A generator with the same
items gives the right answer.
""",
    ),
    Bug(
        "curry-keywords",
        "train",
        "toolz/functoolz.py",
        "            _kwargs = {}\n            if func.keywords:\n"
        "                _kwargs.update(func.keywords)\n            _kwargs.update(kwargs)\n",
        "            _kwargs = dict(kwargs)\n            if func.keywords:\n"
        "                _kwargs.update(func.keywords)\n",
        """Cannot override a keyword of a curried function

    >>> @curry
    ... def f(x, y, a=10):
    ...     return a * (x + y)
    >>> g = curry(f, a=2)
    >>> h = curry(g, a=3)
    >>> h(1, 1)
    4

I asked for `a=3`, so this should be 6.
""",
    ),
    Bug(
        "get-list-default",
        "search",
        "toolz/itertoolz.py",
        "        return seq[ind]\n    except (KeyError, IndexError):\n        return default\n",
        "        return seq[ind]\n    except KeyError:\n        return default\n",
        """`get` ignores the default when I ask for several positions of a list

    >>> get([0, 5], ['a', 'b'], default='-')
    IndexError: list index out of range

I expected `('a', '-')`. The same call on a dict gives the default, and so does a single index.
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
        "interleave-uneven",
        "search",
        "toolz/itertoolz.py",
        "            predicate = partial(operator.is_not, itr)\n"
        "            iters = itertools.cycle(itertools.takewhile(predicate, iters))\n",
        "            return\n",
        """`interleave` drops the rest of the longer inputs

    >>> list(interleave([[1, 2], [10, 20, 30, 40]]))
    [1, 10, 2, 20]

I would expect 30 and 40 to follow, as in earlier releases.
""",
    ),
    Bug(
        "isdistinct-iterator",
        "confirm",
        "toolz/itertoolz.py",
        "            if item in seen:\n                return False\n            seen_add(item)\n",
        "            if item in seen:\n                return False\n",
        """`isdistinct` says True for a generator with repetitions

    >>> isdistinct([1, 2, 1])
    False
    >>> isdistinct(iter([1, 2, 1]))
    True
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
        "curry-equality",
        "confirm",
        "toolz/functoolz.py",
        "                self.args == other.args and self.keywords == other.keywords)\n",
        "                self.args == other.args)\n",
        """Different curried functions compare equal

    >>> f = curry(int, base=2)
    >>> g = curry(int, base=16)
    >>> f == g
    True

They give different results, so a set or a cache of them mixes them up.
""",
    ),
    Bug(
        "join-left",
        "vault",
        "toolz/itertoolz.py",
        "        for key, matches in d.items():\n            if key not in seen_keys:\n",
        "        for key, matches in d.items():\n            if key in seen_keys:\n",
        """Outer joins return the wrong rows

    >>> list(join(0, [('a', 1), ('b', 2)], 0, [('a', 9)], right_default=None))
    [(('a', 1), ('a', 9)), (('a', 1), None)]

The row for 'b' is what I want to see with None, and 'a' only once. Inner joins are fine.
""",
    ),
    Bug(
        "diff-one-list",
        "vault",
        "toolz/itertoolz.py",
        "        seqs = seqs[0]\n        N = len(seqs)\n",
        "        seqs = seqs[0]\n",
        """`diff` no longer accepts the sequences as one list

    >>> list(diff([[1, 2, 3], [1, 2, 10]]))
    TypeError: Too few sequences given (min 2 required)

There are two sequences in that list. Passing them as two arguments works.
""",
    ),
)
