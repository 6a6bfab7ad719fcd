"""The standard variables of OpenTelemetry, and endpoints that refuse what hilum sends."""

import socket
import threading
from contextlib import contextmanager

import hilum_otel
import pytest
import trio
import trustme
from hilum.events import ErrorRaised
from hilum.testing import open_bench
from otlp_receiver import receive


async def export(environ, answers=("ok",), **settings):
    """Run a session whose export is configured by variables."""
    chosen = {"otel.enabled": True, **settings}
    async with open_bench(
        hilum_otel, answers=list(answers), settings=chosen, environ=environ
    ) as bench:
        await bench.run("x")
    return bench


async def fail_to_export(environ, **settings):
    """Return the error that the user sees when the export fails."""
    chosen = {"otel.enabled": True, "otel.flush_timeout": 0.3, **settings}
    # The SDK reports a failure after the last attempt.
    environ = {"OTEL_EXPORTER_OTLP_TIMEOUT": "2", "OTEL_BSP_SCHEDULE_DELAY": "1", **environ}
    async with open_bench(
        hilum_otel, answers=["1", "2"], settings=chosen, environ=environ
    ) as bench:
        await bench.run("x")
        pipeline = await bench.session.kernel.plugin(hilum_otel.Telemetry).load()
        with bench.guard():
            await trio.to_thread.run_sync(pipeline.has_failed.wait, 20)
        # The error is shown at the end of the next run.
        await bench.run("x")
        return (await bench.wait_for(ErrorRaised)).message


@contextmanager
def plain_server(answer=b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"):
    """Answer whatever is sent with the same bytes."""

    def serve():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client:
                client.recv(65536)
                client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


async def test_the_variables_choose_endpoint_headers_service_and_resource():
    with receive() as received:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"{received.url}/",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b, x-other=2",
            "OTEL_SERVICE_NAME": "coder",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=lab,team=blue,service.name=no",
        }
        await export(environ)
    assert {path for path, _ in received.requests} == {"/v1/traces", "/v1/metrics", "/v1/logs"}
    assert {headers["x-key"] for _, headers in received.requests} == {"a b"}
    assert {headers["x-other"] for _, headers in received.requests} == {"2"}
    resource = received.resources[0]
    assert resource["service.name"] == "coder"
    assert resource["deployment.environment"] == "lab"
    assert resource["team"] == "blue"


async def test_the_variables_of_a_signal_precede_the_general_ones():
    with receive() as general, receive() as traces:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": general.url,
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{traces.url}/v1/traces",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-key=traces",
            "OTEL_EXPORTER_OTLP_HEADERS": "x-key=general",
            "OTEL_LOGS_EXPORTER": "none",
            # The protocol of a signal that is not exported does not matter.
            "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc",
        }
        await export(environ)
    assert {path for path, _ in general.requests} == {"/v1/metrics"}
    assert {path for path, _ in traces.requests} == {"/v1/traces"}
    assert {headers["x-key"] for _, headers in traces.requests} == {"traces"}


async def test_a_service_name_among_the_resource_attributes_counts():
    with receive() as received:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": received.url,
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=from-attributes",
        }
        await export(environ)
    assert received.resources[0]["service.name"] == "from-attributes"


@pytest.mark.parametrize("value", ["true", "TRUE", " true "])
async def test_a_disabled_sdk_exports_nothing(value):
    with receive() as received:
        environ = {"OTEL_SDK_DISABLED": value, "OTEL_EXPORTER_OTLP_ENDPOINT": received.url}
        await export(environ)
    assert received.requests == []


async def test_https_with_a_certificate_that_a_variable_names(tmp_path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with receive(certificate=authority.issue_cert("127.0.0.1")) as received:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": received.url,
            "OTEL_EXPORTER_OTLP_CERTIFICATE": str(tmp_path / "ca.pem"),
        }
        await export(environ)
    assert received.named("invoke_agent main")


async def test_https_with_an_unknown_certificate_is_explained():
    with receive(certificate=trustme.CA().issue_cert("127.0.0.1")) as received:
        message = await fail_to_export({"OTEL_EXPORTER_OTLP_ENDPOINT": received.url})
    assert "certificate is not trusted" in message
    assert received.requests == []


async def test_https_to_a_port_without_tls_is_explained():
    with plain_server() as url:
        url = url.replace("http:", "https:")
        message = await fail_to_export({"OTEL_EXPORTER_OTLP_ENDPOINT": url})
    assert "does not speak TLS" in message


async def test_a_grpc_endpoint_is_explained():
    # An HTTP/2 frame that says goodbye is how gRPC servers answer HTTP/1.1.
    with plain_server(b"\x00\x00\x08\x07\x00" + bytes(12)) as url:
        message = await fail_to_export({"OTEL_EXPORTER_OTLP_ENDPOINT": url})
    assert "cannot be reached" in message


async def test_the_usual_port_of_grpc_is_named():
    # Nothing has to listen there.
    message = await fail_to_export({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"})
    assert "Port 4317 usually expects gRPC; for HTTP, use port 4318." in message


async def test_a_status_is_explained():
    with receive(status=401) as received:
        message = await fail_to_export({"OTEL_EXPORTER_OTLP_ENDPOINT": received.url})
    assert message == "Telemetry is not exported. The endpoint answered 401 Unauthorized."


async def test_a_failure_contains_no_password_of_the_endpoint():
    with receive(status=401) as received:
        url = received.url.replace("//", "//user:hunter2@")
        message = await fail_to_export({}, **{"otel.endpoint": url})
    assert "hunter2" not in message
