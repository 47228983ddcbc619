"""Faults of `toolz/itertoolz.py` and of `toolz/recipes.py`, which is built from it."""

from __future__ import annotations

from bug import Bug

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
    Bug(
        "accumulate-initial",
        "search",
        "toolz/itertoolz.py",
        "    else:\n        result = initial\n    yield result\n",
        "    else:\n        result = binop(initial, next(seq))\n    yield result\n",
        """`accumulate` with a start value gives one item too few

    >>> list(accumulate(add, [1, 2, 3], 10))
    [11, 13, 16]

There should be four items, and the first of them should be what I started with. Without a start
value the function is right.
""",
    ),
    Bug(
        "nth-iterator",
        "search",
        "toolz/itertoolz.py",
        "        return next(itertools.islice(seq, n, None))\n",
        "        return next(itertools.islice(seq, n + 1, None))\n",
        """`nth` disagrees with itself

    >>> nth(2, 'ABCDE')
    'C'
    >>> nth(2, iter('ABCDE'))
    'D'
""",
    ),
    Bug(
        "interpose-leading",
        "search",
        "toolz/itertoolz.py",
        "    next(inposed)\n    return inposed\n",
        "    return inposed\n",
        """`interpose` puts a separator at the start

    >>> ''.join(interpose('-', 'abc'))
    '-a-b-c'

Only the places between two items should get one.
""",
    ),
    Bug(
        "pluck-default",
        "search",
        "toolz/itertoolz.py",
        "    return (_get(ind, seq, default) for seq in seqs)\n",
        "    return map(getter(ind), seqs)\n",
        """`pluck` raises although I gave it a default

    >>> list(pluck('id', [{'id': 1}, {'name': 'x'}], default=0))
    KeyError: 'id'

With a list of names (`['id', 'name']`) the default is used.
""",
    ),
    Bug(
        "groupby-index",
        "confirm",
        "toolz/itertoolz.py",
        "    if not callable(key):\n        key = getter(key)\n"
        "    d = collections.defaultdict(lambda: [].append)\n",
        "    d = collections.defaultdict(lambda: [].append)\n",
        """`groupby` by position stopped working

    >>> groupby(0, [('a', 1), ('b', 2), ('a', 3)])
    TypeError: 'int' object is not callable

The documentation promises this form: the items should be grouped by what stands at that place.
""",
    ),
    Bug(
        "merge-sorted-rest",
        "confirm",
        "toolz/itertoolz.py",
        "    yield val1\n    for val1 in seq1:\n        yield val1\n"
        "\n\ndef _merge_sorted_binary_key(",
        "    yield val1\n\n\ndef _merge_sorted_binary_key(",
        """`merge_sorted` loses items

    >>> list(merge_sorted([1, 4, 5, 6], [2, 3]))
    [1, 2, 3, 4]

If I swap the two lists, or give a `key`, all six come out.
""",
    ),
    Bug(
        "tail-iterator",
        "confirm",
        "toolz/itertoolz.py",
        "        return tuple(collections.deque(seq, n))\n",
        "        return tuple(itertools.islice(seq, n))\n",
        """`tail` of a generator is its head

    >>> tail(2, (c for c in 'ABCDE'))
    ('A', 'B')

For a string or a list I get the end, as I should.
""",
    ),
    Bug(
        "get-one-position",
        "confirm",
        "toolz/itertoolz.py",
        "                    return seq[ind[0]],\n",
        "                    return seq[ind[0]]\n",
        """`get` with a list of one position

    >>> get([1, 2], 'ABC')
    ('B', 'C')
    >>> get([1], 'ABC')
    'B'

A list should always give a tuple. Code that unpacks the result breaks when only one column is
selected.
""",
    ),
    Bug(
        "reduceby-first-item",
        "confirm",
        "toolz/itertoolz.py",
        "                d[k] = item\n                continue\n",
        "                d[k] = item\n",
        """`reduceby` counts something twice

    >>> reduceby(iseven, add, [1, 2, 3, 4, 5])
    {False: 10, True: 8}

1 + 3 + 5 is 9 and 2 + 4 is 6. With a start value of 0 the sums are right.
""",
    ),
    Bug(
        "sliding-window-start",
        "confirm",
        "toolz/itertoolz.py",
        "               for i, it in enumerate(itertools.tee(seq, n))))\n",
        "               for i, it in enumerate(itertools.tee(seq, n), 1)))\n",
        """The first window of `sliding_window` is missing

    >>> list(sliding_window(2, [1, 2, 3, 4]))
    [(2, 3), (3, 4)]
""",
    ),
    Bug(
        "diff-default",
        "confirm",
        "toolz/itertoolz.py",
        "        iters = zip_longest(*seqs, fillvalue=default)\n",
        "        iters = zip(*seqs)\n",
        """`diff` stops at the end of the shorter list

    >>> list(diff([1, 2, 3], [1, 2], default=None))
    []

I gave a default, so I expected `[(3, None)]`.
""",
    ),
    Bug(
        "peekn-rest",
        "confirm",
        "toolz/itertoolz.py",
        "    return peeked, itertools.chain(iter(peeked), iterator)\n",
        "    return peeked, iterator\n",
        """Items are gone after `peekn`

    >>> seen, everything = peekn(2, [1, 2, 3])
    >>> list(everything)
    [3]

`peek` leaves the sequence whole; I expected the same here.
""",
    ),
    Bug(
        "partitionby-runs",
        "confirm",
        "toolz/recipes.py",
        "    return map(tuple, pluck(1, itertools.groupby(seq, key=func)))\n",
        "    seq = sorted(seq, key=func)\n"
        "    return map(tuple, pluck(1, itertools.groupby(seq, key=func)))\n",
        """`partitionby` changes the order of my data

    >>> list(partitionby(lambda x: x > 10, [1, 20, 2, 30]))
    [(1, 2), (20, 30)]

I want four runs, in the order in which they come: (1,), (20,), (2,), (30,).
""",
    ),
    Bug(
        "merge-sorted-key",
        "vault",
        "toolz/itertoolz.py",
        "            for val2 in seq2:\n                key2 = key(val2)\n",
        "            for val2 in seq2:\n",
        """`merge_sorted` with a key gives items in a wrong order

    >>> list(merge_sorted([3], [1, 2, 4], key=lambda x: x))
    [1, 2, 4, 3]

Without the key it is sorted.
""",
    ),
    Bug(
        "get-wrong-kind",
        "vault",
        "toolz/itertoolz.py",
        "        elif default != no_default:\n            return default\n"
        "        else:\n            raise\n    except (KeyError, IndexError):",
        "        else:\n            raise\n    except (KeyError, IndexError):",
        """`get` raises although there is a default

    >>> get('name', ['a', 'b'], default='?')
    TypeError: list indices must be integers or slices, not str

My rows are dicts and, now and then, lists. For those I wanted the default, which is what I got
before I upgraded.
""",
    ),
    Bug(
        "reduceby-factory",
        "vault",
        "toolz/itertoolz.py",
        "    if not is_no_default and not callable(init):\n",
        "    if not is_no_default:\n",
        """`reduceby` with `set` as the start fails

    >>> reduceby(len, lambda seen, word: seen | {word}, ['a', 'b', 'cc'], set)
    TypeError: unsupported operand type(s) for |: 'type' and 'set'

Start values that are numbers work.
""",
    ),
    Bug(
        "topk-index",
        "vault",
        "toolz/itertoolz.py",
        "    if key is not None and not callable(key):\n        key = getter(key)\n"
        "    return tuple(heapq",
        "    return tuple(heapq",
        """`topk` by a column

    >>> topk(1, [{'a': 1, 'b': 10}, {'a': 2, 'b': 9}], key='a')
    TypeError: 'str' object is not callable

`groupby` and `join` accept a column name; this one used to, too.
""",
    ),
)
