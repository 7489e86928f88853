/* tools/cli/batch.h: `tandem batch`. */
#pragma once

/* As main(). 0: each request has its answer. */
int batch_command(int argc, char **argv);
