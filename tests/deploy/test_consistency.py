"""What deploy/ names is really there: metrics, options, routes, ports, files, versions."""

import json
import re
import shlex

import pytest
import typer
import yaml

import tapgnn
from tapgnn.cli.app import app
from tests.deploy.conftest import DEPLOY, ROOT

# Labels that Prometheus adds.
SCRAPED = {"instance", "job"}


def alerts():
    (group,) = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def expressions():
    """Every expression of the alerts and of the dashboard."""
    dashboard = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
    yield from (rule["expr"] for rule in alerts().values())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    yield from (variable["query"]["query"] for variable in dashboard["templating"]["list"])
    yield from (each["expr"] for each in dashboard["annotations"]["list"])


def test_every_metric_and_label_in_alerts_and_dashboard_is_served(server, rows):
    with server.client() as client, server.http() as http:
        client.observe(rows[:10])
        client.score([("a1", "m1")])
        shown = http.get("/metrics").text
    names = {line.split()[2] for line in shown.splitlines() if line.startswith("# TYPE ")}
    labels: dict[str, set[str]] = {}
    for line in shown.splitlines():
        if found := re.match(r"(\w+)(?:\{(.*)\})? ", line):
            names.add(found[1])
            labels.setdefault(found[1], set()).update(re.findall(r'(\w+)="', found[2] or ""))
    asked = [
        found for text in expressions() for found in re.findall(r"\b((?:tapgnn|process)_\w+)(?:\{([^}]*)\})?", text)
    ]
    assert len(asked) > 30
    for name, chosen in asked:
        assert name in names, name
        assert set(re.findall(r"(\w+)\s*=~?", chosen)) <= labels.get(name, set()) | SCRAPED, (name, chosen)
    # A counter that begins with its first refusal would be no increase.
    statuses = {status for text in expressions() for status in re.findall(r'status="(\d+)"', text)}
    assert statuses
    assert all(f'tapgnn_refused_requests_total{{status="{status}"}} 0.0' in shown for status in statuses)


def test_every_alert_has_a_test_and_says_what_to_do():
    tested = (DEPLOY / "prometheus/alerts_test.yml").read_text()
    for name, rule in alerts().items():
        assert f'alertname="{name}"' in tested, name
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "description"}


def arguments(dockerfile, compose, unit, kubernetes):
    """The arguments of `tapgnn` wherever a server is started."""
    return {
        "Dockerfile": json.loads(next(text for word, text in dockerfile if word == "CMD")),
        "compose": compose["services"]["tapgnn"]["command"],
        "systemd": shlex.split(unit["ExecStart"])[1:],
        "kubernetes": kubernetes["args"],
    }


@pytest.fixture
def served(dockerfile, compose, unit, kubernetes):
    """What the command line makes of them; an option that does not exist is an error."""
    serve = typer.main.get_command(app).commands["serve"]
    found = {}
    for place, (command, *rest) in arguments(dockerfile, compose, unit, kubernetes).items():
        assert command == "serve", place
        found[place] = serve.make_context("serve", list(rest)).params
    return found


def test_every_server_is_started_with_options_that_exist(served):
    for place, options in served.items():
        assert options["port"] == 8000, place
        assert options["tokens"] is not None, place
        assert "password" not in options["journal"], place
        # Beyond this machine only from within a container.
        assert options["host"] == ("127.0.0.1" if place == "systemd" else "0.0.0.0"), place


def test_probes_and_proxies_ask_routes_that_exist_on_the_port_that_is_served(dockerfile, compose, kubernetes, server):
    open_paths = {route.path for route in server.app.routes if route.access == "open"}
    checks = [
        next(text for word, text in dockerfile if word == "HEALTHCHECK"),
        " ".join(compose["services"]["tapgnn"]["healthcheck"]["test"]),
    ]
    asked = [re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", text).groups() for text in checks]
    assert {port for port, _ in asked} == {"8000"}
    probes = [kubernetes[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert {probe["port"] for probe in probes} == {kubernetes["ports"][0]["name"]}
    assert kubernetes["ports"][0]["containerPort"] == 8000
    paths = [path for _, path in asked] + [probe["path"] for probe in probes]
    # What heals without a restart must not cause one.
    assert paths == ["/healthz", "/readyz", "/readyz", "/readyz", "/healthz"]
    assert set(paths) <= open_paths
    (job,) = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert job["metrics_path"] in {route.path for route in server.app.routes if route.access == "read"}
    assert job["static_configs"] == [{"targets": ["tapgnn:8000"]}]
    assert "server 127.0.0.1:8000;" in (DEPLOY / "nginx.conf").read_text()
    assert ["EXPOSE", "8000"] in dockerfile


def test_files_that_are_mounted_or_copied_exist(compose, dockerfile):
    for service in compose["services"].values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            if source.startswith("./") and source != "./prometheus.token":
                assert (DEPLOY / source).exists(), source
            elif "$" not in source and not source.startswith("./"):
                assert source in compose["volumes"]
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        name for word, text in dockerfile if word == "COPY" and "--from" not in text for name in text.split()[:-1]
    }
    # What the package is built from, by its own word.
    assert copied == kept == {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "src"}
    assert all((ROOT / name).exists() for name in kept)
    assert len(re.findall(r"^torch==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)) == 1


def test_no_image_runs_as_root_and_all_have_the_version_of_the_package(compose, dockerfile, kubernetes, unit):
    user = [text for word, text in dockerfile if word == "USER"]
    assert user == ["10001:10001"]
    assert unit["User"] == "tapgnn"
    for image in (compose["services"]["tapgnn"]["image"], kubernetes["image"]):
        assert image == f"tapgnn:{tapgnn.__version__}"
    for service in compose["services"].values():
        assert not service["image"].endswith(":latest")
        assert ":" in service["image"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_the_dashboard_reads_the_data_source_that_is_provisioned():
    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    dashboard = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
    used = {target["datasource"]["uid"] for panel in dashboard["panels"] for target in panel["targets"]}
    assert used == {source["uid"]}
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len({*numbers}) == len(numbers)


def test_every_file_is_in_the_documentation():
    told = (ROOT / "docs/deployment.md").read_text()
    for path in (*DEPLOY.rglob("*"), ROOT / "Dockerfile"):
        if path.is_file():
            assert path.name in told or str(path.parent.relative_to(ROOT)) in told, path
