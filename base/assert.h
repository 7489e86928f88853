/* base/assert.h: assertions for our own mistakes. ASSERT stays on in every build; DASSERT leaves
 * with NDEBUG. Bytes from a client, a peer or a disk get a status, never an assertion. */
#pragma once

_Noreturn void assert_failed(const char *expression, const char *file, int line);

#define ASSERT(expression) ((expression) ? (void)0 : assert_failed(#expression, __FILE__, __LINE__))

#ifdef NDEBUG
#define DASSERT(expression) ((void)sizeof(expression))
#else
#define DASSERT(expression) ASSERT(expression)
#endif
