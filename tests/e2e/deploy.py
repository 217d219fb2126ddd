"""Renders the Helm chart and checks it and the Compose file against the schemas of Kubernetes and Compose.

Usage: deploy.py ROOT TOLLGATE

The renderer knows the few forms that the chart uses and refuses every other, so that what it renders is
what Helm renders.
"""

import copy
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml
from compose_spec import PyCompose

KUBERNETES = ["1.27", "1.31", "1.34"]


class Renderer:
    """The part of Go's templates that the chart uses: values, `if` with `end`, and some functions."""

    def __init__(self, values, chart):
        self.data = {
            "Values": values,
            "Release": {"Name": "gates"},
            "Chart": {"AppVersion": chart["appVersion"]},
        }

    def render(self, text):
        out, shown = [], [True]
        # As in Go, `{{-` takes the white space before it away.
        for part in re.split(r"(\s*\{\{-.*?\}\}|\{\{.*?\}\})", text):
            action = re.fullmatch(r"\s*\{\{-?\s*(.*?)\s*\}\}", part, re.DOTALL)
            if action is None:
                if shown[-1]:
                    out.append(part)
                continue
            words = action.group(1)
            if words.startswith("if "):
                shown.append(shown[-1] and bool(self.value(words[3:])))
            elif words == "end":
                shown.pop()
            elif shown[-1]:
                out.append(str(self.value(words)))
        assert shown == [True], "an `if` has no `end`"
        return "".join(out)

    def value(self, words):
        value = None
        for number, call in enumerate(words.split(" | ")):
            name, *arguments = call.split()
            arguments = [self.atom(argument) for argument in arguments]
            if number > 0:
                arguments.append(value)
            value = self.atom(name) if name.startswith(".") else self.call(name, arguments)
        return value

    def atom(self, word):
        if not word.startswith("."):
            return int(word)
        found = self.data
        for key in word[1:].split("."):
            assert key in found, f"the chart has no value {word}"
            found = found[key]
        return found

    @staticmethod
    def call(name, arguments):
        match name, arguments:
            case "quote", [value]:
                return json.dumps(str(value))
            case "toJson", [value]:
                return json.dumps(value)
            case "toYaml", [value]:
                return yaml.safe_dump(value, default_flow_style=False).rstrip("\n")
            case "nindent", [count, value]:
                pad = "\n" + " " * count
                return pad + str(value).replace("\n", pad)
            case "default", [usual, value]:
                return value or usual
            case "add", [one, other]:
                return one + other
            case "gt", [one, other]:
                return one > other
        raise AssertionError(f"the renderer does not know `{name}` of {len(arguments)} values")


def rendered(chart_folder, changes):
    values = yaml.safe_load((chart_folder / "values.yaml").read_text())
    values = merged(values, changes)
    schema = json.loads((chart_folder / "values.schema.json").read_text())
    jsonschema.validate(values, schema)
    chart = yaml.safe_load((chart_folder / "Chart.yaml").read_text())
    objects = []
    for template in sorted((chart_folder / "templates").iterdir()):
        text = Renderer(values, chart).render(template.read_text())
        objects += [found for found in yaml.safe_load_all(text) if found]
    return objects


def merged(values, changes):
    values = copy.deepcopy(values)
    for key, change in changes.items():
        both = isinstance(change, dict) and isinstance(values.get(key), dict)
        values[key] = merged(values[key], change) if both else change
    return values


VARIANTS = {
    "as it is": {},
    "with everything": {
        "replicas": 5,
        "hostnames": ["gate.example.com", "gate"],
        "store": {"caSecret": "db-ca"},
        "metricsSecret": "metrics",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "gates", "operator": "Exists"}],
        "service": {"type": "LoadBalancer", "port": 8443},
        "settings": 'durability = "power"\n\n[limits]\nin_flight_per_grant_max = 8\n',
    },
    "with little": {"replicas": 1, "drainSeconds": 0, "store": {"migrate": {"enabled": False}}},
}
REFUSED = {
    "a password in the address": {"store": {"address": "postgres://u:secret@db/t"}},
    "no replica": {"replicas": 0},
    "an unknown value": {"replica": 3},
}


def check_chart(root, tollgate):
    folder = root / "packaging/helm/tollgate"
    version = re.search(r'^version = "(.*)"', (root / "Cargo.toml").read_text(), re.MULTILINE)
    chart = yaml.safe_load((folder / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == version.group(1), "the chart's version"
    for name, changes in VARIANTS.items():
        objects = rendered(folder, changes)
        for kubernetes in KUBERNETES:
            for found in objects:
                kubernetes_validate.validate(found, kubernetes, strict=True)
        kinds = sorted(found["kind"] for found in objects)
        check_objects({found["kind"]: found for found in objects}, tollgate)
        print(f"ok the chart {name}: {', '.join(kinds)}")
    for name, changes in REFUSED.items():
        try:
            rendered(folder, changes)
        except jsonschema.ValidationError:
            print(f"ok the chart refuses {name}")
        else:
            raise AssertionError(f"the chart accepts {name}")


def check_objects(objects, tollgate):
    """What the schema cannot know: names that refer to each other, and what tollgate understands."""
    pod = objects["Deployment"]["spec"]["template"]
    selector = objects["Deployment"]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert objects["Service"]["spec"]["selector"] == selector
    gate = pod["spec"]["containers"][0]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in gate["volumeMounts"]} <= volumes
    ports = {port["name"] for port in gate["ports"]}
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] in ports
    settings = tomllib.loads(objects["ConfigMap"]["data"]["tollgate.toml"])
    assert settings["listen"].endswith(str(gate["ports"][0]["containerPort"]))
    understood(tollgate, gate["args"])
    if job := objects.get("Job"):
        understood(tollgate, job["spec"]["template"]["spec"]["containers"][0]["args"])


def understood(tollgate, arguments):
    done = subprocess.run([tollgate, *arguments, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_compose(root, tollgate):
    folder = root / "packaging/compose"
    text = (folder / "compose.yaml").read_text()
    PyCompose.from_yaml(text).validate()
    compose = yaml.safe_load(text)
    services = compose["services"]
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (folder / source).exists(), f"{name}: {source}"
        for secret in service.get("secrets", []):
            secret = secret if isinstance(secret, str) else secret["source"]
            assert secret in compose["secrets"], f"{name}: {secret}"
        assert set(service.get("depends_on", [])) <= services.keys(), name
        if service["image"] == "tollgate":
            understood(tollgate, service["command"])
            assert "password_file=" in service["environment"]["TOLLGATE_STORE"], name
    settings = tomllib.loads((folder / "tollgate.toml").read_text())
    port = settings["listen"].rsplit(":")[-1]
    balancer = (folder / "haproxy.cfg").read_text()
    assert f"gate:{port}" in balancer and "/readyz" in balancer
    replicas = services["gate"]["deploy"]["replicas"]
    assert f"server-template gate {replicas} " in balancer
    print("ok the Compose file")


def main():
    root, tollgate = Path(sys.argv[1]), sys.argv[2]
    check_chart(root, tollgate)
    check_compose(root, tollgate)


if __name__ == "__main__":
    main()
