"""The fields of the custom resources in deploy/kubernetes, strictly: what no row names is a failure.

From the public definitions of LeaderWorkerSet v1 (kubernetes-sigs/lws), ScaledObject v1alpha1 (kedacore/keda) and PodMonitor v1
(prometheus-operator), August 2026; of their fields those that our manifests may use. Parts that are Kubernetes's own are given
to its schemas: PodTemplate, LabelSelector, the behaviour of a HorizontalPodAutoscaler.
"""
POD, SELECTOR, BEHAVIOR = "a pod template", "a selector", "an autoscaler's behavior"

KINDS = {
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): {
        "replicas": int,
        "startupPolicy": {"LeaderCreated", "LeaderReady"},
        "leaderWorkerTemplate": {
            "size": int, "restartPolicy": {"RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"},
            "leaderTemplate": POD, "workerTemplate": POD,
        },
        "rolloutStrategy": {"type": {"RollingUpdate"},
                            "rollingUpdateConfiguration": {"partition": int, "maxUnavailable": int, "maxSurge": int}},
        "networkConfig": {"subdomainPolicy": {"Shared", "UniquePerReplica"}},
    },
    ("keda.sh/v1alpha1", "ScaledObject"): {
        "scaleTargetRef": {"apiVersion": str, "kind": str, "name": str},
        "pollingInterval": int, "cooldownPeriod": int, "minReplicaCount": int, "maxReplicaCount": int,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": BEHAVIOR}},
        "triggers": [{
            "type": {"prometheus"}, "metricType": {"AverageValue", "Value"},
            "metadata": {"serverAddress": str, "query": str, "threshold": str, "activationThreshold": str},
        }],
    },
    ("monitoring.coreos.com/v1", "PodMonitor"): {
        "selector": SELECTOR,
        "podTargetLabels": [str],
        "podMetricsEndpoints": [{"port": str, "path": str, "interval": str, "scheme": {"http", "https"}}],
    },
}
NEEDED = {"LeaderWorkerSet": ["leaderWorkerTemplate"], "ScaledObject": ["scaleTargetRef", "triggers"],
          "PodMonitor": ["selector", "podMetricsEndpoints"]}


def as_kubernetes(rule, value):
    """The part of Kubernetes's own as an object that its schemas know."""
    if rule is POD:
        return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "part"}, "template": value}
    if rule is SELECTOR:
        return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "part"}, "spec": {"selector": value}}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "part"},
            "spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "part", "name": "part"}, "behavior": value}}


def errors_of(rule, value, path, native):
    """Texts of what is wrong with a value; `native` says them of an object of Kubernetes's own."""
    if rule in (POD, SELECTOR, BEHAVIOR):
        return [f"{path}: {text}" for text in native(as_kubernetes(rule, value))]
    if isinstance(rule, dict):
        if not isinstance(value, dict):
            return [f"{path}: must be a map"]
        unknown = [f"{path}.{key}: no such field" for key in value if key not in rule]
        return unknown + [text for key in value if key in rule for text in errors_of(rule[key], value[key], f"{path}.{key}", native)]
    if isinstance(rule, list):
        if not isinstance(value, list):
            return [f"{path}: must be a list"]
        return [text for i, entry in enumerate(value) for text in errors_of(rule[0], entry, f"{path}[{i}]", native)]
    if isinstance(rule, set):
        return [] if value in rule else [f"{path}: {value!r} is none of {sorted(rule)}"]
    return [] if type(value) is rule else [f"{path}: {value!r} is no {rule.__name__}"]


def errors(thing, native):
    """Texts of what is wrong with a custom resource, or None where its kind is not known."""
    rule = KINDS.get((thing["apiVersion"], thing["kind"]))
    if rule is None:
        return None
    missing = [f"spec.{key}: is needed" for key in NEEDED[thing["kind"]] if key not in thing["spec"]]
    return missing + errors_of(rule, thing["spec"], "spec", native)
