"""What traces and metrics for a collector cost a call. `python -m bench.tracing`."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb

from bench.overhead import measure
from bench.processes import LOAD_CPU, free_port, running

_OFF = {"A2A_METRICS_ADDR": "none"}
_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def collect(port: int) -> None:
    """Take spans and forget them, for ever."""
    method = grpc.unary_unary_rpc_method_handler(
        lambda _, __: pb.ExportTraceServiceResponse(),
        request_deserializer=pb.ExportTraceServiceRequest.FromString,
        response_serializer=pb.ExportTraceServiceResponse.SerializeToString,
    )
    service, name = _EXPORT[1:].split("/")
    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: method}),))
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        threading.Event().wait()


def _main(rounds: int, calls: int) -> None:
    port = free_port()
    on = {**_OFF, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
    cases = {
        "nothing": _OFF,
        "metrics": {"A2A_METRICS_ADDR": f"127.0.0.1:{free_port()}"},
        "metrics, 0.05 of the traces": on,
        "the same, no collector there": {**on, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}"},
        "metrics, all traces": {**on, "OTEL_TRACES_SAMPLER_ARG": "1"},
    }
    sys.stdout.write(
        "| call | with | a second | against nothing | CPU µs | against nothing |\n|---|---|---|---|---|---|\n"
    )
    with running(["-m", "bench.tracing", "collect", str(port)], LOAD_CPU):
        for row in measure(rounds, calls, cases):
            sys.stdout.write(
                f"| {row.work} | {row.case} | {row.per_second:.0f} | {row.against:.2f} | {row.cpu:.0f} "
                f"| {row.cpu_against:.3f} |\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1:2] == ["collect"]:
        collect(int(sys.argv[2]))
    else:
        _main(*(int(given) for given in sys.argv[1:3] or ("7", "4000")))
