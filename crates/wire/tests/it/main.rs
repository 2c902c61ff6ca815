//! Tests of the codecs as their users call them.

mod replies;
mod requests;
mod rls;
