"""Skills of others: taken in from a folder or a git repository, and kept level with a shared one.

Promises: what is taken in is data. It lands in quarantine with its origin, the digest of its files
and its licence, whatever it says of itself; nothing of it is run. No link is followed, sizes and
numbers of files are limited, and a name that is taken is never written over.

Not covered: what the words of a skill ask for. People read it (`skills show`); agents of a run get
it only once trials have let it out of quarantine.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from meta_agent.core.durable import sync, write_whole
from meta_agent.core.errors import ConfigError
from meta_agent.core.history import LINK, NOT_REGULAR, Foreign, is_address, read_foreign
from meta_agent.core.skills import PREFIX
from meta_agent.skills._export import handed_on
from meta_agent.skills._format import Parsed, UnreadableError, parse, render
from meta_agent.skills._library import OTHER_FIELDS, SkillLibrary, load_skill
from meta_agent.skills._validate import valid_name, validate

FILE: Final = "SKILL.md"
MAX_FILES, MAX_BYTES, MAX_FOUND = 64, 1 << 20, 256
KNOWN: Final = "it is here already"
_LICENCES: Final = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING")
_OWN: Final = frozenset(
    PREFIX + k for k in ("status", "worth", "origin", "source", "licence", "run")
)
"""What a skill may not bring along of its standing: that is found out here."""
_NO_LICENCE: Final = "none given: ask its author before passing it on"


class Taken(NamedTuple):
    """One skill of those that were offered, and why not where it was refused."""

    name: str
    path: str
    refused: str = ""
    warnings: tuple[str, ...] = ()


def take_in(library: SkillLibrary, source: str) -> list[Taken]:
    """Every skill of a folder or a git repository (`https://`), into the library's quarantine."""
    read = read_foreign(source)
    folders = sorted({path.rpartition("/")[0] for path in read.files if _is_skill(path)})
    if not folders:
        raise ConfigError(
            f"{source} holds no skill: there is no SKILL.md in it",
            hint="meta-agent skills add FOLDER, or the https:// address of a git repository",
        )
    if len(folders) > MAX_FOUND:
        raise ConfigError(f"{source} holds {len(folders)} skills, over {MAX_FOUND}")
    return [_take(library, folder, read) for folder in folders]


def level(library: SkillLibrary, shared: str) -> tuple[list[Taken], list[str]]:
    """Takes in what is new there; a plain folder gets what was tried here and is missing there."""
    taken = [result for result in take_in(library, shared) if result.refused != KNOWN]
    place, handed_out = Path(shared), list[str]()
    if is_address(shared) or (place / ".git").exists():
        return taken, handed_out
    for skill in library.all():
        if skill.status != "quarantine" and not (place / skill.name).exists():
            handed_on(skill, place)
            handed_out.append(skill.name)
    return taken, handed_out


def digest_of(files: Mapping[str, bytes]) -> str:
    """The hash of files by path."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{hashlib.sha256(files[name]).hexdigest()}\n".encode())
    return digest.hexdigest()


def _is_skill(path: str) -> bool:
    return path == FILE or path.endswith(f"/{FILE}")


def _take(library: SkillLibrary, folder: str, read: Foreign) -> Taken:
    """Writes one skill, or says why not."""
    below = f"{folder}/" if folder else ""
    files = {p.removeprefix(below): d for p, d in read.files.items() if p.startswith(below)}
    name = folder.rpartition("/")[2] or Path(read.source).name
    try:
        for path, why in read.left_out.items():
            if path.startswith(below) and why in (LINK, NOT_REGULAR):
                raise UnreadableError(f"{path}: {why}")
        parsed = parse(files[FILE].decode("utf-8"))
        if not isinstance(parsed.fields["description"], str):
            raise UnreadableError("the description is no text")
        called, name = name, str(parsed.fields.get("name") or name)
        _require_new(library, name, digest_of(files))
        text = _text(name, parsed, digest_of(files), _licence(parsed, files, read), read)
        warnings = list(_renamed(called, name)) + _place(library.path, name, files, text)
    except (UnicodeDecodeError, UnreadableError) as error:
        return Taken(name[:64], folder, str(error))
    return Taken(name, folder, "", tuple(warnings))


def _renamed(called: str, name: str) -> Iterator[str]:
    if called != name:
        yield f"its folder is called {called!r}, and it calls itself {name!r}"


def _require_new(library: SkillLibrary, name: str, mark: str) -> None:
    """Raises UnreadableError where a name cannot be a folder's, or is taken."""
    if not valid_name(name):
        raise UnreadableError(f"{name[:80]!r} is no name of a skill")
    if (library.path / name).exists():
        place = library.path / name
        here = {str(f.relative_to(place)): f.read_bytes() for f in place.rglob("*") if f.is_file()}
        existing = load_skill(place)
        same = digest_of(here) == mark or (existing is not None and existing.get("source") == mark)
        raise UnreadableError(KNOWN if same else f"another {name} is here")


def _text(name: str, parsed: Parsed, mark: str, licence: str, read: Foreign) -> str:
    """Its SKILL.md with our own marks in place of what it says of its standing."""
    stated = parsed.fields.get("metadata")
    pairs = stated.items() if isinstance(stated, dict) else ()
    metadata = {str(k): v for k, v in pairs if isinstance(v, str) and k not in _OWN}
    where = f"{read.source}@{read.commit}" if read.commit else read.source
    marks = {"status": "quarantine", "origin": where, "source": mark, "licence": licence}
    metadata |= {PREFIX + key: value for key, value in marks.items()}
    fields = {key: parsed.fields.get(key) for key in OTHER_FIELDS}
    others = {key: value for key, value in fields.items() if isinstance(value, str)}
    return render(name, str(parsed.fields["description"]), metadata, parsed.body, others)


def _licence(parsed: Parsed, files: Mapping[str, bytes], read: Foreign) -> str:
    """What it says, or the first line of a licence beside it or at the top of its source."""
    if isinstance(licence := parsed.fields.get("license"), str) and licence.strip():
        return licence
    for place in (files, read.files):
        for name in _LICENCES:
            lines = place.get(name, b"")[:4096].decode("utf-8", "replace").splitlines()
            if first := next((line.strip() for line in lines if line.strip()), ""):
                return f"{name}: {first}"[:200]
    return _NO_LICENCE


def _place(library: Path, name: str, files: Mapping[str, bytes], text: str) -> list[str]:
    """Writes a skill whole, with this SKILL.md; what spoke against it as it came."""
    if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_BYTES:
        raise UnreadableError(f"it holds more than {MAX_FILES} files or {MAX_BYTES >> 10} KiB")
    library.mkdir(parents=True, exist_ok=True)
    building = library / f".{name}.{uuid4().hex}"
    try:
        for path, content in files.items():
            target = building / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)  # by nobody to be executed
        problems = validate(building / name)
        if key := next((problem for problem in problems if "looks like a key" in problem), None):
            raise UnreadableError(key)
        write_whole(building / name / FILE, text)
        (building / name).replace(library / name)
        sync(library)
        return problems
    finally:
        shutil.rmtree(building, ignore_errors=True)
