/* router/serve/page.h: the page at /, as the build makes it of the files in router/serve/page/: one
 * HTML text with its style and its script, which asks no other server than this one. Constant. */
#pragma once

#include <stddef.h>

extern const unsigned char page_file[]; /* (page_file_n) UTF-8 */
extern const size_t page_file_n;

/* "sha256-...": the style's and the script's, as a Content-Security-Policy names them. */
extern const char page_style_hash[];
extern const char page_script_hash[];

extern const char page_tag[]; /* an ETag, quotes included: another text has another one */
