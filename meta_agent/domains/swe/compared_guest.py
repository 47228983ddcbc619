"""Notes which types of values tests compare (in the sandbox, as a part of the runner's text).

A plain value compares as Python says. Any other value compares by methods of its class, and a class
can say yes to whatever a test asks. Test files are compiled with a call around every operand of a
comparison, every argument, and every receiver of a method: the call notes the type and returns the
value. `strangers` lists the methods that decide, but for those that C code or a visible place of a
changed file defines. The host accepts what a run of the reference shows too.

Does not cover: a value that only an object deep inside another one holds, and test files that are
nested too deep to be changed.
"""

from __future__ import annotations

import ast
import importlib.machinery
import types
import warnings
from typing import Any

from meta_agent.domains.swe.watch_guest import COMPARING, REALPATH, code_of

_ATOMS = frozenset(
    id(kind)
    for kind in (
        *(int, float, complex, bool, str, bytes, type(None), type(...), slice, range, bytearray),
        *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
        *(types.GeneratorType, types.CodeType, object, type),
    )
)
_SEQUENCES = {id(kind): kind for kind in (list, tuple, set, frozenset)}
_PLAIN = {id(kind): kind for kind in (str, bytes, int, float, complex, dict)} | _SEQUENCES
_HARMLESS = frozenset(
    {"__new__", "__init__", "__repr__", "__str__", "__hash__", "__format__", "__reduce__"}
    | {"__doc__", "__init_subclass__", "__setattr__", "__reduce_ex__", "__sizeof__", "__dir__"}
    | {"__delattr__", "__getstate__", "__getnewargs__", "__class_getitem__"}
)
_OF_C = (
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType),
    *(types.ClassMethodDescriptorType, types.MemberDescriptorType),
)
_MOST = 3_000_000  # parts of values in one run
_DEEP = 2  # objects that hold objects
_MARK = "<the runner notes this value>"
_MRO, _DICT = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
_NAME = type.__dict__["__name__"].__get__
_ROOT = REALPATH(".") + "/"
_Kinds = dict[int, list[Any]]
"""By the id of a type: the type, and whether a test asked a value of it for a member."""


class Compared:
    """An import finder that compiles test files so that the types of compared values are noted."""

    def __init__(self, test_sources: frozenset[str]) -> None:
        kinds: _Kinds = {}
        self._kinds, self._test_sources = kinds, test_sources
        self._stems = {
            path.removesuffix("/__init__.py").rpartition("/")[2] for path in test_sources
        }
        budget = [_MOST]

        def note(value: Any) -> Any:
            if id(type(value)) not in _ATOMS:
                _note_parts(value, kinds, budget)
            return value

        def note_receiver(value: Any) -> Any:
            if id(type(value)) in _PLAIN:
                return note(value)
            _note_type(type(value), kinds)
            return value

        def note_container(value: Any) -> Any:
            note(value)
            if id(type(value)) in kinds:
                kinds[id(type(value))][1] = True
            return value

        self._budget = budget
        self._marks = {_MARK: note, f"{_MARK} .": note_receiver, f"{_MARK} in": note_container}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Returns the import spec of a test file, or None for any other module."""
        stem = name.rpartition(".")[2]
        if stem not in self._stems and f"{stem}.py" not in self._stems:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or not spec.origin or REALPATH(spec.origin) not in self._test_sources:
            return None
        spec.loader = _Loader(name, spec.origin)
        spec.loader.marks = self._marks
        return spec

    def strangers(self, sources: frozenset[str], visible_pairs: list[list[str]]) -> list[str]:
        """Returns methods that compare the tests' values, except those in C or `visible_pairs`."""
        visible = {(kind, name) for kind, name in visible_pairs}
        lines = set() if self._budget[0] > 0 else {f"more than {_MOST} parts of values"}
        for kind, is_container in list(self._kinds.values()):
            for name in _deciding_names(kind):
                owner, method = _looked_up(kind, name)
                if owner and not _is_vouched(owner, name, method, sources, visible):
                    lines.add(f"{_full_name(owner)}.{name} in {_place(method, sources)}")
            if is_container and not any(
                _is_of_c(*_looked_up(kind, name)) for name in ("__contains__", "__iter__")
            ):
                lines.add(f"members of {_full_name(kind)}")
        return sorted(lines)


class _Loader(importlib.machinery.SourceFileLoader):
    marks: dict[str, Any]

    def get_code(self, fullname: str) -> Any:
        """Compiles a test file, with calls that note compared values. SyntaxError if invalid."""
        path = self.get_filename(fullname)
        text = self.get_data(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tree = compile(text, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
                code: Any = compile(_Marked().visit(tree), path, "exec", dont_inherit=True)
            except (RecursionError, MemoryError):
                code = compile(text, path, "exec", dont_inherit=True)
        return _filled(code, self.marks)


class _Marked(ast.NodeTransformer):
    """Puts a call around operands, arguments and receivers."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        node.left = _marked(node.left)
        asks_member = [isinstance(sign, (ast.In, ast.NotIn)) for sign in node.ops]
        node.comparators = [
            _marked(side, " in" if asks else "")
            for side, asks in zip(node.comparators, asks_member)  # noqa: B905 - older Pythons
        ]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            node.func.value = _marked(node.func.value, " .")
        node.args = [_marked(argument) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = _marked(keyword.value)
        return node


def _marked(node: Any, end: str = "") -> Any:
    if isinstance(node, (ast.Constant, ast.Starred)):
        return node
    call = ast.Call(func=ast.Constant(_MARK + end), args=[node], keywords=[])
    return ast.copy_location(ast.fix_missing_locations(ast.copy_location(call, node)), node)


def _filled(code: Any, marks: dict[str, Any]) -> Any:
    """Returns the code with functions in the place of the marks."""
    consts = []
    for const in code.co_consts:
        if type(const) is str and const in marks:
            const = marks[const]
        consts.append(_filled(const, marks) if type(const) is types.CodeType else const)
    return code.replace(co_consts=tuple(consts))


def _note_type(kind: type, kinds: _Kinds) -> None:
    if id(kind) not in _ATOMS and id(kind) not in _PLAIN:
        kinds.setdefault(id(kind), [kind, False])


def _note_parts(value: Any, kinds: _Kinds, budget: list[int]) -> None:
    """Notes the type of a value, and of what plain containers and objects hold."""
    waiting = [(value, 0)]
    while waiting and budget[0] > 0:
        part, depth = waiting.pop()
        kind = type(part)
        budget[0] -= 1
        if id(kind) in _ATOMS:
            continue
        _note_type(kind, kinds)
        for base in _MRO(kind):
            if id(base) in _SEQUENCES:
                waiting += [(inner, depth) for inner in base.__iter__(part)]
            elif base is dict:
                waiting += [(inner, depth) for pair in dict.items(part) for inner in pair]
        if id(kind) not in _PLAIN and depth < _DEEP:
            waiting += [(inner, depth + 1) for inner in _attributes(part)]
    _note_type(type(value), kinds)


def _attributes(value: Any) -> list[Any]:
    try:
        names = object.__getattribute__(value, "__dict__")
    except (AttributeError, TypeError):
        return []
    return list(names.values()) if type(names) is dict else []


def _deciding_names(kind: type) -> set[str]:
    """Returns the methods that compare values of a type, or that a plain type has besides."""
    names = set(COMPARING)
    for base in _MRO(kind):
        names |= (set(dir(base)) - _HARMLESS) if id(base) in _PLAIN else set()
    return names


def _looked_up(kind: type, name: str) -> tuple[Any, Any]:
    """Returns the class that a method comes from, and the method; nothing where there is none."""
    for owner in _MRO(kind):
        if name in _DICT(owner):
            return owner, _DICT(owner)[name]
    return None, None


def _is_of_c(owner: Any, method: Any) -> bool:
    return type(method) in _OF_C and method.__objclass__ is owner


def _is_vouched(
    owner: type, name: str, method: Any, sources: frozenset[str], visible: set[tuple[str, str]]
) -> bool:
    if owner is object or owner is type or id(owner) in _PLAIN or method is None:
        return True
    code = code_of(method)
    is_spelled = code is not None and REALPATH(code.co_filename) in sources
    return _is_of_c(owner, method) or (
        is_spelled and code.co_name == name and (_NAME(owner), name) in visible
    )


def _full_name(kind: type) -> str:
    module = _DICT(kind).get("__module__", "")
    return f"{module}.{_NAME(kind)}" if type(module) is str else _NAME(kind)


def _place(method: Any, sources: frozenset[str]) -> str:
    code = code_of(method)
    if code is None:
        return type(method).__name__
    path = REALPATH(code.co_filename)
    line = "" if path in sources else f":{code.co_firstlineno}"
    return f"{path.removeprefix(_ROOT)}{line}"
