"""Directories that a web server lists (`http://`, `https://`), to read from: `python -m http.server`, and the pages of Apache and nginx.

fsspec's file system for these was rejected: it takes a name that is not there for a directory, and needs aiohttp.
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import Request, urlopen

import pyarrow as pa
from pyarrow import fs

from ..command import ThalwegError

SCHEMES = ("http://", "https://")
# A server that says nothing for so long is given up.
SILENT_S = 30.0
GONE = (404, 410)


def base_of(url: str) -> str:
    """A URL's path as its files' names are written: without `%20` and the like."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}".rstrip("/")


class Web(fs.FileSystemHandler):
    """What a web server has, as pyarrow asks for it. A path is the whole URL, not quoted."""

    def get_type_name(self) -> str:
        return "web"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[fs.FileInfo]:
        return [_info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        folders, found = [selector.base_dir], []
        while folders:
            folder = folders.pop()
            try:
                names = _listed(folder)
            except FileNotFoundError:
                if selector.allow_not_found and folder == selector.base_dir:
                    return []
                raise
            for name in names:
                path = posixpath.join(folder, name.rstrip("/"))
                if not name.endswith("/"):
                    found.append(_info(path))
                    continue
                found.append(fs.FileInfo(path, fs.FileType.Directory))
                if selector.recursive:
                    folders.append(path)
        return found

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        with _ask(path) as answer:
            return pa.PythonFile(io.BytesIO(answer.read()), mode="r")

    def _refuse(self, *paths: Any, **_: Any) -> NoReturn:
        raise ThalwegError(f"{paths[0]}: a web server is only read from: say where the table is to be (--table DIRECTORY, or table=)")

    create_dir = delete_dir = delete_dir_contents = delete_file = move = copy_file = _refuse
    open_output_stream = open_append_stream = _refuse

    def delete_root_dir_contents(self) -> None:
        self._refuse("the web server")


class _Links(HTMLParser):
    """The targets of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _ask(path: str, method: str = "GET") -> Any:
    scheme, _, rest = path.partition("://")
    host, slash, name = rest.partition("/")
    url = f"{scheme}://{host}{slash}{quote(name)}"
    try:
        return urlopen(Request(url, method=method), timeout=SILENT_S)
    except HTTPError as error:
        if error.code in GONE:
            raise FileNotFoundError(f"{path}: the server has no such file ({error.code} {error.reason})") from None
        raise ThalwegError(f"{path}: the server answers {error.code} {error.reason}: open it in a browser to see what it wants") from None
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise ThalwegError(f"{path}: the server cannot be reached ({reason}): check the address, and that it runs") from None


def _info(path: str) -> fs.FileInfo:
    try:
        answer = _ask(path, "HEAD")
    except FileNotFoundError:
        return fs.FileInfo(path, fs.FileType.NotFound)
    with answer:
        # A directory's name is answered with a way to the same with a slash.
        if answer.url.endswith("/"):
            return fs.FileInfo(path, fs.FileType.Directory)
        size, written = answer.headers.get("Content-Length"), answer.headers.get("Last-Modified")
    when = parsedate_to_datetime(written).timestamp() if written else None
    return fs.FileInfo(path, fs.FileType.File, size=int(size) if size else None, mtime=when)


def _listed(folder: str) -> list[str]:
    """The names in a directory, those of directories with a slash, from the page that the server makes of it."""
    if _info(folder).type == fs.FileType.File:
        raise ThalwegError(f"{folder}: a file, and no directory that the server lists: give the directory that it is in")
    with _ask(folder + "/") as answer:
        page, url = answer.read().decode("utf-8", "replace"), answer.url
    links = _Links()
    links.feed(page)
    names = set()
    for link in links.found:
        target = urljoin(url, link).partition("#")[0]
        # (What sorts the page is the same with a question behind it; the directory above is not below.)
        name = target.removeprefix(url) if target.startswith(url) and "?" not in target else ""
        if name and "/" not in name.rstrip("/"):
            names.add(unquote(name))
    return sorted(names)
