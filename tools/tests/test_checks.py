import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True

from checks import cpp, repo, text  # noqa: E402


class Links(unittest.TestCase):
    def findings(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, content in files.items():
                (root / f"{name}.md").write_text(content)
            return [(f.path, f.line) for f in text.check_links([f"{name}.md" for name in files], root)]

    def test_good_links(self):
        self.assertEqual(self.findings(a="# One\n[b](b.md) [x](https://example.org/y) [c](#one) [d](b.md#two-words)\n",
                                       b="## Two `words`\n"), [])

    def test_broken_links(self):
        self.assertEqual(self.findings(a="\n[b](b.md)\n[c](#none)\n", c="[a](a.md#two)\n"),
                         [("a.md", 2), ("a.md", 3), ("c.md", 1)])

    def test_code_is_no_link(self):
        self.assertEqual(self.findings(a="`[x](y)`\n```\n[b](b.md)\n```\n[d](gone.md)\n"), [("a.md", 5)])

    def test_equal_headings_are_numbered(self):
        self.assertEqual(text.anchors("# A b\n## A b\n```\n# no heading\n```\n"), {"a-b", "a-b-1"})


class MachinePaths(unittest.TestCase):
    def test_paths(self):
        for bad in ("/" + "work/x", "see /" + "root/.cache", "'/" + "home/me/ebb'", ".." + "/shared/data"):
            self.assertTrue(text.MACHINE_PATH.search(bad), bad)
        for good in ("$EBB_DATA/traces/philly", "docs/work/x", "a/root/b", "/tmp/x", "https://example.org/home/x"):
            self.assertFalse(text.MACHINE_PATH.search(good), good)


class Diagnostics(unittest.TestCase):
    def test_reads_compiler_output(self):
        output = "src/ebb/a.cc:3:7: warning: it is bad [x]\n#include <y>\n^\nsrc/ebb/a.cc:4:1: error: worse\n1 error generated.\n"
        self.assertEqual([(f.path, f.line, f.message) for f in cpp.findings_of(output, "!", "f")],
                         [("src/ebb/a.cc", 3, "it is bad [x]!"), ("src/ebb/a.cc", 4, "worse!")])

    def test_never_loses_a_failure(self):
        self.assertEqual(len(cpp.findings_of("", "", "f")), 1)

    def test_headers_are_seen_through_their_source(self):
        known = {"src/ebb/a.cc", "src/ebb/b_test.cc", "src/ebb/c.cc"}
        self.assertEqual(cpp.tidy_units(["src/ebb/a.h", "src/ebb/b.h", "src/ebb/c.cc", "src/ebb/d.h", "README.md"], known),
                         ["src/ebb/a.cc", "src/ebb/b_test.cc", "src/ebb/c.cc"])


class Packages(unittest.TestCase):
    def test_list_is_well_formed(self):
        groups, names = [], []
        for line in (repo.ROOT / "tools" / "packages.txt").read_text().splitlines():
            if line.startswith("["):
                groups.append(line)
            elif line and not line.startswith("#"):
                self.assertRegex(line, r"^[a-z0-9.+-]+(\|[a-z0-9.+-]+)*( unless:[a-z0-9-]+)?$")
                names.append(line.split()[0])
        self.assertEqual(groups, ["[build]", "[test]"])
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
