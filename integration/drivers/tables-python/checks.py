"""Counts checks. A group that passes prints "ok GROUP COUNT"; each check that fails prints "fail GROUP MESSAGE"."""

import contextlib
import os
import traceback

ENDPOINTS = os.environ.get("CQLD_TABLES", "http://127.0.0.1:10002").split(",")
ACCOUNT = os.environ.get("CQLD_TABLES_ACCOUNT", "devstoreaccount1")
# The development account's key is public: every emulator has it.
KEY = os.environ.get("CQLD_TABLES_KEY", "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
PREFIX = os.environ.get("CQLD_TABLES_PREFIX", "t")


class Checks:
    def __init__(self):
        self.group, self.count, self.failures, self.failed = "", 0, [], False

    @contextlib.contextmanager
    def named(self, group):
        self.group, self.count, self.failures = group, 0, []
        try:
            yield
        except Exception as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            self.failures.append("%s:%d: %s: %s" % (os.path.basename(where.filename), where.lineno, type(e).__name__, str(e)[:500]))
        for f in self.failures:
            print("fail %s %s" % (group, " ".join(f.split())), flush=True)
        self.failed = self.failed or bool(self.failures)
        if not self.failures:
            print("ok %s %d" % (group, self.count), flush=True)

    def true(self, condition, what):
        self.count += 1
        if not condition:
            where = traceback.extract_stack()
            line = next(f.lineno for f in reversed(where) if not f.filename.endswith("checks.py"))
            self.failures.append("line %d: %s" % (line, what))

    def same(self, got, want, what):
        self.true(got == want, "%s: got %s, want %s" % (what, repr(got)[:300], repr(want)[:300]))

    def reply(self, r, status, code=None, headers=None, absent=()):
        """Checks status, error code in body (and in the header where the service says it there), headers."""
        what = r.what
        self.same(r.status, status, what + ": status")
        if code is not None:
            self.same(r.code, code, what + ": code")
        for name, want in (headers or {}).items():
            got = r.headers.get(name)
            self.true(want(got) if callable(want) else got == want, "%s: header %s: %r" % (what, name, got))
        for name in absent:
            self.true(name not in r.headers, "%s: header %s: %r" % (what, name, r.headers.get(name)))


def run(groups):
    """Runs the functions, each a group of its own name; returns the exit status."""
    c = Checks()
    for g in groups:
        with c.named(g.__name__):
            g(c)
    return 1 if c.failed else 0
