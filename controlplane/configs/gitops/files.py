"""The tree of files: one ``node.yaml`` for each node, in folders that follow the tree.

``DIR/<root>/node.yaml``, ``DIR/<root>/<group>/node.yaml``, ``DIR/<root>/<group>/<team>/node.yaml``: a folder has its
node's slug. ``policies`` and ``grants`` are reserved: a file that holds any is refused until they are read from here.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controlplane.configs.gitops.yaml_text import MAX_BYTES, YamlError, dump, identical, load
from controlplane.configs.pointers import Document
from controlplane.core.errors import FieldError, InvalidInput
from controlplane.core.redaction import redact_text
from controlplane.orgs.models import MAX_DEPTH, NodeKind, is_slug

FILE: Final = "node.yaml"
FORMAT: Final = 1
MAX_NODES: Final = 50_000
LISTED: Final = 50
RESERVED: Final = ("policies", "grants")
_KEYS: Final = ("format", "organization", "slug", "name", "kind", "archived", "document", *RESERVED)


@dataclass(frozen=True, slots=True)
class FileNode:
    """A node as files describe it.

    ``path`` is that of its file below ``DIR``, or where else its description stands; ``parent`` is ``None`` for the
    root.
    """

    path: str
    slug: str
    name: str
    kind: str
    parent: str | None
    document: Document
    archived: bool = False


@dataclass(frozen=True, slots=True)
class FileTree:
    """The nodes of one organization, each after the one above it."""

    organization: str
    nodes: tuple[FileNode, ...]


def read_tree(folder: Path, *, organization: str | None = None) -> FileTree:
    """Return the tree in ``folder``.

    Args:
        folder: what :func:`write_tree` wrote.
        organization: the slug of the one to read, where the folder has several.

    Raises:
        InvalidInput: ``invalid_tree``, with the file and the rule of everything that is wrong in ``errors``.
    """
    reader = _Reader(folder)
    roots = [reader.read(one, None, 1) for one in reader.folders(folder)]
    trees = [list(nodes) for nodes in roots if nodes]
    reader.raise_faults()
    found = {reader.organizations[nodes[0].slug]: tuple(nodes) for nodes in trees}
    names = ", ".join(sorted(found)) or "none"
    if organization is None and len(found) == 1:
        organization = next(iter(found))
    if organization is None or organization not in found:
        wanted = (
            f"There is no organization {organization!r} in this folder" if organization else "Name the organization"
        )
        raise _invalid([FieldError("", "organization", f"{wanted}; it has: {names}.")])
    nodes = found[organization]
    reader.require_unique(nodes)
    return FileTree(organization, nodes)


def write_tree(folder: Path, tree: FileTree, *, prune: bool = False) -> tuple[int, list[str]]:
    """Write the files of a tree; a file that already says the same, in whatever form, is not touched.

    Args:
        folder: made where it is missing.
        tree: the nodes; the paths of their files come from the tree, not from ``path``.
        prune: remove the files of nodes that are no longer there.

    Returns:
        How many files were written, and the paths of those removed.

    Raises:
        InvalidInput: ``stale_files``: there are such files and ``prune`` is not set; nothing was written.
            ``invalid_tree`` where a link stands in the way.
    """
    paths = tree_paths(tree.nodes)
    root = folder / tree.nodes[0].slug
    there = {one.relative_to(folder).as_posix() for one in _node_files(root)}
    stale = sorted(there - set(paths.values()))
    if stale and not prune:
        errors = [FieldError(path, "stale_file", "No node belongs to this file.") for path in stale[:LISTED]]
        detail = f"{len(stale)} files belong to no node any more; remove them, or export with --prune."
        raise InvalidInput(detail, code="stale_files", errors=errors)
    written = 0
    for node in tree.nodes:
        written += _write(folder, Path(paths[node.slug]), node, tree.organization)
    for path in stale:
        (folder / path).unlink()
        _remove_empty(folder / path, root)
    return written, stale


def tree_paths(nodes: Sequence[FileNode]) -> dict[str, str]:
    """Return slug → path of the file below ``DIR``; nodes come after those above them."""
    folders: dict[str, str] = {}
    for node in nodes:
        folders[node.slug] = node.slug if node.parent is None else f"{folders[node.parent]}/{node.slug}"
    return {slug: f"{path}/{FILE}" for slug, path in folders.items()}


def text_of(node: FileNode, organization: str) -> str:
    """Return the text of a node's file, members in a fixed order, keys of the document sorted."""
    return dump(_meta(node, organization), sort_keys=False) + dump({"document": node.document})


def _meta(node: FileNode, organization: str) -> dict[str, Any]:
    root = {"organization": organization} if node.parent is None else {}
    archived = {"archived": True} if node.archived else {}
    return {"format": FORMAT, **root, "slug": node.slug, "name": node.name, "kind": str(node.kind), **archived}


class _Reader:
    """Reads folder by folder and collects what is wrong, so that one run names everything."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._faults: list[FieldError] = []
        self._count = 0
        self.organizations: dict[str, str] = {}

    def folders(self, folder: Path) -> list[Path]:
        """Return the folders inside one, sorted; hidden ones and other files are none of ours."""
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self._fault(folder, "unreadable", f"The folder cannot be read ({error.strerror or 'error'}).")
            return []
        folders = []
        for entry in found:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                self._fault(Path(entry.path), "link", "Links are not followed.")
            elif entry.is_dir():
                folders.append(Path(entry.path))
            elif entry.name != FILE and entry.name.endswith((".yaml", ".yml")):
                self._fault(Path(entry.path), "unknown_file", f"A node's file is called {FILE}.")
        return folders

    def read(self, folder: Path, parent: str | None, depth: int) -> list[FileNode]:
        """Return the node of a folder and all below it; nothing for a folder that has to do with no node."""
        below = self.folders(folder)
        if not (folder / FILE).is_file():
            for one in _node_files(folder):
                self._fault(one, "no_parent", f"The folder {folder.name[:63]!r} above it has no {FILE}.")
            return []
        self._count += 1
        if self._count > MAX_NODES or depth > MAX_DEPTH:
            self._fault(folder, "too_many", f"At most {MAX_NODES} nodes in at most {MAX_DEPTH} levels are read.")
            return []
        node = self._node(folder, parent)
        if node is None:
            return []
        return [node, *(one for path in below for one in self.read(path, node.slug, depth + 1))]

    def _data(self, path: Path) -> Any:
        """Return what a file holds; ``None``, with the fault noted, where it cannot be read."""
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
            return load(raw.decode("utf-8"))
        except OSError as error:
            self._fault(path, "unreadable", f"The file cannot be read ({error.strerror or 'error'}).")
        except UnicodeDecodeError as error:
            self._fault(path, "not_utf8", f"The file is not UTF-8 at byte {error.start}.")
        except YamlError as error:
            self._fault(path, "yaml", str(error))
        return None

    def _node(self, folder: Path, parent: str | None) -> FileNode | None:
        path = folder / FILE
        before = len(self._faults)
        data = self._data(path)
        if isinstance(data, dict):
            self._check(path, folder, parent, data)
        elif len(self._faults) == before:
            self._fault(path, "not_a_mapping", "The file holds a mapping of slug, name, kind and document.")
        if len(self._faults) > before:
            return None
        if parent is None:
            self.organizations[data["slug"]] = data["organization"]
        return FileNode(
            path=path.relative_to(self._base).as_posix(),
            slug=data["slug"],
            name=data["name"],
            kind=data["kind"],
            parent=parent,
            document=data["document"],
            archived=data.get("archived", False),
        )

    def _check(self, path: Path, folder: Path, parent: str | None, data: Mapping[str, Any]) -> None:
        slug, root = data.get("slug"), parent is None
        kinds = {NodeKind.ORG.value} if root else {NodeKind.GROUP.value, NodeKind.TEAM.value}
        rules = {
            "format": (data.get("format", FORMAT) == FORMAT, f"The format is {FORMAT}."),
            "slug": (isinstance(slug, str) and is_slug(slug), "slug is 1 to 63 of a-z, 0-9 and inner hyphens."),
            "folder": (not isinstance(slug, str) or slug == folder.name, "The folder is called as the node's slug."),
            "name": (isinstance(data.get("name"), str), "name is a text."),
            "kind": (data.get("kind") in kinds, f"kind is {' or '.join(sorted(kinds))} here."),
            "archived": (isinstance(data.get("archived", False), bool), "archived is true or false."),
            "document": (isinstance(data.get("document"), dict), "document is a mapping; an empty one is {}."),
            "organization": (
                isinstance(data.get("organization"), str) if root else "organization" not in data,
                "organization is the organization's slug, in the root's file alone.",
            ),
        }
        for code, (kept, rule) in rules.items():
            if not kept:
                self._fault(path, code, rule)
        for key in data:
            if key not in _KEYS:
                self._fault(path, "unknown_member", f"{redact_text(key)[:80]!r} is not known here.")
        for key in RESERVED:
            if data.get(key):
                self._fault(path, "reserved", f"{key} are not read from files yet.")

    def require_unique(self, nodes: Sequence[FileNode]) -> None:
        """Refuse two files for one slug."""
        first: dict[str, FileNode] = {}
        for node in nodes:
            if first.setdefault(node.slug, node) is not node:
                detail = f"The slug is that of {first[node.slug].path} too."
                self._faults.append(FieldError(node.path, "slug_taken", detail))
        self.raise_faults()

    def raise_faults(self) -> None:
        if self._faults:
            raise _invalid(self._faults)

    def _fault(self, path: Path, code: str, detail: str) -> None:
        self._faults.append(FieldError(path.relative_to(self._base).as_posix(), code, detail))


def _invalid(faults: Sequence[FieldError]) -> InvalidInput:
    more = f" ({len(faults)} faults)" if len(faults) > 1 else ""
    where = f"{faults[0].pointer}: " if faults[0].pointer else ""
    return InvalidInput(f"{where}{faults[0].detail}{more}", code="invalid_tree", errors=faults[:LISTED])


def _node_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if FILE in files:
            yield Path(place) / FILE


def _write(folder: Path, path: Path, node: FileNode, organization: str) -> bool:
    target = folder / path
    for part in [folder.joinpath(*path.parts[: depth + 1]) for depth in range(len(path.parts))]:
        if part.is_symlink():
            raise _invalid([FieldError(path.as_posix(), "link", "Links are not followed.")])
    if _says(target, {**_meta(node, organization), "document": node.document}):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{FILE}.new")
    fresh.write_text(text_of(node, organization), "utf-8", newline="\n")
    fresh.replace(target)
    return True


def _says(target: Path, members: Mapping[str, Any]) -> bool:
    """Return whether a file holds exactly these members, so that comments and layout in it may stay."""
    try:
        return identical(load(target.read_text("utf-8")), members)
    except (OSError, UnicodeDecodeError, YamlError):
        return False


def _remove_empty(path: Path, root: Path) -> None:
    for folder in path.parents:
        if folder == root or any(folder.iterdir()):
            return
        folder.rmdir()
