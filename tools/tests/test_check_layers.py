import importlib.machinery
import importlib.util
import pathlib
import unittest

TOOL = pathlib.Path(__file__).parent.parent / "check-layers"


def load():
    loader = importlib.machinery.SourceFileLoader("check_layers", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_layers", loader))
    loader.exec_module(module)
    return module


layers = load()


def messages(path, *includes):
    return [message for _, message in layers.check_file(path, "\n".join(f"#include {i}" for i in includes))]


class Includes(unittest.TestCase):
    def test_allowed(self):
        self.assertEqual(messages("src/ebb/sched/step.cc", '"ebb/sched/step.h"', '"ebb/model/job.h"', "<vector>"), [])
        self.assertEqual(messages("src/ebb/cli/run.cc", '"ebb/version.h"', '"ebb/sim/engine.h"'), [])

    def test_upwards(self):
        text = "#pragma once\n\n#include \"ebb/sim/engine.h\"\n"
        findings = layers.check_file("src/ebb/sched/step.h", text)
        self.assertEqual([line for line, _ in findings], [3])
        self.assertIn("sched must not include 'ebb/sim/engine.h'", findings[0][1])
        self.assertEqual(len(messages("src/ebb/base/log.cc", '"ebb/model/job.h"')), 1)

    def test_drivers_do_not_know_each_other(self):
        self.assertEqual(len(messages("src/ebb/control/store.cc", '"ebb/sim/engine.h"')), 1)
        self.assertEqual(len(messages("src/ebb/sim/engine.cc", '"ebb/control/store.h"')), 1)

    def test_unit_tests_follow_the_same_table(self):
        self.assertEqual(len(messages("src/ebb/sched/step_test.cc", '"ebb/sim/engine.h"')), 1)

    def test_policy_sees_its_own_folder(self):
        self.assertEqual(messages("src/ebb/policies/fifo/fifo.cc", '"ebb/policies/fifo/fifo.h"', '"ebb/sched/step.h"'), [])
        self.assertEqual(messages("src/ebb/policies/all.cc", '"ebb/policies/fifo/fifo.h"'), [])
        self.assertIn("policy 'fifo'", messages("src/ebb/policies/fifo/fifo.cc", '"ebb/policies/drf/drf.h"')[0])
        self.assertEqual(len(messages("src/ebb/policies/fifo/fifo.cc", '"ebb/policies/all.h"')), 1)

    def test_only_apps_see_the_list_of_policies(self):
        self.assertEqual(messages("src/ebb/apps/ebb_main.cc", '"ebb/policies/all.h"'), [])
        self.assertEqual(len(messages("src/ebb/cli/run.cc", '"ebb/policies/all.h"')), 1)

    def test_control_sees_the_interface_of_backend(self):
        self.assertEqual(messages("src/ebb/control/loop.cc", '"ebb/backend/backend.h"'), [])
        self.assertEqual(len(messages("src/ebb/control/loop.cc", '"ebb/backend/slurm/slurm.h"')), 1)

    def test_unknown_module(self):
        self.assertIn("not in the table", messages("src/ebb/misc/a.cc", '"ebb/base/result.h"')[0])

    def test_include_path_from_src(self):
        self.assertEqual(len(messages("src/ebb/base/result.cc", '"result.h"')), 1)


class Libraries(unittest.TestCase):
    def test_allowed(self):
        self.assertEqual(messages("src/ebb/spec/scenario.cc", "<yaml-cpp/yaml.h>"), [])
        self.assertEqual(messages("src/ebb/cli/options.h", "<CLI/CLI.hpp>", "<nlohmann/json.hpp>"), [])
        self.assertEqual(messages("src/ebb/base/files.cc", "<zlib.h>"), [])
        self.assertEqual(messages("src/ebb/base/files_test.cc", "<zlib.h>"), [])
        self.assertEqual(messages("src/ebb/perf/delaunay.cc", "<libqhull_r/qhull_ra.h>"), [])
        self.assertEqual(messages("src/ebb/perf/fit.cc", "<nlopt.h>"), [])

    def test_forbidden(self):
        self.assertEqual(len(messages("src/ebb/sim/run.cc", "<yaml-cpp/yaml.h>")), 1)
        self.assertEqual(len(messages("src/ebb/sim/run.cc", "<CLI/CLI.hpp>")), 1)
        self.assertEqual(len(messages("src/ebb/sched/step.cc", "<nlohmann/json.hpp>")), 1)
        self.assertEqual(len(messages("src/ebb/base/other.cc", "<zlib.h>")), 1)
        self.assertEqual(len(messages("src/ebb/perf/profile.cc", "<libqhull_r/qhull_ra.h>")), 1)
        self.assertEqual(len(messages("src/ebb/sched/step.cc", "<nlopt.h>")), 1)


class CMake(unittest.TestCase):
    def test_dependencies(self):
        self.assertEqual(layers.check_cmake("ebb_module(base LIBS fmt::fmt)\nebb_module(spec DEPS model base LIBS y)\n"), [])
        findings = layers.check_cmake("\nebb_module(sched DEPS sim base)\n")
        self.assertEqual(findings, [(2, "sched must not depend on sim")])
        self.assertEqual(len(layers.check_cmake("ebb_module(misc DEPS base)")), 1)


class Table(unittest.TestCase):
    def test_has_no_cycle(self):
        def reach(module, path):
            self.assertNotIn(module, path)
            for other in layers.ALLOWED[module]:
                reach(other, path + [module])
        for module in layers.ALLOWED:
            reach(module, [])


if __name__ == "__main__":
    unittest.main()
