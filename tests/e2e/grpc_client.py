"""What the tests of gRPC share: grpcio and the client of our service, made from proto/; ends the test as SKIPPED without them."""
import importlib
import subprocess
import sys
import tempfile

from cluster import ROOT

try:
    import grpc
    import grpc_tools.protoc  # noqa: F401
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: F401
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: F401
    from grpc_reflection.v1alpha import reflection_pb2  # noqa: F401
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase  # noqa: F401
except ImportError as reason:
    print(f"SKIPPED gRPC's clients: {reason} (tools/check installs grpcio and its like from PyPI)")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def generate(folder, file):
    """The modules (messages, clients) of a .proto file in `folder`."""
    made = tempfile.mkdtemp(prefix="tandem-grpc-")
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder}", f"--python_out={made}",
                    f"--grpc_python_out={made}", file], check=True)
    sys.path.insert(0, made)
    name = file.removesuffix(".proto")
    return importlib.import_module(f"{name}_pb2"), importlib.import_module(f"{name}_pb2_grpc")


pb, services = generate(ROOT / "proto", "tandem_inference.proto")
Inference = services.InferenceStub  # grpcio's name of the class of a client


def channel(cluster):
    return grpc.insecure_channel(f"127.0.0.1:{cluster.port}")


def ask(kind, prompt, fields):
    """A request; kind: chat, ids or text."""
    fields = dict(fields)
    if kind == "chat":
        fields["chat"] = pb.Chat(messages=[pb.Message(**m) for m in prompt])
    elif kind == "ids":
        fields["token_ids"] = pb.TokenIds(ids=prompt)
    else:
        fields["text"] = prompt
    return pb.GenerateRequest(**fields)


def refused(function, code, *words):
    """The error with which the call ends, which has this status and these words."""
    try:
        answer = function()
        if hasattr(answer, "__iter__"):
            answer = list(answer)
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), error.details())
        assert all(word in error.details() for word in words), error.details()
        return error
    raise AssertionError(f"not refused: {answer}")


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])
