//! Server reflection: which services there are and how their messages are made, for tools like grpcurl. `v1` and `v1alpha`
//! have the same messages.

use prost::Message;

use super::descriptors;

/// Code of gRPC in an answer that is an error.
const NOT_FOUND: i32 = 5;
const INVALID_ARGUMENT: i32 = 3;

/// `grpc.reflection.v1.ServerReflectionRequest`.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct ServerReflectionRequest {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(oneof = "Question", tags = "3, 4, 5, 6, 7")]
    question: Option<Question>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
enum Question {
    #[prost(string, tag = "3")]
    FileByFilename(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
    #[prost(message, tag = "5")]
    FileContainingExtension(ExtensionRequest),
    #[prost(string, tag = "6")]
    AllExtensionNumbersOfType(String),
    #[prost(string, tag = "7")]
    ListServices(String),
}

/// `grpc.reflection.v1.ExtensionRequest`.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
struct ExtensionRequest {
    #[prost(string, tag = "1")]
    containing_type: String,
    #[prost(int32, tag = "2")]
    extension_number: i32,
}

/// `grpc.reflection.v1.ServerReflectionResponse`.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(super) struct ServerReflectionResponse {
    #[prost(string, tag = "1")]
    valid_host: String,
    #[prost(message, optional, tag = "2")]
    original_request: Option<ServerReflectionRequest>,
    #[prost(oneof = "Answer", tags = "4, 5, 6, 7")]
    answer: Option<Answer>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
enum Answer {
    #[prost(message, tag = "4")]
    Files(FileDescriptorResponse),
    #[prost(message, tag = "5")]
    Extensions(ExtensionNumberResponse),
    #[prost(message, tag = "6")]
    Services(ListServiceResponse),
    #[prost(message, tag = "7")]
    Error(ErrorResponse),
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
struct FileDescriptorResponse {
    #[prost(bytes = "vec", repeated, tag = "1")]
    file_descriptor_proto: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
struct ExtensionNumberResponse {
    #[prost(string, tag = "1")]
    base_type_name: String,
    #[prost(int32, repeated, tag = "2")]
    extension_number: Vec<i32>,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
struct ListServiceResponse {
    #[prost(message, repeated, tag = "1")]
    service: Vec<ServiceResponse>,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
struct ServiceResponse {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
struct ErrorResponse {
    #[prost(int32, tag = "1")]
    error_code: i32,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// The answer to one question.
pub(super) fn answer(request: ServerReflectionRequest) -> ServerReflectionResponse {
    let answer = match &request.question {
        None => error(INVALID_ARGUMENT, "the request asks nothing".to_owned()),
        Some(Question::FileByFilename(name)) => {
            files(descriptors::by_name(name), || format!("no file {name}"))
        }
        Some(Question::FileContainingSymbol(name)) => {
            files(descriptors::by_symbol(name), || format!("no symbol {name}"))
        }
        Some(Question::FileContainingExtension(asked)) => error(
            NOT_FOUND,
            format!("{} has no extensions", asked.containing_type),
        ),
        Some(Question::AllExtensionNumbersOfType(name)) => match descriptors::by_symbol(name) {
            Some(_) => Answer::Extensions(ExtensionNumberResponse {
                base_type_name: name.clone(),
                extension_number: Vec::new(),
            }),
            None => error(NOT_FOUND, format!("no type {name}")),
        },
        Some(Question::ListServices(_)) => Answer::Services(ListServiceResponse {
            service: descriptors::services()
                .map(|name| ServiceResponse { name })
                .collect(),
        }),
    };
    ServerReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        answer: Some(answer),
    }
}

fn files(found: Option<Vec<u8>>, missing: impl FnOnce() -> String) -> Answer {
    match found {
        Some(file) => Answer::Files(FileDescriptorResponse {
            file_descriptor_proto: vec![file],
        }),
        None => error(NOT_FOUND, missing()),
    }
}

fn error(error_code: i32, error_message: String) -> Answer {
    Answer::Error(ErrorResponse {
        error_code,
        error_message,
    })
}
