"""Uses the rate limit service with nothing but what reflection says about it. Argument: its address."""

import sys

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

PATIENCE_SECONDS = 60

channel = grpc.insecure_channel(sys.argv[1])
database = ProtoReflectionDescriptorDatabase(channel)
pool = descriptor_pool.DescriptorPool(database)
services = sorted(database.get_services())
assert services == [
    "envoy.service.ratelimit.v3.RateLimitService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
], services


def message(name):
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


# Every message that the services speak can be made.
for service in services:
    for method in pool.FindServiceByName(service).methods:
        message_factory.GetMessageClass(method.input_type)()
        message_factory.GetMessageClass(method.output_type)()

Request = message("envoy.service.ratelimit.v3.RateLimitRequest")
Response = message("envoy.service.ratelimit.v3.RateLimitResponse")
ask = channel.unary_unary(
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    request_serializer=Request.SerializeToString,
    response_deserializer=Response.FromString,
)
request = json_format.ParseDict(
    {
        "domain": "test",
        "descriptors": [
            {"entries": [{"key": "ten", "value": "python"}], "hitsAddend": "3"},
            {"entries": [{"key": "one", "value": "python"}], "limit": {"requestsPerUnit": 9, "unit": "HOUR"}},
        ],
    },
    Request(),
)
reply = json_format.MessageToDict(ask(request, timeout=PATIENCE_SECONDS))
assert reply["overallCode"] == "OK", reply
assert [status["limitRemaining"] for status in reply["statuses"]] == [7, 8], reply
assert reply["statuses"][1]["currentLimit"] == {"requestsPerUnit": 9, "unit": "HOUR"}, reply

Health = message("grpc.health.v1.HealthCheckRequest")
State = message("grpc.health.v1.HealthCheckResponse")
watch = channel.unary_stream(
    "/grpc.health.v1.Health/Watch",
    request_serializer=Health.SerializeToString,
    response_deserializer=State.FromString,
)
changes = watch(Health(service="ratelimit"), timeout=PATIENCE_SECONDS)
assert json_format.MessageToDict(next(changes)) == {"status": "SERVING"}
changes.cancel()

# Questions without an answer are answered too, all on one stream.
stub = reflection_pb2_grpc.ServerReflectionStub(channel)
questions = [
    reflection_pb2.ServerReflectionRequest(file_by_filename="no/such.proto"),
    reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.such.Symbol"),
    reflection_pb2.ServerReflectionRequest(
        file_containing_extension=reflection_pb2.ExtensionRequest(containing_type="a.B", extension_number=1)
    ),
    reflection_pb2.ServerReflectionRequest(all_extension_numbers_of_type="envoy.type.v3.RateLimitUnit"),
    reflection_pb2.ServerReflectionRequest(),
]
answers = list(stub.ServerReflectionInfo(iter(questions), timeout=PATIENCE_SECONDS))
assert [answer.WhichOneof("message_response") for answer in answers] == [
    "error_response",
    "error_response",
    "error_response",
    "all_extension_numbers_response",
    "error_response",
], answers
assert [answer.error_response.error_code for answer in answers] == [5, 5, 5, 0, 3], answers

# A message longer than any question ends the stream with a status.
long = reflection_pb2.ServerReflectionRequest(file_by_filename="x" * 100_000)
try:
    list(stub.ServerReflectionInfo(iter([long]), timeout=PATIENCE_SECONDS))
    raise AssertionError("a question of 100,000 bytes is answered")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
print("ok")
