# cmake -DFROM=FILE -DTO=FILE.c -DNAME=NAME -P embed.cmake: the bytes of a file as `const unsigned char NAME[]`, `NAME_n`.
file(READ ${FROM} hex HEX)
string(LENGTH "${hex}" n)
math(EXPR n "${n} / 2")
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${TO} "#include \"proto/grpc_files.h\"\n\nconst unsigned char ${NAME}[] = {\n${bytes}};\nconst size_t ${NAME}_n = ${n};\n")
