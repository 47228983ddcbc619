"""Faults of `toolz/functoolz.py`."""

from __future__ import annotations

from bug import Bug

BUGS = (
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
        "thread-last-place",
        "search",
        "toolz/functoolz.py",
        "            args = args + (val,)\n",
        "            args = (val,) + args\n",
        """`thread_last` passes the value in the wrong place

    >>> thread_last(1, (pow, 2))
    1

It should come after the other arguments, so this should be 2 ** 1. That is the only difference
between this function and `thread_first`.
""",
    ),
    Bug(
        "compose-left-order",
        "search",
        "toolz/functoolz.py",
        "    return compose(*reversed(funcs))\n",
        "    return compose(*funcs)\n",
        """`compose_left` runs the functions in the wrong order

    >>> compose_left(lambda x: x + 1, lambda x: x * 10)(1)
    11

The first one given should be the first one called, as in `pipe`, which gives 20 here.
""",
    ),
    Bug(
        "juxt-generator",
        "confirm",
        "toolz/functoolz.py",
        "        self.funcs = tuple(funcs)\n",
        "        self.funcs = funcs\n",
        """`juxt` of a generator works once

    >>> both = juxt(f for f in (min, max))
    >>> both([3, 1, 2])
    (1, 3)
    >>> both([3, 1, 2])
    ()
""",
    ),
    Bug(
        "memoize-keywords",
        "confirm",
        "toolz/functoolz.py",
        "                    frozenset(kwargs.items()) if kwargs else None,\n",
        "                    frozenset(kwargs) if kwargs else None,\n",
        """A memoized function returns an answer for other arguments

    >>> @memoize
    ... def power(x, y=1):
    ...     return x ** y
    >>> power(3, y=2)
    9
    >>> power(3, y=3)
    9

Calling it as `power(3, 3)` gives 27.
""",
    ),
    Bug(
        "curry-inner-error",
        "confirm",
        "toolz/functoolz.py",
        "            # There was a genuine TypeError\n            return False\n",
        "            # There was a genuine TypeError\n            return True\n",
        """Errors in a curried function disappear

    >>> @curry
    ... def join_names(a, b):
    ...     return a + ' ' + b
    >>> join_names('Ada', 7)
    <function join_names at 0x7f...>

All arguments are there, so I want to see the TypeError of adding a number to a string. It took me
an afternoon to find out.
""",
    ),
    Bug(
        "curry-method",
        "vault",
        "toolz/functoolz.py",
        "        return curry(self, instance)\n",
        "        return self\n",
        """A curried method does not get `self`

    >>> class Scale:
    ...     @curry
    ...     def apply(self, x, y):
    ...         return x + y
    >>> Scale().apply(1)(2)
    <function Scale.apply at 0x7f...>

I expected 3.
""",
    ),
    Bug(
        "compose-method",
        "vault",
        "toolz/functoolz.py",
        "        return self if obj is None else MethodType(self, obj)\n",
        "        return self\n",
        """A composed function does not work as a method

    >>> class Page:
    ...     title = 'home'
    ...     shout = compose(str.upper, attrgetter('title'))
    >>> Page().shout()
    TypeError: attrgetter expected 1 argument, got 0

An ordinary function in the same place receives the instance.
""",
    ),
)
