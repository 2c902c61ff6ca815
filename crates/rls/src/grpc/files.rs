//! The protobuf files of the services: field numbers are those of `envoy/service/ratelimit/v3/rls.proto` and what it imports,
//! `grpc/health/v1/health.proto` and `grpc/reflection/v1/reflection.proto`.

use super::descriptors::{Enum, Field, File, Message, Method, Of, Service};

const NO_FILE: File = File {
    name: "",
    package: "",
    imports: &[],
    messages: &[],
    enums: &[],
    services: &[],
};

const NO_MESSAGE: Message = Message {
    name: "",
    fields: &[],
    messages: &[],
    enums: &[],
    choice: None,
    entry: false,
};

/// Both versions of reflection are the same but for their names.
macro_rules! reflection {
    ($version:literal) => {
        File {
            name: concat!("grpc/reflection/", $version, "/reflection.proto"),
            package: concat!("grpc.reflection.", $version),
            messages: &[
                Message {
                    name: "ServerReflectionRequest",
                    fields: &[
                        Field("host", 1, Of::Text),
                        Field("file_by_filename", 3, Of::Text),
                        Field("file_containing_symbol", 4, Of::Text),
                        Field(
                            "file_containing_extension",
                            5,
                            Of::Message(concat!(
                                ".grpc.reflection.",
                                $version,
                                ".ExtensionRequest"
                            )),
                        ),
                        Field("all_extension_numbers_of_type", 6, Of::Text),
                        Field("list_services", 7, Of::Text),
                    ],
                    choice: Some(("message_request", &[3, 4, 5, 6, 7])),
                    ..NO_MESSAGE
                },
                Message {
                    name: "ExtensionRequest",
                    fields: &[
                        Field("containing_type", 1, Of::Text),
                        Field("extension_number", 2, Of::I32),
                    ],
                    ..NO_MESSAGE
                },
                Message {
                    name: "ServerReflectionResponse",
                    fields: &[
                        Field("valid_host", 1, Of::Text),
                        Field(
                            "original_request",
                            2,
                            Of::Message(concat!(
                                ".grpc.reflection.",
                                $version,
                                ".ServerReflectionRequest"
                            )),
                        ),
                        Field(
                            "file_descriptor_response",
                            4,
                            Of::Message(concat!(
                                ".grpc.reflection.",
                                $version,
                                ".FileDescriptorResponse"
                            )),
                        ),
                        Field(
                            "all_extension_numbers_response",
                            5,
                            Of::Message(concat!(
                                ".grpc.reflection.",
                                $version,
                                ".ExtensionNumberResponse"
                            )),
                        ),
                        Field(
                            "list_services_response",
                            6,
                            Of::Message(concat!(
                                ".grpc.reflection.",
                                $version,
                                ".ListServiceResponse"
                            )),
                        ),
                        Field(
                            "error_response",
                            7,
                            Of::Message(concat!(".grpc.reflection.", $version, ".ErrorResponse")),
                        ),
                    ],
                    choice: Some(("message_response", &[4, 5, 6, 7])),
                    ..NO_MESSAGE
                },
                Message {
                    name: "FileDescriptorResponse",
                    fields: &[Field("file_descriptor_proto", 1, Of::BytesList)],
                    ..NO_MESSAGE
                },
                Message {
                    name: "ExtensionNumberResponse",
                    fields: &[
                        Field("base_type_name", 1, Of::Text),
                        Field("extension_number", 2, Of::I32List),
                    ],
                    ..NO_MESSAGE
                },
                Message {
                    name: "ListServiceResponse",
                    fields: &[Field(
                        "service",
                        1,
                        Of::Messages(concat!(".grpc.reflection.", $version, ".ServiceResponse")),
                    )],
                    ..NO_MESSAGE
                },
                Message {
                    name: "ServiceResponse",
                    fields: &[Field("name", 1, Of::Text)],
                    ..NO_MESSAGE
                },
                Message {
                    name: "ErrorResponse",
                    fields: &[
                        Field("error_code", 1, Of::I32),
                        Field("error_message", 2, Of::Text),
                    ],
                    ..NO_MESSAGE
                },
            ],
            services: &[Service(
                "ServerReflection",
                &[Method(
                    "ServerReflectionInfo",
                    concat!(".grpc.reflection.", $version, ".ServerReflectionRequest"),
                    concat!(".grpc.reflection.", $version, ".ServerReflectionResponse"),
                    [true, true],
                )],
            )],
            ..NO_FILE
        }
    };
}

pub(super) const FILES: &[File] = &[
    File {
        name: "envoy/service/ratelimit/v3/rls.proto",
        package: "envoy.service.ratelimit.v3",
        imports: &[
            "envoy/config/core/v3/base.proto",
            "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
            "google/protobuf/duration.proto",
            "google/protobuf/struct.proto",
            "google/protobuf/timestamp.proto",
        ],
        messages: &[
            Message {
                name: "RateLimitRequest",
                fields: &[
                    Field("domain", 1, Of::Text),
                    Field(
                        "descriptors",
                        2,
                        Of::Messages(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor"),
                    ),
                    Field("hits_addend", 3, Of::U32),
                ],
                ..NO_MESSAGE
            },
            Message {
                name: "RateLimitResponse",
                fields: &[
                    Field(
                        "overall_code",
                        1,
                        Of::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
                    ),
                    Field(
                        "statuses",
                        2,
                        Of::Messages(
                            ".envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus",
                        ),
                    ),
                    Field(
                        "response_headers_to_add",
                        3,
                        Of::Messages(".envoy.config.core.v3.HeaderValue"),
                    ),
                    Field(
                        "request_headers_to_add",
                        4,
                        Of::Messages(".envoy.config.core.v3.HeaderValue"),
                    ),
                    Field("raw_body", 5, Of::Bytes),
                    Field(
                        "dynamic_metadata",
                        6,
                        Of::Message(".google.protobuf.Struct"),
                    ),
                    Field(
                        "quota",
                        7,
                        Of::Message(".envoy.service.ratelimit.v3.RateLimitResponse.Quota"),
                    ),
                ],
                messages: &[
                    Message {
                        name: "RateLimit",
                        fields: &[
                            Field("name", 3, Of::Text),
                            Field("requests_per_unit", 1, Of::U32),
                            Field(
                                "unit",
                                2,
                                Of::Enum(
                                    ".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit",
                                ),
                            ),
                        ],
                        enums: &[Enum(
                            "Unit",
                            &[
                                ("UNKNOWN", 0),
                                ("SECOND", 1),
                                ("MINUTE", 2),
                                ("HOUR", 3),
                                ("DAY", 4),
                                ("WEEK", 7),
                                ("MONTH", 5),
                                ("YEAR", 6),
                            ],
                        )],
                        ..NO_MESSAGE
                    },
                    Message {
                        name: "Quota",
                        fields: &[
                            Field("requests", 1, Of::U32),
                            Field("valid_until", 2, Of::Message(".google.protobuf.Timestamp")),
                            Field("id", 3, Of::Text),
                        ],
                        choice: Some(("expiration_specifier", &[2])),
                        ..NO_MESSAGE
                    },
                    Message {
                        name: "DescriptorStatus",
                        fields: &[
                            Field(
                                "code",
                                1,
                                Of::Enum(".envoy.service.ratelimit.v3.RateLimitResponse.Code"),
                            ),
                            Field(
                                "current_limit",
                                2,
                                Of::Message(
                                    ".envoy.service.ratelimit.v3.RateLimitResponse.RateLimit",
                                ),
                            ),
                            Field("limit_remaining", 3, Of::U32),
                            Field(
                                "duration_until_reset",
                                4,
                                Of::Message(".google.protobuf.Duration"),
                            ),
                            Field(
                                "quota",
                                5,
                                Of::Message(".envoy.service.ratelimit.v3.RateLimitResponse.Quota"),
                            ),
                        ],
                        ..NO_MESSAGE
                    },
                ],
                enums: &[Enum(
                    "Code",
                    &[("UNKNOWN", 0), ("OK", 1), ("OVER_LIMIT", 2)],
                )],
                ..NO_MESSAGE
            },
        ],
        services: &[Service(
            "RateLimitService",
            &[Method(
                "ShouldRateLimit",
                ".envoy.service.ratelimit.v3.RateLimitRequest",
                ".envoy.service.ratelimit.v3.RateLimitResponse",
                [false, false],
            )],
        )],
        ..NO_FILE
    },
    File {
        name: "envoy/extensions/common/ratelimit/v3/ratelimit.proto",
        package: "envoy.extensions.common.ratelimit.v3",
        imports: &[
            "envoy/type/v3/ratelimit_unit.proto",
            "google/protobuf/wrappers.proto",
        ],
        messages: &[Message {
            name: "RateLimitDescriptor",
            fields: &[
                Field(
                    "entries",
                    1,
                    Of::Messages(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry"),
                ),
                Field(
                    "limit",
                    2,
                    Of::Message(
                        ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride",
                    ),
                ),
                Field(
                    "hits_addend",
                    3,
                    Of::Message(".google.protobuf.UInt64Value"),
                ),
                Field("is_negative_hits", 4, Of::Bool),
            ],
            messages: &[
                Message {
                    name: "Entry",
                    fields: &[Field("key", 1, Of::Text), Field("value", 2, Of::Text)],
                    ..NO_MESSAGE
                },
                Message {
                    name: "RateLimitOverride",
                    fields: &[
                        Field("requests_per_unit", 1, Of::U32),
                        Field("unit", 2, Of::Enum(".envoy.type.v3.RateLimitUnit")),
                    ],
                    ..NO_MESSAGE
                },
            ],
            ..NO_MESSAGE
        }],
        ..NO_FILE
    },
    File {
        name: "envoy/type/v3/ratelimit_unit.proto",
        package: "envoy.type.v3",
        enums: &[Enum(
            "RateLimitUnit",
            &[
                ("UNKNOWN", 0),
                ("SECOND", 1),
                ("MINUTE", 2),
                ("HOUR", 3),
                ("DAY", 4),
                ("MONTH", 5),
                ("YEAR", 6),
            ],
        )],
        ..NO_FILE
    },
    File {
        name: "envoy/config/core/v3/base.proto",
        package: "envoy.config.core.v3",
        messages: &[Message {
            name: "HeaderValue",
            fields: &[
                Field("key", 1, Of::Text),
                Field("value", 2, Of::Text),
                Field("raw_value", 3, Of::Bytes),
            ],
            ..NO_MESSAGE
        }],
        ..NO_FILE
    },
    File {
        name: "google/protobuf/duration.proto",
        package: "google.protobuf",
        messages: &[Message {
            name: "Duration",
            fields: &[Field("seconds", 1, Of::I64), Field("nanos", 2, Of::I32)],
            ..NO_MESSAGE
        }],
        ..NO_FILE
    },
    File {
        name: "google/protobuf/timestamp.proto",
        package: "google.protobuf",
        messages: &[Message {
            name: "Timestamp",
            fields: &[Field("seconds", 1, Of::I64), Field("nanos", 2, Of::I32)],
            ..NO_MESSAGE
        }],
        ..NO_FILE
    },
    File {
        name: "google/protobuf/wrappers.proto",
        package: "google.protobuf",
        messages: &[
            Message {
                name: "DoubleValue",
                fields: &[Field("value", 1, Of::Double)],
                ..NO_MESSAGE
            },
            Message {
                name: "FloatValue",
                fields: &[Field("value", 1, Of::Float)],
                ..NO_MESSAGE
            },
            Message {
                name: "Int64Value",
                fields: &[Field("value", 1, Of::I64)],
                ..NO_MESSAGE
            },
            Message {
                name: "UInt64Value",
                fields: &[Field("value", 1, Of::U64)],
                ..NO_MESSAGE
            },
            Message {
                name: "Int32Value",
                fields: &[Field("value", 1, Of::I32)],
                ..NO_MESSAGE
            },
            Message {
                name: "UInt32Value",
                fields: &[Field("value", 1, Of::U32)],
                ..NO_MESSAGE
            },
            Message {
                name: "BoolValue",
                fields: &[Field("value", 1, Of::Bool)],
                ..NO_MESSAGE
            },
            Message {
                name: "StringValue",
                fields: &[Field("value", 1, Of::Text)],
                ..NO_MESSAGE
            },
            Message {
                name: "BytesValue",
                fields: &[Field("value", 1, Of::Bytes)],
                ..NO_MESSAGE
            },
        ],
        ..NO_FILE
    },
    File {
        name: "google/protobuf/struct.proto",
        package: "google.protobuf",
        messages: &[
            Message {
                name: "Struct",
                fields: &[Field(
                    "fields",
                    1,
                    Of::Messages(".google.protobuf.Struct.FieldsEntry"),
                )],
                messages: &[Message {
                    name: "FieldsEntry",
                    fields: &[
                        Field("key", 1, Of::Text),
                        Field("value", 2, Of::Message(".google.protobuf.Value")),
                    ],
                    entry: true,
                    ..NO_MESSAGE
                }],
                ..NO_MESSAGE
            },
            Message {
                name: "Value",
                fields: &[
                    Field("null_value", 1, Of::Enum(".google.protobuf.NullValue")),
                    Field("number_value", 2, Of::Double),
                    Field("string_value", 3, Of::Text),
                    Field("bool_value", 4, Of::Bool),
                    Field("struct_value", 5, Of::Message(".google.protobuf.Struct")),
                    Field("list_value", 6, Of::Message(".google.protobuf.ListValue")),
                ],
                choice: Some(("kind", &[1, 2, 3, 4, 5, 6])),
                ..NO_MESSAGE
            },
            Message {
                name: "ListValue",
                fields: &[Field("values", 1, Of::Messages(".google.protobuf.Value"))],
                ..NO_MESSAGE
            },
        ],
        enums: &[Enum("NullValue", &[("NULL_VALUE", 0)])],
        ..NO_FILE
    },
    File {
        name: "grpc/health/v1/health.proto",
        package: "grpc.health.v1",
        messages: &[
            Message {
                name: "HealthCheckRequest",
                fields: &[Field("service", 1, Of::Text)],
                ..NO_MESSAGE
            },
            Message {
                name: "HealthCheckResponse",
                fields: &[Field(
                    "status",
                    1,
                    Of::Enum(".grpc.health.v1.HealthCheckResponse.ServingStatus"),
                )],
                enums: &[Enum(
                    "ServingStatus",
                    &[
                        ("UNKNOWN", 0),
                        ("SERVING", 1),
                        ("NOT_SERVING", 2),
                        ("SERVICE_UNKNOWN", 3),
                    ],
                )],
                ..NO_MESSAGE
            },
        ],
        services: &[Service(
            "Health",
            &[
                Method(
                    "Check",
                    ".grpc.health.v1.HealthCheckRequest",
                    ".grpc.health.v1.HealthCheckResponse",
                    [false, false],
                ),
                Method(
                    "Watch",
                    ".grpc.health.v1.HealthCheckRequest",
                    ".grpc.health.v1.HealthCheckResponse",
                    [false, true],
                ),
            ],
        )],
        ..NO_FILE
    },
    reflection!("v1"),
    reflection!("v1alpha"),
];
