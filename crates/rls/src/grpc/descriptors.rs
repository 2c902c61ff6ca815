//! The services and their messages as reflection describes them: a table of protobuf files, and the way from it to
//! `FileDescriptorProto`. Files of Envoy hold what this service uses of them.

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, MessageOptions, MethodDescriptorProto, OneofDescriptorProto,
    ServiceDescriptorProto,
};

use super::files::FILES;

/// One `.proto` file.
pub(super) struct File {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    pub(super) imports: &'static [&'static str],
    pub(super) messages: &'static [Message],
    pub(super) enums: &'static [Enum],
    pub(super) services: &'static [Service],
}

/// A message and what is declared within it.
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
    pub(super) messages: &'static [Message],
    pub(super) enums: &'static [Enum],
    /// Fields of the one choice there may be; its name and their numbers.
    pub(super) choice: Option<(&'static str, &'static [i32])>,
    /// The entry of a map field.
    pub(super) entry: bool,
}

/// Name, number and type of a field.
pub(super) struct Field(pub(super) &'static str, pub(super) i32, pub(super) Of);

/// The type of a field.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Bool,
    Bytes,
    BytesList,
    Double,
    Float,
    I32,
    I32List,
    I64,
    Text,
    U32,
    U64,
    /// By its full name with a dot in front.
    Message(&'static str),
    Messages(&'static str),
    Enum(&'static str),
}

/// An enumeration with its values.
pub(super) struct Enum(
    pub(super) &'static str,
    pub(super) &'static [(&'static str, i32)],
);

/// A service with its methods.
pub(super) struct Service(pub(super) &'static str, pub(super) &'static [Method]);

/// Name, request and response of a method, and which of them are streams.
pub(super) struct Method(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) [bool; 2],
);

/// Full names of all services.
pub(super) fn services() -> impl Iterator<Item = String> {
    FILES.iter().flat_map(|file| {
        file.services
            .iter()
            .map(|service| format!("{}.{}", file.package, service.0))
    })
}

/// The file of this name, encoded.
pub(super) fn by_name(name: &str) -> Option<Vec<u8>> {
    FILES
        .iter()
        .find(|file| file.name == name)
        .map(|file| describe(file).encode_to_vec())
}

/// The file that declares a service, method, message, field, enumeration or value, encoded.
pub(super) fn by_symbol(symbol: &str) -> Option<Vec<u8>> {
    let declares = |file: &&File| {
        symbol
            .strip_prefix(file.package)
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|rest| {
                let service = |service: &Service| {
                    within(rest, service.0).is_some_and(|method| {
                        method.is_empty() || service.1.iter().any(|known| known.0 == method)
                    })
                };
                file.messages.iter().any(|message| holds(message, rest))
                    || file.enums.iter().any(|known| enum_holds(known, rest))
                    || file.services.iter().any(service)
            })
    };
    FILES
        .iter()
        .find(declares)
        .map(|file| describe(file).encode_to_vec())
}

/// What follows a name and a dot; nothing when it is the name itself.
fn within<'a>(symbol: &'a str, name: &str) -> Option<&'a str> {
    let rest = symbol.strip_prefix(name)?;
    match rest.strip_prefix('.') {
        Some(rest) => Some(rest),
        None => rest.is_empty().then_some(rest),
    }
}

fn holds(message: &Message, symbol: &str) -> bool {
    within(symbol, message.name).is_some_and(|rest| {
        rest.is_empty()
            || message.fields.iter().any(|field| field.0 == rest)
            || message.messages.iter().any(|nested| holds(nested, rest))
            || message.enums.iter().any(|known| enum_holds(known, rest))
    })
}

fn enum_holds(known: &Enum, symbol: &str) -> bool {
    within(symbol, known.0).is_some_and(str::is_empty)
        // Values belong to what the enumeration is declared in.
        || known.1.iter().any(|(value, _)| *value == symbol)
}

fn describe(file: &File) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(file.name.to_owned()),
        package: Some(file.package.to_owned()),
        dependency: file.imports.iter().map(|&name| name.to_owned()).collect(),
        message_type: file.messages.iter().map(describe_message).collect(),
        enum_type: file.enums.iter().map(describe_enum).collect(),
        service: file.services.iter().map(describe_service).collect(),
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

fn describe_message(message: &Message) -> DescriptorProto {
    let field = |field: &Field| {
        let (label, kind, name) = type_of(field.2);
        FieldDescriptorProto {
            name: Some(field.0.to_owned()),
            number: Some(field.1),
            label: Some(label as i32),
            r#type: Some(kind as i32),
            type_name: name.map(str::to_owned),
            json_name: Some(json_name(field.0)),
            oneof_index: message
                .choice
                .filter(|(_, numbers)| numbers.contains(&field.1))
                .map(|_| 0),
            ..FieldDescriptorProto::default()
        }
    };
    DescriptorProto {
        name: Some(message.name.to_owned()),
        field: message.fields.iter().map(field).collect(),
        nested_type: message.messages.iter().map(describe_message).collect(),
        enum_type: message.enums.iter().map(describe_enum).collect(),
        oneof_decl: message
            .choice
            .iter()
            .map(|(name, _)| OneofDescriptorProto {
                name: Some((*name).to_owned()),
                options: None,
            })
            .collect(),
        options: message.entry.then(|| MessageOptions {
            map_entry: Some(true),
            ..MessageOptions::default()
        }),
        ..DescriptorProto::default()
    }
}

/// The name in JSON, as protoc makes it: what follows an underscore is a capital.
fn json_name(name: &str) -> String {
    let mut words = name.split('_');
    let mut all = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        all.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        all.push_str(letters.as_str());
    }
    all
}

fn type_of(of: Of) -> (Label, Type, Option<&'static str>) {
    let (one, many) = (Label::Optional, Label::Repeated);
    match of {
        Of::Bool => (one, Type::Bool, None),
        Of::Bytes => (one, Type::Bytes, None),
        Of::BytesList => (many, Type::Bytes, None),
        Of::Double => (one, Type::Double, None),
        Of::Float => (one, Type::Float, None),
        Of::I32 => (one, Type::Int32, None),
        Of::I32List => (many, Type::Int32, None),
        Of::I64 => (one, Type::Int64, None),
        Of::Text => (one, Type::String, None),
        Of::U32 => (one, Type::Uint32, None),
        Of::U64 => (one, Type::Uint64, None),
        Of::Message(name) => (one, Type::Message, Some(name)),
        Of::Messages(name) => (many, Type::Message, Some(name)),
        Of::Enum(name) => (one, Type::Enum, Some(name)),
    }
}

fn describe_enum(known: &Enum) -> EnumDescriptorProto {
    EnumDescriptorProto {
        name: Some(known.0.to_owned()),
        value: known
            .1
            .iter()
            .map(|(name, number)| EnumValueDescriptorProto {
                name: Some((*name).to_owned()),
                number: Some(*number),
                options: None,
            })
            .collect(),
        ..EnumDescriptorProto::default()
    }
}

fn describe_service(service: &Service) -> ServiceDescriptorProto {
    let method = |method: &Method| MethodDescriptorProto {
        name: Some(method.0.to_owned()),
        input_type: Some(method.1.to_owned()),
        output_type: Some(method.2.to_owned()),
        client_streaming: Some(method.3[0]),
        server_streaming: Some(method.3[1]),
        options: None,
    };
    ServiceDescriptorProto {
        name: Some(service.0.to_owned()),
        method: service.1.iter().map(method).collect(),
        options: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_is_named_is_in_a_file_that_is_imported() {
        for file in FILES {
            let described = describe(file);
            let mut names = Vec::new();
            fn collect(message: &DescriptorProto, names: &mut Vec<String>) {
                names.extend(
                    message
                        .field
                        .iter()
                        .filter_map(|field| field.type_name.clone()),
                );
                message
                    .nested_type
                    .iter()
                    .for_each(|nested| collect(nested, names));
            }
            described
                .message_type
                .iter()
                .for_each(|message| collect(message, &mut names));
            for service in &described.service {
                for method in &service.method {
                    names.extend(method.input_type.clone());
                    names.extend(method.output_type.clone());
                }
            }
            for name in names {
                let bytes = by_symbol(&name[1..]).unwrap_or_else(|| panic!("{name} is not there"));
                let holder = FileDescriptorProto::decode(&*bytes).expect("ours");
                let holder = holder.name.expect("named");
                assert!(
                    holder == file.name || file.imports.contains(&&*holder),
                    "{} does not import {holder} for {name}",
                    file.name
                );
            }
            for import in file.imports {
                assert!(by_name(import).is_some(), "{import}");
            }
        }
    }

    #[test]
    fn symbols_of_all_kinds_are_found() {
        let of = |symbol: &str| by_symbol(symbol).is_some();
        for known in [
            "envoy.service.ratelimit.v3.RateLimitService",
            "envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit",
            "envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit",
            "envoy.service.ratelimit.v3.RateLimitRequest.domain",
            "envoy.type.v3.RateLimitUnit",
            "google.protobuf.Struct",
            "grpc.health.v1.HealthCheckResponse.SERVING",
        ] {
            assert!(of(known), "{known}");
        }
        for unknown in [
            "",
            ".",
            "envoy",
            "envoy.service.ratelimit.v3",
            "envoy.service.ratelimit.v3.RateLimitService.Other",
            "google.protobuf.Structs",
        ] {
            assert!(!of(unknown), "{unknown}");
        }
    }
}
