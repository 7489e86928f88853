# What protoc-c 1.4 needs of our .proto files; the bytes on the wire stay the same. It knows no proto3 `optional` (a oneof
# of one member keeps its presence), and its strings end at a NUL (bytes do not).
s/^( *)optional ([a-z0-9]+) ([a-z0-9_]+) = ([0-9]+);/\1oneof _\3 { \2 \3 = \4; }/
s/(^ *|\{ |repeated )string /\1bytes /
