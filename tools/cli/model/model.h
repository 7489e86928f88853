/* tools/cli/model/model.h: the command `tandem model`: what is in a model. */
#pragma once

/* argv[0] is "tandem model". Answers an exit code: 0 done, 78 wrong use or configuration, else it
 * failed. */
int model_command(int argc, char **argv);
