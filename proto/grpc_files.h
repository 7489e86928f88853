/* proto/grpc_files.h: the .proto files of our gRPC services as protoc compiled them, for reflection.
 *
 * A serialized google.protobuf.FileDescriptorSet, made at build. Constant; any thread. */
#pragma once

#include <stddef.h>

extern const unsigned char grpc_files[]; /* (grpc_files_n) */
extern const size_t grpc_files_n;
