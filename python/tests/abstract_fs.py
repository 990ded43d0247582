"""fsspec's own tests of a file system, on a store: run by pytest from `test_fs`, with the store in THALWEG_STORE."""

import itertools

import fsspec
import pytest
from fsspec.tests.abstract import AbstractCopyTests, AbstractFixtures, AbstractGetTests, AbstractOpenTests, AbstractPipeTests, AbstractPutTests

numbers = itertools.count()


class Fixtures(AbstractFixtures):
    """Where a test finds the store, and a directory of its own in it."""

    @pytest.fixture
    def fs(self):
        return fsspec.filesystem("thal")

    @pytest.fixture
    def fs_path(self, fs):
        path = f"/abstract-{next(numbers)}"
        fs.mkdir(path)
        yield path
        fs.rm(path, recursive=True)


class TestCopy(Fixtures, AbstractCopyTests):
    pass


class TestGet(Fixtures, AbstractGetTests):
    pass


class TestOpen(Fixtures, AbstractOpenTests):
    pass


class TestPipe(Fixtures, AbstractPipeTests):
    pass


class TestPut(Fixtures, AbstractPutTests):
    pass
