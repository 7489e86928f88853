# cmake -DFROM=FILE -DTO=FILE.c -DNAME=NAME -DHEADER=FILE.h -P embed.cmake: the bytes of a file as
# `const unsigned char NAME[]` and `NAME_n`, which the header declares.
file(READ ${FROM} hex HEX)
string(LENGTH "${hex}" n)
math(EXPR n "${n} / 2")
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${TO} "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {\n${bytes}};\nconst size_t ${NAME}_n = ${n};\n")
